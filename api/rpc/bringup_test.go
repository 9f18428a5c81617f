package rpc

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
)

// submitFunc asks for one operation.
type submitFunc func(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error)

func bringUp(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
	return s.flow.BringUpRack(ctx, &flowv1.BringUpRackRequest{TargetSpec: spec, RuleId: rule, Description: "d"})
}

func ingest(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
	return s.flow.IngestRack(ctx, &flowv1.IngestRackRequest{TargetSpec: spec, RuleId: rule, Description: "d"})
}

func decommission(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
	return s.flow.DecommissionRack(ctx, &flowv1.DecommissionRackRequest{TargetSpec: spec, RuleId: rule, Description: "d"})
}

// operations are those that are submitted by a request of their own, with how they are recorded.
var operations = map[string]struct {
	submit             submitFunc
	typ, code, text    string
	forced, components bool // takes single components
}{
	"PowerOnRack": {func(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
		return s.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: spec, RuleId: rule, Description: "d"})
	}, "power_control", "power_on", "PowerOn, forced false", false, true},
	"PowerOffRack": {func(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
		return s.flow.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: spec, RuleId: rule, Description: "d"})
	}, "power_control", "power_off", "PowerOff, forced false", false, true},
	"PowerOffRack, forced": {func(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
		return s.flow.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: spec, RuleId: rule, Description: "d", Forced: true})
	}, "power_control", "force_power_off", "ForcePowerOff, forced true", true, true},
	"PowerResetRack": {func(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
		return s.flow.PowerResetRack(ctx, &flowv1.PowerResetRackRequest{TargetSpec: spec, RuleId: rule, Description: "d"})
	}, "power_control", "restart", "Restart, forced false", false, true},
	"PowerResetRack, forced": {func(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
		return s.flow.PowerResetRack(ctx, &flowv1.PowerResetRackRequest{TargetSpec: spec, RuleId: rule, Description: "d", Forced: true})
	}, "power_control", "force_restart", "ForceRestart, forced true", true, true},
	"ACPowerCycleRack": {func(ctx context.Context, s *site, spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) (*flowv1.SubmitTaskResponse, error) {
		return s.flow.ACPowerCycleRack(ctx, &flowv1.ACPowerCycleRackRequest{TargetSpec: spec, RuleId: rule, Description: "d"})
	}, "power_control", "cold_reset", "ColdReset, forced false", false, true},
	"BringUpRack":      {bringUp, "bring_up", "bring_up", "rack bring-up", false, true},
	"IngestRack":       {ingest, "bring_up", "ingest", "rack ingest", false, true}, // the reference calls it a bring-up
	"DecommissionRack": {decommission, "decommission", "decommission", "rack decommission", false, false},
}

// TestHowEachOperationIsRecorded looks at the task and at what is stored of it, which is all that a deferral or a restart
// leaves (D-30.3).
func TestHowEachOperationIsRecorded(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		n := 0
		for name, op := range operations {
			n++
			rack := p.wholeRack(n)
			for what, spec := range map[string]*flowv1.OperationTargetSpec{"a rack": racks(rack), "a component": components(componentID(testID(2, n, 1)))} {
				if what == "a component" && !op.components {
					p.refuses(t, func() error { _, err := op.submit(t.Context(), p.site, spec, nil); return err },
						connect.CodeInvalidArgument, "target_spec.components")
					continue
				}
				res, err := op.submit(t.Context(), p.site, spec, nil)
				if err != nil {
					t.Errorf("%s of %s: %v", name, what, err)
					continue
				}
				task := p.taskOf(res.GetTaskIds()[0])
				if task.GetOperation() != op.text || task.GetDescription() != "d" || task.GetExecutorType() != 0 || task.GetReport() != "" {
					t.Errorf("%s of %s: %v", name, what, task)
				}
				got := p.value(`SELECT operation_type || ' ' || operation_code || ' ' || (plan->'operation'->>'type') || ' ' || (plan->'operation'->>'code') || ' ' || (request->>'forced')
					FROM task JOIN task_plan ON task_id = id WHERE id = $1`, task.GetId().GetId())
				want := strings.Join([]string{op.typ, op.code, op.typ, op.code, map[bool]string{true: "true", false: "false"}[op.forced]}, " ")
				if got != want {
					t.Errorf("%s of %s is stored as %s, want %s", name, what, got, want)
				}
				p.exec("DELETE FROM task")
			}
		}
	})
}

// TestWhatEachOperationNeedsOfAComponent has trays with an external id, a MAC, both, and neither.
func TestWhatEachOperationNeedsOfAComponent(t *testing.T) {
	t.Parallel()
	p := serveParked(t)
	p.flow = p.grpc
	r := testRack(1, 0)
	names := []string{"id", "MAC", "both", "neither"}
	r.Components = []*flowv1.Component{
		part(1, 1, compute, "id", "core-1"), part(1, 2, compute, "MAC", "", "02:00:00:00:01:02"),
		part(1, 3, compute, "both", "core-3", "02:00:00:00:01:03"), part(1, 4, compute, "neither", ""),
	}
	p.create(r)
	// A rule for ingestion that does more than telling the site what to expect.
	powers := p.rule("powers", `{"steps": [{"component_type": "Compute", "stage": 1, "main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on"}}}]}`)
	tells := testID(9, 0, 1) // which can't be stored by a request
	p.exec("INSERT INTO operation_rule (id, name, operation_type, operation_code, definition) VALUES ($1, 'tells', 'power_control', 'power_on', $2::jsonb)",
		tells.GetId(), `{"steps": [{"component_type": "Compute", "stage": 1, "main_operation": {"name": "InjectExpectation"},
			"post_operation": [{"name": "Sleep", "parameters": {"duration": "1s"}}]}]}`)
	rackOnly := func(n int) *flowv1.OperationTargetSpec { return components(componentID(testID(2, 1, n))) }
	power := operations["PowerOnRack"].submit
	for name, c := range map[string]struct {
		submit submitFunc
		rule   *flowv1.UUID
		want   string // those it takes
	}{
		"power":                              {power, nil, "id MAC both"},
		"bring-up":                           {bringUp, nil, "id both"},
		"ingestion":                          {ingest, nil, "id MAC both neither"},
		"ingestion by a rule of such steps":  {ingest, tells, "id MAC both neither"},
		"ingestion by a rule of other steps": {ingest, powers, "id both"},
		"bring-up by a rule that only tells": {bringUp, tells, "id both"},
	} {
		t.Run(name, func(t *testing.T) {
			var taken []string
			for i, tray := range names {
				_, err := c.submit(t.Context(), p.site, rackOnly(i+1), c.rule)
				if err == nil {
					taken = append(taken, tray)
					p.exec("DELETE FROM task")
					continue
				}
				refused(t, err, connect.CodeFailedPrecondition, "not linked to actual inventory (1)", tray, testID(2, 1, i+1).GetId())
			}
			if got := strings.Join(taken, " "); got != c.want {
				t.Errorf("it takes %s, want %s", got, c.want)
			}
		})
	}
	// A rack is decommissioned as a whole: one tray that can't be addressed is in the way.
	refused(t, func() error { _, err := decommission(t.Context(), p.site, racks(byID(r.Info.Id)), nil); return err }(),
		connect.CodeFailedPrecondition, "(2)", testID(2, 1, 2).GetId(), testID(2, 1, 4).GetId())
}

// TestIngestionIsNarrowedByItsFilters is D-30.4.
func TestIngestionIsNarrowedByItsFilters(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		r := testRack(1, 0)
		for i, c := range []struct {
			name, maker, model string
			kind               flowv1.ComponentType
		}{{"tray-1", "NVIDIA", "GB200", compute}, {"tray-2", "Wiwynn", "GB200", compute}, {"switch-1", "NVIDIA", "NVL", nvswitch}} {
			m := part(1, i+1, c.kind, c.name, "core-"+c.name)
			m.Info.Manufacturer, m.Info.Model = c.maker, &c.model
			r.Components = append(r.Components, m)
		}
		p.create(r)
		two := testRack(2, 0)
		two.Components = []*flowv1.Component{part(2, 1, compute, "tray-1", "core-2-1")}
		p.create(two)
		name, maker, model, kind := byComponentName, byComponentMaker, byComponentModel, byComponentType
		submit := func(spec *flowv1.OperationTargetSpec, filters ...*flowv1.Filter) (*flowv1.SubmitTaskResponse, error) {
			return p.flow.IngestRack(t.Context(), &flowv1.IngestRackRequest{TargetSpec: spec, Filters: filters})
		}
		one := racks(byName("rack-1"))
		for what, c := range map[string]struct {
			filters []*flowv1.Filter
			want    string
		}{
			"no filter":              {nil, "switch-1 tray-1 tray-2"},
			"a filter of no pattern": {[]*flowv1.Filter{componentFilter(name, exact())}, "switch-1 tray-1 tray-2"},
			"by name":                {[]*flowv1.Filter{componentFilter(name, exact("tray-2"))}, "tray-2"},
			"by names":               {[]*flowv1.Filter{componentFilter(name, exact("tray-2", "switch-1"))}, "switch-1 tray-2"},
			"by part of the name":    {[]*flowv1.Filter{componentFilter(name, wild("TRAY%"))}, "tray-1 tray-2"},
			"by manufacturer":        {[]*flowv1.Filter{componentFilter(maker, exact("NVIDIA"))}, "switch-1 tray-1"},
			"by model":               {[]*flowv1.Filter{componentFilter(model, exact("GB200"))}, "tray-1 tray-2"},
			"by type":                {[]*flowv1.Filter{componentFilter(kind, exact("NVSwitch"))}, "switch-1"},
			"by both":                {[]*flowv1.Filter{componentFilter(model, exact("GB200")), componentFilter(maker, exact("NVIDIA"))}, "tray-1"},
			"by one field twice":     {[]*flowv1.Filter{componentFilter(name, wild("tray")), componentFilter(name, wild("2"))}, "tray-2"},
		} {
			t.Run(what, func(t *testing.T) {
				res, err := submit(one, c.filters...)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(p.namesOf(p.taskOf(res.GetTaskIds()[0]).GetComponentUuids()), " "); got != c.want {
					t.Errorf("it ingests %s, want %s", got, c.want)
				}
				p.exec("DELETE FROM task")
			})
		}
		// With types of the target, and with single components.
		res, err := submit(racks(byID(r.Info.Id, compute)), componentFilter(maker, exact("NVIDIA")))
		if err != nil || len(p.taskOf(res.GetTaskIds()[0]).GetComponentUuids()) != 1 {
			t.Errorf("%v, %v", res, err)
		}
		p.exec("DELETE FROM task")
		res, err = submit(components(componentID(testID(2, 1, 1)), componentID(testID(2, 1, 2))), componentFilter(name, exact("tray-2")))
		if err != nil || strings.Join(p.namesOf(p.taskOf(res.GetTaskIds()[0]).GetComponentUuids()), " ") != "tray-2" {
			t.Errorf("%v, %v", res, err)
		}
		p.exec("DELETE FROM task")

		nothing := componentFilter(name, exact("nobody"))
		for what, c := range map[string]struct {
			spec    *flowv1.OperationTargetSpec
			filters []*flowv1.Filter
			code    connect.Code
			words   []string
		}{
			"a field of racks":                 {one, []*flowv1.Filter{rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_NAME, exact("rack-1"))}, connect.CodeInvalidArgument, []string{"filters[0].rack_field"}},
			"a field of racks behind another":  {one, []*flowv1.Filter{nothing, rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_NAME, exact("x"))}, connect.CodeInvalidArgument, []string{"filters[1].rack_field"}},
			"an unknown field":                 {one, []*flowv1.Filter{componentFilter(9, exact("x"))}, connect.CodeInvalidArgument, []string{"filters[0].component_field"}},
			"no field":                         {one, []*flowv1.Filter{{QueryInfo: exact("x")}}, connect.CodeInvalidArgument, []string{"filters[0]"}},
			"filters that leave nothing":       {one, []*flowv1.Filter{nothing}, connect.CodeFailedPrecondition, []string{r.Info.Id.GetId()}},
			"filters that leave a rack empty":  {racks(byName("rack-1"), byName("rack-2")), []*flowv1.Filter{componentFilter(kind, exact("NVSwitch"))}, connect.CodeFailedPrecondition, []string{two.Info.Id.GetId()}},
			"filters that leave no components": {components(componentID(testID(2, 1, 1))), []*flowv1.Filter{nothing}, connect.CodeFailedPrecondition, []string{"filters"}},
		} {
			t.Run(what, func(t *testing.T) {
				p.refuses(t, func() error { _, err := submit(c.spec, c.filters...); return err }, c.code, c.words...)
			})
		}
	})
}

// bare is a component manager that knows power and nothing else.
type bare struct{ hardware.Manager }

func (b bare) PowerControl(ctx context.Context, target hardware.Target, op hardware.PowerOperation, opt hardware.PowerOptions) (hardware.Results, error) {
	return b.Manager.(hardware.PowerController).PowerControl(ctx, target, op, opt)
}

// TestWhatTheManagersLackIsSaidBeforeThereIsATask is D-30.7, with managers of compute trays that know power commands alone.
func TestWhatTheManagersLackIsSaidBeforeThereIsATask(t *testing.T) {
	t.Parallel()
	overEachParked(t, func(s *task.Service) { s.Managers[hardware.Compute] = bare{s.Managers[hardware.Compute]} }, func(t *testing.T, p *plant) {
		rack := p.wholeRack(1)
		whole, switches := racks(rack), racks(byID(rack.GetId(), nvswitch))
		for name, c := range map[string]struct {
			submit submitFunc
			code   connect.Code
			word   string
		}{
			"power":           {operations["PowerOnRack"].submit, connect.CodeFailedPrecondition, "PowerStatus"},
			"bring-up":        {bringUp, connect.CodeFailedPrecondition, "Compute"},
			"ingestion":       {ingest, connect.CodeFailedPrecondition, "InjectExpectation"},
			"decommissioning": {decommission, connect.CodeUnimplemented, "DecommissionControl"},
		} {
			t.Run(name, func(t *testing.T) {
				p.refuses(t, func() error { _, err := c.submit(t.Context(), p.site, whole, nil); return err }, c.code, "Compute", c.word)
				// What is not targeted needs nothing.
				if _, err := c.submit(t.Context(), p.site, switches, nil); err != nil {
					t.Errorf("of switches alone: %v", err)
				}
				p.exec("DELETE FROM task")
			})
		}
	})
}

func TestAForeignRuleThatInheritsAPowerOperationIsRefused(t *testing.T) {
	t.Parallel()
	p := serveParked(t)
	p.flow = p.grpc
	spec := racks(p.wholeRack(1))
	inherits := p.rule("inherits", `{"steps": [{"component_type": "Compute", "stage": 1, "main_operation": {"name": "PowerControl"}}]}`)
	says := p.rule("says", `{"steps": [{"component_type": "Compute", "stage": 1, "main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on"}}}]}`)
	for name, submit := range map[string]submitFunc{"bring-up": bringUp, "ingestion": ingest, "decommissioning": decommission} {
		p.refuses(t, func() error { _, err := submit(t.Context(), p.site, spec, inherits); return err },
			connect.CodeFailedPrecondition, "inherits", inherits.GetId(), "PowerControl")
		res, err := submit(t.Context(), p.site, spec, says)
		if err != nil {
			t.Errorf("%s by a rule for power: %v", name, err)
			continue
		}
		if got := p.taskOf(res.GetTaskIds()[0]).GetAppliedRuleId().GetId(); got != says.GetId() {
			t.Errorf("%s: rule %s", name, got)
		}
		p.exec("DELETE FROM task")
	}
	if n := len(p.log.lines("level=WARN", "rule of another operation", says.GetId())); n != 3 {
		t.Errorf("the log warns %d times", n)
	}
}

// TestRequestsForFirmwareAreCheckedInOrder holds the first five checks; what passes them is not built in yet.
func TestRequestsForFirmwareAreCheckedInOrder(t *testing.T) {
	t.Parallel()
	p := serveParked(t)
	p.wholeRack(1)
	spec := racks(byName("rack-1"))
	at := func(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }
	shared := func(s string) *flowv1.FirmwareAuthenticationData {
		return &flowv1.FirmwareAuthenticationData{Value: &flowv1.FirmwareAuthenticationData_Shared{Shared: s}}
	}
	each := func(c *flowv1.PerComponentFirmwareAuthenticationData) *flowv1.FirmwareAuthenticationData {
		return &flowv1.FirmwareAuthenticationData{Value: &flowv1.FirmwareAuthenticationData_PerComponent{PerComponent: c}}
	}
	secret := "hunter2"
	invalid, precondition, unimplemented := connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeUnimplemented
	type request = flowv1.UpgradeFirmwareRequest
	for name, c := range map[string]struct {
		req  *request
		code connect.Code
		word string
	}{
		"no spec":                                {&request{RuleId: &flowv1.UUID{Id: "x"}}, invalid, "target_spec"},
		"a malformed rule before the credential": {&request{TargetSpec: spec, RuleId: &flowv1.UUID{Id: "x"}, AuthenticationData: &flowv1.FirmwareAuthenticationData{}}, invalid, "rule_id"},
		"the nil rule":                           {&request{TargetSpec: spec, RuleId: &flowv1.UUID{Id: "00000000-0000-0000-0000-000000000000"}}, invalid, "rule_id"},
		"a credential of neither kind":           {&request{TargetSpec: spec, AuthenticationData: &flowv1.FirmwareAuthenticationData{}, StartTime: at(0)}, invalid, "authentication_data"},
		"a credential for DPUs alone":            {&request{TargetSpec: spec, AuthenticationData: shared(secret), SubTargets: []string{" DPU "}}, invalid, "authentication_data"},
		"a credential for one type":              {&request{TargetSpec: spec, AuthenticationData: each(&flowv1.PerComponentFirmwareAuthenticationData{Nvswitch: &secret})}, precondition, "authentication_data"},
		"a credential before the window":         {&request{TargetSpec: spec, AuthenticationData: shared(secret), StartTime: at(0)}, precondition, "authentication_data"},
		"an empty credential for DPUs alone":     {&request{TargetSpec: spec, AuthenticationData: shared(""), SubTargets: []string{"dpu"}}, unimplemented, ""},
		"an empty credential for each":           {&request{TargetSpec: spec, AuthenticationData: each(&flowv1.PerComponentFirmwareAuthenticationData{Compute: new("")})}, unimplemented, ""},
		"a window from the beginning of time":    {&request{TargetSpec: spec, StartTime: at(0)}, invalid, "start_time"},
		"a window from before it":                {&request{TargetSpec: spec, StartTime: at(-1)}, invalid, "start_time"},
		"a window to the beginning of time":      {&request{TargetSpec: spec, EndTime: &timestamppb.Timestamp{Nanos: 999}}, invalid, "end_time"},
		"a window of no time":                    {&request{TargetSpec: spec, StartTime: at(5), EndTime: &timestamppb.Timestamp{Seconds: 5, Nanos: 9}}, invalid, "end_time"},
		"a window that ends first":               {&request{TargetSpec: spec, StartTime: at(6), EndTime: at(5)}, invalid, "end_time"},
		"the window before the targets":          {&request{TargetSpec: &flowv1.OperationTargetSpec{}, StartTime: at(6), EndTime: at(5)}, invalid, "end_time"},
		"no targets":                             {&request{TargetSpec: &flowv1.OperationTargetSpec{}}, invalid, "target_spec"},
		"a malformed target":                     {&request{TargetSpec: racks(byName(""))}, invalid, "targets[0].name"},
		"nothing wrong":                          {&request{TargetSpec: spec, StartTime: at(5), EndTime: at(6)}, unimplemented, ""},
		"an open window":                         {&request{TargetSpec: spec, EndTime: at(6)}, unimplemented, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				p.refuses(t, func() error { _, err := flow.UpgradeFirmware(t.Context(), c.req); return err }, c.code, c.word)
			})
		})
	}
	if lines := p.log.lines(secret); len(lines) > 0 {
		t.Errorf("the credential is in the log: %q", lines)
	}
}
