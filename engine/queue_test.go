package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// request is for an operation on components of racks, that may wait for an hour.
func request(op hardware.PowerOperation, rule *uuid.UUID, components ...uuid.UUID) task.Request {
	req := task.Request{Operation: operation(op), RuleID: rule, Queue: time.Hour}
	for _, id := range components {
		req.Scope.Components = append(req.Scope.Components, inventory.ComponentRef{ID: id})
	}
	return req
}

// ask submits what must be admitted on one rack and returns the task's id.
func (b *bench) ask(req task.Request) uuid.UUID {
	b.t.Helper()
	sub, err := b.Tasks.Submit(b.t.Context(), req)
	if err != nil || len(sub.TaskIDs) != 1 {
		b.t.Fatalf("%d tasks, %v", len(sub.TaskIDs), err)
	}
	return sub.TaskIDs[0]
}

func (b *bench) view(id uuid.UUID) task.View {
	b.t.Helper()
	views, err := b.Tasks.Get(b.t.Context(), []uuid.UUID{id})
	if err != nil {
		b.t.Fatal(err)
	}
	return views[0]
}

// is fails the test unless a task is in a state with a message that holds every word.
func (b *bench) is(id uuid.UUID, state db.TaskState, words ...string) {
	b.t.Helper()
	v := b.view(id)
	if v.State != state {
		b.t.Errorf("task %s is %s (%s), want %s", id, v.State, v.Message, state)
	}
	for _, w := range words {
		if !strings.Contains(v.Message, w) {
			b.t.Errorf("task %s: message %q lacks %q", id, v.Message, w)
		}
	}
	if (v.State == db.TaskStateWaiting) != (v.QueueExpiresAt != nil) {
		b.t.Errorf("task %s is %s and expires at %v", id, v.State, v.QueueExpiresAt)
	}
}

func (b *bench) cancel(id uuid.UUID) {
	b.t.Helper()
	if err := b.Tasks.Cancel(b.t.Context(), id); err != nil {
		b.t.Fatal(err)
	}
}

func (r rack) trays() []uuid.UUID    { return r.components[hardware.Compute] }
func (r rack) switches() []uuid.UUID { return r.components[hardware.NVSwitch] }
func (r rack) shelves() []uuid.UUID  { return r.components[hardware.PowerShelf] }

// together fails the test unless one transaction has ended a task and promoted another.
func (b *bench) together(ended, promoted uuid.UUID) {
	b.t.Helper()
	if !value[bool](b, `SELECT e.xmin::text = p.xmin::text AND e.id < p.id FROM event AS e, event AS p
		WHERE e.task_id = $1 AND e.kind = 'task_finished' AND p.task_id = $2 AND p.state = 'pending' AND p.message = $3`,
		ended, promoted, task.MessagePromoted) {
		b.t.Errorf("task %s ended in another transaction than task %s was promoted in", ended, promoted)
	}
}

func TestWhateverEndsATaskPromotesTheNextInItsTransaction(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	never := `"post_operation": [{"name": "VerifyPowerStatus", "timeout": "1s", "poll_interval": "1s", "parameters": {"expected_status": "off"}}]`
	for name, c := range map[string]struct {
		rule string
		want db.TaskState
	}{
		"success of its only step": {rule(patient("PowerShelf", mainPower)), db.TaskStateCompleted},
		"success of one of two":    {rule(patient("PowerShelf", mainPower), stage(1, "Compute", `"main_operation": {"name": "GetPowerStatus", "timeout": "20s"}`)), db.TaskStateCompleted},
		"failure":                  {rule(patient("PowerShelf", mainPower+","+never)), db.TaskStateFailed},
	} {
		r := b.addRack(name, 1, 0, 1)
		first := b.ask(request(hardware.PowerOn, b.addRule(c.rule), r.all()...))
		open := g.next()
		next := b.ask(request(hardware.PowerOff, nil, r.trays()...))
		b.is(next, db.TaskStateWaiting, task.MessageQueued)
		close(open)
		b.finished(first)
		b.is(first, c.want)
		b.together(first, next)
		close(g.next())
		if v, _ := b.finished(next); v.State != db.TaskStateCompleted {
			t.Errorf("%s: the next task: %s: %s", name, v.State, v.Message)
		}
	}
}

// TestATaskThatCannotBeScheduledFailsAndLetsTheNextGo has a plan that a newer Flow has written (D-30.14).
func TestATaskThatCannotBeScheduledFailsAndLetsTheNextGo(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 0, 0, 1)
	first := b.ask(request(hardware.PowerOn, nil, r.all()...))
	next := b.ask(request(hardware.PowerOff, nil, r.all()...))
	b.exec(`UPDATE task_plan SET plan = json_build_object('version', 99, 'stages', plan->'stages') WHERE task_id = $1`, first)
	b.join(func(c *engine.Config) { c.NoWork = false })
	b.await(first, "its end", func(e db.Event) bool { return e.Kind == db.EventKindTaskFinished })
	if state := value[string](b, "SELECT state || ': ' || message FROM task WHERE id = $1", first); !strings.HasPrefix(state, "failed: stored plan: plan version 99") {
		t.Error(state)
	}
	b.together(first, next)
	if v, _ := b.finished(next); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
}

func TestWhichWaitingTasksArePromoted(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	tray := func(n int) func(rack) []uuid.UUID { return func(r rack) []uuid.UUID { return r.trays()[n : n+1] } }
	whole, switches, shelves := rack.all, rack.switches, rack.shelves
	for name, c := range map[string]struct {
		waiting []func(rack) []uuid.UUID // in the order they came
		change  string                   // of the rack's tasks
		want    string                   // numbers of those that are promoted, in the order of their promotion
	}{
		"the oldest alone, when the next conflicts with it": {[]func(rack) []uuid.UUID{whole, whole}, "", "0"},
		"all that get along":                                       {[]func(rack) []uuid.UUID{tray(0), switches, tray(1)}, "", "0 1 2"},
		"none behind one that conflicts with one ahead":            {[]func(rack) []uuid.UUID{tray(0), tray(0), tray(1)}, "", "0"},
		"those ahead of one that conflicts":                        {[]func(rack) []uuid.UUID{tray(0), tray(1), shelves, switches}, "", "0 1"},
		"by id, when they came at the same time":                   {[]func(rack) []uuid.UUID{whole, whole, whole}, "UPDATE task SET created_at = now() WHERE rack_id = $1 AND state = 'waiting'", "smallest id"},
		"the one that came first, whatever its id":                 {[]func(rack) []uuid.UUID{whole, whole, whole}, "UPDATE task SET created_at = created_at + interval '1 hour' WHERE id = (SELECT min(id::text)::uuid FROM task WHERE rack_id = $1 AND state = 'waiting')", "not the smallest id"},
		"the next, when the time of the first is over":             {[]func(rack) []uuid.UUID{whole, tray(0), whole}, "UPDATE task SET queue_expires_at = now() - interval '1 second' WHERE id = (SELECT id FROM task WHERE rack_id = $1 AND state = 'waiting' ORDER BY created_at LIMIT 1)", "1"},
		"one behind another that conflicts and whose time is over": {[]func(rack) []uuid.UUID{tray(0), whole, tray(1)}, "UPDATE task SET queue_expires_at = now() - interval '1 second' WHERE id = (SELECT id FROM task WHERE rack_id = $1 AND state = 'waiting' ORDER BY created_at LIMIT 1 OFFSET 1)", "0 2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.addRack(name, 2, 1, 1)
			active := b.ask(request(hardware.Restart, nil, r.all()...))
			var ids []uuid.UUID
			for _, targets := range c.waiting {
				ids = append(ids, b.ask(request(hardware.PowerOff, nil, targets(r)...)))
				b.is(ids[len(ids)-1], db.TaskStateWaiting)
			}
			if c.change != "" {
				b.exec(c.change, r.id)
			}
			smallest := slices.MinFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
			want := strings.NewReplacer("not the smallest id", fmt.Sprint(map[bool]int{true: 1, false: 0}[smallest == ids[0]]),
				"smallest id", fmt.Sprint(slices.Index(ids, smallest))).Replace(c.want)

			b.cancel(active)

			var got []string
			for _, id := range value[[]uuid.UUID](b, `SELECT coalesce(array_agg(task_id ORDER BY id), '{}') FROM event
				WHERE rack_id = $1 AND state = 'pending' AND message = $2`, r.id, task.MessagePromoted) {
				got = append(got, fmt.Sprint(slices.Index(ids, id)))
				b.together(active, id)
				b.is(id, db.TaskStatePending, task.MessagePromoted)
			}
			if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
				t.Errorf("promoted (-want +got):\n%s", d)
			}
			for i, id := range ids {
				if !slices.Contains(got, fmt.Sprint(i)) && b.view(id).State == db.TaskStatePending {
					t.Errorf("task %d is pending without having been promoted", i)
				}
			}
		})
	}
}

// TestWhatCountsIsWhatThereIsWhenATaskIsPromoted changes something while a task waits to power a rack of three trays and a
// shelf on, and one behind it to power it off.
func TestWhatCountsIsWhatThereIsWhenATaskIsPromoted(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	other := b.addRack("elsewhere", 0, 0, 0)
	trays := func(stages ...int) string {
		var steps []string
		for _, n := range stages {
			steps = append(steps, stage(n, "Compute", mainPower))
		}
		return rule(steps...)
	}
	bind := func(rack, rule uuid.UUID) {
		b.exec("INSERT INTO rack_rule (rack_id, operation_type, operation_code, rule_id) VALUES ($1, 'power_control', 'power_on', $2)", rack, rule)
	}
	for name, c := range map[string]struct {
		explicit string // definition of the rule the task asks for; "": none
		bound    string // of one that is associated with the rack at first
		change   func(r rack, asked *uuid.UUID)
		rule     string   // the applied rule: asked, bound or ""
		stages   string   // of the plan
		left     int      // trays in the plan
		failed   []string // words of the message; nil: the task is promoted
	}{
		"nothing, the built-in rule": {change: func(rack, *uuid.UUID) {}, stages: "1 2 3", left: 3},
		"nothing, a rule it asks for": {
			explicit: trays(4, 5), change: func(rack, *uuid.UUID) {}, rule: "asked", stages: "4 5", left: 3,
		},
		"the rule it asks for is edited": {
			explicit: trays(4, 5), rule: "asked", stages: "7", left: 3,
			change: func(_ rack, asked *uuid.UUID) {
				b.exec("UPDATE operation_rule SET definition = $2::jsonb WHERE id = $1", *asked, trays(7))
			},
		},
		"the rule it asks for is deleted": {
			explicit: trays(4), failed: []string{"rule", "ASKED", "deleted"},
			change: func(_ rack, asked *uuid.UUID) { b.exec("DELETE FROM operation_rule WHERE id = $1", *asked) },
		},
		"a rule is associated with the rack": {
			rule: "bound", stages: "6", left: 3,
			change: func(r rack, _ *uuid.UUID) { bind(r.id, *b.addRule(trays(6))) },
		},
		"a rule is associated with the rack of one that asks for another": {
			explicit: trays(4), rule: "asked", stages: "4", left: 3,
			change: func(r rack, _ *uuid.UUID) { bind(r.id, *b.addRule(trays(6))) },
		},
		"the association ends": {
			bound: trays(6), stages: "1 2 3", left: 3,
			change: func(r rack, _ *uuid.UUID) { b.exec("DELETE FROM rack_rule WHERE rack_id = $1", r.id) },
		},
		"the associated rule is deleted": {
			bound: trays(6), stages: "1 2 3", left: 3,
			change: func(r rack, _ *uuid.UUID) {
				b.exec("DELETE FROM operation_rule WHERE id = (SELECT rule_id FROM rack_rule WHERE rack_id = $1)", r.id)
			},
		},
		"the rule has no step for what is targeted any more": {
			explicit: trays(4), failed: []string{"no step applies", "Compute", "ASKED"},
			change: func(_ rack, asked *uuid.UUID) {
				b.exec("UPDATE operation_rule SET definition = $2::jsonb WHERE id = $1", *asked, rule(stage(1, "CDU", mainPower)))
			},
		},
		"the rule has no steps any more": {
			explicit: trays(4), failed: []string{"no steps", "ASKED"},
			change: func(_ rack, asked *uuid.UUID) {
				b.exec("UPDATE operation_rule SET definition = '{}' WHERE id = $1", *asked)
			},
		},
		"the rule is unreadable": {
			explicit: trays(4), failed: []string{"ASKED", "cannot be used"},
			change: func(_ rack, asked *uuid.UUID) {
				b.exec(`UPDATE operation_rule SET definition = '{"version": "v9"}' WHERE id = $1`, *asked)
			},
		},
		"a tray is deleted": {
			stages: "1 2 3", left: 2,
			change: func(r rack, _ *uuid.UUID) {
				b.exec("UPDATE component SET deleted_at = now() WHERE id = $1", r.trays()[1])
			},
		},
		"a tray is purged": {
			stages: "1 2 3", left: 2,
			change: func(r rack, _ *uuid.UUID) { b.exec("DELETE FROM component WHERE id = $1", r.trays()[1]) },
		},
		"a tray is moved and another is out of any rack": {
			stages: "1 2 3", left: 1,
			change: func(r rack, _ *uuid.UUID) {
				b.exec("UPDATE component SET rack_id = CASE WHEN id = $1 THEN $3::uuid END WHERE id IN ($1, $2)", r.trays()[0], r.trays()[2], other.id)
			},
		},
		"a tray comes": {
			stages: "1 2 3", left: 3,
			change: func(r rack, _ *uuid.UUID) {
				b.exec("INSERT INTO component (id, type, name, external_id, rack_id) VALUES (gen_random_uuid(), 'Compute', 'new', gen_random_uuid(), $1)", r.id)
			},
		},
		"all are deleted": {
			failed: []string{"no component of the task is left", "TRAY", "SHELF"},
			change: func(r rack, _ *uuid.UUID) { b.exec("UPDATE component SET deleted_at = now() WHERE rack_id = $1", r.id) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.addRack(name, 3, 0, 1)
			var asked *uuid.UUID
			if c.explicit != "" {
				asked = b.addRule(c.explicit)
			}
			if c.bound != "" {
				bind(r.id, *b.addRule(c.bound))
			}
			active := b.ask(request(hardware.Restart, nil, r.all()...))
			id := b.ask(request(hardware.PowerOn, asked, r.all()...))
			behind := b.ask(request(hardware.PowerOff, nil, r.trays()[:1]...))
			if v := b.view(id); v.State != db.TaskStateWaiting || v.AppliedRuleID != nil || v.JobID != nil {
				t.Errorf("while it waits: %s, rule %v, job %v", v.State, v.AppliedRuleID, v.JobID)
			}
			before := b.view(id).ComponentIDs
			c.change(r, asked)

			b.cancel(active)

			v := b.view(id)
			if d := cmp.Diff(before, v.ComponentIDs); d != "" || len(before) != 4 {
				t.Errorf("%d component ids have changed: %s", len(before), d)
			}
			if c.failed != nil {
				if v.State != db.TaskStateFailed || v.AppliedRuleID != nil {
					t.Errorf("%s, rule %v", v.State, v.AppliedRuleID)
				}
				for _, w := range c.failed {
					switch w {
					case "ASKED":
						w = asked.String()
					case "TRAY":
						w = r.trays()[0].String()
					case "SHELF":
						w = r.shelves()[0].String()
					}
					if !strings.Contains(v.Message, w) {
						t.Errorf("message %q lacks %q", v.Message, w)
					}
				}
				if got := value[string](b, "SELECT string_agg(kind || ' ' || state, ', ' ORDER BY id) FROM event WHERE task_id = $1", id); got != "task_created waiting, task_message pending, task_finished failed" {
					t.Errorf("events: %s", got)
				}
				// The rack is not blocked: whoever is behind goes on, or has nothing left either.
				if got := b.view(behind).State; got != db.TaskStatePending && name != "all are deleted" || got == db.TaskStateWaiting {
					t.Errorf("the task behind is %s", got)
				}
				return
			}
			var want *uuid.UUID
			switch c.rule {
			case "asked":
				want = asked
			case "bound":
				want = new(value[uuid.UUID](b, "SELECT rule_id FROM rack_rule WHERE rack_id = $1", r.id))
			}
			if d := cmp.Diff(want, v.AppliedRuleID); d != "" || v.State != db.TaskStatePending || v.JobID == nil {
				t.Errorf("%s: %s, job %v, rule (-want +got):\n%s", v.State, v.Message, v.JobID, d)
			}
			stages := value[string](b, "SELECT string_agg(s->>'number', ' ') FROM task_plan, json_array_elements(plan->'stages') AS s WHERE task_id = $1", id)
			left := value[int](b, "SELECT json_array_length(plan->'components'->'Compute') FROM task_plan WHERE task_id = $1", id)
			if stages != c.stages || left != c.left {
				t.Errorf("the plan has stages %s and %d trays, want %s and %d", stages, left, c.stages, c.left)
			}
			b.is(behind, db.TaskStateWaiting)
		})
	}
}

func TestTheDefaultRuleOfTheMomentGovernsAPromotedTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 0, 0, 1)
	active := b.ask(request(hardware.Restart, nil, r.all()...))
	id := b.ask(request(hardware.PowerOn, nil, r.all()...))
	standard := b.addRule(rule(stage(9, "PowerShelf", mainPower)))
	b.exec("UPDATE operation_rule SET is_default = true WHERE id = $1", *standard)
	b.cancel(active)
	if v := b.view(id); v.State != db.TaskStatePending || v.AppliedRuleID == nil || *v.AppliedRuleID != *standard {
		t.Errorf("%s, rule %v, want %s", v.State, v.AppliedRuleID, standard)
	}
}

func TestAComponentThatLeftWhileItsTaskWaitedGetsNoCommand(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 3)
	shelves := b.addRule(rule(patient("PowerShelf", mainPower)))
	b.ask(request(hardware.PowerOn, shelves, r.shelves()...))
	open := g.next()
	id := b.ask(request(hardware.PowerOff, shelves, r.shelves()...))
	b.exec("UPDATE component SET deleted_at = now() WHERE id = $1", r.shelves()[1])
	close(open)
	close(g.next())
	v, report := b.finished(id)
	if v.State != db.TaskStateCompleted || len(v.ComponentIDs) != 3 {
		t.Errorf("%s: %s, %d components", v.State, v.Message, len(v.ComponentIDs))
	}
	if s := report.Stages[0].Steps[0]; s.Total != 2 || s.Completed != 2 {
		t.Errorf("%d of %d components, want 2 of 2", s.Completed, s.Total)
	}
	for i, want := range []int{1, 0, 1} {
		if got := b.sent(r.shelves()[i], hardware.PowerOff); got != want {
			t.Errorf("shelf %d got the command %d times, want %d", i, got, want)
		}
	}
}

// TestANodeThatJoinsLooksAfterQueues has wake-ups be lost in several ways.
func TestANodeThatJoinsLooksAfterQueues(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	wait := func(name string) (active, waiting uuid.UUID) {
		r := b.addRack(name, 0, 0, 1)
		return b.ask(request(hardware.PowerOn, nil, r.all()...)), b.ask(request(hardware.PowerOff, nil, r.all()...))
	}
	ended, next := wait("ended")
	b.exec("UPDATE task SET state = 'terminated', finished_at = now() WHERE id = $1", ended)
	_, late := wait("late")
	b.exec("UPDATE task SET queue_expires_at = now() - interval '1 minute' WHERE id = $1", late)
	busy, patient := wait("busy")
	b.exec("DELETE FROM river_job")
	b.join(idle)
	b.until("the look at the queues", func() bool { return value[int](b, "SELECT count(*) FROM task WHERE state = 'waiting'") == 1 })
	b.is(next, db.TaskStatePending, task.MessagePromoted)
	b.is(late, db.TaskStateTerminated, task.MessageExpired)
	b.is(busy, db.TaskStatePending)
	b.is(patient, db.TaskStateWaiting, task.MessageQueued)
	if n := value[int](b, "SELECT count(*) FROM river_job JOIN task ON task.job_id = river_job.id WHERE task.id = $1", next); n != 1 {
		t.Errorf("the promoted task has %d jobs", n)
	}
}

// TestATaskKeepsItsOperationWhileItWaits has one of each type wait, with what was asked for beside it (D-30.3).
func TestATaskKeepsItsOperationWhileItWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	for _, op := range []rules.Operation{
		operation(hardware.ForcePowerOff),
		{Type: rules.TaskBringUp, Code: rules.CodeBringUp},
		{Type: rules.TaskBringUp, Code: rules.CodeIngest},
		{Type: rules.TaskDecommission, Code: rules.CodeDecommission},
	} {
		r := b.addRack(op.Code, 1, 1, 1)
		active := b.ask(request(hardware.PowerOn, nil, r.all()...))
		req := request(hardware.PowerOn, nil, r.all()...)
		req.Operation, req.Description, req.Options = op, "d", task.Options{Forced: true, OverrideReadiness: true}
		id := b.ask(req)
		before := b.view(id)
		b.cancel(active)
		v := b.view(id)
		if v.Operation != before.Operation || v.OperationCode != op.Code || v.OperationType != string(op.Type) || v.Description != "d" || v.State != db.TaskStatePending {
			t.Errorf("%s: %s, %q: %s", op, v.State, v.Operation, v.Message)
		}
		if got := value[string](b, "SELECT (plan->'operation'->>'code') || ' ' || (request->>'forced') || ' ' || (request->>'override_readiness_check') FROM task_plan WHERE task_id = $1", id); got != op.Code+" true true" {
			t.Errorf("%s is stored as %s", op, got)
		}
	}
}

// TestTasksThatExcludeEachOtherAreNeverActiveAtOnce has many submit and cancel tasks for the whole of one rack (D-30.11).
func TestTasksThatExcludeEachOtherAreNeverActiveAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.NoWork, c.Tasks.QueueLimit = true, 100 })
	r := b.addRack("r", 0, 0, 1)
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			var mine []uuid.UUID
			for n := range 8 {
				sub, err := b.Tasks.Submit(t.Context(), request(hardware.PowerOn, nil, r.shelves()...))
				if err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, sub.TaskIDs...)
				if (n+i)%3 > 0 {
					if err := b.Tasks.Cancel(t.Context(), mine[0]); err != nil {
						t.Error(err)
					}
					mine = mine[1:]
				}
			}
		})
	}
	done.Wait()
	// Events of a rack are in the order in which it was locked.
	most := value[int](b, `SELECT max(active) FROM (
		SELECT sum((state = 'pending')::integer - (kind = 'task_finished' AND was = 'pending')::integer) OVER (ORDER BY id) AS active FROM (
			SELECT id, kind, state, lag(state) OVER (PARTITION BY task_id ORDER BY id) AS was FROM event) AS e) AS a`)
	if most != 1 {
		t.Errorf("%d tasks were active at a time", most)
	}
	active := value[int](b, "SELECT count(*) FROM task WHERE state = 'pending'")
	waiting := value[int](b, "SELECT count(*) FROM task WHERE state = 'waiting'")
	if counted := value[int](b, "SELECT waiting FROM rack WHERE id = $1", r.id); active != 1 || waiting == 0 || counted != waiting {
		t.Errorf("in the end %d tasks are active, %d wait, and the rack counts %d", active, waiting, counted)
	}
}

// TestAReportTellsOfSingleComponentsWhereTheSiteWantsIt has one of three shelves refuse (D-30.25).
func TestAReportTellsOfSingleComponentsWhereTheSiteWantsIt(t *testing.T) {
	t.Parallel()
	for name, wanted := range map[string]bool{"it does": true, "by default it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *engine.Config) { c.Tasks.ReportComponents = wanted })
			r := b.addRack("r", 0, 0, 3)
			b.script(sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl, Component: r.shelves()[1], Text: "interlock open"})
			_, report := b.finished(b.ask(request(hardware.PowerOn, b.addRule(rule(patient("PowerShelf", `"max_parallel": 2, `+mainPower))), r.shelves()...)))
			var got []string
			for i, c := range report.Stages[0].Steps[0].Components {
				if c.ID != r.shelves()[i] {
					t.Errorf("component %s in place %d", c.ID, i)
				}
				got = append(got, fmt.Sprintf("%s %s", c.Status, c.Error))
			}
			var want []string
			if wanted {
				want = []string{"completed ", "failed interlock open", "pending "}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("components (-want +got):\n%s", d)
			}
		})
	}
}

func TestTheSameRequestFindsItsTaskWhateverHasChangedSince(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 1, 0, 1)
	asked := b.addRule(rule(stage(1, "Compute", mainPower)))
	req := request(hardware.PowerOn, asked, r.all()...)
	req.IdempotencyKey = "again"
	id := b.ask(req)
	b.exec("DELETE FROM operation_rule WHERE id = $1", *asked)
	b.unlink(r.trays()[0])
	if again := b.ask(req); again != id {
		t.Errorf("got task %s, want %s", again, id)
	}
	if n := value[int](b, "SELECT count(*) FROM task"); n != 1 {
		t.Errorf("there are %d tasks", n)
	}
}

func TestARackThatSomebodyHoldsKeepsNoNodeFromStarting(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 0, 0, 1)
	b.ask(request(hardware.PowerOn, nil, r.all()...))
	b.ask(request(hardware.PowerOff, nil, r.all()...))
	tx, err := b.store.API.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT FROM rack WHERE id = $1 FOR UPDATE", r.id)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	b.join(idle)
}
