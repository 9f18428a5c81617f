package rpc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
)

// list lists racks by gRPC; JSON has to say the same.
func (s *site) list(req *flowv1.GetListOfRacksRequest) (names []string, total int32, err error) {
	res, err := s.grpc.GetListOfRacks(s.t.Context(), req)
	plain, jsonErr := s.json.GetListOfRacks(s.t.Context(), req)
	if d := diff(res, plain); d != "" || connect.CodeOf(err) != connect.CodeOf(jsonErr) {
		s.t.Errorf("%v: %v by gRPC, %v by JSON (-gRPC +JSON):\n%s", req, err, jsonErr, d)
	}
	for _, r := range res.GetRacks() {
		names = append(names, r.GetInfo().GetName())
	}
	return names, res.GetTotal(), err
}

func rackFilter(f flowv1.RackFilterField, q *flowv1.StringQueryInfo) *flowv1.Filter {
	return &flowv1.Filter{Field: &flowv1.Filter_RackField{RackField: f}, QueryInfo: q}
}

func exact(patterns ...string) *flowv1.StringQueryInfo {
	return &flowv1.StringQueryInfo{Patterns: patterns}
}

func wild(patterns ...string) *flowv1.StringQueryInfo {
	return &flowv1.StringQueryInfo{Patterns: patterns, IsWildcard: true}
}

func anyWild(patterns ...string) *flowv1.StringQueryInfo {
	return &flowv1.StringQueryInfo{Patterns: patterns, IsWildcard: true, UseOr: true}
}

const (
	nameField  = flowv1.RackFilterField_RACK_FILTER_FIELD_NAME
	makerField = flowv1.RackFilterField_RACK_FILTER_FIELD_MANUFACTURER
	modelField = flowv1.RackFilterField_RACK_FILTER_FIELD_MODEL
)

// shelf records racks by name, manufacturer and model, "" for none, with ids in this order.
func (s *site) shelf(racks ...[3]string) {
	s.t.Helper()
	for i, r := range racks {
		m := testRack(i+1, 0)
		m.Info.Name, m.Info.Manufacturer = r[0], r[1]
		if r[2] != "" {
			m.Info.Model = &r[2]
		}
		s.create(m)
	}
}

func TestOrderOfLists(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.shelf([3]string{"b", "X", "m2"}, [3]string{"a", "", "m1"}, [3]string{"B", "Y", ""}, [3]string{"b", "X", "m1"}, [3]string{"é", "x", "m3"})
	s.create(testRack(9, 0))
	s.exec("UPDATE rack SET deleted_at = now() WHERE id = $1", testID(1, 9, 0).GetId())
	ids := map[string]string{}
	for i := 1; i <= 5; i++ {
		ids[testID(1, i, 0).GetId()] = fmt.Sprint(i)
	}
	field := func(f flowv1.RackOrderByField, direction string) *flowv1.OrderBy {
		return &flowv1.OrderBy{Field: &flowv1.OrderBy_RackField{RackField: f}, Direction: direction}
	}
	for name, c := range map[string]struct {
		order *flowv1.OrderBy
		want  string // numbers of the racks
	}{
		"by name, byte by byte, and id":          {nil, "3 2 1 4 5"},
		"by name when no field is named":         {&flowv1.OrderBy{Direction: "DESC"}, "3 2 1 4 5"},
		"by name when the field is unspecified":  {field(0, "DESC"), "3 2 1 4 5"},
		"without a field, any direction will do": {field(0, "UP"), "3 2 1 4 5"},
		"by name up":                             {field(1, "ASC"), "3 2 1 4 5"},
		"by name down, ids going up":             {field(1, "DESC"), "5 1 4 2 3"},
		"by manufacturer up, missing last":       {field(2, ""), "1 4 3 5 2"},
		"by manufacturer down, missing first":    {field(2, "desc"), "2 5 3 1 4"},
		"by model up, missing last":              {field(3, "Asc"), "2 4 1 5 3"},
		"by model down, missing first":           {field(3, "DESC"), "3 5 1 2 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := s.grpc.GetListOfRacks(t.Context(), &flowv1.GetListOfRacksRequest{OrderBy: c.order})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range res.GetRacks() {
				got = append(got, ids[r.GetInfo().GetId().GetId()])
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestFiltersOfLists(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.shelf(
		[3]string{"rack-1", "NVIDIA", "GB200"},
		[3]string{"Rack-2", "NVIDIA", "GB300"},
		[3]string{"rack_1", "Wiwynn", ""},
		[3]string{"100% [a].*\\", "", "GB200"},
		[3]string{"GRÜN", "", "%"},
	)
	s.create(testRack(9, 0))
	s.exec("UPDATE rack SET deleted_at = now(), name = 'rack-1' WHERE id = $1", testID(1, 9, 0).GetId())
	s.exec("UPDATE rack SET external_id = NULL WHERE id = $1", testID(1, 2, 0).GetId())
	type filters = []*flowv1.Filter
	all := "100% [a].*\\,GRÜN,Rack-2,rack-1,rack_1"
	for name, c := range map[string]struct {
		filters filters
		want    string // names
	}{
		"none":                             {nil, all},
		"an empty filter":                  {filters{{}}, all},
		"a filter without query":           {filters{rackFilter(nameField, nil)}, all},
		"a filter without patterns":        {filters{rackFilter(nameField, wild())}, all},
		"one name":                         {filters{rackFilter(nameField, exact("rack-1"))}, "rack-1"},
		"one name in another letter case":  {filters{rackFilter(nameField, exact("RACK-1"))}, ""},
		"any of several names":             {filters{rackFilter(nameField, exact("rack-1", "rack_1", "rack-9"))}, "rack-1,rack_1"},
		"a name is no wildcard":            {filters{rackFilter(nameField, exact("rack%"))}, ""},
		"a name of special characters":     {filters{rackFilter(nameField, exact("100% [a].*\\"))}, "100% [a].*\\"},
		"a name like SQL":                  {filters{rackFilter(nameField, exact("' OR '1'='1"))}, ""},
		"both filters on a name":           {filters{rackFilter(nameField, exact("rack-1", "rack_1")), rackFilter(nameField, exact("rack_1", "Rack-2"))}, "rack_1"},
		"filters that exclude each other":  {filters{rackFilter(nameField, exact("rack-1")), rackFilter(nameField, exact("rack_1"))}, ""},
		"part of a name":                   {filters{rackFilter(nameField, wild("ACK-"))}, "Rack-2,rack-1"},
		"the start of a name":              {filters{rackFilter(nameField, wild("rack%"))}, "Rack-2,rack-1,rack_1"},
		"the end of a name":                {filters{rackFilter(nameField, wild("%1"))}, "rack-1,rack_1"},
		"both ends":                        {filters{rackFilter(nameField, wild("%ck%"))}, "Rack-2,rack-1,rack_1"},
		"the middle left open":             {filters{rackFilter(nameField, wild("r%1"))}, "rack-1,rack_1"},
		"an underscore is itself":          {filters{rackFilter(nameField, wild("k_"))}, "rack_1"},
		"a star and a mark are themselves": {filters{rackFilter(nameField, wild(".*")), rackFilter(nameField, wild("a?"))}, ""},
		"a star is itself":                 {filters{rackFilter(nameField, wild(".*"))}, "100% [a].*\\"},
		"a bracket is itself":              {filters{rackFilter(nameField, wild("[A]"))}, "100% [a].*\\"},
		"an escaped percent sign":          {filters{rackFilter(nameField, wild(`0\% `))}, "100% [a].*\\"},
		"an escaped backslash at the end":  {filters{rackFilter(nameField, wild(`%\\`))}, "100% [a].*\\"},
		"letters beyond ASCII":             {filters{rackFilter(nameField, wild("grün"))}, "GRÜN"},
		"a wildcard for all":               {filters{rackFilter(modelField, wild("%"))}, all},
		"an empty wildcard":                {filters{rackFilter(modelField, wild(""))}, all},
		"no value equals the empty one":    {filters{rackFilter(modelField, exact(""))}, "rack_1"},
		"no value matches no text":         {filters{rackFilter(modelField, wild("g"))}, "100% [a].*\\,Rack-2,rack-1"},
		"all of several wildcards":         {filters{rackFilter(nameField, wild("r%", "%1"))}, "rack-1,rack_1"},
		"any of several wildcards":         {filters{rackFilter(nameField, anyWild("%2", "%_1"))}, "Rack-2,rack_1"},
		"any of none that restrict":        {filters{rackFilter(nameField, anyWild("%2", ""))}, all},
		"any, next to another filter": {
			filters{rackFilter(nameField, anyWild("%2", "%1")), rackFilter(makerField, exact("NVIDIA"))}, "Rack-2,rack-1",
		},
		"any, before another filter": {
			filters{rackFilter(makerField, exact("NVIDIA")), rackFilter(nameField, anyWild("%2", "%1")), rackFilter(modelField, wild("gb3"))}, "Rack-2",
		},
		"a hundred wildcards, all of which hold": {filters{rackFilter(nameField, wild(slices.Repeat([]string{"r%", "%1", "a", "ac", "ack", "rack%", "%ck%", "c", "%r%", "ra"}, 10)...))}, "rack-1,rack_1"},
		"a hundred names":                        {filters{rackFilter(nameField, exact(slices.Repeat([]string{"x", "rack-1"}, 50)...))}, "rack-1"},
		"a pattern of 256 bytes":                 {filters{rackFilter(nameField, wild(strings.Repeat("%a", 128)))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names, total, err := s.list(&flowv1.GetListOfRacksRequest{Filters: c.filters})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(names, ","); got != c.want || int(total) != len(names) {
				t.Errorf("got %s of %d, want %s", got, total, c.want)
			}
		})
	}
	either := []*flowv1.Filter{rackFilter(nameField, anyWild("%2", "%-1"))} // rack 2 has none
	if names, _, err := s.list(&flowv1.GetListOfRacksRequest{WithExternalIdOnly: true, Filters: either}); err != nil || strings.Join(names, ",") != "rack-1" {
		t.Errorf("any, with external id: %v, %v", names, err)
	}
	names, total, err := s.list(&flowv1.GetListOfRacksRequest{WithExternalIdOnly: true})
	if got := strings.Join(names, ","); err != nil || got != "100% [a].*\\,GRÜN,rack-1,rack_1" || total != 4 {
		t.Errorf("with external id: %s of %d, %v", got, total, err)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec("INSERT INTO rack (id, name) SELECT gen_random_uuid(), 'r' || lpad(i::text, 4, '0') FROM generate_series(0, 1049) AS i")
	for name, c := range map[string]struct {
		page        *flowv1.Pagination
		first, last string
		n           int
	}{
		"absent, the first hundred":      {nil, "r0000", "r0099", 100},
		"from an offset":                 {&flowv1.Pagination{Offset: 1000, Limit: 7}, "r1000", "r1006", 7},
		"to the end":                     {&flowv1.Pagination{Offset: 1048, Limit: 7}, "r1048", "r1049", 2},
		"past the end":                   {&flowv1.Pagination{Offset: 1050, Limit: 7}, "", "", 0},
		"far past the end":               {&flowv1.Pagination{Offset: 2147483647, Limit: 2147483647}, "", "", 0},
		"never more than a thousand":     {&flowv1.Pagination{Limit: 5000}, "r0000", "r0999", 1000},
		"one":                            {&flowv1.Pagination{Limit: 1}, "r0000", "r0000", 1},
		"a thousand, starting in middle": {&flowv1.Pagination{Offset: 50, Limit: 1000}, "r0050", "r1049", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names, total, err := s.list(&flowv1.GetListOfRacksRequest{Pagination: c.page})
			if err != nil {
				t.Fatal(err)
			}
			if total != 1050 || len(names) != c.n || c.n > 0 && (names[0] != c.first || names[c.n-1] != c.last) {
				t.Errorf("got %d of %d, %v", len(names), total, names)
			}
		})
	}
}

func TestListsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	type request = flowv1.GetListOfRacksRequest
	order := func(o *flowv1.OrderBy) *request { return &request{OrderBy: o} }
	filter := func(f ...*flowv1.Filter) *request { return &request{Filters: f} }
	for name, c := range map[string]struct {
		req  *request
		word string
	}{
		"a negative offset":          {&request{Pagination: &flowv1.Pagination{Offset: -1, Limit: 1}}, "pagination.offset"},
		"a negative limit":           {&request{Pagination: &flowv1.Pagination{Limit: -1}}, "pagination.limit"},
		"an empty page":              {&request{Pagination: &flowv1.Pagination{}}, "pagination.limit"},
		"a direction there is not":   {order(&flowv1.OrderBy{Field: &flowv1.OrderBy_RackField{RackField: 1}, Direction: "UP"}), "UP"},
		"an order there is not":      {order(&flowv1.OrderBy{Field: &flowv1.OrderBy_RackField{RackField: 9}}), "order_by.rack_field"},
		"an order of components":     {order(&flowv1.OrderBy{Field: &flowv1.OrderBy_ComponentField{ComponentField: 1}}), "order_by.component_field"},
		"a filter without field":     {filter(&flowv1.Filter{QueryInfo: exact("a")}), "filters[0]"},
		"an unspecified field":       {filter(rackFilter(nameField, nil), rackFilter(0, nil)), "filters[1].rack_field"},
		"a field there is not":       {filter(rackFilter(9, exact("a"))), "filters[0].rack_field"},
		"a filter on components":     {filter(&flowv1.Filter{Field: &flowv1.Filter_ComponentField{ComponentField: 1}}), "filters[0].component_field"},
		"a hundred and one patterns": {filter(rackFilter(nameField, exact(slices.Repeat([]string{"a"}, 101)...))), "filters[0].query_info"},
		"a pattern of 257 bytes":     {filter(rackFilter(nameField, wild(strings.Repeat("a", 257)))), "257"},
		"a NUL in a pattern":         {filter(rackFilter(nameField, wild("a\x00"))), "filters[0].query_info.patterns[0]"},
		"a hundred and one patterns in all": {
			filter(slices.Repeat([]*flowv1.Filter{rackFilter(nameField, wild("a"))}, 101)...), "filters",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := s.list(c.req)
			refused(t, err, connect.CodeInvalidArgument, c.word)
		})
	}
}

func TestDerivedFields(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for i := 1; i <= 8; i++ {
		s.create(testRack(i, 2))
	}
	s.create(testRack(9, 0))
	other := testRack(10, 2)
	other.Components[1].Type = flowv1.ComponentType_COMPONENT_TYPE_CDU
	s.create(other)
	phase := func(rack, tray int, phase string) {
		s.exec("UPDATE component SET phase = $2, phase_reason = 'because' WHERE id = $1", testID(2, rack, tray).GetId(), phase)
	}
	want := map[int]flowv1.Phase{}
	for rack, c := range map[int]struct {
		trays [2]string
		want  flowv1.Phase
	}{
		1:  {[2]string{"READY", "READY"}, flowv1.Phase_PHASE_READY},
		2:  {[2]string{"READY", "IN_USE"}, flowv1.Phase_PHASE_IN_USE},
		3:  {[2]string{"DELETING", "IN_USE"}, flowv1.Phase_PHASE_DELETING},
		4:  {[2]string{"DELETING", "INITIALIZING"}, flowv1.Phase_PHASE_INITIALIZING},
		5:  {[2]string{"ERROR", "INITIALIZING"}, flowv1.Phase_PHASE_ERROR},
		6:  {[2]string{"ERROR", "UNKNOWN"}, flowv1.Phase_PHASE_UNKNOWN},
		7:  {[2]string{"READY", ""}, flowv1.Phase_PHASE_UNKNOWN},
		8:  {[2]string{"READY", "ERROR"}, flowv1.Phase_PHASE_READY}, // the second is deleted
		9:  {[2]string{"", ""}, flowv1.Phase_PHASE_UNKNOWN},
		10: {[2]string{"READY", "ERROR"}, flowv1.Phase_PHASE_READY}, // the second does not count
	} {
		want[rack] = c.want
		for tray, p := range c.trays {
			if p != "" {
				phase(rack, tray, p)
			}
		}
	}
	s.exec("UPDATE component SET deleted_at = now() WHERE id = $1", testID(2, 8, 1).GetId())
	s.exec("UPDATE component SET power_state = 'on', leak_status = 'DETECTED' WHERE id = $1", testID(2, 2, 1).GetId())
	first, second := testID(2, 2, 0), testID(2, 2, 1)
	s.task(2, 0, "waiting", first)
	s.task(2, 1, "pending", first, second)
	s.task(2, 2, "running", second)
	s.task(2, 3, "running", second)
	s.task(2, 4, "completed", first, second)
	s.task(2, 5, "failed", first, second)
	for _, withComponents := range []bool{false, true} {
		res, err := s.grpc.GetListOfRacks(t.Context(), &flowv1.GetListOfRacksRequest{WithComponents: withComponents})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.GetRacks() {
			var n int
			if _, err := fmt.Sscanf(r.GetInfo().GetName(), "rack-%d", &n); err != nil {
				t.Fatal(err)
			}
			if r.GetOperationStatus() != want[n] {
				t.Errorf("rack %d is %v, want %v", n, r.GetOperationStatus(), want[n])
			}
			stats := &flowv1.TaskStats{}
			if n == 2 {
				stats = &flowv1.TaskStats{WaitingTaskCount: 1, PendingTaskCount: 1, RunningTaskCount: 2}
			}
			if d := diff(stats, r.GetTaskStats()); d != "" {
				t.Errorf("rack %d: %s", n, d)
			}
		}
	}
	trays := s.rack("core-rack-2").GetComponents()
	if d := diff(&flowv1.TaskStats{WaitingTaskCount: 1, PendingTaskCount: 1}, trays[0].GetTaskStats()); d != "" {
		t.Error(d)
	}
	if d := diff(&flowv1.TaskStats{PendingTaskCount: 1, RunningTaskCount: 2}, trays[1].GetTaskStats()); d != "" {
		t.Error(d)
	}
	blocked := []flowv1.OperationType{flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL}
	if d := diff(&flowv1.ComponentOperationStatus{Phase: flowv1.Phase_PHASE_READY, Reason: "because"}, trays[0].GetStatus()); d != "" {
		t.Error(d)
	}
	if d := diff(&flowv1.ComponentOperationStatus{Phase: flowv1.Phase_PHASE_IN_USE, Reason: "because", BlockedOperations: blocked}, trays[1].GetStatus()); d != "" {
		t.Error(d)
	}
	if trays[1].GetPowerState() != "on" || trays[1].GetLeakStatus() != flowv1.LeakStatus_LEAK_STATUS_DETECTED {
		t.Errorf("power %q, leak %v", trays[1].GetPowerState(), trays[1].GetLeakStatus())
	}
	unknown := s.rack("core-rack-6").GetComponents()[1].GetStatus()
	if unknown.GetPhase() != flowv1.Phase_PHASE_UNKNOWN || len(unknown.GetBlockedOperations()) > 0 {
		t.Errorf("an unknown phase: %v", unknown)
	}
	if status := s.rack("core-rack-7").GetComponents()[1].GetStatus(); status != nil {
		t.Errorf("before the first synchronisation: %v", status)
	}
}

func TestTheNumberOfStatementsDoesNotDependOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec("INSERT INTO nvl_domain (id) VALUES ($1)", testID(3, 0, 1).GetId())
	for i := 1; i <= 30; i++ {
		r := testRack(i, 3)
		r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 1)}
		s.create(r)
	}
	statements := func(req *flowv1.GetListOfRacksRequest) int {
		return s.sql.during(func() {
			res, err := s.grpc.GetListOfRacks(t.Context(), req)
			if err != nil || len(res.GetRacks()) != int(req.GetPagination().GetLimit()) {
				t.Errorf("%d racks, %v", len(res.GetRacks()), err)
			}
		})
	}
	for _, with := range []bool{false, true} {
		for _, filters := range [][]*flowv1.Filter{nil, {rackFilter(nameField, wild("rack%"))}} {
			one := statements(&flowv1.GetListOfRacksRequest{WithComponents: with, Filters: filters, Pagination: &flowv1.Pagination{Limit: 1}})
			many := statements(&flowv1.GetListOfRacksRequest{WithComponents: with, Filters: filters, Pagination: &flowv1.Pagination{Limit: 30}})
			if one != many || many > 10 {
				t.Errorf("components %t: %d statements for a rack, %d for 30", with, one, many)
			}
		}
	}
	few := s.sql.during(func() { s.create(testRack(100, 1)) })
	full := s.sql.during(func() { s.create(testRack(101, 35)) })
	if few != full || full > 9 {
		t.Errorf("%d statements to record a component, %d for 35", few, full)
	}
}
