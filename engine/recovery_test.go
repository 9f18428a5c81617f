package engine_test

import (
	"fmt"
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

// patient is a step of stage 1 whose time is not over before the test's: 200 s at the speed of the tests.
func patient(kind, rest string) string {
	return strings.Replace(stage(1, kind, rest), `"timeout": "20s"`, `"timeout": "20000s"`, 1)
}

const (
	mainReset  = `"main_operation": {"name": "PowerControl", "parameters": {"operation": "force_restart"}}`
	mainSleep  = `"main_operation": {"name": "Sleep", "parameters": {"duration": "10000s"}}`
	longVerify = `"post_operation": [{"name": "VerifyPowerStatus", "timeout": "20000s", "poll_interval": "1s",
		"parameters": {"expected_status": "on"}}]`
)

func idle(c *engine.Config) { c.NoWork = true }

// step reads the row of the only step a task has opened.
func (b *bench) step(id uuid.UUID) db.TaskStep {
	b.t.Helper()
	steps, err := db.New(b.store.API).StepListByTasks(b.t.Context(), db.StepListByTasksParams{TaskIds: []uuid.UUID{id}})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(steps) != 1 {
		b.t.Fatalf("task %s has %d steps", id, len(steps))
	}
	return steps[0]
}

// parked waits until nobody drives the step of a running task and a job is to wake it.
func (b *bench) parked(id uuid.UUID) {
	b.t.Helper()
	b.until("the step to be parked", func() bool {
		return value[bool](b, "SELECT EXISTS (SELECT FROM task_step WHERE task_id = $1 AND node IS NULL AND epoch > 0 AND state = 'running')", id)
	})
}

// orphan stamps a task's step with a node that is no more, as a driver that has died leaves it.
func (b *bench) orphan(id uuid.UUID) {
	b.t.Helper()
	b.exec("UPDATE task_step SET node = gen_random_uuid() WHERE task_id = $1 AND node IS NOT NULL", id)
}

// starterEnded waits until the job that started a task has ended, and with it the drive from it.
func (b *bench) starterEnded(id uuid.UUID) {
	b.t.Helper()
	b.until("the end of the first driver", func() bool {
		return value[bool](b, "SELECT river_job.state = 'completed' FROM river_job JOIN task ON task.job_id = river_job.id WHERE task.id = $1", id)
	})
}

func TestAStepOfANodeThatIsNoMoreIsFinishedUnderANewEpoch(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 1)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", mainPower+","+longVerify))))
	first := g.next()
	b.orphan(id)
	b.join(idle)
	// The same node takes it again: nothing but the epoch keeps the two drivers apart.
	second := g.next()
	if step := b.step(id); step.Epoch != 1 || step.Node == nil {
		t.Errorf("the step is driven by %v in epoch %d, want the live node in epoch 1", step.Node, step.Epoch)
	}
	close(first)
	b.starterEnded(id)
	if step := b.step(id); step.Action != 0 || step.Completed != 0 || step.Epoch != 1 || step.State != db.StepStateRunning {
		t.Errorf("the former driver has recorded something: %+v", step)
	}
	close(second)
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if got := b.sent(r.components[hardware.PowerShelf][0], hardware.PowerOn); got != 2 {
		t.Errorf("the command arrived %d times, want 2", got)
	}
}

func TestAResetInFlightWhenItsNodeWasLostIsNotSentAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 1)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", mainReset))))
	first := g.next()
	b.orphan(id)
	b.join(idle)
	view, _ := b.finished(id)
	if view.State != db.TaskStateFailed || !strings.Contains(view.Message, "outcome unknown: the server stopped while it was sent") {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	close(first)
	b.starterEnded(id)
	if got := b.sent(r.components[hardware.PowerShelf][0], hardware.ForceRestart); got != 1 {
		t.Errorf("the command arrived %d times, want 1", got)
	}
	if step := b.step(id); step.State != db.StepStateFailed || step.Completed != 0 {
		t.Errorf("the former driver has changed the outcome: %+v", step)
	}
}

func TestANodeTakenForDeadComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 0, 1)
	shelf := r.components[hardware.PowerShelf][0]
	b.script(sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl, Times: 1})
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", mainPower))))
	b.until("the command that hangs", func() bool { return b.sent(shelf, hardware.PowerOn) == 1 })
	b.exec("DELETE FROM node")
	// The call that hangs would do so for 200 s more, and nobody else is there to finish the step.
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if n := value[int](b, "SELECT count(*) FROM node"); n != 1 {
		t.Errorf("%d nodes are registered, want 1", n)
	}
	if got := b.sent(shelf, hardware.PowerOn); got != 2 {
		t.Errorf("the command arrived %d times, want 2", got)
	}
}

func TestAStepThatItsNodeDoesNotDriveIsGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
	r := b.addRack("r", 0, 0, 1)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", mainSleep))))
	b.parked(id)
	before := b.step(id).Epoch
	// As when the answer to a claim's commit is lost.
	b.exec("UPDATE task_step SET node = (SELECT incarnation FROM node), action_started_at = now() - interval '1 hour' WHERE task_id = $1", id)
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if got := b.step(id).Epoch; got != before+1 {
		t.Errorf("the step was finished in epoch %d, want %d", got, before+1)
	}
}

func TestAStepWhoseWakeUpIsLostIsWoken(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
	r := b.addRack("r", 0, 0, 1)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", mainSleep))))
	b.parked(id)
	before := b.step(id).Epoch
	b.exec("DELETE FROM river_job WHERE id = (SELECT job_id FROM task_step WHERE task_id = $1)", id)
	b.exec("UPDATE task_step SET due_at = now() - interval '1 hour', action_started_at = now() - interval '2 hours' WHERE task_id = $1", id)
	b.join(idle)
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if got := b.step(id).Epoch; got != before+1 {
		t.Errorf("the step was finished in epoch %d, want %d", got, before+1)
	}
}

func TestATaskWhoseStartIsLostIsStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	id := b.submit(hardware.PowerOn, b.addRack("r", 0, 0, 1), nil)
	b.exec("DELETE FROM river_job WHERE id = (SELECT job_id FROM task WHERE id = $1)", id)
	b.exec("UPDATE task SET updated_at = now() - interval '1 hour' WHERE id = $1", id)
	b.join(func(c *engine.Config) { c.NoWork = false })
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
}

func TestAnErrorOfTheDatabaseIsNotTheStepsFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	// A statement that was cancelled, and a plan that a migration has made invalid: each is met once by a checkpoint and
	// once by an end.
	_, err := b.store.API.Exec(t.Context(), `
		CREATE SEQUENCE met_checkpoint;
		CREATE SEQUENCE met_end;
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE code text := ('{57014,0A000}'::text[])[nextval('met_' || TG_ARGV[0])];
		BEGIN
			IF code IS NOT NULL THEN
				RAISE EXCEPTION 'refused by the test' USING ERRCODE = code;
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse_checkpoint BEFORE UPDATE ON task_step
			FOR EACH ROW WHEN (OLD.action = 0 AND NEW.action = 1 AND NEW.state = 'running') EXECUTE FUNCTION refuse('checkpoint');
		CREATE TRIGGER refuse_end BEFORE UPDATE ON task_step
			FOR EACH ROW WHEN (OLD.action = 0 AND NEW.action = 1 AND NEW.state = 'completed') EXECUTE FUNCTION refuse('end')`)
	if err != nil {
		t.Fatal(err)
	}
	// A step of one action has no checkpoint.
	refused := []*uuid.UUID{
		b.addRule(rule(patient("PowerShelf", mainPower+","+longVerify))),
		b.addRule(rule(patient("PowerShelf", mainPower))),
	}
	var racks []rack
	var ids []uuid.UUID
	for i := range 4 {
		racks = append(racks, b.addRack(fmt.Sprint("r", i), 0, 0, 1))
		ids = append(ids, b.submit(hardware.PowerOn, racks[i], refused[i/2]))
	}
	for i, id := range ids {
		if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
			t.Errorf("task %d: %s: %s", i, view.State, view.Message)
		}
		// A look finds the shelf on: the command is not sent again.
		if got := b.sent(racks[i].components[hardware.PowerShelf][0], hardware.PowerOn); got != 1 {
			t.Errorf("task %d: the command arrived %d times, want 1", i, got)
		}
	}
	for _, what := range []string{"checkpoint", "end"} {
		if met := value[int](b, "SELECT last_value FROM met_"+what); met < 4 {
			t.Errorf("%d writes of a %s were tried, want 2 that are refused and 2 that are not", met, what)
		}
	}
}

func TestADriverStopsThoughItIsNotToldOfTheCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 0, 2)
	shelves := r.components[hardware.PowerShelf]
	b.script(sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl})
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", `"max_parallel": 1, `+mainPower))))
	b.until("the command that hangs", func() bool { return b.sent(shelves[0], hardware.PowerOn) == 1 })
	b.exec("UPDATE task SET state = 'terminated', message = 'Cancelled by user', finished_at = now() WHERE id = $1", id)
	b.until("the driver to let go", func() bool { return b.step(id).Node == nil })
	b.starterEnded(id)
	for i, want := range []int{1, 0} {
		if got := b.sent(shelves[i], hardware.PowerOn); got != want {
			t.Errorf("shelf %d got the command %d times, want %d", i, got, want)
		}
	}
	if step := b.step(id); step.State != db.StepStateRunning || step.Epoch != 0 {
		t.Errorf("the driver has recorded more than that it stopped: %+v", step)
	}
}

func TestReachabilityThatWasFoundIsRememberedWhileParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
	r := b.addRack("r", 0, 1, 1)
	b.script(
		sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerStatus, Type: hardware.NVSwitch, Times: 1},
		sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerStatus, Type: hardware.PowerShelf, After: 1})
	// The shelf is found by the first look, and never again; the switch by the second.
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(stage(1, "PowerShelf", mainPower+`, "post_operation": [{"name": "VerifyReachability",
		"timeout": "1000s", "poll_interval": "100s", "parameters": {"component_types": ["PowerShelf", "NVSwitch"], "require_all": true}}]`))))
	b.parked(id)
	b.exec("UPDATE river_job SET state = 'available', scheduled_at = now() WHERE id = (SELECT job_id FROM task_step WHERE task_id = $1)", id)
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
}

func TestCountersStayWithinTheTotalAfterATakeover(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 0, 3)
	// Until the fault is cleared each driver that has the step stays with its second action.
	b.script(sim.Fault{Kind: sim.WrongState, Call: hardware.CapPowerStatus})
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", mainPower+","+longVerify))))
	b.await(id, "the end of the first action", func(e db.Event) bool { return e.Kind == db.EventKindStepProgress })
	b.orphan(id)
	b.join(idle)
	b.until("the takeover", func() bool { step := b.step(id); return step.Epoch == 1 && step.Node != nil })
	b.site.ClearFaults()
	view, report := b.finished(id)
	if view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if s := report.Stages[0].Steps[0]; s.Completed != 3 || s.Failed != 0 || s.Total != 3 {
		t.Errorf("the report counts %d completed and %d failed of %d", s.Completed, s.Failed, s.Total)
	}
	b.await(id, "its end", func(e db.Event) bool {
		if e.Completed+e.Failed > e.Total {
			t.Errorf("%s counts %d completed and %d failed of %d", e.Kind, e.Completed, e.Failed, e.Total)
		}
		return task.Terminal(e.State)
	})
}
