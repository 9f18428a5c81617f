package rpc

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

func componentFilter(f flowv1.ComponentFilterField, q *flowv1.StringQueryInfo) *flowv1.Filter {
	return &flowv1.Filter{Field: &flowv1.Filter_ComponentField{ComponentField: f}, QueryInfo: q}
}

func componentOrderBy(f flowv1.ComponentOrderByField, direction string) *flowv1.OrderBy {
	return &flowv1.OrderBy{Field: &flowv1.OrderBy_ComponentField{ComponentField: f}, Direction: direction}
}

const (
	byComponentName  = flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_NAME
	byComponentMaker = flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MANUFACTURER
	byComponentModel = flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MODEL
	byComponentType  = flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_TYPE
)

// stocked serves racks 1 and 2 with seven components in turns, and tombstones that look like the first of them. The
// specs it returns all mean the seven.
func stocked(t *testing.T) (s *site, whole map[string]*flowv1.OperationTargetSpec) {
	t.Helper()
	s = serve(t, nil)
	one, two := testRack(1, 0), testRack(2, 0)
	every := components()
	for i, c := range []struct {
		name, maker, model string
		kind               flowv1.ComponentType
	}{
		{"tray-1", "NVIDIA", "GB200", compute},
		{"Tray-2", "NVIDIA", "GB300", compute},
		{"tray_1", "Wiwynn", "", nvswitch},
		{`100% [a].*\`, "", "GB200", shelf},
		{"GRÜN", "", "%", cdu},
		{"tray-1", "ACME", "GB200", torswitch},
		{"ums", "x", "m", ums},
	} {
		m := &flowv1.Component{Type: c.kind, Info: &flowv1.DeviceInfo{Id: testID(2, 1, i+1), Name: c.name, Manufacturer: c.maker}}
		if c.model != "" {
			m.Info.Model = &c.model
		}
		rack := []*flowv1.Rack{two, one}[(i+1)%2]
		rack.Components = append(rack.Components, m)
		every.GetComponents().Targets = append(every.GetComponents().Targets, componentID(m.Info.Id))
	}
	ghost := &flowv1.Component{Type: compute, Info: &flowv1.DeviceInfo{Id: testID(2, 1, 99), Name: "tray-1", Manufacturer: "NVIDIA", Model: new("GB200")}}
	one.Components = append(one.Components, ghost)
	s.create(one)
	s.create(two)
	s.create(testRack(3, 3))
	s.bury(testID(1, 3, 0))
	s.exec("UPDATE component SET deleted_at = now() WHERE id = $1", ghost.Info.Id.GetId())
	s.exec("INSERT INTO nvl_domain (id, name) VALUES ($1, 'd')", testID(3, 0, 1).GetId())
	s.exec("UPDATE rack SET nvl_domain_id = $1", testID(3, 0, 1).GetId())
	return s, map[string]*flowv1.OperationTargetSpec{
		"everywhere":    nil,
		"of racks":      racks(byName("rack-2"), byExternalID("core-rack-1")),
		"of types":      racks(byID(testID(1, 2, 0), compute, shelf, torswitch), byID(testID(1, 1, 0), ums, compute, nvswitch, cdu, shelf)),
		"of a domain":   domains(domainName("d")),
		"of components": every,
	}
}

func TestOrderOfComponents(t *testing.T) {
	t.Parallel()
	s, whole := stocked(t)
	for name, c := range map[string]struct {
		order *flowv1.OrderBy
		want  string // numbers of the components
	}{
		"by name, byte by byte, and id":            {nil, "4 5 2 1 6 3 7"},
		"by name when no field is named":           {&flowv1.OrderBy{Direction: "DESC"}, "4 5 2 1 6 3 7"},
		"by name when the field is unspecified":    {componentOrderBy(0, "DESC"), "4 5 2 1 6 3 7"},
		"without a field, any direction will do":   {componentOrderBy(0, "UP"), "4 5 2 1 6 3 7"},
		"by name up":                               {componentOrderBy(1, "ASC"), "4 5 2 1 6 3 7"},
		"by name down, ids going up":               {componentOrderBy(1, "DESC"), "7 3 1 6 2 5 4"},
		"by manufacturer up, missing last":         {componentOrderBy(2, ""), "6 1 2 3 7 4 5"},
		"by manufacturer down, missing first":      {componentOrderBy(2, "desc"), "4 5 7 3 1 2 6"},
		"by model up, missing last":                {componentOrderBy(3, "Asc"), "5 1 4 6 2 7 3"},
		"by model down, missing first":             {componentOrderBy(3, "DESC"), "3 7 2 1 4 6 5"},
		"by the stored name of the type up":        {componentOrderBy(4, "ASC"), "5 1 2 3 4 6 7"},
		"by the stored name of the type down, ids": {componentOrderBy(4, "dEsC"), "7 6 4 3 1 2 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for scope, spec := range whole {
					res, err := flow.GetComponents(t.Context(), &flowv1.GetComponentsRequest{TargetSpec: spec, OrderBy: c.order})
					if err != nil {
						t.Fatal(err)
					}
					got := each(res.GetComponents(), func(c *flowv1.Component) string {
						return strings.TrimLeft(c.GetInfo().GetId().GetId()[28:], "0")
					})
					if strings.Join(got, " ") != c.want {
						t.Errorf("%s: got %v, want %s", scope, got, c.want)
					}
				}
			})
		})
	}
}

func TestFiltersOfComponents(t *testing.T) {
	t.Parallel()
	s, whole := stocked(t)
	type filters = []*flowv1.Filter
	types := func(q ...*flowv1.StringQueryInfo) filters {
		return each(q, func(q *flowv1.StringQueryInfo) *flowv1.Filter { return componentFilter(byComponentType, q) })
	}
	name := func(q ...*flowv1.StringQueryInfo) filters {
		return each(q, func(q *flowv1.StringQueryInfo) *flowv1.Filter { return componentFilter(byComponentName, q) })
	}
	maker := func(q *flowv1.StringQueryInfo) *flowv1.Filter { return componentFilter(byComponentMaker, q) }
	model := func(q *flowv1.StringQueryInfo) *flowv1.Filter { return componentFilter(byComponentModel, q) }
	all := `100% [a].*\,GRÜN,Tray-2,tray-1,tray-1,tray_1,ums`
	for name, c := range map[string]struct {
		filters filters
		want    string // names
	}{
		"none":                                     {nil, all},
		"an empty filter":                          {filters{{}}, all},
		"a filter without query":                   {name(nil), all},
		"a filter without patterns":                {name(anyWild()), all},
		"a filter of types without patterns":       {types(exact()), all},
		"one name":                                 {name(exact("tray-1")), "tray-1,tray-1"},
		"one name in another letter case":          {name(exact("TRAY-1")), ""},
		"any of several names":                     {name(exact("tray-1", "ums", "tray-9")), "tray-1,tray-1,ums"},
		"any of several names, whatever use_or is": {name(&flowv1.StringQueryInfo{Patterns: []string{"ums", "GRÜN"}, UseOr: true}), "GRÜN,ums"},
		"a name is no wildcard":                    {name(exact("tray%")), ""},
		"a name has no escapes":                    {name(exact(`100\% [a].*\\`)), ""},
		"a name of special characters":             {name(exact(`100% [a].*\`)), `100% [a].*\`},
		"a name like SQL":                          {name(exact("') OR ('1'='1"), exact("x'; DROP TABLE rack --")), ""},
		"both filters on a name":                   {name(exact("tray-1", "ums"), exact("ums", "GRÜN")), "ums"},
		"filters that exclude each other":          {name(exact("tray-1"), exact("ums")), ""},
		"part of a name, in any letter case":       {name(wild("RAY-")), "Tray-2,tray-1,tray-1"},
		"the start of a name, in any letter case":  {name(wild("TRAY%")), "Tray-2,tray-1,tray-1,tray_1"},
		"the end of a name":                        {name(wild("%1")), "tray-1,tray-1,tray_1"},
		"both ends":                                {name(wild("%ray_%")), "tray_1"},
		"the middle left open":                     {name(wild("t%1")), "tray-1,tray-1,tray_1"},
		"a start and an end":                       {name(wild("tray%", "%1")), "tray-1,tray-1,tray_1"},
		"an underscore is itself":                  {name(wild("y_")), "tray_1"},
		"a star is itself":                         {name(wild("t*")), ""},
		"a question mark is itself":                {name(wild("ray?1")), ""},
		"an escaped percent sign":                  {name(wild(`0\% `)), `100% [a].*\`},
		"an escaped percent sign at an end":        {name(wild(`100\%`)), `100% [a].*\`},
		"an escaped backslash at the end":          {name(wild(`%\\`)), `100% [a].*\`},
		"a backslash at the end is itself":         {name(wild(`*\`)), `100% [a].*\`},
		"letters beyond ASCII":                     {name(wild("grün")), "GRÜN"},
		"an empty wildcard":                        {filters{model(wild(""))}, all},
		"a wildcard for all":                       {filters{maker(wild("%"))}, all},
		"no manufacturer equals the empty one":     {filters{maker(exact(""))}, `100% [a].*\,GRÜN`},
		"no model matches no text":                 {filters{model(wild("g"))}, `100% [a].*\,Tray-2,tray-1,tray-1`},
		"all of several wildcards":                 {name(wild("t%", "%2")), "Tray-2"},
		"any of several wildcards":                 {name(anyWild("%2", "um%")), "Tray-2,ums"},
		"any of none that restrict":                {name(anyWild("%2", "")), all},
		"two filters of wildcards":                 {name(anyWild("t%", "u%"), wild("%1")), "tray-1,tray-1,tray_1"},
		"any, next to another filter":              {append(name(anyWild("%2", "%1")), maker(exact("NVIDIA"))), "Tray-2,tray-1"},
		"any, behind another filter":               {append(filters{maker(exact("ACME"))}, name(anyWild("%2", "%1"))...), "tray-1"},
		"any, next to a type":                      {append(name(anyWild("%2", "%1")), types(exact("NVSwitch"))...), "tray_1"},
		"any of all fields": {
			append(name(anyWild("tray%", "%m%")), maker(anyWild("nvid%", "x")), model(anyWild("%3%", "m"))), "Tray-2,ums",
		},
		"a stored type":                            {types(exact("Compute")), "Tray-2,tray-1"},
		"a stored type in another letter case":     {types(exact("cOMPUTE")), "Tray-2,tray-1"},
		"the name of an enum value":                {types(exact("COMPONENT_TYPE_NVSWITCH")), "tray_1"},
		"the same in another letter case":          {types(exact("Component_Type_NVSwitch")), "tray_1"},
		"the same without prefix":                  {types(exact("POWERSHELF")), `100% [a].*\`},
		"every spelling of several types":          {types(exact("cdu", "COMPONENT_TYPE_UMS", "TORSWITCH", "component_type_powershelf")), `100% [a].*\,GRÜN,tray-1,ums`},
		"types are any-of though use_or is not":    {types(exact("cdu", "ums")), "GRÜN,ums"},
		"types are no wildcards":                   {types(wild("cdu", "ums")), "GRÜN,ums"},
		"both filters on a type":                   {types(exact("cdu", "ums"), anyWild("UMS", "Compute")), "ums"},
		"types that exclude each other":            {types(exact("cdu"), exact("ums")), ""},
		"a type, a manufacturer, a model, a name":  {append(types(exact("compute")), maker(exact("NVIDIA")), model(wild("GB2")), name(wild("1"))[0]), "tray-1"},
		"a hundred names":                          {name(exact(slices.Repeat([]string{"x", "ums"}, 50)...)), "ums"},
		"a pattern of 256 bytes":                   {name(wild(strings.Repeat("%a", 128))), ""},
		"a hundred wildcards, all of which hold":   {name(wild(slices.Repeat([]string{"t%", "%1", "r", "ra", "ray"}, 20)...)), "tray-1,tray-1,tray_1"},
		"a hundred wildcards, any of which holds":  {name(anyWild(slices.Repeat([]string{"q%", "%s"}, 50)...)), "ums"},
		"a filter of components with a null query": {filters{componentFilter(byComponentType, nil), componentFilter(byComponentName, exact("ums"))}, "ums"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for scope, spec := range whole {
					names, total := listed(t, flow, &flowv1.GetComponentsRequest{TargetSpec: spec, Filters: c.filters})
					if got := strings.Join(names, ","); got != c.want || int(total) != len(names) {
						t.Errorf("%s: got %s of %d, want %s", scope, got, total, c.want)
					}
				}
			})
		})
	}
}

func TestPagesOfComponents(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 0))
	s.exec(`INSERT INTO component (id, type, name, rack_id) SELECT gen_random_uuid(), 'Compute', 'c' || lpad(i::text, 4, '0'), $1
		FROM generate_series(0, 1049) AS i`, testID(1, 1, 0).GetId())
	for name, c := range map[string]struct {
		page        *flowv1.Pagination
		first, last string
		n           int
	}{
		"absent, the first hundred":          {nil, "c0000", "c0099", 100},
		"from an offset":                     {&flowv1.Pagination{Offset: 1000, Limit: 7}, "c1000", "c1006", 7},
		"to the end":                         {&flowv1.Pagination{Offset: 1048, Limit: 7}, "c1048", "c1049", 2},
		"past the end":                       {&flowv1.Pagination{Offset: 1050, Limit: 7}, "", "", 0},
		"far past the end":                   {&flowv1.Pagination{Offset: 2147483647, Limit: 2147483647}, "", "", 0},
		"never more than a thousand":         {&flowv1.Pagination{Limit: 1001}, "c0000", "c0999", 1000},
		"a thousand, starting in the middle": {&flowv1.Pagination{Offset: 50, Limit: 1000}, "c0050", "c1049", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for _, spec := range []*flowv1.OperationTargetSpec{nil, racks(byName("rack-1"))} {
					names, total := listed(t, flow, &flowv1.GetComponentsRequest{Pagination: c.page, TargetSpec: spec})
					if total != 1050 || len(names) != c.n || c.n > 0 && (names[0] != c.first || names[c.n-1] != c.last) {
						t.Errorf("got %d of %d, %v", len(names), total, names)
					}
				}
			})
		})
	}
}

// TestListsOfComponentsThatAreRefused asks for the drift of components as well: its filters, order and pages are the
// same.
func TestListsOfComponentsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 1))
	type request = flowv1.GetComponentsRequest
	order := func(o *flowv1.OrderBy) *request { return &request{OrderBy: o} }
	filter := func(f ...*flowv1.Filter) *request { return &request{Filters: f} }
	for name, c := range map[string]struct {
		req  *request
		word string
	}{
		"a negative offset":          {&request{Pagination: &flowv1.Pagination{Offset: -1, Limit: 1}}, "pagination.offset"},
		"a negative limit":           {&request{Pagination: &flowv1.Pagination{Limit: -1}}, "pagination.limit"},
		"a limit of zero":            {&request{Pagination: &flowv1.Pagination{Offset: 1}}, "pagination.limit"},
		"an empty page":              {&request{Pagination: &flowv1.Pagination{}}, "pagination.limit"},
		"a direction there is not":   {order(componentOrderBy(1, "UP")), "UP"},
		"a direction with spaces":    {order(componentOrderBy(1, "ASC ")), "ASC "},
		"an order there is not":      {order(componentOrderBy(9, "")), "order_by.component_field"},
		"an order of racks":          {order(&flowv1.OrderBy{Field: &flowv1.OrderBy_RackField{RackField: 1}}), "order_by.rack_field"},
		"a filter without field":     {filter(&flowv1.Filter{QueryInfo: exact("a")}), "filters[0]"},
		"an unspecified field":       {filter(componentFilter(byComponentName, exact("a")), componentFilter(0, exact("a"))), "filters[1].component_field"},
		"a field there is not":       {filter(componentFilter(9, exact("a"))), "filters[0].component_field"},
		"a filter on racks":          {filter(rackFilter(nameField, exact("a"))), "filters[0].rack_field"},
		"a hundred and one patterns": {filter(componentFilter(byComponentName, exact(slices.Repeat([]string{"a"}, 101)...))), "filters[0].query_info"},
		"a hundred and one types":    {filter(componentFilter(byComponentType, exact(slices.Repeat([]string{"cdu"}, 101)...))), "101"},
		"a pattern of 257 bytes":     {filter(componentFilter(byComponentModel, wild(strings.Repeat("a", 257)))), "257"},
		"a name of 257 bytes":        {filter(componentFilter(byComponentMaker, exact(strings.Repeat("a", 257)))), "257"},
		"a NUL in a pattern":         {filter(componentFilter(byComponentName, wild("a\x00"))), "filters[0].query_info.patterns[0]"},
		"a type there is not":        {filter(componentFilter(byComponentType, exact("compute", "tray"))), "tray"},
		"a wildcard for types":       {filter(componentFilter(byComponentType, wild("comp%"))), "comp%"},
		"the prefix alone":           {filter(componentFilter(byComponentType, exact("COMPONENT_TYPE_"))), "COMPONENT_TYPE_"},
		"an empty type":              {filter(componentFilter(byComponentType, exact(""))), `""`},
		"a type with spaces":         {filter(componentFilter(byComponentType, exact(" cdu"))), " cdu"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for _, spec := range []*flowv1.OperationTargetSpec{nil, racks(byName("rack-1"))} {
					_, err := flow.GetComponents(t.Context(), &request{TargetSpec: spec, Filters: c.req.Filters, OrderBy: c.req.OrderBy, Pagination: c.req.Pagination})
					refused(t, err, connect.CodeInvalidArgument, c.word)
					_, err = flow.ValidateComponents(t.Context(), &flowv1.ValidateComponentsRequest{
						TargetSpec: spec, Filters: c.req.Filters, OrderBy: c.req.OrderBy, Pagination: c.req.Pagination,
					})
					refused(t, err, connect.CodeInvalidArgument, c.word)
				}
			})
		})
	}
}

func TestComponentsAreListedWithAllThatIsDerived(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'd', 'group-1')", testID(3, 0, 1).GetId())
	r := testRack(1, 2)
	r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 1)}
	s.create(r)
	s.exec("UPDATE component SET rack_id = NULL, power_state = 'on', leak_status = 'NOT_DETECTED' WHERE id = $1", testID(2, 1, 1).GetId())
	s.task(1, 0, "running", testID(2, 1, 0))
	s.task(1, 1, "completed", testID(2, 1, 0))
	want := func(n int) *flowv1.Component {
		c := proto.CloneOf(r.Components[n])
		c.Position = &flowv1.RackPosition{SlotId: -1, TrayIdx: -1, HostId: -1}
		c.LeakHandlingStatus = flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_NONE
		return c
	}
	in, out := want(0), want(1)
	in.RackId, in.RackExternalId, in.NvlDomainId, in.NvlDomainExternalId = testID(1, 1, 0), "core-rack-1", testID(3, 0, 1), new("group-1")
	in.TaskStats = &flowv1.TaskStats{RunningTaskCount: 1}
	out.PowerState, out.LeakStatus, out.TaskStats = "on", flowv1.LeakStatus_LEAK_STATUS_NOT_DETECTED, &flowv1.TaskStats{} // in no rack, of no task
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for _, spec := range []*flowv1.OperationTargetSpec{nil, components(external("core-1-1", 0), componentID(testID(2, 1, 0)))} {
			res, err := flow.GetComponents(t.Context(), &flowv1.GetComponentsRequest{TargetSpec: spec})
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(&flowv1.GetComponentsResponse{Components: []*flowv1.Component{in, out}, Total: 2}, res); d != "" {
				t.Errorf("%v (-want +got):\n%s", spec, d)
			}
		}
	})
}

// TestAComponentWithoutRackHasNoTasks holds it whatever else is on the page.
func TestAComponentWithoutRackHasNoTasks(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 2))
	s.task(1, 0, "running", testID(2, 1, 0), testID(2, 1, 1))
	s.exec("UPDATE component SET rack_id = NULL WHERE id = $1", testID(2, 1, 1).GetId())
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for _, spec := range []*flowv1.OperationTargetSpec{components(componentID(testID(2, 1, 1))), nil} {
			res, err := flow.GetComponents(t.Context(), &flowv1.GetComponentsRequest{TargetSpec: spec})
			if err != nil {
				t.Fatal(err)
			}
			list := res.GetComponents()
			if d := diff(&flowv1.TaskStats{}, list[len(list)-1].GetTaskStats()); d != "" {
				t.Errorf("on a page of %d (-want +got):\n%s", len(list), d)
			}
		}
	})
}
