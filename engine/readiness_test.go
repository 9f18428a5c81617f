package engine_test

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

// phase records what a synchronisation has last seen of components, so long ago; "" is nothing.
func (b *bench) phase(phase string, age time.Duration, components ...uuid.UUID) {
	b.t.Helper()
	b.exec("UPDATE component SET phase = nullif($1, ''), phase_at = CASE WHEN $1 <> '' THEN now() - $2::interval END WHERE id = ANY ($3)",
		phase, age, components)
}

const (
	holds = "Running: waiting for readiness of 1 components"
	warns = "Running: readiness of 1 components is not known"
)

// messages are what a task has said of itself, one after the other.
func (b *bench) messages(id uuid.UUID) []string {
	b.t.Helper()
	return slices.Compact(value[[]string](b, "SELECT array_agg(message ORDER BY id) FROM event WHERE task_id = $1 AND kind IN ('task_created', 'task_started', 'task_message', 'task_finished')", id))
}

// TestWhichPhasesHoldADisruptiveActionBack powers a tray on that a synchronisation has seen in each phase.
func TestWhichPhasesHoldADisruptiveActionBack(t *testing.T) {
	t.Parallel()
	trays := rule(patient("Compute", mainPower))
	type seen struct {
		phase string
		age   time.Duration
	}
	const old = 6 * time.Minute
	blocking := map[seen]string{{"INITIALIZING", 0}: holds, {"IN_USE", 0}: holds, {"ERROR", 0}: holds, {"DELETING", time.Minute}: holds}
	unknown := []seen{{"", 0}, {"UNKNOWN", 0}, {"READY", old}, {"ERROR", old}}
	for missing, how := range map[task.Missing]string{"": warns, task.MissingAllow: warns, task.MissingBlock: holds, task.MissingIgnore: ""} {
		t.Run("missing "+string(missing), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *engine.Config) { c.Tasks.Readiness.Missing = missing })
			want := map[seen]string{{"READY", 0}: "", {"READY", 4 * time.Minute}: ""}
			for s, how := range blocking {
				want[s] = how
			}
			for _, s := range unknown {
				want[s] = how
			}
			ids := map[uuid.UUID]seen{}
			trays := b.addRule(trays)
			for s := range want {
				r := b.addRack(s.phase+s.age.String(), 1, 0, 1)
				b.exec("UPDATE component SET phase = 'READY', phase_at = now() WHERE rack_id = $1", r.id)
				b.finished(b.ask(request(hardware.PowerOn, nil, r.shelves()...)))
				b.phase(s.phase, s.age, r.trays()...)
				id := b.ask(request(hardware.PowerOn, trays, r.trays()...))
				ids[id] = s
			}
			for id, s := range ids {
				says := []string{task.MessagePending, task.MessageRunning}
				switch want[s] {
				case warns:
					says = append(says, warns)
				case holds:
					says = append(says, holds, task.MessageRunning)
					b.await(id, "its wait", func(e db.Event) bool { return e.Message == holds })
					b.is(id, db.TaskStateRunning, holds)
					v := b.view(id)
					if n := b.sent(v.ComponentIDs[0], hardware.PowerOn); n != 0 {
						t.Errorf("%v: a command was sent", s)
					}
					b.phase("READY", 0, v.ComponentIDs...)
				}
				v, report := b.finished(id)
				if d := cmp.Diff(append(says, task.MessageSucceeded), b.messages(id)); d != "" || v.State != db.TaskStateCompleted {
					t.Errorf("%v: %s: messages (-want +got):\n%s", s, v.State, d)
				}
				warning := report.Stages[0].Steps[0].Warning
				if warned := strings.HasPrefix(warning, "readiness of 1 components is not known: ") && strings.Contains(warning, v.ComponentIDs[0].String()); warned != (want[s] == warns) {
					t.Errorf("%v: the report warns %q", s, warning)
				}
			}
		})
	}
}

// TestWhichTraysAnActionDependsOn powers parts of a rack of two trays on while one of them, or one of another rack, is in
// error; what the phase of a switch or shelf is does not matter.
func TestWhichTraysAnActionDependsOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for name, c := range map[string]struct {
		targets func(rack) []uuid.UUID
		kind    string
		waits   bool
	}{
		"the tray itself":              {func(r rack) []uuid.UUID { return r.trays()[:1] }, "Compute", true},
		"another tray":                 {func(r rack) []uuid.UUID { return r.trays()[1:] }, "Compute", false},
		"a switch, on every tray":      {rack.switches, "NVSwitch", true},
		"a shelf, on every tray":       {rack.shelves, "PowerShelf", true},
		"a CDU, which feeds no tray":   {nil, "CDU", false},
		"a shelf, not on other racks'": {rack.shelves, "PowerShelf", false},
	} {
		r := b.addRack(name, 2, 1, 1)
		b.exec("UPDATE component SET phase = 'READY', phase_at = now() WHERE rack_id = $1", r.id)
		b.finished(b.ask(request(hardware.PowerOn, nil, r.shelves()...)))
		b.phase("ERROR", 0, append(r.switches(), r.shelves()...)...)
		bad := r.trays()[0]
		if strings.HasSuffix(name, "other racks'") {
			bad = b.addRack("other "+name, 1, 0, 0).trays()[0]
		}
		b.phase("ERROR", 0, bad)
		var ids []uuid.UUID
		if c.targets != nil {
			ids = c.targets(r)
		} else {
			ids = []uuid.UUID{value[uuid.UUID](b, "INSERT INTO component (id, type, name, external_id, rack_id) VALUES (gen_random_uuid(), 'CDU', 'cdu', 'cdu', $1) RETURNING id", r.id)}
		}
		id := b.ask(request(hardware.PowerOn, b.addRule(rule(patient(c.kind, mainPower))), ids...))
		if c.waits {
			b.await(id, "its wait", func(e db.Event) bool { return e.Message == holds })
			b.phase("READY", 0, bad)
		}
		v, _ := b.finished(id)
		if said := b.messages(id); v.State != db.TaskStateCompleted || slices.Contains(said, holds) != c.waits {
			t.Errorf("%s: %s: %q", name, v.State, said)
		}
	}
}

func TestTheReadinessCheckCanBeOverridden(t *testing.T) {
	t.Parallel()
	log := &lines{}
	b := newBench(t, func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	r := b.addRack("r", 0, 0, 1)
	tray := b.addRack("t", 1, 0, 0).trays()[0]
	b.exec("UPDATE component SET rack_id = $1, phase = 'ERROR', phase_at = now() WHERE id = $2", r.id, tray)
	req := request(hardware.PowerOn, nil, r.shelves()...)
	req.Options.OverrideReadiness = true
	id := b.ask(req)
	if v, _ := b.finished(id); v.State != db.TaskStateCompleted || slices.Contains(b.messages(id), holds) {
		t.Errorf("%s: %q", v.State, b.messages(id))
	}
	if !log.has("level=WARN", "readiness check overridden", id.String()) {
		t.Error("the log does not warn")
	}
}

func TestUnknownReadinessIsLogged(t *testing.T) {
	t.Parallel()
	log := &lines{}
	b := newBench(t, func(c *engine.Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	r := b.addRack("r", 1, 0, 1)
	id := b.ask(request(hardware.PowerOn, nil, r.shelves()...))
	b.finished(id)
	if !log.has("level=WARN", "readiness is not known", id.String()) {
		t.Error("the log does not warn")
	}
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

// has reports whether there is a line that holds every word.
func (l *lines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// held is a bench with a task that powers a shelf on, waits for two trays and is parked for every look.
func held(t *testing.T) (*bench, rack, uuid.UUID) {
	t.Helper()
	b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
	r := b.addRack("r", 2, 0, 1)
	b.phase("IN_USE", 0, r.trays()...)
	id := b.ask(request(hardware.PowerOn, b.addRule(rule(stage(1, "PowerShelf", mainPower))), r.shelves()...))
	b.await(id, "its wait", func(e db.Event) bool { return e.Message == "Running: waiting for readiness of 2 components" })
	b.parked(id)
	return b, r, id
}

// look wakes a parked step for its next look.
func (b *bench) look(id uuid.UUID) {
	b.t.Helper()
	b.exec("UPDATE river_job SET state = 'available', scheduled_at = now() WHERE id = (SELECT job_id FROM task_step WHERE task_id = $1)", id)
}

// looked waits until a step that was woken is parked again.
func (b *bench) looked(id uuid.UUID) {
	b.t.Helper()
	epoch := b.step(id).Epoch
	b.look(id)
	b.until("a look", func() bool { step := b.step(id); return step.Epoch > epoch && step.Node == nil })
}

// pass has time go by for a task that waits for readiness.
func (b *bench) pass(id uuid.UUID, d time.Duration) {
	b.t.Helper()
	b.exec("UPDATE task_step SET gate_since = gate_since - $2::interval, deadline_at = deadline_at - $2::interval WHERE task_id = $1", id, d)
	b.exec("UPDATE task SET deadline_at = deadline_at - $2::interval WHERE id = $1", id, d)
}

// TestWaitingForReadinessTakesNoTimeOfTheTask is D-30.20. At the speed of the tests the step has less than a second, and
// the wait lasts longer; the limit of the gate is 18 s.
func TestWaitingForReadinessTakesNoTimeOfTheTask(t *testing.T) {
	t.Parallel()
	b, r, id := held(t)
	if left := b.step(id).DeadlineAt.Sub(b.step(id).StartedAt); left > 5*time.Second {
		t.Fatalf("the step has %s, which proves nothing", left)
	}
	b.pass(id, 5*time.Second)
	b.looked(id)
	b.phase("READY", 0, r.trays()...)
	b.look(id)
	v, _ := b.finished(id)
	want := []string{task.MessagePending, task.MessageRunning, "Running: waiting for readiness of 2 components", task.MessageRunning, task.MessageSucceeded}
	if d := cmp.Diff(want, b.messages(id)); d != "" || v.State != db.TaskStateCompleted {
		t.Errorf("%s: messages (-want +got):\n%s", v.State, d)
	}
	if n := b.sent(r.shelves()[0], hardware.PowerOn); n != 1 {
		t.Errorf("the command arrived %d times, want once", n)
	}
}

func TestTheWaitForReadinessHasALimit(t *testing.T) {
	t.Parallel()
	b, r, id := held(t)
	b.pass(id, 5*time.Second)
	b.looked(id)
	b.is(id, db.TaskStateRunning, "waiting for readiness of 2 components")
	b.pass(id, 18*time.Second) // half an hour at the speed of the tests
	b.look(id)
	v, report := b.finished(id)
	first, second := "r-Compute-0 ("+r.trays()[0].String()+")", "r-Compute-1 ("+r.trays()[1].String()+")"
	cause := "main operation failed: refused: timed out after 30m0s waiting for components to become ready for power_control: " + first + ", " + second
	if want := "stage 1 failed: component type PowerShelf failed: " + cause; v.State != db.TaskStateFailed || v.Message != want {
		t.Errorf("%s: %s, want %s", v.State, v.Message, want)
	}
	if got := report.Stages[0].Steps[0].Error; got != cause {
		t.Errorf("the step says %q", got)
	}
	if n := b.sent(r.shelves()[0], hardware.PowerOn); n != 0 {
		t.Errorf("the command was sent %d times", n)
	}
}

// TestAnotherNodeGoesOnWithTheWaitForReadiness has the wait of a node that is no more be as long as it was.
func TestAnotherNodeGoesOnWithTheWaitForReadiness(t *testing.T) {
	t.Parallel()
	b, r, id := held(t)
	since := *b.step(id).GateSince
	b.exec("UPDATE task_step SET node = gen_random_uuid(), epoch = epoch + 1 WHERE task_id = $1", id) // driven by one that died
	epoch := b.step(id).Epoch
	b.join(func(c *engine.Config) { c.InlineWait = time.Millisecond })
	b.until("it to be taken over", func() bool { step := b.step(id); return step.Epoch > epoch+1 && step.Node == nil })
	b.looked(id)
	if got := b.step(id).GateSince; got == nil || !got.Equal(since) {
		t.Errorf("the step waits since %v, want since %s", got, since)
	}
	b.is(id, db.TaskStateRunning, "waiting for readiness of 2 components")
	b.phase("READY", 0, r.trays()...)
	b.look(id)
	if v, _ := b.finished(id); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	if n := b.sent(r.shelves()[0], hardware.PowerOn); n != 1 {
		t.Errorf("the command arrived %d times, want once", n)
	}
}

func TestATaskCanBeCancelledWhileItWaitsForReadiness(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*engine.Config){"inline": nil, "parked": func(c *engine.Config) { c.InlineWait = time.Millisecond }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, change)
			r := b.addRack("r", 1, 0, 1)
			b.phase("IN_USE", 0, r.trays()...)
			id := b.ask(request(hardware.PowerOn, nil, r.shelves()...))
			b.await(id, "its wait", func(e db.Event) bool { return e.Message == holds })
			next := b.ask(request(hardware.PowerOff, nil, r.shelves()...))
			b.cancel(id)
			b.phase("READY", 0, r.trays()...)
			v, report := b.finished(id)
			if v.State != db.TaskStateTerminated || v.Message != task.MessageCancelled || report.Stages[0].Status != task.ReportFailed {
				t.Errorf("%s: %s, stage %s", v.State, v.Message, report.Stages[0].Status)
			}
			if v, _ := b.finished(next); v.State != db.TaskStateCompleted {
				t.Errorf("the next task: %s: %s", v.State, v.Message)
			}
			if n := b.sent(r.shelves()[0], hardware.PowerOn); n != 0 {
				t.Errorf("the command was sent %d times", n)
			}
		})
	}
}

// TestTwoStepsOfAStageWaitForReadinessAtOnce has the one go on before the other, and each have its time back.
func TestTwoStepsOfAStageWaitForReadinessAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 2, 0, 1)
	b.exec("UPDATE component SET phase = 'READY', phase_at = now() WHERE rack_id = $1", r.id)
	b.finished(b.ask(request(hardware.PowerOn, nil, r.shelves()...)))
	b.phase("ERROR", 0, r.trays()...)
	id := b.ask(request(hardware.PowerOn, b.addRule(rule(patient("PowerShelf", mainPower), patient("Compute", mainPower))), r.shelves()[0], r.trays()[0]))
	waiting := func(n int) func() bool {
		return func() bool {
			return value[int](b, "SELECT count(*) FROM task_step WHERE task_id = $1 AND gate_since IS NOT NULL", id) == n
		}
	}
	b.until("both to wait", waiting(2))
	b.phase("READY", 0, r.trays()[0]) // on which the tray depends alone
	b.until("one to go on", waiting(1))
	b.is(id, db.TaskStateRunning, "waiting for readiness of")
	b.phase("READY", 0, r.trays()[1])
	if v, _ := b.finished(id); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	said := b.messages(id)
	if n := len(said); said[n-1] != task.MessageSucceeded || said[n-2] != task.MessageRunning || !strings.Contains(said[n-3], "waiting for readiness") {
		t.Errorf("messages %q", said)
	}
}

// TestAWarningDoesNotHideWhatATaskWaitsFor has one step of a stage wait for a tray that the other does not depend on, which
// goes on later with a warning of another tray.
func TestAWarningDoesNotHideWhatATaskWaitsFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 2, 0, 1)
	b.phase("ERROR", 0, r.trays()[1])
	b.script(sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerStatus, Type: hardware.Compute})
	id := b.ask(request(hardware.PowerOff, b.addRule(rule(patient("PowerShelf", mainPower),
		patient("Compute", `"pre_operation": [{"name": "VerifyPowerStatus", "timeout": "20000s", "poll_interval": "1s", "parameters": {"expected_status": "off"}}], `+mainPower))),
		r.shelves()[0], r.trays()[0]))
	b.await(id, "the shelf's wait", func(e db.Event) bool { return e.Message == holds })
	b.site.ClearFaults()
	b.until("the tray's warning", func() bool {
		return value[bool](b, "SELECT EXISTS (SELECT FROM task_step WHERE task_id = $1 AND warning <> '' AND gate_since IS NULL)", id)
	})
	b.is(id, db.TaskStateRunning, holds)
	b.phase("READY", 0, r.trays()...)
	v, report := b.finished(id)
	if v.State != db.TaskStateCompleted || report.Stages[0].Steps[1].Warning == "" {
		t.Errorf("%s: %s; %+v", v.State, v.Message, report.Stages[0].Steps)
	}
}

// TestAnErrorOfTheDatabaseIsNoVerdictOfTheGate has the phases be unreadable for one look.
func TestAnErrorOfTheDatabaseIsNoVerdictOfTheGate(t *testing.T) {
	t.Parallel()
	b, r, id := held(t)
	_, err := b.store.API.Exec(t.Context(), "ALTER TABLE component RENAME phase_at TO away")
	if err != nil {
		t.Fatal(err)
	}
	b.look(id)
	b.until("the look to fail", func() bool {
		return value[bool](b, "SELECT EXISTS (SELECT FROM river_job WHERE kind = 'task_step' AND errors IS NOT NULL)")
	})
	b.is(id, db.TaskStateRunning, "waiting for readiness of 2 components")
	if _, err := b.store.API.Exec(t.Context(), "ALTER TABLE component RENAME away TO phase_at"); err != nil {
		t.Fatal(err)
	}
	b.phase("READY", 0, r.trays()...)
	if v, _ := b.finished(id); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
}

// TestEveryBatchAndAttemptAsksForReadiness powers two trays on, one after the other, and has the second be in use when its
// turn comes, and the first when it has to be tried again.
func TestEveryBatchAndAttemptAsksForReadiness(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 2, 0, 1)
	b.phase("READY", 0, r.trays()...)
	shelves := b.ask(request(hardware.PowerOn, nil, r.shelves()...))
	close(g.next())
	b.finished(shelves)
	b.phase("READY", 0, r.trays()[0])
	b.script(sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerControl, Component: r.trays()[0], Times: 1})
	id := b.ask(request(hardware.PowerOn, b.addRule(rule(patient("Compute", `"max_parallel": 1, `+mainPower))), r.trays()...))
	open := g.next()
	b.phase("IN_USE", 0, r.trays()...)
	waits := func(what string) {
		t.Helper()
		close(open)
		b.until(what, func() bool { return b.view(id).Message == holds })
		if len(g.waiting) > 0 {
			t.Errorf("%s: a command is on its way", what)
		}
	}
	waits("the second attempt")
	b.phase("READY", 0, r.trays()[0])
	open = g.next()
	waits("the second batch")
	b.phase("READY", 0, r.trays()[1])
	close(g.next())
	if v, _ := b.finished(id); v.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", v.State, v.Message)
	}
	if first, second := b.sent(r.trays()[0], hardware.PowerOn), b.sent(r.trays()[1], hardware.PowerOn); first != 2 || second != 1 {
		t.Errorf("%d and %d commands, want 2 and 1", first, second)
	}
}

func TestTheSiteSaysHowOldAPhaseMayBe(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.Tasks.Readiness.MaxAge = time.Hour })
	for age, warned := range map[time.Duration]bool{59 * time.Minute: false, 61 * time.Minute: true} {
		r := b.addRack(age.String(), 1, 0, 1)
		b.phase("READY", age, r.trays()...)
		id := b.ask(request(hardware.PowerOn, nil, r.shelves()...))
		if v, _ := b.finished(id); v.State != db.TaskStateCompleted || slices.Contains(b.messages(id), warns) != warned {
			t.Errorf("%s: %s: %q", age, v.State, b.messages(id))
		}
	}
}
