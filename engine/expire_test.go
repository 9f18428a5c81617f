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
	"rackflow.dev/flow/store/db"
)

// occupied is a rack on whose shelf a task works for longer than the test takes.
func (b *bench) occupied(name string, trays int) rack {
	b.t.Helper()
	r := b.addRack(name, trays, 0, 1)
	id := b.ask(request(hardware.PowerOn, b.addRule(rule(patient("PowerShelf", mainSleep))), r.shelves()...))
	b.await(id, "its start", func(e db.Event) bool { return e.State == db.TaskStateRunning })
	return r
}

// expires waits until a task's time in the queue is over, and fails the test when it is told so late.
func (b *bench) expires(id uuid.UUID, due time.Time) {
	b.t.Helper()
	e := b.await(id, "its expiry", func(e db.Event) bool { return task.Terminal(e.State) })
	if e.State != db.TaskStateTerminated || e.Message != task.MessageExpired {
		b.t.Errorf("%s: %s", e.State, e.Message)
	}
	if late := e.At.Sub(due); late < 0 || late > time.Second {
		b.t.Errorf("a task whose time was over at %s was ended %s after that", due, late)
	}
	if n := value[int](b, "SELECT count(*) FROM task_step WHERE task_id = $1", id); n != 0 {
		b.t.Errorf("%d steps of it were opened", n)
	}
	if v := b.view(id); v.StartedAt != nil || v.Report != "" || v.FinishedAt == nil {
		b.t.Errorf("started at %v, finished at %v, report %q", v.StartedAt, v.FinishedAt, v.Report)
	}
}

// TestAWaitingTaskExpiresInTime has deadlines before, at and behind what a job waits for by itself (D-30.13).
func TestAWaitingTaskExpiresInTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.occupied("r", 2)
	due := map[uuid.UUID]time.Time{}
	for _, timeout := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 12 * time.Second} {
		req := request(hardware.PowerOff, nil, r.shelves()...)
		req.Queue = timeout
		before := time.Now()
		id := b.ask(req)
		due[id] = *b.view(id).QueueExpiresAt
		if off := due[id].Sub(before); off < timeout || off > timeout+time.Second {
			t.Errorf("a task that may wait %s expires after %s", timeout, off)
		}
	}
	for id, at := range due {
		b.expires(id, at)
	}
	if n := b.sent(r.shelves()[0], hardware.PowerOff); n != 0 {
		t.Errorf("%d commands were sent for tasks that have expired", n)
	}
}

// TestManyShortWaitsDoNotHoldUpAShorterOne has more tasks wait for some seconds than there are workers for them.
func TestManyShortWaitsDoNotHoldUpAShorterOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for i := range 3 {
		r := b.occupied(fmt.Sprint("r", i), 0)
		for range 4 {
			req := request(hardware.PowerOff, nil, r.shelves()...)
			req.Queue = 9 * time.Second
			b.ask(req)
		}
	}
	req := request(hardware.PowerOff, nil, b.occupied("last", 0).shelves()...)
	req.Queue = time.Second
	id := b.ask(req)
	b.expires(id, *b.view(id).QueueExpiresAt)
}

// TestTheNextGoesOnWhenTheTimeOfTheFirstIsOver has it wait for nothing but the first.
func TestTheNextGoesOnWhenTheTimeOfTheFirstIsOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 2, 0, 1)
	b.finished(b.ask(request(hardware.PowerOn, nil, r.shelves()...))) // which feeds the trays
	active := b.ask(request(hardware.PowerOn, b.addRule(rule(patient("Compute", mainSleep))), r.trays()[0]))
	b.await(active, "its start", func(e db.Event) bool { return e.State == db.TaskStateRunning })
	req := request(hardware.PowerOff, nil, r.shelves()...)
	req.Queue = time.Second
	head := b.ask(req)
	due := *b.view(head).QueueExpiresAt
	next := b.ask(request(hardware.PowerOn, nil, r.trays()[1]))
	b.is(next, db.TaskStateWaiting)
	b.expires(head, due)
	b.together(head, next)
	if v, _ := b.finished(next); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	b.is(active, db.TaskStateRunning)
}

// unlink takes what a component is addressed by from it.
func (b *bench) unlink(id uuid.UUID) {
	b.t.Helper()
	b.exec("UPDATE component SET external_id = NULL WHERE id = $1", id)
}

// TestATaskWhoseTargetsHaveLostTheirLinkageWaitsOn has three tasks wait for a rack, the first two for a tray that can't be
// addressed when their turn comes.
func TestATaskWhoseTargetsHaveLostTheirLinkageWaitsOn(t *testing.T) {
	t.Parallel()
	const waits, expired, full = "Waiting for target linkage: ", "Expired: target linkage unavailable before queue timeout: ",
		"Terminated: rack waiting queue is full while target linkage is unavailable (2/1 tasks): "
	b := newBench(t, idle)
	for name, c := range map[string]struct {
		then func(head, tray uuid.UUID)
		head db.TaskState
		text string // begin of the message
		next db.TaskState
	}{
		"nothing happens": {func(_, _ uuid.UUID) {}, db.TaskStateWaiting, waits, db.TaskStateWaiting},
		"a pass finds it as it was": {func(uuid.UUID, uuid.UUID) {
			b.sweep()
			b.sweep()
		}, db.TaskStateWaiting, waits, db.TaskStateWaiting},
		"the tray is linked again": {func(_, tray uuid.UUID) {
			b.exec("UPDATE component SET external_id = id::text WHERE id = $1", tray)
			b.sweep()
		}, db.TaskStatePending, task.MessagePromoted, db.TaskStateWaiting},
		"the tray gets a MAC": {func(_, tray uuid.UUID) {
			b.exec("INSERT INTO bmc (mac, type, component_id) VALUES ('02:00:00:00:00:01', 'HOST', $1)", tray)
			b.sweep()
		}, db.TaskStatePending, task.MessagePromoted, db.TaskStateWaiting},
		"its time is over": {func(head, _ uuid.UUID) {
			b.exec("UPDATE task SET queue_expires_at = now() - interval '1 second' WHERE id = $1", head)
			b.sweep()
		}, db.TaskStateTerminated, expired, db.TaskStateWaiting},
		"the queue is full": {func(_, _ uuid.UUID) {
			b.join(func(c *engine.Config) { c.NoWork, c.Tasks.QueueLimit = true, 1 })
		}, db.TaskStateTerminated, full, db.TaskStateTerminated},
		"the tray is deleted": {func(_, tray uuid.UUID) {
			b.exec("UPDATE component SET deleted_at = now() WHERE id = $1", tray)
			b.sweep()
		}, db.TaskStateFailed, "no component of the task is left", db.TaskStateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.addRack(name, 2, 0, 0)
			tray := r.trays()[0]
			active := b.ask(request(hardware.PowerOn, nil, r.all()...))
			head := b.ask(request(hardware.PowerOff, nil, tray))
			next := b.ask(request(hardware.Restart, nil, tray))
			apart := b.ask(request(hardware.PowerOff, nil, r.trays()[1]))
			due := *b.view(head).QueueExpiresAt
			b.unlink(tray)
			b.cancel(active)
			b.is(head, db.TaskStateWaiting, waits, tray.String())
			if got := *b.view(head).QueueExpiresAt; !got.Equal(due) {
				t.Errorf("its deadline has moved from %s to %s", due, got)
			}
			b.is(next, db.TaskStateWaiting, task.MessageQueued)
			b.is(apart, db.TaskStateWaiting, task.MessageQueued) // behind the next, which conflicts with the first
			c.then(head, tray)
			b.until("the look at the queue", func() bool { return b.state(head) == c.head })
			b.is(head, c.head, c.text)
			b.is(next, c.next)
			if c.text == full || c.text == waits || c.text == expired {
				if v := b.view(head); !strings.HasPrefix(v.Message, c.text) || !strings.Contains(v.Message, tray.String()) {
					t.Errorf("message %q", v.Message)
				}
			}
			if n := value[int](b, "SELECT count(*) FROM event WHERE task_id = $1 AND kind = 'task_message' AND state = 'waiting'", head); n != 1 {
				t.Errorf("watchers were told %d times what it waits for, want once", n)
			}
		})
	}
}

// sweep looks after all queues, as is done every five minutes.
func (b *bench) sweep() {
	b.t.Helper()
	if err := b.Tasks.Sweep(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}
