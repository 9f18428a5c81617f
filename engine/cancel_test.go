package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
)

// hanging is a bench with a rack of a shelf and a tray, on which the command of a task that was cancelled hangs; closing
// the channel ends the call.
func hanging(t *testing.T, change func(*engine.Config)) (b *bench, r rack, g gate, cancelled uuid.UUID, open chan<- struct{}) {
	t.Helper()
	g = newGate(t)
	b = newBench(t, func(c *engine.Config) {
		intercept(c, g.control)
		if change != nil {
			change(c)
		}
	})
	r = b.addRack("r", 1, 0, 1)
	cancelled = b.ask(request(hardware.PowerOn, b.addRule(rule(patient("PowerShelf", mainPower))), r.shelves()...))
	return b, r, g, cancelled, g.next()
}

// TestTheNextTaskWaitsForTheDriverOfACancelledOne is D-30.19.
func TestTheNextTaskWaitsForTheDriverOfACancelledOne(t *testing.T) {
	t.Parallel()
	b, r, g, cancelled, open := hanging(t, nil)
	next := b.ask(request(hardware.PowerOff, nil, r.shelves()...))
	b.cancel(cancelled)
	b.is(cancelled, db.TaskStateTerminated, task.MessageCancelled)
	b.sweep() // no pass lets it go
	b.is(next, db.TaskStateWaiting, task.MessageQueued)
	close(open)
	close(g.next())
	if v, _ := b.finished(next); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	// It went on as soon as the driver had stopped, not when the minute was over.
	b.is(cancelled, db.TaskStateTerminated, task.MessageCancelled)
	if waited := b.view(next).StartedAt.Sub(*b.view(cancelled).FinishedAt); waited > 20*time.Second {
		t.Errorf("it waited for %s", waited)
	}
}

// TestTheNextTaskWaitsForAMinuteAtMost has the task begin to wait before the cancellation or after it; somebody has to come
// back when the minute is over.
func TestTheNextTaskWaitsForAMinuteAtMost(t *testing.T) {
	t.Parallel()
	for name, scene := range map[string]func(b *bench, r rack, cancelled uuid.UUID) (next uuid.UUID){
		"behind the cancelled task": func(b *bench, r rack, cancelled uuid.UUID) uuid.UUID {
			next := b.ask(request(hardware.PowerOff, nil, r.shelves()...))
			b.cancel(cancelled)
			return next
		},
		"behind one that came after the cancellation": func(b *bench, r rack, cancelled uuid.UUID) uuid.UUID {
			b.cancel(cancelled)
			between := b.ask(request(hardware.PowerOff, nil, r.shelves()...))
			next := b.ask(request(hardware.PowerOff, nil, r.shelves()...))
			b.is(between, db.TaskStatePending)
			b.cancel(between)
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r, g, cancelled, open := hanging(t, nil)
			next := scene(b, r, cancelled)
			b.is(next, db.TaskStateWaiting)
			over := b.view(cancelled).FinishedAt.Add(time.Minute)
			due := value[time.Time](b, "SELECT coalesce(max(scheduled_at), 'epoch') FROM river_job WHERE kind = 'rack_release' AND state <> 'completed'")
			if due.Before(over) || due.Sub(over) > time.Second {
				t.Errorf("a pass is due at %s, want it at %s, when the minute is over", due, over)
			}
			// The minute passes.
			b.exec("UPDATE task SET finished_at = finished_at - interval '1 minute' WHERE id = $1", cancelled)
			b.exec("UPDATE river_job SET scheduled_at = now(), state = 'available' WHERE kind = 'rack_release'")
			close(g.next())
			if v, _ := b.finished(next); v.State != db.TaskStateCompleted {
				t.Errorf("%s: %s", v.State, v.Message)
			}
			close(open)
		})
	}
}

func TestTasksMayOverlapWhereTheSiteWantsIt(t *testing.T) {
	t.Parallel()
	b, r, g, cancelled, open := hanging(t, func(c *engine.Config) { c.Tasks.AllowOverlap = true })
	next := b.ask(request(hardware.PowerOff, nil, r.shelves()...))
	b.cancel(cancelled)
	b.together(cancelled, next)
	close(g.next())
	if v, _ := b.finished(next); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	close(open)
}

// TestCancellingWhatWaitsOrHasNotStartedLetsTheNextGo cancels each of three tasks of a rack: the one that is to start, one
// that waits for it, and one that waits for that one.
func TestCancellingWhatWaitsOrHasNotStartedLetsTheNextGo(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	for name, c := range map[string]struct {
		cancel int
		want   []db.TaskState
	}{
		"the one that is to start": {0, []db.TaskState{db.TaskStateTerminated, db.TaskStatePending, db.TaskStateWaiting}},
		"the one that is next":     {1, []db.TaskState{db.TaskStatePending, db.TaskStateTerminated, db.TaskStatePending}},
		"the last":                 {2, []db.TaskState{db.TaskStatePending, db.TaskStateWaiting, db.TaskStateTerminated}},
	} {
		r := b.addRack(name, 2, 0, 1)
		ids := []uuid.UUID{
			b.ask(request(hardware.PowerOn, nil, r.trays()[0])),
			b.ask(request(hardware.PowerOn, nil, r.shelves()...)),
			b.ask(request(hardware.PowerOn, nil, r.trays()[1])), // minds the shelf alone
		}
		b.cancel(ids[c.cancel])
		var got []db.TaskState
		for _, id := range ids {
			got = append(got, b.view(id).State)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		v := b.view(ids[c.cancel])
		if v.Message != task.MessageCancelled || v.FinishedAt == nil || v.Report != "" {
			t.Errorf("%s: %q, finished at %v, report %q", name, v.Message, v.FinishedAt, v.Report)
		}
		if n := value[int](b, "SELECT count(*) FROM river_job JOIN task ON task.job_id = river_job.id WHERE task.id = $1 AND river_job.state <> 'cancelled'", ids[c.cancel]); n != 0 {
			t.Errorf("%s: its job is still to run", name)
		}
		if c.cancel == 1 {
			b.together(ids[1], ids[2])
		}
		events := value[int](b, "SELECT count(*) FROM event WHERE rack_id = $1", r.id)
		b.cancel(ids[c.cancel]) // again: nothing changes
		if again := b.view(ids[c.cancel]); !again.UpdatedAt.Equal(v.UpdatedAt) || value[int](b, "SELECT count(*) FROM event WHERE rack_id = $1", r.id) != events {
			t.Errorf("%s: cancelling it again has changed something", name)
		}
	}
}

// TestTheReportOfACancelledTaskIsFinal cancels a task in its second stage, of whose two steps one has ended (D-30.18).
func TestTheReportOfACancelledTaskIsFinal(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 1, 1, 1)
	second := func(kind string) string {
		return strings.Replace(patient(kind, mainPower), `"stage": 1`, `"stage": 2`, 1)
	}
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(
		patient("PowerShelf", mainPower), second("Compute"), second("NVSwitch"), stage(3, "PowerShelf", mainPower), stage(4, "CDU", mainPower))))
	close(g.next())
	close(g.next())
	open := g.next()
	b.await(id, "the end of one step of two", func(e db.Event) bool { return e.Kind == db.EventKindStepFinished && e.Stage == 2 })
	b.cancel(id)
	v, report := b.finished(id)
	if v.State != db.TaskStateTerminated || v.Message != task.MessageCancelled || report.Error != task.MessageCancelled {
		t.Errorf("%s: %s; report: %s", v.State, v.Message, report.Error)
	}
	var got []task.ReportStatus
	for i, s := range report.Stages {
		got = append(got, s.Status)
		if want := []string{"", task.MessageCancelled, "", ""}[i]; s.Error != want {
			t.Errorf("stage %d: error %q, want %q", s.Number, s.Error, want)
		}
		if ended := s.FinishedAt != nil; ended != (i < 2) || (s.StartedAt != nil) != (i < 2) {
			t.Errorf("stage %d: started at %v, finished at %v", s.Number, s.StartedAt, s.FinishedAt)
		}
	}
	if d := cmp.Diff([]task.ReportStatus{task.ReportCompleted, task.ReportFailed, task.ReportPending, task.ReportSkipped}, got); d != "" {
		t.Errorf("stages (-want +got):\n%s", d)
	}
	how := map[task.ReportStatus]task.StepReport{}
	for _, s := range report.Stages[1].Steps {
		how[s.Status] = s
		if s.FinishedAt == nil {
			t.Errorf("the step of %s has no end", s.ComponentType)
		}
	}
	if how[task.ReportCompleted].Error != "" || how[task.ReportFailed].Error != task.MessageCancelled || len(how) != 2 {
		t.Errorf("steps of the second stage: %+v", report.Stages[1].Steps)
	}
	// What the interrupted driver learns later changes nothing.
	close(open)
	b.until("the drivers to stop", func() bool {
		return value[bool](b, "SELECT NOT EXISTS (SELECT FROM task_step WHERE task_id = $1 AND node IS NOT NULL)", id)
	})
	late, again := b.finished(id)
	if d := cmp.Diff(report, again); d != "" || late.State != v.State || !late.UpdatedAt.Equal(v.UpdatedAt) {
		t.Errorf("%s at %s, was %s at %s; report (-before +after):\n%s", late.State, late.UpdatedAt, v.State, v.UpdatedAt, d)
	}
}
