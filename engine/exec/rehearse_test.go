package exec_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/engine/exec"
	"rackflow.dev/flow/engine/exec/virtual"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// stage is a simulated rack of four trays, two NVSwitches and two power shelves whose acts take three seconds.
type stage struct {
	clock      *virtual.Clock
	site       *sim.Site
	components []rules.Component
}

func newStage(t *testing.T, start hardware.PowerState, faults ...sim.Fault) *stage {
	t.Helper()
	s := &stage{clock: virtual.New(noon)}
	rack := uuid.UUID{0: 1}
	for kind, n := range map[hardware.ComponentType]int{hardware.Compute: 4, hardware.NVSwitch: 2, hardware.PowerShelf: 2} {
		for i := range n {
			s.components = append(s.components, rules.Component{Slot: i, Component: hardware.Component{
				ID: uuid.UUID{1: kind[0], 2: kind[1], 15: byte(i + 1)}, RackID: rack, Type: kind, Name: fmt.Sprint(kind, "-", i), ExternalID: "x",
			}})
		}
	}
	var err error
	s.site, err = sim.Open(sim.Config{
		Latency: 3 * time.Second, InitialPower: start, Now: s.clock.Now,
		Pass: func(ctx context.Context, d time.Duration) bool { return s.clock.Sleep(ctx, s.clock.Now().Add(d)) },
		Inventory: func(context.Context, []uuid.UUID) ([]hardware.Component, error) {
			list := make([]hardware.Component, len(s.components))
			for i, c := range s.components {
				list[i] = c.Component
			}
			return list, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.site.Script(faults...); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) rehearse(t *testing.T, op rules.Operation, rule rules.Rule) exec.Rehearsed {
	t.Helper()
	plan, err := rules.NewPlan(rules.Input{Operation: op, Rule: rule, Components: s.components})
	if err != nil {
		t.Fatal(err)
	}
	expected := map[uuid.UUID]hardware.Expectation{}
	for _, c := range s.components {
		expected[c.ID] = hardware.Expectation{Component: c.Component}
	}
	r, err := exec.Rehearsal{Plan: plan, Managers: s.site.Managers(), Clock: s.clock, Expected: expected}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func power(op hardware.PowerOperation) rules.Operation {
	return rules.Operation{Type: rules.TaskPowerControl, Code: string(op)}
}

func TestEveryBuiltInRuleIsRehearsedTheSameWayEveryTime(t *testing.T) {
	t.Parallel()
	off, on := hardware.PowerStateOff, hardware.PowerStateOn
	for op, c := range map[rules.Operation]struct {
		from hardware.PowerState
		took time.Duration // by the polls and sleeps of chapter 31, 6, and acts of three seconds
	}{
		power(hardware.PowerOn):                                      {off, 30 * time.Second},
		power(hardware.PowerOff):                                     {on, 30 * time.Second},
		power(hardware.ForcePowerOn):                                 {off, 15 * time.Second}, // the NVSwitches have no power yet at their first attempt
		power(hardware.ForcePowerOff):                                {on, 20 * time.Second},
		power(hardware.Restart):                                      {on, 90 * time.Second},
		power(hardware.ForceRestart):                                 {on, 55 * time.Second},
		power(hardware.ColdReset):                                    {on, 0},
		{Type: rules.TaskFirmwareControl, Code: rules.CodeUpgrade}:   {on, 4 * time.Minute},
		{Type: rules.TaskBringUp, Code: rules.CodeBringUp}:           {off, 3*time.Minute + 45*time.Second},
		{Type: rules.TaskBringUp, Code: rules.CodeIngest}:            {off, 0},
		{Type: rules.TaskDecommission, Code: rules.CodeDecommission}: {on, 90 * time.Second},
	} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			rule, ok := rules.Builtin(op)
			if !ok {
				t.Fatal("no such rule")
			}
			first := newStage(t, c.from).rehearse(t, op, rule)
			if first.State != db.TaskStateCompleted || first.Took != c.took {
				t.Errorf("%s after %s, want completed after %s: %s", first.State, first.Took, c.took, first.Message)
			}
			for range 10 {
				if diff := cmp.Diff(first, newStage(t, c.from).rehearse(t, op, rule)); diff != "" {
					t.Fatalf("another time it goes otherwise (-first +then):\n%s", diff)
				}
			}
		})
	}
}

const onVerify = `"post_operation": [{"name": "VerifyPowerStatus", "timeout": "5m", "poll_interval": "30s", "parameters": {"expected_status": "on"}}]`

func TestFaultsShowInARehearsalAsTheyWouldInATask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps   string
		fault   sim.Fault
		took    time.Duration
		message string // "": it completes
		says    string // in a moment
	}{
		"a call that hangs is abandoned and made again": {
			`{"component_type": "powershelf", "stage": 1, "timeout": "2m", "main_operation": {"name": "PowerControl"}}`,
			sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl, Times: 1}, 2*time.Minute + time.Second, "", "no answer within 2m0s",
		},
		"a refusal is final": {
			`{"component_type": "powershelf", "stage": 1, "main_operation": {"name": "PowerControl"}}`,
			sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl}, 0, "stage 1 failed: component type PowerShelf failed: main operation failed", "",
		},
		"a state that is never reached ends the poll": {
			`{"component_type": "powershelf", "stage": 1, "main_operation": {"name": "PowerControl"}, ` + onVerify + `}`,
			sim.Fault{Kind: sim.WrongState, Call: hardware.CapPowerControl}, 5 * time.Minute, "timeout after 5m0s waiting for power status On (attempts: 11)", "",
		},
		"a query that hangs ends with the verification, whatever the step allows (D-31.16)": {
			`{"component_type": "powershelf", "stage": 1, "timeout": "20m", "main_operation": {"name": "PowerControl"}, ` + onVerify + `}`,
			sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerStatus}, 5*time.Minute + 30*time.Second,
			"timeout after 5m0s waiting for power status On (attempts: 1)", "",
		},
		"many queries that hang have the time of one between them (D-31.16)": {
			`{"component_type": "powershelf", "stage": 1, "timeout": "1m", "max_parallel": 1, "main_operation": {"name": "PowerControl"},
			"post_operation": [{"name": "VerifyReachability", "timeout": "5m", "poll_interval": "10s",
				"parameters": {"component_types": ["powershelf", "nvswitch", "compute"], "require_all": true}}]}`,
			sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerStatus}, 5*time.Minute + 10*time.Second,
			"timeout after 5m0s waiting for components to become reachable: [PowerShelf NVSwitch Compute]", "",
		},
		"slow answers do not make a verification longer than it may be (D-31.16)": {
			`{"component_type": "powershelf", "stage": 1, "max_parallel": 1, "main_operation": {"name": "PowerControl"},
			"post_operation": [{"name": "VerifyReachability", "timeout": "1m", "poll_interval": "5s",
				"parameters": {"component_types": ["compute", "nvswitch"], "require_all": true}}]}`,
			sim.Fault{Kind: sim.Slow, Delay: 59 * time.Second, Call: hardware.CapPowerStatus}, 65 * time.Second,
			"timeout after 1m0s waiting for components to become reachable", "",
		},
		"a step that hangs for ever ends with its budget": {
			`{"component_type": "powershelf", "stage": 1, "timeout": "1m", "retry": {"max_attempts": 2, "initial_interval": "1s", "backoff_coefficient": 1},
			"main_operation": {"name": "PowerControl"}}`,
			sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl}, 2*time.Minute + time.Second, "no answer within 1m0s", "",
		},
		"a sibling of a failed step goes on to its end, and the next stage is not begun": {
			`{"component_type": "nvswitch", "stage": 1, "main_operation": {"name": "PowerControl"}},
			{"component_type": "powershelf", "stage": 1, "main_operation": {"name": "Sleep", "parameters": {"duration": "1h"}}},
			{"component_type": "compute", "stage": 2, "main_operation": {"name": "Sleep", "parameters": {"duration": "1h"}}}`,
			sim.Fault{Kind: sim.Refuse, Type: hardware.NVSwitch}, time.Hour, "component type NVSwitch failed", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			def, err := rules.Parse([]byte(`{"steps": [` + c.steps + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			got := newStage(t, hardware.PowerStateOff, c.fault).rehearse(t, power(hardware.PowerOn), rules.Rule{Name: "test", Definition: def})
			want := db.TaskStateCompleted
			if c.message != "" {
				want = db.TaskStateFailed
			}
			if got.State != want || got.Took != c.took || !strings.Contains(got.Message, c.message) {
				t.Errorf("%s after %s (%s), want %s after %s (%s)", got.State, got.Took, got.Message, want, c.took, c.message)
			}
			if c.says != "" && !slices.ContainsFunc(got.Moments, func(m exec.Moment) bool { return strings.Contains(m.Retry, c.says) }) {
				t.Errorf("no moment says %q: %+v", c.says, got.Moments)
			}
		})
	}
}

func TestARehearsalThatIsInterruptedIsNoFailureOfTheRule(t *testing.T) {
	t.Parallel()
	s := newStage(t, hardware.PowerStateOff)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	def, err := rules.Parse([]byte(`{"steps": [{"component_type": "compute", "stage": 1, "main_operation": {"name": "Sleep", "parameters": {"duration": "1h"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := rules.NewPlan(rules.Input{Operation: power(hardware.PowerOn), Rule: rules.Rule{Definition: def}, Components: s.components})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (exec.Rehearsal{Plan: plan, Managers: s.site.Managers(), Clock: s.clock}).Run(ctx); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if s.clock.Now() != noon {
		t.Error("time has passed")
	}
}
