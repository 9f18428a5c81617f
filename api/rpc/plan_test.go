package rpc

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

func TestPlanMessage(t *testing.T) {
	t.Parallel()
	def, err := rules.Parse([]byte(`{"steps": [
		{"component_type": "NVSwitch", "stage": 4, "main_operation": {"name": "PowerControl"}},
		{"component_type": "CDU", "stage": 4, "main_operation": {"name": "PowerControl"}},
		{"component_type": "Compute", "stage": 1, "max_parallel": 2, "timeout": "10m", "delay_after": "3s",
		 "pre_operation": [{"name": "Sleep", "parameters": {"duration": "1m"}},
		                   {"name": "FirmwareControl", "timeout": "5m"}],
		 "main_operation": {"name": "PowerControl"},
		 "post_operation": [
			{"name": "VerifyPowerStatus", "timeout": "5m", "poll_interval": "10s", "parameters": {"expected_status": "off"}},
			{"name": "VerifyReachability", "timeout": "5m", "poll_interval": "10s",
			 "parameters": {"component_types": ["compute", "nvswitch", "cdu"], "require_all": true}},
			{"name": "VerifyReachability", "timeout": "5m", "poll_interval": "10s", "parameters": {"component_types": ["compute"]}},
			{"name": "VerifyReachability", "timeout": "5m", "poll_interval": "10s", "parameters": {"component_types": ["cdu"]}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	rule := rules.Rule{ID: uuid.New(), Name: "site", Definition: def}
	part := func(kind hardware.ComponentType, slot int) rules.Component {
		return rules.Component{Component: hardware.Component{ID: uuid.New(), Type: kind}, Slot: slot}
	}
	parts := []rules.Component{
		part(hardware.NVSwitch, 9), part(hardware.Compute, 3), part(hardware.Compute, 1), part(hardware.Compute, 2),
	}
	p, err := rules.NewPlan(rules.Input{
		Operation: rules.Operation{Type: rules.TaskPowerControl, Code: "power_off"}, Rule: rule, Components: parts,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Stages[1].Steps[0].Done, p.Stages[1].Steps[0].Skipped = true, true
	in := func(d time.Duration) *durationpb.Duration { return durationpb.New(d) }
	id := func(i int) *flowv1.UUID { return idMessage(parts[i].ID) }
	reach := func(detail string) *flowopsv1.PlannedAction {
		return &flowopsv1.PlannedAction{
			Phase: "post", Name: "VerifyReachability", Detail: detail, Batches: 1,
			AttemptTimeout: in(10 * time.Minute), Timeout: in(5 * time.Minute), PollInterval: in(10 * time.Second),
		}
	}
	longest := in(time.Duration(p.Stages[0].Steps[0].Budget))
	want := &flowopsv1.TaskPlan{
		Operation: "power_control/power_off", RuleId: idMessage(rule.ID), RuleName: "site",
		Shortest: in(63 * time.Second), Longest: longest,
		Components: []*flowopsv1.PlannedComponents{
			{ComponentType: "Compute", ComponentIds: []*flowv1.UUID{id(2), id(3), id(1)}},
			{ComponentType: "NVSwitch", ComponentIds: []*flowv1.UUID{id(0)}},
		},
		Stages: []*flowopsv1.PlannedStage{
			{Number: 1, Steps: []*flowopsv1.PlannedStep{{
				ComponentType: "Compute", TotalComponents: 3, MaxParallel: 2, Shortest: in(63 * time.Second), Longest: longest,
				Actions: []*flowopsv1.PlannedAction{
					{Phase: "pre", Name: "Sleep", Detail: "1m0s", Batches: 1},
					{
						Phase: "pre", Name: "FirmwareControl", Batches: 2, AttemptTimeout: in(5 * time.Minute), MaxAttempts: 3,
						Timeout: in(30 * time.Minute), PollInterval: in(2 * time.Minute),
					},
					{Phase: "main", Name: "PowerControl", Detail: "power_off", Batches: 2, AttemptTimeout: in(10 * time.Minute), MaxAttempts: 3},
					{
						Phase: "post", Name: "VerifyPowerStatus", Detail: "until Off", Batches: 2, AttemptTimeout: in(10 * time.Minute),
						Timeout: in(5 * time.Minute), PollInterval: in(10 * time.Second),
					},
					reach("of every Compute, NVSwitch"), reach("of any Compute"), reach("of none"),
					{Phase: "delay", Name: "Sleep", Detail: "3s", Batches: 1},
				},
			}}},
			{Number: 4, Steps: []*flowopsv1.PlannedStep{
				{
					ComponentType: "NVSwitch", Done: true, TotalComponents: 1, Shortest: in(0), Longest: in(0),
					Actions: []*flowopsv1.PlannedAction{
						{Phase: "main", Name: "PowerControl", Detail: "power_off", Batches: 1, AttemptTimeout: in(20 * time.Minute), MaxAttempts: 3},
					},
				},
				{ComponentType: "CDU", Skipped: true, Shortest: in(0), Longest: in(0)},
			}},
		},
	}
	if diff := cmp.Diff(want, PlanMessage(p), protocmp.Transform()); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	p.RuleID = uuid.Nil
	if m := PlanMessage(p); m.RuleId != nil {
		t.Errorf("a built-in rule has the id %s", m.RuleId)
	}
}
