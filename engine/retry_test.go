package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

// retry goes on with a task and returns the new one and the stage it begins with.
func (b *bench) retry(r task.Retry) (uuid.UUID, int) {
	b.t.Helper()
	id, stage, err := b.Tasks.Retry(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	return id, stage
}

// fails fails the test unless a retry is refused with a kind and in words.
func (b *bench) fails(name string, r task.Retry, kind fault.Kind, words ...string) {
	b.t.Helper()
	count := func() int {
		return value[int](b, "SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM event) + (SELECT count(*) FROM river_job)")
	}
	before := count()
	id, _, err := b.Tasks.Retry(b.t.Context(), r)
	if err == nil {
		b.t.Errorf("%s: task %s retries it", name, id)
		return
	}
	if fault.KindOf(err) != kind {
		b.t.Errorf("%s: %v (%s), want %s", name, err, fault.KindOf(err), kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			b.t.Errorf("%s: %q does not name %q", name, err, w)
		}
	}
	if count() != before {
		b.t.Errorf("%s: the refused retry has left something behind", name)
	}
}

// arrivals counts the commands that arrived at each type of component of a rack, one of a type.
func (b *bench) arrivals(r rack, op hardware.PowerOperation) string {
	b.t.Helper()
	return fmt.Sprintf("shelf %d, switch %d, tray %d", b.sent(r.shelves()[0], op), b.sent(r.switches()[0], op), b.sent(r.trays()[0], op))
}

func statuses(report task.Report) string {
	var all []string
	for _, stage := range report.Stages {
		var steps []string
		for _, s := range stage.Steps {
			steps = append(steps, string(s.Status))
		}
		all = append(all, fmt.Sprintf("%d %s (%s)", stage.Number, stage.Status, strings.Join(steps, " ")))
	}
	return strings.Join(all, ", ")
}

// threeStages powers the shelf on, then tray and switch at once, and then each again.
func threeStages() string {
	return rule(stage(1, "PowerShelf", mainPower), stage(3, "Compute", mainPower), stage(3, "NVSwitch", mainPower),
		stage(7, "PowerShelf", mainPower), stage(7, "NVSwitch", mainPower))
}

// TestARetryDoesWhatIsLeft fails a task somewhere, once, and looks at what the retry sends.
func TestARetryDoesWhatIsLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	refuse := func(kind hardware.ComponentType, after int) sim.Fault {
		return sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl, Type: kind, After: after, Times: 1}
	}
	for name, c := range map[string]struct {
		fault  sim.Fault
		before string // commands the first task sends
		stage  int
		after  string
		report string
	}{
		"from the beginning": {
			refuse(hardware.PowerShelf, 0), "shelf 1, switch 0, tray 0", 1, "shelf 3, switch 2, tray 1",
			"1 completed (completed), 3 completed (completed completed), 7 completed (completed completed)",
		},
		"from the middle of a stage": {
			refuse(hardware.Compute, 0), "shelf 1, switch 1, tray 1", 3, "shelf 2, switch 2, tray 2",
			"1 skipped (skipped), 3 completed (completed skipped), 7 completed (completed completed)",
		},
		"from the last stage": {
			refuse(hardware.PowerShelf, 1), "shelf 2, switch 2, tray 1", 7, "shelf 3, switch 2, tray 1",
			"1 skipped (skipped), 3 skipped (skipped skipped), 7 completed (completed skipped)",
		},
	} {
		r := b.addRack(name, 1, 1, 1)
		b.site.ClearFaults()
		b.script(c.fault)
		req := request(hardware.PowerOn, b.addRule(threeStages()), r.all()...)
		req.Description = "night shift"
		failed := b.ask(req)
		if v, _ := b.finished(failed); v.State != db.TaskStateFailed {
			t.Fatalf("%s: %s: %s", name, v.State, v.Message)
		}
		if got := b.arrivals(r, hardware.PowerOn); got != c.before {
			t.Errorf("%s: before the retry: %s, want %s", name, got, c.before)
		}
		id, stage := b.retry(task.Retry{TaskID: failed})
		v, report := b.finished(id)
		if stage != c.stage || v.State != db.TaskStateCompleted || v.Description != "night shift" || v.RetryOf == nil || *v.RetryOf != failed {
			t.Errorf("%s: from stage %d: %s: %s, %q, retry of %v", name, stage, v.State, v.Message, v.Description, v.RetryOf)
		}
		if v.AppliedRuleID == nil || *v.AppliedRuleID != *req.RuleID {
			t.Errorf("%s: rule %v, want %s", name, v.AppliedRuleID, req.RuleID)
		}
		if got := b.arrivals(r, hardware.PowerOn); got != c.after {
			t.Errorf("%s: after the retry: %s, want %s", name, got, c.after)
		}
		if got := statuses(report); got != c.report {
			t.Errorf("%s: report %s, want %s", name, got, c.report)
		}
		for _, link := range []uuid.UUID{failed, id} {
			p, err := b.Tasks.Plan(t.Context(), link)
			if err != nil {
				t.Fatal(err)
			}
			if link == failed && (p.RetriedBy == nil || *p.RetriedBy != id || p.RetryOf != nil) || link == id && (p.RetryOf == nil || *p.RetryOf != failed || p.RetriedBy != nil) {
				t.Errorf("%s: %s is a retry of %v and retried by %v", name, link, p.RetryOf, p.RetriedBy)
			}
		}
		b.fails(name, task.Retry{TaskID: failed}, fault.KindPrecondition, "retried already", id.String())
		b.fails(name, task.Retry{TaskID: id}, fault.KindPrecondition, "completed")
	}
}

// TestARetryOfARetryDoesWhatIsLeftOfBoth has the first task fail in its second stage and the second in its third.
func TestARetryOfARetryDoesWhatIsLeftOfBoth(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 1, 1, 1)
	b.script(sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl, Type: hardware.Compute, Times: 1},
		sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl, Type: hardware.PowerShelf, After: 1, Times: 1})
	first := b.ask(request(hardware.PowerOn, b.addRule(threeStages()), r.all()...))
	b.finished(first)
	second, _ := b.retry(task.Retry{TaskID: first})
	b.finished(second)
	b.is(second, db.TaskStateFailed)
	third, stage := b.retry(task.Retry{TaskID: second, Description: new("last try"), OverrideReadiness: new(true)})
	v, report := b.finished(third)
	if v.State != db.TaskStateCompleted || v.Description != "last try" || stage != 7 {
		t.Errorf("from stage %d: %s: %s, %q", stage, v.State, v.Message, v.Description)
	}
	if got, want := statuses(report), "1 skipped (skipped), 3 skipped (skipped skipped), 7 completed (completed skipped)"; got != want {
		t.Errorf("report %s, want %s", got, want)
	}
	if got, want := b.arrivals(r, hardware.PowerOn), "shelf 3, switch 2, tray 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.fails("the first", task.Retry{TaskID: first}, fault.KindPrecondition, "retried already", second.String())
}

// TestACancelledTaskIsRetriedOnceItsDriverHasStopped cancels it while the command of its second stage hangs.
func TestACancelledTaskIsRetriedOnceItsDriverHasStopped(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 1, 1)
	id := b.ask(request(hardware.PowerOn, b.addRule(rule(patient("PowerShelf", mainPower), strings.Replace(patient("NVSwitch", mainPower), `"stage": 1`, `"stage": 2`, 1))), r.all()...))
	close(g.next())
	open := g.next()
	b.cancel(id)
	again, stage := b.retry(task.Retry{TaskID: id})
	b.is(again, db.TaskStatePending)
	close(open)
	close(g.next())
	v, report := b.finished(again)
	if v.State != db.TaskStateCompleted || stage != 2 || statuses(report) != "1 skipped (skipped), 2 completed (completed)" {
		t.Errorf("from stage %d: %s: %s: %s", stage, v.State, v.Message, statuses(report))
	}
	if n := b.sent(r.shelves()[0], hardware.PowerOn); n != 1 {
		t.Errorf("the command of the first stage arrived %d times, want once", n)
	}
}

func TestTasksThatNeverStartedAreRetriedWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	for name, end := range map[string]func(active, id uuid.UUID){
		"cancelled before its start": func(active, id uuid.UUID) { b.cancel(active); b.cancel(id) },
		"cancelled in the queue":     func(active, id uuid.UUID) { b.cancel(id); b.cancel(active) },
		"expired in the queue": func(active, id uuid.UUID) {
			b.exec("UPDATE task SET queue_expires_at = now() - interval '1 second' WHERE id = $1", id)
			b.sweep()
			b.cancel(active)
		},
		"failed at its promotion": func(active, id uuid.UUID) {
			b.exec(`UPDATE operation_rule SET definition = '{"steps": []}' WHERE id = (SELECT (request->>'rule_id')::uuid FROM task_plan WHERE task_id = $1)`, id)
			b.cancel(active)
			b.is(id, db.TaskStateFailed)
		},
	} {
		r := b.addRack(name, 1, 0, 1)
		active := b.ask(request(hardware.Restart, nil, r.all()...))
		id := b.ask(request(hardware.PowerOn, b.addRule(rule(stage(2, "Compute", mainPower))), r.all()...))
		end(active, id)
		again, stage := b.retry(task.Retry{TaskID: id})
		b.is(again, db.TaskStatePending, task.MessagePending)
		plan := func(id uuid.UUID) string {
			return value[string](b, "SELECT plan::text FROM task_plan WHERE task_id = $1", id)
		}
		if d := cmp.Diff(plan(id), plan(again)); d != "" || stage != 2 {
			t.Errorf("%s: from stage %d; plan (-first +retry):\n%s", name, stage, d)
		}
	}
}

// A task that failed because its rule had been deleted must not carry that rule out after all.
func TestARetryDoesNotReviveADeletedRule(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 1, 0, 1)
	active := b.ask(request(hardware.Restart, nil, r.all()...))
	deleted := b.addRule(rule(stage(2, "Compute", mainPower)))
	id := b.ask(request(hardware.PowerOn, deleted, r.all()...))
	b.exec("DELETE FROM operation_rule WHERE id = $1", *deleted)
	b.cancel(active)
	b.is(id, db.TaskStateFailed)
	_, _, err := b.Tasks.Retry(t.Context(), task.Retry{TaskID: id})
	if fault.KindOf(err) != fault.KindPrecondition || !strings.Contains(err.Error(), deleted.String()) {
		t.Errorf("got %v, want a precondition that names the rule", err)
	}
}

// TestRetriesThatAreRefused ends a task on a rack of two trays and a shelf, changes something, and retries it.
func TestRetriesThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	b.addRack("elsewhere", 0, 0, 0)
	unknown := uuid.New()
	b.fails("unknown", task.Retry{TaskID: unknown}, fault.KindNotFound, unknown.String())
	const set = "UPDATE component SET "
	for name, c := range map[string]struct {
		change string // of the tray $1, in the rack $2
		kind   fault.Kind
		words  []string // TRAY is the tray
	}{
		"a tray is deleted":             {set + "deleted_at = now() WHERE id = $1 AND rack_id = $2", fault.KindPrecondition, []string{"TRAY", "no longer in the rack"}},
		"a tray is purged":              {"DELETE FROM component WHERE id = $1 AND rack_id = $2", fault.KindPrecondition, []string{"TRAY", "no longer in the rack"}},
		"a tray is moved":               {set + "rack_id = (SELECT id FROM rack WHERE name = 'elsewhere') WHERE id = $1 AND rack_id = $2", fault.KindPrecondition, []string{"TRAY", "no longer in the rack"}},
		"a tray is in no rack":          {set + "rack_id = NULL WHERE id = $1 AND rack_id = $2", fault.KindPrecondition, []string{"TRAY", "no longer in the rack"}},
		"a tray has another id":         {set + "external_id = 'swapped' WHERE id = $1 AND rack_id = $2", fault.KindPrecondition, []string{"TRAY", `"swapped"`}},
		"a tray has lost its id":        {set + "external_id = NULL WHERE id = $1 AND rack_id = $2", fault.KindPrecondition, []string{"TRAY", `""`}},
		"a tray has a MAC it had not":   {"INSERT INTO bmc (mac, type, component_id, rack_id) VALUES ('02:00:00:00:00:07', 'HOST', $1, $2)", fault.KindPrecondition, []string{"TRAY", "02:00:00:00:00:07"}},
		"the rack is deleted":           {"WITH c AS (UPDATE component SET deleted_at = now() WHERE rack_id = $2 AND $1::uuid IS NOT NULL) UPDATE rack SET deleted_at = now() WHERE id = $2", fault.KindPrecondition, []string{"TRAY"}},
		"the task is running":           {"", fault.KindPrecondition, []string{"is running"}},
		"the task has completed":        {"", fault.KindPrecondition, []string{"is completed"}},
		"the plan is of a newer Flow":   {`UPDATE task_plan SET plan = '{"version": 99}' WHERE task_id = (SELECT id FROM task WHERE rack_id = $2 AND $1::uuid IS NOT NULL)`, fault.KindPrecondition, []string{"cannot be read"}},
		"another task is on the rack":   {"", fault.KindPrecondition, []string{"conflicts with pending task"}},
		"another task waits there":      {"", fault.KindPrecondition, []string{"conflicts with"}},
		"the queue of the rack is full": {"", fault.KindExhausted, []string{"queue", "5/5"}},
	} {
		r := b.addRack(name, 2, 0, 1)
		tray := r.trays()[0]
		id := b.ask(request(hardware.PowerOn, nil, r.all()...))
		retry := task.Retry{TaskID: id}
		switch name {
		case "the task is running", "the task has completed":
			b.exec("UPDATE task SET state = 'running', started_at = now() WHERE id = $1", id)
			if name == "the task has completed" {
				b.exec("UPDATE task SET state = 'completed', finished_at = now() WHERE id = $1", id)
			}
		default:
			b.cancel(id)
		}
		if c.change != "" {
			b.exec(c.change, tray, r.id)
		}
		switch name {
		case "another task is on the rack":
			b.ask(request(hardware.PowerOff, nil, r.trays()...))
		case "another task waits there":
			b.ask(request(hardware.PowerOff, nil, r.trays()...))
			b.ask(request(hardware.PowerOff, nil, r.shelves()...))
		case "the queue of the rack is full":
			for range 6 {
				b.ask(request(hardware.PowerOff, nil, r.trays()...))
			}
			retry.Queue = time.Hour
		}
		for i, w := range c.words {
			if w == "TRAY" {
				c.words[i] = tray.String()
			}
		}
		b.fails(name, retry, c.kind, c.words...)
	}
}

// TestAWaitingRetryKeepsItsPlan edits the rule of a retry that waits, which does not matter to it, or changes what is in
// the rack, which does.
func TestAWaitingRetryKeepsItsPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	for name, c := range map[string]struct {
		change string // of the rule $1 and the rack $2
		rule   bool   // the applied rule is still there
		state  db.TaskState
	}{
		"nothing changes":       {"", true, db.TaskStatePending},
		"the rule is edited":    {`UPDATE operation_rule SET definition = '{}' WHERE id = $1 AND $2::uuid IS NOT NULL`, true, db.TaskStatePending},
		"the rule is deleted":   {`DELETE FROM operation_rule WHERE id = $1 AND $2::uuid IS NOT NULL`, false, db.TaskStatePending},
		"a component has gone":  {"UPDATE component SET deleted_at = now() WHERE rack_id = $2 AND type = 'Compute' AND $1::uuid IS NOT NULL", false, db.TaskStateFailed},
		"a component is linked": {"UPDATE component SET external_id = 'other' WHERE rack_id = $2 AND type = 'Compute' AND $1::uuid IS NOT NULL", false, db.TaskStateFailed},
	} {
		r := b.addRack(name, 1, 0, 1)
		asked := b.addRule(rule(stage(2, "Compute", mainPower), stage(5, "PowerShelf", mainPower)))
		id := b.ask(request(hardware.PowerOn, asked, r.all()...))
		b.cancel(id)
		active := b.ask(request(hardware.Restart, nil, r.all()...))
		retry, stage := b.retry(task.Retry{TaskID: id, Queue: 2 * time.Hour})
		v := b.view(retry)
		b.is(retry, db.TaskStateWaiting, task.MessageQueued)
		if wait := v.QueueExpiresAt.Sub(v.CreatedAt).Round(time.Minute); wait != 2*time.Hour || stage != 2 {
			t.Errorf("%s: it may wait %s, from stage %d", name, wait, stage)
		}
		if c.change != "" {
			b.exec(c.change, *asked, r.id)
		}
		b.cancel(active)
		b.is(retry, c.state)
		v = b.view(retry)
		if c.rule != (v.AppliedRuleID != nil && *v.AppliedRuleID == *asked) {
			t.Errorf("%s: the applied rule is %v", name, v.AppliedRuleID)
		}
		if c.state == db.TaskStatePending && !value[bool](b, "SELECT a.plan::jsonb = b.plan::jsonb FROM task_plan AS a, task_plan AS b WHERE a.task_id = $1 AND b.task_id = $2", id, retry) {
			t.Errorf("%s: its plan has changed", name)
		}
	}
}

func TestOfManyRetriesAtOnceOneIsMade(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	for name, queue := range map[string]time.Duration{"that are refused": 0, "that may wait": time.Hour} {
		r := b.addRack(name, 0, 0, 1)
		id := b.ask(request(hardware.PowerOn, nil, r.all()...))
		b.cancel(id)
		errs := make([]error, 20)
		ids := make([]uuid.UUID, len(errs))
		var done sync.WaitGroup
		begin := make(chan struct{})
		for i := range errs {
			done.Go(func() {
				<-begin
				ids[i], _, errs[i] = b.Tasks.Retry(t.Context(), task.Retry{TaskID: id, Queue: queue})
			})
		}
		close(begin)
		done.Wait()
		made := value[uuid.UUID](b, "SELECT id FROM task WHERE retry_of = $1", id)
		n := 0
		for i, err := range errs {
			switch {
			case err == nil:
				if n++; ids[i] != made {
					t.Errorf("%s: task %s was answered, and is %s", name, ids[i], made)
				}
			case fault.KindOf(err) != fault.KindPrecondition || !strings.Contains(err.Error(), "retried already") || !strings.Contains(err.Error(), made.String()):
				t.Errorf("%s: %v (%s), want that task %s retries it", name, err, fault.KindOf(err), made)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d retries were made", name, n)
		}
	}
}
