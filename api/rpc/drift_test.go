package rpc

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// compared serves a site the inventory of which has been compared. Rack 1 has the trays a, which is missing, b, which is
// different, and e, which is fine, a switch without BMC that is missing, n, and a shelf that is different, t; rack 2 the
// tray c, which is both, a CDU, and the tray t, which is missing; a tray in no rack, h, is missing. Drift of a deleted tray
// is left over. Found unexpectedly were x1 and x9, trays in rack 1 and in a deleted rack, x2, a switch in rack 2, and x3, a
// shelf in no rack.
func compared(t *testing.T) *site {
	t.Helper()
	s := serve(t, nil)
	for n, parts := range map[int][]*flowv1.Component{
		1: {
			part(1, 1, compute, "a", "core-a", "02:00:00:00:01:0b"), part(1, 2, compute, "b", "core-b", "02:00:00:00:01:0c"),
			part(1, 3, compute, "e", "core-e"), part(1, 4, nvswitch, "n", "core-n"), part(1, 5, shelf, "t", "core-t1"),
			part(1, 6, compute, "dead", "core-dead", "02:00:00:00:01:0d"), part(1, 7, compute, "h", "", "02:00:00:00:01:0e"),
		},
		2: {part(2, 1, compute, "c", "core-c", "02:00:00:00:02:01"), part(2, 2, cdu, "k", "core-k"), part(2, 3, compute, "t", "core-t2", "02:00:00:00:02:03")},
		9: nil,
	} {
		r := testRack(n, 0)
		r.Components = parts
		if n == 1 {
			parts[0].Bmcs = append(parts[0].Bmcs, &flowv1.BMCInfo{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "02:00:00:00:01:0a"})
			parts[1].Info.Manufacturer, parts[1].Info.Model = "ACME", new("GB200")
		}
		s.create(r)
	}
	s.bury(testID(1, 9, 0))
	s.exec("UPDATE component SET deleted_at = now() WHERE name = 'dead'")
	s.exec("UPDATE component SET rack_id = NULL WHERE name = 'h'")
	s.exec(`INSERT INTO drift (kind, component_id, type, field_diffs)
		SELECT kind, component.id, component.type, fields::jsonb FROM component JOIN (VALUES
			('core-t2', 'missing_in_actual', '[]'), ('core-t1', 'mismatch', '[{"name": "slot_id", "expected": "1", "actual": "2"}]'),
			('core-n', 'missing_in_actual', '[]'), ('core-dead', 'missing_in_actual', '[]'),
			('core-c', 'missing_in_actual', '[]'), ('core-c', 'mismatch', '[{"name": "host_id", "expected": "0", "actual": "1"}]'),
			('core-b', 'mismatch', '[{"name": "tray_index", "expected": "3", "actual": "<missing>"}, {"name": "slot_id", "expected": "1", "actual": "2"}]'),
			('core-a', 'missing_in_actual', '[]')) AS found (external_id, kind, fields) USING (external_id)`)
	s.exec("INSERT INTO drift (kind, component_id, type) SELECT 'missing_in_actual', id, type FROM component WHERE name = 'h'")
	s.exec(`INSERT INTO drift (kind, type, external_id, rack_external_id) VALUES ('missing_in_expected', 'PowerShelf', 'x3', NULL),
		('missing_in_expected', 'NVSwitch', 'x2', 'core-rack-2'), ('missing_in_expected', 'Compute', 'x9', 'core-rack-9'),
		('missing_in_expected', 'Compute', 'x1', 'core-rack-1')`)
	return s
}

func validate(t *testing.T, flow flowv1connect.FlowClient, req *flowv1.ValidateComponentsRequest) *flowv1.ValidateComponentsResponse {
	t.Helper()
	res, err := flow.ValidateComponents(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// drifted tells of diffs shortly: "-a" is missing, "+x1" unexpected and "~b" different.
func drifted(res *flowv1.ValidateComponentsResponse) string {
	marks := map[flowv1.DiffType]string{
		flowv1.DiffType_DIFF_TYPE_MISSING: "-", flowv1.DiffType_DIFF_TYPE_UNEXPECTED: "+", flowv1.DiffType_DIFF_TYPE_MISMATCH: "~",
	}
	return strings.Join(each(res.GetDiffs(), func(d *flowv1.ComponentDiff) string {
		if d.GetExpected() == nil {
			return marks[d.GetType()] + d.GetComponentId()
		}
		return marks[d.GetType()] + d.GetExpected().GetInfo().GetName()
	}), " ")
}

// counts are those of an answer: missing, unexpected, different, fine.
func counts(res *flowv1.ValidateComponentsResponse) [4]int32 {
	return [4]int32{res.GetMissingCount(), res.GetUnexpectedCount(), res.GetMismatchCount(), res.GetMatchCount()}
}

func TestEachKindOfDriftHasItsColumns(t *testing.T) {
	t.Parallel()
	s := compared(t)
	missing, unexpected, mismatch := flowv1.DiffType_DIFF_TYPE_MISSING, flowv1.DiffType_DIFF_TYPE_UNEXPECTED, flowv1.DiffType_DIFF_TYPE_MISMATCH
	diffs := func(nameExpectedActual ...string) *flowv1.FieldDiff {
		return &flowv1.FieldDiff{FieldName: nameExpectedActual[0], ExpectedValue: nameExpectedActual[1], ActualValue: nameExpectedActual[2]}
	}
	want := &flowv1.ValidateComponentsResponse{
		Diffs: []*flowv1.ComponentDiff{
			{Type: missing, ComponentMacAddress: "02:00:00:00:01:0a", Expected: s.component(testID(2, 1, 1))}, // a DPU's, which is smaller
			{
				Type: mismatch, Id: testID(2, 1, 2), ComponentId: "core-b", Expected: s.component(testID(2, 1, 2)),
				FieldDiffs: []*flowv1.FieldDiff{diffs("tray_index", "3", "<missing>"), diffs("slot_id", "1", "2")},
			},
			{Type: mismatch, Id: testID(2, 2, 1), ComponentId: "core-c", Expected: s.component(testID(2, 2, 1)), FieldDiffs: []*flowv1.FieldDiff{diffs("host_id", "0", "1")}},
			{Type: missing, ComponentMacAddress: "02:00:00:00:02:01", Expected: s.component(testID(2, 2, 1))},
			{Type: missing, ComponentMacAddress: "02:00:00:00:01:0e", Expected: s.component(testID(2, 1, 7))},
			{Type: missing, Id: testID(2, 1, 4), Expected: s.component(testID(2, 1, 4))}, // known by no MAC
			{Type: mismatch, Id: testID(2, 1, 5), ComponentId: "core-t1", Expected: s.component(testID(2, 1, 5)), FieldDiffs: []*flowv1.FieldDiff{diffs("slot_id", "1", "2")}},
			{Type: missing, ComponentMacAddress: "02:00:00:00:02:03", Expected: s.component(testID(2, 2, 3))},
			{Type: unexpected, ComponentId: "x1"},
			{Type: unexpected, ComponentId: "x9"},
			{Type: unexpected, ComponentId: "x2"},
			{Type: unexpected, ComponentId: "x3"},
		},
		TotalDiffs: 12, MissingCount: 5, UnexpectedCount: 4, MismatchCount: 3, MatchCount: 0, // of 8 trays, switches and shelves
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		if d := diff(want, validate(t, flow, &flowv1.ValidateComponentsRequest{})); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

func TestDriftIsFilteredOrderedAndScoped(t *testing.T) {
	t.Parallel()
	s := compared(t)
	s.domain(1, "pod", "")
	s.join(testID(3, 0, 1), 1)
	one, two := testID(1, 1, 0), testID(1, 2, 0)
	type request = flowv1.ValidateComponentsRequest
	order := func(f flowv1.ComponentOrderByField, direction string) *request {
		return &request{OrderBy: componentOrderBy(f, direction)}
	}
	filter := func(f flowv1.ComponentFilterField, q *flowv1.StringQueryInfo) *request {
		return &request{Filters: []*flowv1.Filter{componentFilter(f, q)}}
	}
	scope := func(spec *flowv1.OperationTargetSpec) *request { return &request{TargetSpec: spec} }
	all := [4]int32{5, 4, 3, 0}
	for name, c := range map[string]struct {
		req    *request
		want   string
		counts [4]int32
	}{
		"by name, ids and kinds":              {order(1, "ASC"), "-a ~b ~c -c -h -n ~t -t +x1 +x9 +x2 +x3", all},
		"by name down, the unexpected first":  {order(1, "DESC"), "+x1 +x9 +x2 +x3 ~t -t -n -h ~c -c ~b -a", all},
		"by type":                             {order(4, ""), "-a ~b -h ~c -c -t +x1 +x9 -n +x2 ~t +x3", all},
		"by type down":                        {order(4, "DESC"), "~t +x3 -n +x2 -a ~b -h ~c -c -t +x1 +x9", all},
		"by manufacturer, those without last": {order(2, ""), "~b -a -n ~t -h ~c -c -t +x1 +x9 +x2 +x3", all},
		"by model down, those without first":  {order(3, "desc"), "-a -n ~t -h ~c -c -t +x1 +x9 +x2 +x3 ~b", all},

		"a name":                     {filter(byComponentName, exact("a", "c", "e")), "-a ~c -c", [4]int32{2, 0, 1, 0}},
		"wildcards":                  {filter(byComponentName, anyWild("A", "E")), "-a", [4]int32{1, 0, 0, 1}}, // e is fine
		"no name":                    {filter(byComponentName, exact("")), "+x1 +x9 +x2 +x3", [4]int32{0, 4, 0, 0}},
		"a wildcard for all":         {filter(byComponentName, wild("%")), "-a ~b ~c -c -h -n ~t -t +x1 +x9 +x2 +x3", all},
		"a manufacturer":             {filter(byComponentMaker, wild("acme")), "~b", [4]int32{0, 0, 1, 0}},
		"a model":                    {filter(byComponentModel, exact("GB200")), "~b", [4]int32{0, 0, 1, 0}},
		"a type":                     {filter(byComponentType, exact("nvswitch")), "-n +x2", [4]int32{1, 1, 0, 0}},
		"a type that nobody checks":  {filter(byComponentType, exact("CDU")), "", [4]int32{}},
		"a type, among others":       {filter(byComponentType, exact("CDU", "powershelf")), "~t +x3", [4]int32{0, 1, 1, 0}},
		"a leftover of a deleted":    {filter(byComponentName, exact("dead")), "", [4]int32{}},
		"any, of what is not drift":  {filter(byComponentName, anyWild("k", "e", "dead")), "", [4]int32{0, 0, 0, 1}},
		"a rack, and what is found":  {scope(racks(byID(one))), "-a ~b -n ~t +x1", [4]int32{2, 1, 2, 1}},
		"another rack":               {scope(racks(byName("rack-2"))), "~c -c -t +x2", [4]int32{2, 1, 1, 0}}, // a CDU is looked at as well
		"both, merged":               {scope(racks(byID(two), byID(one), byName("rack-1"))), "-a ~b ~c -c -n ~t -t +x1 +x2", [4]int32{4, 2, 3, 1}},
		"a type of a rack":           {scope(racks(byID(one, nvswitch))), "-n", [4]int32{1, 0, 0, 0}},
		"types of a rack, and found": {scope(racks(byID(two, nvswitch, cdu))), "+x2", [4]int32{0, 1, 0, 1}},
		"types, and a whole rack":    {scope(racks(byID(two, nvswitch), byID(one))), "-a ~b -n ~t +x1 +x2", [4]int32{2, 2, 2, 1}},
		"a domain":                   {scope(domains(domainName("pod"))), "-a ~b -n ~t +x1", [4]int32{2, 1, 2, 1}},
		"a type of a domain":         {scope(domains(domainID(testID(3, 0, 1), compute))), "-a ~b +x1", [4]int32{1, 1, 1, 1}},
		"components":                 {scope(components(external("core-e", 0), external("core-b", 0), external("core-k", 0))), "~b", [4]int32{0, 0, 1, 2}},
		"a component in no rack":     {scope(components(external("02:00:00:00:01:0e", 0))), "-h", [4]int32{1, 0, 0, 0}},
		"never fewer than none":      {scope(components(external("core-c", 0))), "~c -c", [4]int32{1, 0, 1, 0}},
		"a scope, ordered and filtered": {
			&request{TargetSpec: racks(byID(one), byID(two)), OrderBy: componentOrderBy(1, "DESC"), Filters: filter(byComponentType, exact("Compute")).Filters},
			"+x1 -t ~c -c ~b -a", [4]int32{3, 1, 2, 0},
		},
		"a scope, by use_or": {
			&request{TargetSpec: racks(byID(two)), Filters: filter(byComponentName, anyWild("t", "a", "dead")).Filters}, "-t", [4]int32{1, 0, 0, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				res := validate(t, flow, c.req)
				if got := drifted(res); got != c.want || counts(res) != c.counts || int(res.GetTotalDiffs()) != len(res.GetDiffs()) {
					t.Errorf("%s, %v of %d, want %s, %v", got, counts(res), res.GetTotalDiffs(), c.want, c.counts)
				}
			})
		})
	}
}

func TestPagesOfDrift(t *testing.T) {
	t.Parallel()
	s := compared(t)
	s.exec("INSERT INTO drift (kind, type, external_id) SELECT 'missing_in_expected', 'PowerShelf', 'y' || lpad(i::text, 4, '0') FROM generate_series(0, 1037) AS i")
	for name, c := range map[string]struct {
		page *flowv1.Pagination
		want string // the first, or all when they are few
		n    int
	}{
		"absent, the first hundred":  {nil, "-a", 100},
		"from an offset":             {&flowv1.Pagination{Offset: 2, Limit: 3}, "~c -c -h", 3},
		"to the end":                 {&flowv1.Pagination{Offset: 1048, Limit: 7}, "+y1036 +y1037", 2},
		"past the end":               {&flowv1.Pagination{Offset: 1050, Limit: 7}, "", 0},
		"never more than a thousand": {&flowv1.Pagination{Offset: 12, Limit: 5000}, "+y0000", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				res := validate(t, flow, &flowv1.ValidateComponentsRequest{Pagination: c.page})
				if got := drifted(res); len(res.GetDiffs()) != c.n || !strings.HasPrefix(got, c.want) {
					t.Errorf("%d diffs, %.100s, want %d, %s", len(res.GetDiffs()), got, c.n, c.want)
				}
				if res.GetTotalDiffs() != 1050 || counts(res) != [4]int32{5, 1042, 3, 0} {
					t.Errorf("%d in all, %v", res.GetTotalDiffs(), counts(res))
				}
			})
		})
	}
}

func TestWhatHasNeverBeenComparedMatches(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for n := 1; n <= 3; n++ {
		r := testRack(n, 2)
		r.Components[1].Type = cdu
		s.create(r)
	}
	s.bury(testID(1, 3, 0))
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for name, c := range map[string]struct {
			spec  *flowv1.OperationTargetSpec
			match int32
		}{
			"everything but CDUs":  {nil, 2},
			"a rack with its CDU":  {racks(byName("rack-1")), 2},
			"a CDU that was named": {components(external("core-1-1", 0)), 1},
		} {
			if d := diff(&flowv1.ValidateComponentsResponse{MatchCount: c.match}, validate(t, flow, &flowv1.ValidateComponentsRequest{TargetSpec: c.spec})); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	})
}

func TestTheAgeOfAComparisonIsInTheHeader(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 1))
	header := func(flow flowv1connect.FlowClient) []string {
		t.Helper()
		ctx, call := connect.NewClientContext(t.Context())
		if _, err := flow.ValidateComponents(ctx, &flowv1.ValidateComponentsRequest{TargetSpec: racks(byName("rack-1"))}); err != nil {
			t.Fatal(err)
		}
		return call.ResponseHeader().Values("flow-inventory-checked-at")
	}
	for _, step := range []struct {
		name string
		sql  string
		want []string
	}{
		{"never compared", "SELECT", nil},
		{"one type compared", "INSERT INTO drift_check VALUES ('NVSwitch', '2026-03-04 05:06:07.9+02')", []string{"2026-03-04T03:06:07Z"}},
		{"the others compared later", "INSERT INTO drift_check VALUES ('Compute', '2026-03-04 06:00+00'), ('PowerShelf', '2026-03-04 07:00+00')", []string{"2026-03-04T03:06:07Z"}},
		{"the first one compared again", "UPDATE drift_check SET checked_at = '2026-03-04 09:00+00' WHERE type = 'NVSwitch'", []string{"2026-03-04T06:00:00Z"}},
	} {
		s.exec(step.sql)
		s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
			if d := cmp.Diff(step.want, header(flow)); d != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, d)
			}
		})
	}
}
