package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

func TestEveryBuiltInPowerRuleCompletesOnAWholeRack(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 3, 2, 2)
	// In an order in which each finds the rack as it needs it.
	for _, op := range []hardware.PowerOperation{
		hardware.PowerOn, hardware.Restart, hardware.ForceRestart, hardware.ColdReset, hardware.PowerOff,
		hardware.ForcePowerOn, hardware.ForcePowerOff,
	} {
		view, report := b.finished(b.submit(op, r, nil))
		if view.State != db.TaskStateCompleted || view.Message != "Succeeded" {
			t.Fatalf("%s: %s: %s", op, view.State, view.Message)
		}
		if report.Version != 1 || len(report.Stages) == 0 || report.Error != "" {
			t.Errorf("%s: report %+v", op, report)
		}
		for _, stage := range report.Stages {
			if stage.Status != task.ReportCompleted && stage.Status != task.ReportSkipped {
				t.Errorf("%s: stage %d is %s", op, stage.Number, stage.Status)
			}
		}
	}
}

// stage makes one step of a rule; the retry waits 10 ms at the speed of the tests.
func stage(number int, kind string, rest string) string {
	return fmt.Sprintf(`{"component_type": %q, "stage": %d, "timeout": "20s",
		"retry": {"max_attempts": 3, "initial_interval": "1s", "backoff_coefficient": 1}, %s}`, kind, number, rest)
}

const (
	mainPower  = `"main_operation": {"name": "PowerControl"}`
	postVerify = `"post_operation": [{"name": "VerifyPowerStatus", "timeout": "20s", "poll_interval": "1s",
		"parameters": {"expected_status": "on"}}]`
)

func rule(steps ...string) string { return `{"steps": [` + strings.Join(steps, ",") + `]}` }

func TestFaults(t *testing.T) {
	t.Parallel()
	shelves := rule(stage(1, "PowerShelf", mainPower+","+postVerify))
	cases := map[string]struct {
		rule    string
		op      hardware.PowerOperation
		fault   sim.Fault // on the second shelf
		state   db.TaskState
		message string // part of it
		sent    int    // times the command arrived at the second shelf
	}{
		"no fault sends once": {
			rule: shelves, op: hardware.PowerOn, state: db.TaskStateCompleted, message: "Succeeded", sent: 1,
		},
		"a refusal fails at once, naming component and reason": {
			rule: shelves, op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl, Text: "interlock open"},
			state: db.TaskStateFailed, sent: 1,
			message: "stage 1 failed: component type PowerShelf failed: main operation failed: power control failed for r-PowerShelf-1",
		},
		"a component that was away gets the command again, alone": {
			rule: shelves, op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerControl, Times: 2},
			state: db.TaskStateCompleted, sent: 3,
		},
		"attempts end": {
			rule: shelves, op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerControl},
			state: db.TaskStateFailed, message: "main operation failed", sent: 3,
		},
		"a lost reply is found out by a look, and nothing is sent again": {
			rule: shelves, op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.LostReply, Call: hardware.CapPowerControl, Times: 1},
			state: db.TaskStateCompleted, sent: 1,
		},
		"a component missing from the answer is not taken for done": {
			rule: rule(stage(1, "PowerShelf", mainPower)), op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.Partial, Call: hardware.CapPowerControl, Times: 1},
			state: db.TaskStateCompleted, sent: 1, // the look finds it on
		},
		"a call that hangs runs into its timeout and is tried again": {
			rule: rule(stage(1, "PowerShelf", `"main_operation": {"name": "PowerControl", "timeout": "5s"},`+postVerify)), op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl, Times: 1},
			state: db.TaskStateCompleted, sent: 2,
		},
		"success with the wrong state is caught by verification": {
			rule: shelves, op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.WrongState, Call: hardware.CapPowerControl},
			state: db.TaskStateFailed, sent: 1,
			message: "post-operation failed: action 0 (VerifyPowerStatus) failed: timeout after 20s waiting for power status On (attempts:",
		},
		"status errors are polled through": {
			rule: shelves, op: hardware.PowerOn,
			fault: sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerStatus, Times: 4},
			state: db.TaskStateCompleted, sent: 1,
		},
		"a reset with a lost reply is not sent again and its outcome is unknown": {
			rule: rule(stage(1, "PowerShelf", `"main_operation": {"name": "PowerControl", "parameters": {"operation": "force_restart"}}`)),
			op:   hardware.PowerOn, fault: sim.Fault{Kind: sim.LostReply, Call: hardware.CapPowerControl},
			state: db.TaskStateFailed, message: "outcome unknown", sent: 1,
		},
		"a reset that did not get through is not sent again either": {
			rule: rule(stage(1, "PowerShelf", `"main_operation": {"name": "PowerControl", "parameters": {"operation": "restart"}}`)),
			op:   hardware.PowerOn, fault: sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerControl, Times: 1},
			state: db.TaskStateFailed, message: "power control failed for r-PowerShelf-1", sent: 1,
		},
		"an unsupported reset is refused before anything is sent": {
			rule: rule(stage(1, "PowerShelf", `"main_operation": {"name": "PowerControl", "parameters": {"operation": "cold_reset"}}`)),
			op:   hardware.PowerOn, state: db.TaskStateFailed, message: "unsupported power operation for PowerShelf: cold_reset", sent: 0,
		},
		"reachability waits for what is away": {
			rule: rule(stage(1, "PowerShelf", mainPower+`, "post_operation": [{"name": "VerifyReachability", "timeout": "20s",
				"poll_interval": "1s", "parameters": {"component_types": ["PowerShelf", "Compute"], "require_all": true}}]`)),
			op: hardware.PowerOn, fault: sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerStatus, Times: 3},
			state: db.TaskStateCompleted, sent: 1,
		},
		"a status query that is refused fails its step": {
			rule: rule(stage(1, "PowerShelf", `"main_operation": {"name": "GetPowerStatus", "timeout": "5s"}`)),
			op:   hardware.PowerOn, fault: sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerStatus, Type: hardware.PowerShelf, Text: "no rights"},
			state: db.TaskStateFailed, message: "no rights",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			r := b.addRack("r", 1, 0, 3)
			second := r.components[hardware.PowerShelf][1]
			if c.fault.Kind != "" {
				if c.fault.Type == "" {
					c.fault.Component = second
				}
				b.script(c.fault)
			}
			view, report := b.finished(b.submit(c.op, r, b.addRule(c.rule)))
			if view.State != c.state || !strings.Contains(view.Message, c.message) {
				t.Fatalf("%s: %s\nwant %s: ...%s...", view.State, view.Message, c.state, c.message)
			}
			sent := 0
			for _, op := range hardware.PowerOperations {
				sent += b.sent(second, op)
			}
			if sent != c.sent {
				t.Errorf("the command arrived %d times, want %d", sent, c.sent)
			}
			step := report.Stages[0].Steps[0]
			if view.State == db.TaskStateFailed && (step.Status != task.ReportFailed || step.Error == "" || report.Error == "") {
				t.Errorf("report does not tell the failure: %+v", report)
			}
			if step.Completed+step.Failed > step.Total {
				t.Errorf("counters: %d completed and %d failed of %d", step.Completed, step.Failed, step.Total)
			}
		})
	}
}

func TestBatchesRunOneAfterTheOtherAndTheFirstFailureStops(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 0, 8)
	shelves := r.components[hardware.PowerShelf]
	b.script(sim.Fault{Component: shelves[4], Kind: sim.Refuse, Call: hardware.CapPowerControl, Text: "interlock open"})
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(stage(1, "PowerShelf", `"max_parallel": 3, `+mainPower))))
	view, report := b.finished(id)
	if want := "main operation failed: batch 2 of 3 failed: power control failed for r-PowerShelf-4"; !strings.Contains(view.Message, want) {
		t.Errorf("message %q, want ...%s...", view.Message, want)
	}
	for i, want := range []int{1, 1, 1, 1, 1, 1, 0, 0} {
		if got := b.sent(shelves[i], hardware.PowerOn); got != want {
			t.Errorf("shelf %d got the command %d times, want %d", i, got, want)
		}
	}
	if s := report.Stages[0].Steps[0]; s.Completed != 5 || s.Failed != 1 {
		t.Errorf("counters: %d completed, %d failed, want 5 and 1", s.Completed, s.Failed)
	}
}

func TestSiblingsOfAFailedStepRunToTheirEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 2, 2, 2)
	b.script(sim.Fault{Component: r.components[hardware.PowerShelf][0], Kind: sim.Refuse, Call: hardware.CapPowerControl})
	sleep := `"main_operation": {"name": "Sleep", "parameters": {"duration": "20s"}}`
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(
		stage(1, "PowerShelf", mainPower), stage(1, "NVSwitch", sleep), stage(1, "Compute", sleep), stage(2, "Compute", sleep))))
	view, report := b.finished(id)
	if view.State != db.TaskStateFailed || !strings.HasPrefix(view.Message, "stage 1 failed: component type PowerShelf failed: main operation failed:") {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	var got []task.ReportStatus
	for _, s := range append(report.Stages[0].Steps, report.Stages[1].Steps...) {
		got = append(got, s.Status)
	}
	want := []task.ReportStatus{task.ReportFailed, task.ReportCompleted, task.ReportCompleted, task.ReportPending}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("steps are %v, want %v", got, want)
	}
	if report.Stages[0].Status != task.ReportFailed || report.Stages[1].Status != task.ReportPending {
		t.Errorf("stages are %s and %s", report.Stages[0].Status, report.Stages[1].Status)
	}
	if first, last := report.Stages[0].Steps[0].FinishedAt, report.Stages[0].FinishedAt; last.Before(*first) {
		t.Errorf("the stage ended at %s, before its first step at %s", last, first)
	}
}

func TestALongWaitParksTheStepAndARiverJobWakesIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.InlineWait = 10 * time.Millisecond })
	r := b.addRack("r", 0, 0, 1)
	b.script(sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerStatus, Times: 1})
	// A budget of 20 min and more: a wake-up this soon waits for River's next look, up to 5 s, which is 500 s of the rule.
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(strings.Replace(stage(1, "PowerShelf",
		`"pre_operation": [{"name": "Sleep", "parameters": {"duration": "5s"}}], `+mainPower+", "+postVerify), "20s", "20m", 1))))
	view, _ := b.finished(id)
	if view.State != db.TaskStateCompleted {
		t.Fatalf("%s: %s", view.State, view.Message)
	}
	steps, err := db.New(b.store.API).StepListByTasks(t.Context(), db.StepListByTasksParams{TaskIds: []uuid.UUID{id}})
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Epoch < 1 {
		t.Errorf("the step's epoch is %d: it was never parked", steps[0].Epoch)
	}
	if got := b.sent(r.components[hardware.PowerShelf][0], hardware.PowerOn); got != 1 {
		t.Errorf("the command arrived %d times, want 1", got)
	}
}

func TestASpentBudgetFailsStepOrTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spend, message string }{
		"the step's": {"UPDATE task_step SET deadline_at = now() WHERE task_id = $1 AND node IS NULL", "stage 1 failed: component type PowerShelf failed: step timed out after "},
		"the task's": {"UPDATE task SET deadline_at = now() FROM task_step WHERE id = $1 AND task_id = id AND node IS NULL", "task timed out after "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
			r := b.addRack("r", 0, 0, 1)
			id := b.submit(hardware.PowerOn, r, b.addRule(rule(stage(1, "PowerShelf", `"main_operation": {"name": "Sleep", "parameters": {"duration": "100s"}}`))))
			// As soon as the step is parked; the job that wakes it then finds the time spent.
			for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
				tag, err := b.store.API.Exec(t.Context(), c.spend, id)
				if err != nil {
					t.Fatal(err)
				}
				if tag.RowsAffected() == 1 {
					tick.Stop()
					break
				}
			}
			if view, _ := b.finished(id); view.State != db.TaskStateFailed || !strings.HasPrefix(view.Message, c.message) {
				t.Errorf("%s: %s", view.State, view.Message)
			}
		})
	}
}

func TestCancelStopsARunningTaskAndFreesItsRack(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 1, 0, 1)
	b.script(sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl, Type: hardware.PowerShelf})
	id := b.submit(hardware.PowerOn, r, nil)
	b.await(id, "its first stage", func(e db.Event) bool { return e.Kind == db.EventKindStageStarted })
	if err := b.Tasks.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	view, report := b.finished(id)
	if view.State != db.TaskStateTerminated || view.Message != "Cancelled by user" || view.FinishedAt == nil {
		t.Errorf("%s: %s, finished %v", view.State, view.Message, view.FinishedAt)
	}
	if s := report.Stages[0]; s.Status != task.ReportFailed || s.Error != "Cancelled by user" || s.Steps[0].Error != "Cancelled by user" {
		t.Errorf("the cancelled stage reads %+v", s)
	}
	if report.Stages[2].Status != task.ReportPending || report.Error != "Cancelled by user" {
		t.Errorf("report %+v", report)
	}
	if err := b.Tasks.Cancel(t.Context(), id); err != nil {
		t.Errorf("cancelling again: %v", err)
	}
	b.site.ClearFaults()
	if view, _ := b.finished(b.submit(hardware.PowerOn, r, nil)); view.State != db.TaskStateCompleted {
		t.Errorf("the next task of the rack: %s: %s", view.State, view.Message)
	}
	// Nothing of the cancelled task came after: trays were switched on once, by the second one.
	if got := b.sent(r.components[hardware.Compute][0], hardware.PowerOn); got != 1 {
		t.Errorf("the tray got %d commands, want 1", got)
	}
}

func TestAFinishedTaskCannotBeCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 0, 1)
	id := b.submit(hardware.PowerOn, r, nil)
	b.finished(id)
	if err := b.Tasks.Cancel(t.Context(), id); err == nil || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("got %v, want a refusal that names the task", err)
	}
}

func TestAServerWithoutWorkersLeavesTheWorkToOthers(t *testing.T) {
	t.Parallel()
	idle := newBench(t, func(c *engine.Config) { c.NoWork = true })
	r := idle.addRack("r", 0, 0, 1)
	id := idle.submit(hardware.PowerOn, r, nil)
	idle.await(id, "its creation", func(e db.Event) bool { return e.Kind == db.EventKindTaskCreated })
	worker, err := engine.New(engine.Config{
		Store: idle.store, Managers: idle.site.Managers(), Log: slog.New(slog.DiscardHandler), NodeID: uuid.New(), Speed: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := worker.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if view, _ := idle.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
}
