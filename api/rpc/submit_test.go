package rpc

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// yard is a district with more racks: 11 has a tray with neither external id nor MAC, u, and one with a DPU's MAC alone,
// d; 12 has trays with MACs alone, m of two hosts and n of one; 13 has a CDU, which no rule for power has a step for; 14 and
// 15 have nothing.
func yard(t *testing.T) *plant {
	t.Helper()
	p := district(t)
	for n, parts := range map[int][]*flowv1.Component{
		11: {part(11, 1, compute, "u", ""), part(11, 2, compute, "d", "")},
		12: {
			part(12, 1, compute, "m", "", "02:00:00:00:12:0a", "02:00:00:00:12:09"), part(12, 2, compute, "n", "", "02:00:00:00:12:10"),
		},
		13: {part(13, 1, cdu, "c", "core-c")},
		14: nil,
		15: nil,
	} {
		r := testRack(n, 0)
		r.Components = parts
		p.create(r)
	}
	dpu := &flowv1.BMCInfo{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "02:00:00:00:11:01"}
	if _, err := p.grpc.PatchComponent(t.Context(), &flowv1.PatchComponentRequest{Id: testID(2, 11, 2), Bmcs: []*flowv1.BMCInfo{dpu}}); err != nil {
		t.Fatal(err)
	}
	// The smaller MAC is not a host's.
	p.exec("INSERT INTO bmc (mac, type, component_id) VALUES ('02:00:00:00:12:01', 'DPU', $1)", testID(2, 12, 1).GetId())
	return p
}

func (s *site) rule(name, definition string) *flowv1.UUID {
	s.t.Helper()
	res, err := s.grpc.CreateOperationRule(s.t.Context(), &flowv1.CreateOperationRuleRequest{
		Name: name, OperationType: flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, OperationCode: "power_on", RuleDefinitionJson: definition,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.GetId()
}

func TestSubmissionsThatNoRackCanTake(t *testing.T) {
	t.Parallel()
	p := yard(t)
	rack := func(n int) *flowv1.RackTarget { return byID(testID(1, n, 0)) }
	before := p.contents() + p.recorded()
	for name, c := range map[string]struct {
		spec  *flowv1.OperationTargetSpec
		words []string
	}{
		"a component in no rack":                   {components(external("core-h", 0)), []string{testID(2, 5, 2).GetId()}},
		"a component in no rack next to others":    {components(external("core-1a", 0), componentID(testID(2, 5, 2))), []string{testID(2, 5, 2).GetId()}},
		"a domain without racks":                   {domains(domainName("void")), []string{"no valid racks found"}},
		"a rack without components":                {racks(rack(14)), []string{"no selected components", testID(1, 14, 0).GetId()}},
		"racks without components":                 {racks(rack(15), rack(14)), []string{"no selected components", testID(1, 14, 0).GetId(), testID(1, 15, 0).GetId()}},
		"a rack without components next to others": {racks(rack(1), rack(14)), []string{"no selected components", testID(1, 14, 0).GetId()}},
		"types that one of two racks has none of":  {racks(rack(1), byID(testID(1, 3, 0), nvswitch)), []string{"no selected components", testID(1, 3, 0).GetId()}},
		"types that a rack of a domain has none of": {
			domains(domainID(testID(3, 0, 1), shelf)), []string{"no selected components", testID(1, 2, 0).GetId()},
		},
		"components nobody can address": {
			racks(rack(11)), []string{"not linked to actual inventory (2)", testID(2, 11, 1).GetId(), testID(2, 11, 2).GetId()},
		},
		"a component with no MAC but a DPU's": {components(componentID(testID(2, 11, 2))), []string{"not linked to actual inventory (1)", testID(2, 11, 2).GetId()}},
		"one of them next to another rack":    {components(componentID(testID(2, 11, 1)), external("core-1a", 0)), []string{"not linked to actual inventory (1)", testID(2, 11, 1).GetId()}},
		"no step for what is targeted":        {racks(rack(13)), []string{"CDU"}},
		"no step for one rack of two":         {racks(rack(1), rack(13)), []string{"CDU", testID(1, 13, 0).GetId()}},
	} {
		t.Run(name, func(t *testing.T) {
			p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				_, err := flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: c.spec})
				refused(t, err, connect.CodeFailedPrecondition, c.words...)
			})
		})
	}
	if p.contents()+p.recorded() != before {
		t.Error("a refused submission has left something behind")
	}
}

// TestTheFirstCheckThatFailsDecides submits what fails two checks: the one that comes first speaks, whichever rack it is
// about.
func TestTheFirstCheckThatFailsDecides(t *testing.T) {
	t.Parallel()
	p := yard(t)
	rack := func(n int) *flowv1.RackTarget { return byID(testID(1, n, 0)) }
	cdus := p.rule("cdus", `{"steps": [{"component_type": "CDU", "stage": 1, "main_operation": {"name": "PowerControl"}}]}`)
	none := p.rule("none", `{}`)
	malformed, unknown := &flowv1.UUID{Id: "x"}, testID(9, 9, 9)
	p.exec("UPDATE component SET rack_id = $1 WHERE id = $2", testID(1, 14, 0).GetId(), testID(2, 11, 1).GetId()) // u, to where an earlier rack can fail a later check
	invalid, precondition := connect.CodeInvalidArgument, connect.CodeFailedPrecondition
	before := p.contents() + p.recorded()
	for name, c := range map[string]struct {
		spec *flowv1.OperationTargetSpec
		rule *flowv1.UUID
		code connect.Code
		word string
	}{
		"no spec before a malformed rule":                   {nil, malformed, invalid, "target_spec"},
		"a malformed rule before an empty spec":             {&flowv1.OperationTargetSpec{}, malformed, invalid, "rule_id"},
		"a malformed target before an unknown rule":         {racks(byName("")), unknown, invalid, "targets[0].name"},
		"a malformed target before an unknown one":          {racks(byName("nobody"), byName("")), nil, invalid, "targets[1].name"},
		"an unknown rule before an unknown rack":            {racks(byName("nobody")), unknown, connect.CodeNotFound, unknown.GetId()},
		"an unknown rack before a rule without steps":       {racks(byName("nobody")), none, connect.CodeNotFound, "nobody"},
		"no rack before a rule without steps":               {domains(domainName("void")), none, precondition, "no valid racks"},
		"a rack without parts before a rule without steps":  {racks(rack(15)), none, precondition, "no selected components"},
		"loose parts before a rule without steps":           {racks(rack(11)), none, precondition, "not linked"},
		"a rack without parts before one of loose parts":    {racks(rack(11), rack(15)), nil, precondition, "no selected components"},
		"a rack without parts before a rule without a step": {racks(rack(13), rack(15)), nil, precondition, "no selected components"},
		"loose parts before a rule without a step":          {racks(rack(13), rack(14)), nil, precondition, "not linked"},
		"loose parts before a rule without a step, in one":  {racks(rack(11)), cdus, precondition, "not linked"},
	} {
		t.Run(name, func(t *testing.T) {
			p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				_, err := flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: c.spec, RuleId: c.rule})
				refused(t, err, c.code, c.word)
			})
		})
	}
	if p.contents()+p.recorded() != before {
		t.Error("a refused submission has left something behind")
	}
}

// TestTheSmallestHostMACAddressesAComponent reads it from the plan, where it is frozen.
func TestTheSmallestHostMACAddressesAComponent(t *testing.T) {
	t.Parallel()
	p := yard(t)
	res, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byID(testID(1, 12, 0)))})
	if err != nil {
		t.Fatal(err)
	}
	macs := p.value(`SELECT string_agg(c ->> 3, ' ' ORDER BY c ->> 1)
		FROM task_plan, json_array_elements(plan -> 'components' -> 'Compute') AS c WHERE task_id = $1`, res.GetTaskIds()[0].GetId())
	if want := "02:00:00:00:12:09 02:00:00:00:12:10"; macs != want {
		t.Errorf("MACs %s, want %s", macs, want)
	}
}

func TestAThousandComponentsWithoutSerialsAllSurvive(t *testing.T) {
	t.Parallel()
	p := serveParked(t)
	p.create(testRack(1, 0))
	p.exec(`INSERT INTO component (id, type, name, external_id, rack_id)
		SELECT ('00000002-0000-4000-8000-0001' || lpad(to_hex(i), 8, '0'))::uuid, 'Compute', 'tray', 'core-' || i, $1 FROM generate_series(1, 1000) AS i`, testID(1, 1, 0).GetId())
	p.domain(1, "pod", "")
	p.join(testID(3, 0, 1), 1)
	var want []string
	for i := range 1000 {
		want = append(want, testID(2, 1, i+1).GetId())
	}
	single := upTo(1000, func(i int) *flowv1.ComponentTarget { return componentID(testID(2, 1, 1001-i)) })
	for name, spec := range map[string]*flowv1.OperationTargetSpec{
		"of a rack": racks(byName("rack-1")), "of a domain": domains(domainName("pod")), "one by one": components(single...),
	} {
		t.Run(name, func(t *testing.T) {
			p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				defer p.exec("DELETE FROM task")
				res, err := flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: spec})
				if err != nil {
					t.Fatal(err)
				}
				tasks, err := flow.GetTasksByIDs(t.Context(), &flowv1.GetTasksByIDsRequest{TaskIds: res.GetTaskIds()})
				if err != nil || len(tasks.GetTasks()) != 1 {
					t.Fatalf("%d tasks, %v", len(tasks.GetTasks()), err)
				}
				got := each(tasks.GetTasks()[0].GetComponentUuids(), (*flowv1.UUID).GetId)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%d components: %.500s", len(got), strings.Join(got, " "))
				}
			})
		})
	}
}
