package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

var rack = uuid.MustParse("5fa0d5a9-6b1c-4b7e-9c53-2f8f1c0a7d10")

// component has an id that follows from its name.
func component(t hardware.ComponentType, name string) hardware.Component {
	return hardware.Component{ID: uuid.NewSHA1(rack, []byte(name)), RackID: rack, Type: t, Name: name}
}

func components(t hardware.ComponentType, n int) map[hardware.ComponentType][]hardware.Component {
	out := map[hardware.ComponentType][]hardware.Component{}
	for i := range n {
		out[t] = append(out[t], component(t, fmt.Sprintf("%s-%02d", t, i+1)))
	}
	return out
}

// targets are n components of a type in a row, from slot 1.
func targets(t hardware.ComponentType, n int) []Component {
	var out []Component
	for i, c := range components(t, n)[t] {
		out = append(out, Component{Component: c, Slot: i + 1, Tray: i})
	}
	return out
}

func mustBuiltin(t *testing.T, op Operation) Rule {
	t.Helper()
	r, ok := Builtin(op)
	if !ok {
		t.Fatalf("no built-in rule for %s", op)
	}
	return r
}

// planMain plans a rule of one step with one action for two trays and a switch.
func planMain(t *testing.T, op Operation, step Step) PlanStep {
	t.Helper()
	step.ComponentType, step.Stage = hardware.Compute, 1
	p, err := NewPlan(Input{
		Operation: op, Rule: Rule{Name: "r", Definition: Definition{Steps: []Step{step}}},
		Components: append(targets(hardware.Compute, 2), targets(hardware.NVSwitch, 1)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Stages[0].Steps[0]
}

func TestNewPlanRefuses(t *testing.T) {
	t.Parallel()
	inheriting := Definition{Steps: []Step{{ComponentType: hardware.CDU, Stage: 1, Main: Action{Name: ActionPowerControl}}}}
	id := uuid.MustParse("0d3c8b1e-54a1-4f5e-8d2b-1f0f6f9c2a31")
	other := targets(hardware.Compute, 2)
	other[1].RackID = uuid.Nil
	tests := map[string]struct {
		in   Input
		is   error
		want string
	}{
		"a rule without steps": {
			Input{Operation: powerOn, Rule: Rule{ID: id, Name: "empty"}, Components: targets(hardware.Compute, 1)},
			ErrNoSteps, `rule "empty" (0d3c8b1e-54a1-4f5e-8d2b-1f0f6f9c2a31): rule has no steps`,
		},
		"firmware of power shelves alone": {
			Input{Operation: upgrade, Rule: mustBuiltin(t, upgrade), Components: targets(hardware.PowerShelf, 8)},
			ErrNoApplicableStep, `rule "Hardcoded Default Firmware Upgrade" (built-in): no step applies to the targeted component types: PowerShelf`,
		},
		"types that no step is about": {
			Input{Operation: powerOn, Rule: mustBuiltin(t, powerOn), Components: append(targets(hardware.UMS, 1), targets(hardware.CDU, 1)...)},
			ErrNoApplicableStep, `rule "Hardcoded Default Power On" (built-in): no step applies to the targeted component types: CDU, UMS`,
		},
		"no components": {
			Input{Operation: powerOn, Rule: mustBuiltin(t, powerOn)},
			ErrNoApplicableStep, `rule "Hardcoded Default Power On" (built-in): no step applies to the targeted component types: none`,
		},
		"an inherited power operation in a bring-up, even of an absent type": {
			Input{Operation: Operation{TaskBringUp, CodeBringUp}, Rule: Rule{ID: id, Name: "mine", Definition: inheriting}, Components: targets(hardware.Compute, 1)},
			ErrInheritedPower, `rule "mine" (0d3c8b1e-54a1-4f5e-8d2b-1f0f6f9c2a31): step 0: bring_up/bring_up: PowerControl without an operation, and the task has no power operation to inherit`,
		},
		"a definition that does not validate": {
			Input{Operation: powerOn, Rule: Rule{Name: "bad", Definition: Definition{Steps: []Step{{}}}}, Components: targets(hardware.Compute, 1)},
			nil, `rule "bad" (built-in): step 0: component type is unknown or invalid; step 0: stage must be >= 1, got 0; step 0: main_operation is required`,
		},
		"components of two racks": {
			Input{Operation: powerOn, Rule: mustBuiltin(t, powerOn), Components: other},
			nil, fmt.Sprintf("component %s is in rack 00000000-0000-0000-0000-000000000000, not in rack %s", other[1].Label(), rack),
		},
		"an operation nobody knows": {
			Input{Operation: Operation{TaskPowerControl, "nap"}, Rule: mustBuiltin(t, powerOn), Components: targets(hardware.Compute, 1)},
			nil, "invalid operation code 'nap' for operation type 'power_control'",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewPlan(tt.in)
			if err == nil || err.Error() != tt.want || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestPlannedActionsHaveTheirEffectiveSettings(t *testing.T) {
	t.Parallel()
	const minute = Duration(time.Minute)
	power := func(op string) Action {
		return Action{Name: ActionPowerControl, Parameters: Parameters{"operation": op}}
	}
	policy := Retry{5, Duration(time.Second), 2, 0}
	bringUp := Operation{TaskBringUp, CodeBringUp}
	tests := map[string]struct {
		op   Operation
		step Step
		want PlanAction // phase main, index 0
	}{
		"nothing given: the task's operation, 20 minutes and the default policy": {
			powerOn, Step{Main: Action{Name: ActionPowerControl}},
			PlanAction{Name: ActionPowerControl, Operation: hardware.PowerOn, AttemptTimeout: 20 * minute, Retry: defaultRetry},
		},
		"the step's timeout and policy": {
			powerOn, Step{Main: power("power_off"), Timeout: 7 * minute, Retry: &policy},
			PlanAction{Name: ActionPowerControl, Operation: hardware.PowerOff, AttemptTimeout: 7 * minute, Retry: policy},
		},
		"the action's timeout before the step's": {
			powerOn, Step{Main: Action{Name: ActionPowerControl, Timeout: minute}, Timeout: 7 * minute},
			PlanAction{Name: ActionPowerControl, Operation: hardware.PowerOn, AttemptTimeout: minute, Retry: defaultRetry},
		},
		"a restart is sent once": {
			Operation{TaskPowerControl, "restart"}, Step{Main: Action{Name: ActionPowerControl}, Retry: &policy},
			PlanAction{Name: ActionPowerControl, Operation: hardware.Restart, AttemptTimeout: 20 * minute, Retry: singleAttempt},
		},
		"a forced restart is sent once": {
			powerOn, Step{Main: power("force_restart"), Retry: &policy},
			PlanAction{Name: ActionPowerControl, Operation: hardware.ForceRestart, AttemptTimeout: 20 * minute, Retry: singleAttempt},
		},
		"a warm reset is sent once": {
			upgrade, Step{Main: power("warm_reset"), Retry: &policy},
			PlanAction{Name: ActionPowerControl, Operation: hardware.WarmReset, AttemptTimeout: 20 * minute, Retry: singleAttempt},
		},
		"an AC cycle is sent once": {
			powerOn, Step{Main: power("cold_reset"), Retry: &policy},
			PlanAction{Name: ActionPowerControl, Operation: hardware.ColdReset, AttemptTimeout: 20 * minute, Retry: singleAttempt},
		},
		"a verification bounds its queries by the step and does not retry them": {
			powerOn, Step{Main: verify(5 * time.Minute), Timeout: 3 * minute, Retry: &policy},
			PlanAction{Name: ActionVerifyPowerStatus, ExpectedStatus: hardware.PowerStateOn, AttemptTimeout: 3 * minute, Timeout: 5 * minute, PollInterval: minute / 6},
		},
		"reachability is about the targeted types of its list, each once": {
			powerOn, Step{Main: Action{Name: ActionVerifyReachability, Timeout: minute, PollInterval: minute, Parameters: Parameters{
				"component_types": []any{"nvswitch", "CDU", "compute", "NVSwitch"}, "require_all": true,
			}}},
			PlanAction{
				Name: ActionVerifyReachability, AttemptTimeout: 20 * minute, Timeout: minute, PollInterval: minute,
				Types: []hardware.ComponentType{hardware.NVSwitch, hardware.Compute}, RequireAll: true,
			},
		},
		"a sleep is only long": {
			powerOn, Step{Main: Action{Name: ActionSleep, Timeout: minute, Parameters: Parameters{"duration": json.Number("5000000000")}}, Retry: &policy},
			PlanAction{Name: ActionSleep, SleepFor: Duration(5 * time.Second)},
		},
		"a status query is bounded by its own timeout and retried": {
			powerOn, Step{Main: Action{Name: ActionGetPowerStatus, Timeout: minute}, Timeout: 7 * minute},
			PlanAction{Name: ActionGetPowerStatus, AttemptTimeout: minute, Retry: defaultRetry},
		},
		"firmware polls half an hour, every two minutes": {
			upgrade, Step{Main: Action{Name: ActionFirmwareControl, PollInterval: minute, Parameters: Parameters{"poll_interval": "0"}}},
			PlanAction{Name: ActionFirmwareControl, AttemptTimeout: 20 * minute, Retry: defaultRetry, Timeout: 30 * minute, PollInterval: 2 * minute},
		},
		"firmware polls as its parameters say": {
			upgrade, Step{Main: Action{Name: ActionFirmwareControl, Timeout: 5 * minute, Parameters: Parameters{"poll_interval": "1m", "poll_timeout": "35m"}}, Timeout: 40 * minute},
			PlanAction{Name: ActionFirmwareControl, AttemptTimeout: 5 * minute, Retry: defaultRetry, Timeout: 35 * minute, PollInterval: minute},
		},
		"the consistency check takes the step's timeout": {
			bringUp, Step{Main: Action{Name: ActionVerifyFirmwareConsistency, Timeout: minute}, Timeout: 10 * minute},
			PlanAction{Name: ActionVerifyFirmwareConsistency, AttemptTimeout: 10 * minute, Retry: defaultRetry},
		},
		"opening the power-on gate takes the step's timeout": {
			bringUp, Step{Main: Action{Name: ActionBringUpControl}, Timeout: 10 * minute, Retry: &policy},
			PlanAction{Name: ActionBringUpControl, AttemptTimeout: 10 * minute, Retry: policy},
		},
		"waiting for a bring-up has defaults": {
			bringUp, Step{Main: Action{Name: ActionWaitBringUp}},
			PlanAction{Name: ActionWaitBringUp, AttemptTimeout: 20 * minute, Timeout: 15 * minute, PollInterval: minute / 2},
		},
		"injection takes the step's timeout": {
			Operation{TaskBringUp, CodeIngest}, Step{Main: Action{Name: ActionInjectExpectation}, Timeout: 10 * minute},
			PlanAction{Name: ActionInjectExpectation, AttemptTimeout: 10 * minute, Retry: defaultRetry},
		},
		"decommissioning is asked for once, within five minutes": {
			Operation{TaskDecommission, CodeDecommission}, Step{Main: Action{Name: ActionDecommissionControl, Timeout: minute}, Timeout: 4 * 60 * minute, Retry: &policy},
			PlanAction{Name: ActionDecommissionControl, AttemptTimeout: 5 * minute, Retry: singleAttempt},
		},
		"waiting for the decommissioning asks for half a minute at a time": {
			Operation{TaskDecommission, CodeDecommission}, Step{Main: Action{Name: ActionWaitDecommissioned, Timeout: 240 * minute, PollInterval: minute}, Retry: &policy},
			PlanAction{Name: ActionWaitDecommissioned, AttemptTimeout: minute / 2, Timeout: 240 * minute, PollInterval: minute},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Phase = PhaseMain
			if diff := cmp.Diff([]PlanAction{tt.want}, planMain(t, tt.op, tt.step).Actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestActionsOfAStepAreListedInTheOrderTheyRun(t *testing.T) {
	t.Parallel()
	step := planMain(t, powerOn, Step{
		Pre:  []Action{sleep("1s"), sleep("2s")},
		Main: sleep("3s"),
		Post: []Action{sleep("4s"), sleep("5s")}, DelayAfter: Duration(6 * time.Second),
	})
	var got []string
	for _, a := range step.Actions {
		got = append(got, fmt.Sprintf("%s %d %s %s", a.Phase, a.Index, a.Name, a.SleepFor))
	}
	want := []string{"pre 0 Sleep 1s", "pre 1 Sleep 2s", "main 0 Sleep 3s", "post 0 Sleep 4s", "post 1 Sleep 5s", "delay 0 Sleep 6s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestComponentsAreOrderedBySlotTrayHostNameAndID(t *testing.T) {
	t.Parallel()
	at := func(name string, slot, tray, host int) Component {
		return Component{Component: component(hardware.Compute, name), Slot: slot, Tray: tray, Host: host}
	}
	twin := at("a", 1, 1, 1)
	twin.ID = uuid.UUID{}
	in := []Component{
		at("unknown", -1, 0, 0), at("host unknown", 1, 1, -1), at("slot 0", 0, 9, 9), at("b", 1, 1, 1), at("a", 1, 1, 1), twin,
		at("tray 2", 1, 2, 0), at("host 0", 1, 1, 0), at("slot 10", 10, 0, 0), at("slot 9", 9, 0, 0),
	}
	p, err := NewPlan(Input{Operation: powerOn, Rule: mustBuiltin(t, powerOn), Components: in})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range p.Components[hardware.Compute] {
		got = append(got, c.Name)
	}
	want := []string{"slot 0", "host 0", "a", "a", "b", "host unknown", "tray 2", "slot 9", "slot 10", "unknown"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if p.Components[hardware.Compute][2].ID != twin.ID {
		t.Error("twins are not ordered by id")
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		n, limit int
		want     string
	}{
		"no limit is one batch":         {5, 0, "5"},
		"a limit above the count":       {5, 6, "5"},
		"a limit equal to the count":    {5, 5, "5"},
		"the last batch is the rest":    {9, 4, "4 4 1"},
		"one at a time":                 {3, 1, "1 1 1"},
		"nothing to cut has no batches": {0, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := components(hardware.Compute, tt.n)[hardware.Compute]
			var sizes []string
			var joined []hardware.Component
			for _, b := range Batches(list, tt.limit) {
				sizes = append(sizes, fmt.Sprint(len(b)))
				joined = append(joined, b...)
			}
			if got := strings.Join(sizes, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if diff := cmp.Diff(list, joined); diff != "" {
				t.Errorf("batches are not the list (-list +batches):\n%s", diff)
			}
		})
	}
}

func TestOnlyBatchedActionsAreCut(t *testing.T) {
	t.Parallel()
	p := Plan{Components: components(hardware.Compute, 5)}
	step := PlanStep{ComponentType: hardware.Compute, MaxParallel: 2}
	for name, spec := range actions {
		want := 1
		if spec.batched {
			want = 3
		}
		if got := len(p.Batches(step, PlanAction{Name: name})); got != want {
			t.Errorf("%s: %d batches, want %d", name, got, want)
		}
	}
}

func TestCapabilitiesOfAPlan(t *testing.T) {
	t.Parallel()
	reach := Action{Name: ActionVerifyReachability, Timeout: 1, PollInterval: 1, Parameters: Parameters{"component_types": []any{"NVSwitch", "CDU"}}}
	tests := map[string]struct {
		op    Operation
		steps []Step // for two trays and a switch
		want  []Need
	}{
		"each need is listed once, steps of absent types need nothing": {
			powerOn,
			[]Step{
				{ComponentType: hardware.Compute, Stage: 1, Main: Action{Name: ActionPowerControl}, Post: []Action{verify(1)}},
				{ComponentType: hardware.Compute, Stage: 2, Main: Action{Name: ActionPowerControl}},
				{ComponentType: hardware.CDU, Stage: 2, Main: Action{Name: ActionFirmwareControl}},
			},
			[]Need{{hardware.Compute, hardware.CapPowerControl}, {hardware.Compute, hardware.CapPowerStatus}},
		},
		"a sleep needs nothing": {
			powerOn, []Step{{ComponentType: hardware.Compute, Stage: 1, Main: sleep("1s")}}, nil,
		},
		"reachability needs the status of its own type and of each targeted one": {
			powerOn, []Step{{ComponentType: hardware.Compute, Stage: 1, Main: reach}},
			[]Need{{hardware.Compute, hardware.CapPowerStatus}, {hardware.NVSwitch, hardware.CapPowerStatus}},
		},
		"firmware needs control and status": {
			upgrade, []Step{{ComponentType: hardware.NVSwitch, Stage: 1, Main: Action{Name: ActionFirmwareControl}}},
			[]Need{{hardware.NVSwitch, hardware.CapFirmwareControl}, {hardware.NVSwitch, hardware.CapFirmwareStatus}},
		},
		"the actions of built-in rules have capabilities of their own": {
			Operation{TaskBringUp, CodeBringUp},
			[]Step{{
				ComponentType: hardware.Compute, Stage: 1,
				Pre:  []Action{{Name: ActionBringUpControl}, {Name: ActionWaitBringUp}, {Name: ActionInjectExpectation}},
				Main: Action{Name: ActionVerifyFirmwareConsistency},
				Post: []Action{{Name: ActionDecommissionControl}, {Name: ActionWaitDecommissioned, Timeout: 1, PollInterval: 1}},
			}},
			[]Need{
				{hardware.Compute, hardware.CapBringUpControl}, {hardware.Compute, hardware.CapBringUpStatus},
				{hardware.Compute, hardware.CapInjectExpectation}, {hardware.Compute, hardware.CapFirmwareConsistencyCheck},
				{hardware.Compute, hardware.CapDecommissionControl}, {hardware.Compute, hardware.CapDecommissionStatus},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := NewPlan(Input{
				Operation: tt.op, Rule: Rule{Name: "r", Definition: Definition{Steps: tt.steps}},
				Components: append(targets(hardware.Compute, 2), targets(hardware.NVSwitch, 1)...),
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.Capabilities()); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolveTakesTheFirstSourceThereIs(t *testing.T) {
	t.Parallel()
	request, association, byDefault := &Rule{Name: "request"}, &Rule{Name: "association"}, &Rule{Name: "default"}
	warm := Operation{TaskPowerControl, "warm_reset"}
	tests := map[string]struct {
		candidates Candidates
		op         Operation
		name       string
		source     Source
		err        error
	}{
		"the rule of the request wins over everything": {Candidates{request, association, byDefault}, powerOn, "request", SourceRequest, nil},
		"then the rack's":                  {Candidates{nil, association, byDefault}, powerOn, "association", SourceAssociation, nil},
		"then the default":                 {Candidates{Default: byDefault}, powerOn, "default", SourceDefault, nil},
		"then ours":                        {Candidates{}, powerOn, "Hardcoded Default Power On", SourceBuiltin, nil},
		"a warm reset has none of ours":    {Candidates{}, warm, "", "", ErrNoRule},
		"a warm reset by a stored default": {Candidates{Default: byDefault}, warm, "default", SourceDefault, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule, source, err := tt.candidates.Resolve(tt.op)
			if rule.Name != tt.name || source != tt.source || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %q, %v", rule.Name, source, err)
			}
		})
	}
}

func TestEveryFieldOfAComponentSurvivesStorage(t *testing.T) {
	t.Parallel()
	c := component(hardware.Compute, "tray")
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.IsZero() && f.Kind() == reflect.String {
			f.SetString("x")
		} else if f.IsZero() {
			t.Fatalf("give field %s a value here", v.Type().Field(i).Name)
		}
	}
	p := Plan{Version: PlanVersion, RackID: c.RackID, Components: map[hardware.ComponentType][]hardware.Component{c.Type: {c}}}
	if diff := cmp.Diff(p, stored(t, p)); diff != "" {
		t.Errorf("plan (-planned +stored):\n%s", diff)
	}
}

func TestAPlanOfALaterVersionIsRefused(t *testing.T) {
	t.Parallel()
	var p Plan
	err := json.Unmarshal([]byte(`{"version": 2}`), &p)
	if err == nil || err.Error() != "plan version 2 is not supported, want 1" {
		t.Errorf("got %v", err)
	}
}

// A plan of a whole rack is read at every step of its task.
func TestAPlanOf35ComponentsStaysBelow6KB(t *testing.T) {
	t.Parallel()
	var in []Component
	for typ, n := range map[hardware.ComponentType]int{hardware.Compute: 18, hardware.NVSwitch: 9, hardware.PowerShelf: 8} {
		for _, c := range targets(typ, n) {
			c.ExternalID, c.MAC = uuid.NewSHA1(rack, c.ID[:]).String(), "5c:ff:35:e2:1f:07"
			in = append(in, c)
		}
	}
	p, err := NewPlan(Input{Operation: powerOn, Rule: mustBuiltin(t, powerOn), Components: in})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(doc))
	if len(doc) > 6000 {
		t.Errorf("%d bytes", len(doc))
	}
}

// stored is the plan as it comes back from the database.
func stored(t interface {
	Helper()
	Fatal(...any)
}, p Plan) Plan {
	t.Helper()
	doc, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var out Plan
	if err := json.Unmarshal(doc, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
