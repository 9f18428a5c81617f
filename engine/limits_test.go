package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

func TestAnErrorTextThatCannotBeStoredFailsTheStepOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const text, stored = "bmc said \x00 and \xff\xfe", "bmc said ? and ?"
	// The text goes into the results of a component, and of a whole call only into the error.
	for name, c := range map[string]struct {
		main  string
		fault sim.Fault
		sent  int
	}{
		"of a command": {mainPower, sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl, Text: text}, 1},
		"of a query": {
			`"main_operation": {"name": "GetPowerStatus", "timeout": "5s"}`,
			sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerStatus, Type: hardware.PowerShelf, Text: text}, 0,
		},
	} {
		r := b.addRack(name, 0, 0, 1)
		b.site.ClearFaults()
		b.script(c.fault)
		id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", c.main))))
		view, report := b.finished(id)
		if view.State != db.TaskStateFailed || !strings.Contains(view.Message, stored) {
			t.Errorf("%s: %s: %q", name, view.State, view.Message)
		}
		if s := report.Stages[0].Steps[0]; s.Status != task.ReportFailed || !strings.Contains(s.Error, stored) {
			t.Errorf("%s: the step is %s: %q", name, s.Status, s.Error)
		}
		if got := b.sent(r.components[hardware.PowerShelf][0], hardware.PowerOn); got != c.sent {
			t.Errorf("%s: the command arrived %d times, want %d", name, got, c.sent)
		}
		if got := b.step(id).Epoch; got != 0 {
			t.Errorf("%s: the step ended in epoch %d, want 0", name, got)
		}
	}
}

func TestAManagerThatPanicsFailsItsStep(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	b := newBench(t, func(c *engine.Config) {
		intercept(c, func(func() (hardware.Results, error)) (hardware.Results, error) {
			calls.Add(1)
			panic("no such rack")
		})
	})
	id := b.submit(hardware.PowerOn, b.addRack("r", 0, 0, 1), b.addRule(rule(patient("PowerShelf", mainPower))))
	if view, _ := b.finished(id); view.State != db.TaskStateFailed || !strings.Contains(view.Message, "main operation failed: internal error: no such rack") {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if got := calls.Load(); got != 1 {
		t.Errorf("the manager was called %d times, want 1", got)
	}
}

func TestATaskWaitsForTheCallOfACancelledOne(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 1)
	shelves := b.addRule(rule(patient("PowerShelf", mainPower)))
	cancelled := b.submit(hardware.PowerOn, r, shelves)
	hanging := g.next()
	if err := b.Tasks.Cancel(t.Context(), cancelled); err != nil {
		t.Fatal(err)
	}
	id := b.submit(hardware.PowerOff, r, shelves)
	// Its start has looked, and looks again later.
	b.until("the start to wait", func() bool {
		return len(g.waiting) > 0 || value[bool](b, `SELECT coalesce((metadata->>'snoozes')::integer, 0) > 0
			FROM river_job JOIN task ON task.job_id = river_job.id WHERE task.id = $1`, id)
	})
	views, err := b.Tasks.Get(t.Context(), []uuid.UUID{id})
	if err != nil {
		t.Fatal(err)
	}
	if views[0].State != db.TaskStatePending || len(g.waiting) > 0 {
		t.Fatalf("the task is %s and has sent %d commands while the call of a cancelled one hangs", views[0].State, len(g.waiting))
	}
	close(hanging)
	close(g.next())
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if views, err = b.Tasks.Get(t.Context(), []uuid.UUID{cancelled}); err != nil || views[0].State != db.TaskStateTerminated {
		t.Errorf("the cancelled task: %v, %v", views, err)
	}
}

func TestStartsQueueBehindTheStepsOfRunningTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	sleep := `"main_operation": {"name": "Sleep", "parameters": {"duration": "1s"}}`
	req := task.Request{Operation: operation(hardware.PowerOn), RuleID: b.addRule(rule(
		stage(1, "PowerShelf", sleep), stage(2, "PowerShelf", sleep), stage(2, "Compute", sleep)))}
	const tasks = 20
	for i := range tasks {
		req.Scope.Racks = append(req.Scope.Racks, inventory.RackRef{ID: b.addRack(fmt.Sprint("r", i), 1, 0, 1).id})
	}
	sub, err := b.Tasks.Submit(t.Context(), req)
	if err != nil || len(sub.TaskIDs) != tasks {
		t.Fatalf("%d tasks, %v", len(sub.TaskIDs), err)
	}
	b.join(func(c *engine.Config) { c.NoWork, c.Workers = false, 2 })
	for _, id := range sub.TaskIDs {
		if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
			t.Errorf("%s: %s", view.State, view.Message)
		}
	}
	// What is begun is finished first: each worker leaves one step behind for the other at most.
	most := value[int](b, `SELECT max(open) FROM (
		SELECT sum(CASE kind WHEN 'task_started' THEN 1 WHEN 'task_finished' THEN -1 ELSE 0 END) OVER (ORDER BY id) AS open FROM event) AS e`)
	if most > 6 {
		t.Errorf("2 workers had %d tasks running at a time: starts went before the steps of running tasks", most)
	}
}

// between does something after a submission has resolved its rules and before it inserts its tasks.
type between struct {
	task.Jobs
	do func()
}

func (b between) InsertStarts(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID) ([]int64, error) {
	b.do()
	return b.Jobs.InsertStarts(ctx, tx, tasks)
}

func TestARuleDeletedWhileItsTaskIsSubmittedRefusesTheTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 0, 1)
	id := b.addRule(rule(stage(1, "PowerShelf", mainPower)))
	b.Tasks.Jobs = between{b.Tasks.Jobs, func() { b.exec("DELETE FROM operation_rule WHERE id = $1", *id) }}
	_, err := b.Tasks.Submit(t.Context(), task.Request{
		Operation: operation(hardware.PowerOn), Scope: inventory.Scope{Racks: []inventory.RackRef{{ID: r.id}}}, RuleID: id,
	})
	if fault.KindOf(err) != fault.KindPrecondition || !strings.Contains(err.Error(), "deleted meanwhile") {
		t.Errorf("got %v (%s), want a precondition that tells of the rule", err, fault.KindOf(err))
	}
	if n := value[int](b, "SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM event) + (SELECT count(*) FROM river_job WHERE kind = 'task_start')"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestAnEmptyScopeIsInvalidWhateverItsRule(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	unknown := uuid.New()
	_, err := b.Tasks.Submit(t.Context(), task.Request{Operation: operation(hardware.PowerOn), RuleID: &unknown})
	if fault.KindOf(err) != fault.KindInvalid {
		t.Errorf("got %v (%s), want invalid", err, fault.KindOf(err))
	}
}
