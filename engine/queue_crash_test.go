package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
)

// wait submits a task that has to wait for the rack.
func (b *bench) wait(r rack, rule *uuid.UUID, queue time.Duration) uuid.UUID {
	b.t.Helper()
	sub, err := b.Tasks.Submit(b.t.Context(), task.Request{
		Operation: operation(hardware.PowerOn), Scope: inventory.Scope{Racks: []inventory.RackRef{{ID: r.id}}}, RuleID: rule, Queue: queue,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if got := b.state(sub.TaskIDs[0]); got != db.TaskStateWaiting {
		b.t.Fatalf("the task is %s, want it to wait", got)
	}
	return sub.TaskIDs[0]
}

func (b *bench) state(id uuid.UUID) db.TaskState {
	b.t.Helper()
	return value[db.TaskState](b, "SELECT state FROM task WHERE id = $1", id)
}

// locked counts the sessions that wait for a lock.
func (b *bench) locked() int {
	b.t.Helper()
	return value[int](b, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

// hold makes updates of steps for which the condition holds wait until release is called.
func (b *bench) hold(condition string) (release func()) {
	b.t.Helper()
	ctx := b.t.Context()
	conn, err := pgx.ConnectConfig(ctx, b.store.API.Config().ConnConfig)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(ctx, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
		CREATE TRIGGER hold BEFORE UPDATE ON task_step FOR EACH ROW WHEN (`+condition+`) EXECUTE FUNCTION hold();
		SELECT pg_advisory_lock(1)`); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock(1)"); err != nil {
			b.t.Error(err)
		}
	}
}

// Whether the tasks that wait go on at once depends on whether somebody drives the cancelled one. A cancel that does not
// see a claim lets them start beside it; one that does not see that the driver has stopped leaves them to wait for nothing.
func TestACancelIsNotBlindToAStepThatIsJustClaimedOrParked(t *testing.T) {
	t.Parallel()
	for name, condition := range map[string]string{
		"claimed": "OLD.node IS NULL AND NEW.node IS NOT NULL",
		"parked":  "OLD.node IS NOT NULL AND NEW.node IS NULL AND NEW.state = 'running'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
			r := b.addRack("r", 0, 0, 1)
			sleeps := b.addRule(rule(patient("PowerShelf", mainSleep)))
			var release func()
			if name == "parked" {
				release = b.hold(condition)
			}
			id := b.submit(hardware.PowerOn, r, sleeps)
			if name == "claimed" {
				b.parked(id)
				release = b.hold(condition)
				b.exec("UPDATE river_job SET state = 'available', scheduled_at = now() WHERE id = (SELECT job_id FROM task_step WHERE task_id = $1)", id)
			}
			b.until("the step to be "+name, func() bool { return b.locked() == 1 })
			next := b.wait(r, b.addRule(rule(stage(1, "PowerShelf", mainPower))), time.Hour)
			done := make(chan error, 1)
			go func() { done <- b.Tasks.Cancel(t.Context(), id) }()
			b.until("the cancel", func() bool { return len(done) > 0 || b.locked() == 2 })
			if len(done) > 0 {
				t.Errorf("the task was cancelled without a look at what was done with its step; the next one is %s", b.state(next))
			}
			release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			b.await(next, "its promotion", func(e db.Event) bool { return e.Kind == db.EventKindTaskMessage })
			if view, _ := b.finished(next); view.State != db.TaskStateCompleted {
				t.Errorf("%s: %s", view.State, view.Message)
			}
			b.until("the driver to let go", func() bool { return b.step(id).Node == nil })
		})
	}
}

func TestADriverThatIsCutOffWhileItRecordsTheEndOfAStepLetsGo(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 1)
	// The last command is followed by an end that looks at the rack first.
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("PowerShelf", mainPower))))
	command := g.next()
	tx, err := b.store.API.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT FROM rack WHERE id = $1 FOR UPDATE", r.id)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	close(command)
	b.until("the end of the step to wait for the rack", func() bool { return b.locked() > 0 })
	b.exec("UPDATE task SET state = 'terminated', message = 'Cancelled by user', finished_at = now() WHERE id = $1", id)
	b.exec("SELECT pg_notify('flow_task_end', $1)", id.String())
	b.until("the driver to let go", func() bool { return b.step(id).Node == nil })
	if step := b.step(id); step.State != db.StepStateRunning || step.Epoch != 0 {
		t.Errorf("the driver has recorded more than that it stopped: %+v", step)
	}
}

func TestATaskExpiresThoughTheJobThatWasToEndItIsLost(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 1)
	shelves := b.addRule(rule(patient("PowerShelf", mainPower)))
	b.submit(hardware.PowerOn, r, shelves)
	defer close(g.next())
	id := b.wait(r, shelves, time.Minute)
	b.exec("DELETE FROM river_job WHERE kind = 'task_expire'")
	b.exec("UPDATE task SET queue_expires_at = now() WHERE id = $1", id)
	began := time.Now()
	view, _ := b.finished(id)
	if view.State != db.TaskStateTerminated || view.Message != task.MessageExpired {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if late := view.FinishedAt.Sub(began); late > 5*time.Second {
		t.Errorf("it expired %s late", late)
	}
}

func TestTasksThatWaitForADriverGoOnWhenItsNodeIsTakenForDead(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 1)
	shelves := b.addRule(rule(patient("PowerShelf", mainPower)))
	id := b.submit(hardware.PowerOn, r, shelves)
	defer close(g.next())
	next := b.wait(r, shelves, time.Hour)
	// As if another node drove it, which does not hear of the cancel and is not heard of again.
	dead := uuid.New()
	b.exec("INSERT INTO node (incarnation, node_id, host, version) VALUES ($1, $1, 'dead', '')", dead)
	b.exec("UPDATE task_step SET node = $2 WHERE task_id = $1", id, dead)
	if err := b.Tasks.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := b.state(next); got != db.TaskStateWaiting {
		t.Fatalf("the next task is %s while the cancelled one is driven", got)
	}
	b.exec("UPDATE node SET heartbeat_at = now() - interval '1 hour' WHERE incarnation = $1", dead)
	close(g.next())
	if view, _ := b.finished(next); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if step := b.step(id); step.Node != nil {
		t.Error("the step of the cancelled task is still stamped")
	}
}
