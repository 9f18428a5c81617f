package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

// everything is all that a simulated manager can do.
type everything interface {
	hardware.Manager
	hardware.PowerController
	hardware.PowerReader
	hardware.FirmwareController
	hardware.FirmwareReader
	hardware.FirmwareComparer
	hardware.BringUpController
	hardware.BringUpReader
	hardware.ExpectationInjector
	hardware.Decommissioner
	hardware.DecommissionReader
}

// guarded is a component manager whose commands that must not be sent twice go through a function, which does not see
// their contexts.
type guarded struct {
	everything
	control func(send func() (hardware.Results, error)) (hardware.Results, error)
}

func hold(c *engine.Config, control func(send func() (hardware.Results, error)) (hardware.Results, error)) {
	managers := hardware.Managers{}
	for t, m := range c.Managers {
		managers[t] = guarded{m.(everything), control}
	}
	c.Managers = managers
}

func (g guarded) StartFirmware(ctx context.Context, target hardware.Target, req hardware.FirmwareRequest) (hardware.Results, error) {
	return g.control(func() (hardware.Results, error) {
		return g.everything.StartFirmware(context.WithoutCancel(ctx), target, req)
	})
}

func (g guarded) Decommission(ctx context.Context, target hardware.Target) (hardware.Results, error) {
	return g.control(func() (hardware.Results, error) {
		return g.everything.Decommission(context.WithoutCancel(ctx), target)
	})
}

// answer holds back the answer to a command instead of the command.
func (g gate) answer(send func() (hardware.Results, error)) (hardware.Results, error) {
	results, err := send()
	return g.control(func() (hardware.Results, error) { return results, err })
}

// lose lets a command through or, when it is the first, loses it after it was held back.
func (g gate) lose() func(send func() (hardware.Results, error)) (hardware.Results, error) {
	var lost atomic.Bool
	return func(send func() (hardware.Results, error)) (hardware.Results, error) {
		if lost.Swap(true) {
			return send()
		}
		return g.control(func() (hardware.Results, error) { return nil, hardware.Uncertain("lost") })
	}
}

func TestACommandInFlightWhenItsNodeWasLostIsSettledByTheDevice(t *testing.T) {
	t.Parallel()
	firmware := act("FirmwareControl", `"parameters": {"poll_interval": "1s", "poll_timeout": "10000s"}`)
	decommission := act("DecommissionControl") + then("WaitDecommissioned", "10000s", "1s")
	const (
		beforeSend = iota // the command is still to arrive
		afterSend         // it has arrived
		lost              // it never arrives
	)
	for name, c := range map[string]struct {
		main    string
		call    hardware.Capability
		when    int
		earlier bool // an update has ended before
		fault   sim.Fault
		message string // empty: it completes
		sent    int
	}{
		"a firmware update that runs is not started again": {
			main: firmware, call: hardware.CapFirmwareControl, when: afterSend, sent: 1,
			fault: sim.Fault{Kind: sim.WrongState, Call: hardware.CapFirmwareStatus, State: "Queued", Times: 2},
		},
		"a firmware update that has ended since is not started again": {
			main: firmware, call: hardware.CapFirmwareControl, when: afterSend, earlier: true, sent: 2,
		},
		"a firmware update that has failed since is not started again": {
			main: firmware, call: hardware.CapFirmwareControl, when: afterSend, sent: 1,
			fault:   sim.Fault{Kind: sim.WrongState, Call: hardware.CapFirmwareControl, State: "Failed"},
			message: "firmware update failed for components: [r-Compute-0",
		},
		"a firmware update that was plainly not started is": {
			main: firmware, call: hardware.CapFirmwareControl, when: lost, earlier: true, sent: 2,
		},
		"a device that has never been updated can't tell": {
			main: firmware, call: hardware.CapFirmwareControl, when: beforeSend, sent: 1,
			message: "failed to start firmware update: firmware update failed for r-Compute-0",
		},
		"a device that does not answer can't tell": {
			main: firmware, call: hardware.CapFirmwareControl, when: afterSend, sent: 1,
			fault:   sim.Fault{Kind: sim.Unavailable, Call: hardware.CapFirmwareStatus, Type: hardware.Compute},
			message: "outcome unknown: the server stopped while it was started, and its state cannot be read",
		},
		"a decommissioning that has begun is not begun again": {
			main: decommission, call: hardware.CapDecommissionControl, when: afterSend, sent: 1,
			fault: sim.Fault{Kind: sim.WrongState, Call: hardware.CapDecommissionStatus, State: "Decommissioning/X", After: 1, Times: 2},
		},
		"a decommissioning that is over is not begun again": {
			main: decommission, call: hardware.CapDecommissionControl, when: afterSend, sent: 1,
		},
		"a component that is ready is decommissioned": {
			main: decommission, call: hardware.CapDecommissionControl, when: lost, sent: 1,
		},
		"a component in any other state can't tell": {
			main: decommission, call: hardware.CapDecommissionControl, when: afterSend, sent: 1,
			fault:   sim.Fault{Kind: sim.WrongState, Call: hardware.CapDecommissionStatus, State: "Maintenance(x)", After: 1},
			message: "outcome unknown: the server stopped while it was sent (state is Maintenance(x) now); not sent again",
		},
		"a component whose state is not answered can't tell": {
			main: decommission, call: hardware.CapDecommissionControl, when: afterSend, sent: 1,
			fault:   sim.Fault{Kind: sim.Unavailable, Call: hardware.CapDecommissionStatus, Type: hardware.Compute, After: 1},
			message: "outcome unknown: the server stopped while it was sent, and its state cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			control := map[int]func(func() (hardware.Results, error)) (hardware.Results, error){
				beforeSend: g.control, afterSend: g.answer, lost: g.lose(),
			}[c.when]
			b := newBench(t, func(cfg *engine.Config) { hold(cfg, control) })
			r := b.addRack("r", 1, 0, 0)
			if c.earlier {
				b.update(r, hardware.Compute, 0, "0.9")
			}
			if c.fault.Kind != "" {
				b.script(c.fault)
			}
			id := b.submit(hardware.PowerOn, r, b.addAnyRule(rule(patient("Compute", c.main))))
			first := g.next()
			b.orphan(id)
			b.join(idle)
			view, _ := b.finished(id)
			want := db.TaskStateCompleted
			if c.message != "" {
				want = db.TaskStateFailed
			}
			if view.State != want || !strings.Contains(view.Message, c.message) {
				t.Errorf("%s: %s", view.State, view.Message)
			}
			if c.when == beforeSend && !strings.Contains(view.Message, "outcome unknown: the server stopped while it was started (firmware update is Unknown now); not started again") {
				t.Errorf("the message does not say what is not known: %s", view.Message)
			}
			close(first)
			b.starterEnded(id)
			if got := b.received(r.components[hardware.Compute][0], c.call); got != c.sent {
				t.Errorf("the command arrived %d times, want %d", got, c.sent)
			}
		})
	}
}

func TestNothingIsStartedWhileItIsNotKnownWhatWas(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(cfg *engine.Config) { hold(cfg, g.lose()) })
	r := b.addRack("r", 2, 0, 0)
	trays := r.components[hardware.Compute]
	b.update(r, hardware.Compute, 0, "0.9") // the other one can't tell
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("Compute", act("FirmwareControl")))))
	first := g.next()
	b.orphan(id)
	b.join(idle)
	view, _ := b.finished(id)
	if view.State != db.TaskStateFailed || !strings.Contains(view.Message, "firmware update failed for r-Compute-0 ("+trays[0].String()+"): not started; ") {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	b.wantKnown(id, trays, []string{"not started", "outcome unknown: "})
	close(first)
	b.starterEnded(id)
	for i, want := range []int{1, 0} {
		if got := b.received(trays[i], hardware.CapFirmwareControl); got != want {
			t.Errorf("%d starts arrived at tray %d, want %d", got, i, want)
		}
	}
}

func TestAFirmwarePollGoesOnUnderANewDriverAndKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"in time": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			r := b.addRack("r", 2, 0, 0)
			trays := r.components[hardware.Compute]
			b.script(sim.Fault{Component: trays[1], Kind: sim.WrongState, Call: hardware.CapFirmwareStatus, State: "Verifying"})
			id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("Compute",
				act("FirmwareControl", `"parameters": {"poll_interval": "1s", "poll_timeout": "10000s"}`)))))
			b.await(id, "the first tray's end", func(e db.Event) bool { return e.Kind == db.EventKindStepProgress && e.Completed == 1 })
			b.orphan(id)
			if late {
				b.exec("UPDATE task_step SET action_started_at = now() - interval '1 hour' WHERE task_id = $1", id)
			} else {
				b.site.ClearFaults()
			}
			b.join(idle)
			view, report := b.finished(id)
			state, message, completed := db.TaskStateCompleted, "Succeeded", int32(2)
			if late {
				state, message, completed = db.TaskStateFailed, "Compute firmware update timed out after 2h46m40s: r-Compute-1", 1
				b.wantKnown(id, trays, []string{"", "-"})
			}
			if view.State != state || !strings.Contains(view.Message, message) {
				t.Errorf("%s: %s", view.State, view.Message)
			}
			if s := report.Stages[0].Steps[0]; s.Completed != completed || s.Failed != 0 {
				t.Errorf("%d completed and %d failed, want %d and 0", s.Completed, s.Failed, completed)
			}
			for _, tray := range trays {
				if got := b.received(tray, hardware.CapFirmwareControl); got != 1 {
					t.Errorf("%d starts arrived, want 1", got)
				}
			}
		})
	}
}

func TestAFirmwarePollIsParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
	r := b.addRack("r", 1, 0, 0)
	b.update(r, hardware.Compute, 0, "0.9") // its end is older than the start that is remembered while the step is parked
	b.script(
		sim.Fault{Kind: sim.WrongState, Call: hardware.CapFirmwareControl},
		sim.Fault{Kind: sim.Unavailable, Call: hardware.CapFirmwareStatus, Type: hardware.Compute, Times: 1},
	)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(patient("Compute",
		act("FirmwareControl", `"parameters": {"poll_interval": "10s", "poll_timeout": "400s"}`)))))
	view, _ := b.finished(id)
	if !strings.Contains(view.Message, "timed out after 6m40s: r-Compute-0") || !strings.Contains(view.Message, "Completed before this update") {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if got := b.received(r.components[hardware.Compute][0], hardware.CapFirmwareControl); got != 2 {
		t.Errorf("%d starts arrived, want 2 with the earlier one", got)
	}
	b.wantKnown(id, r.components[hardware.Compute], []string{"-"})
}

func TestAStartThatWaitsForReadinessKeepsInMindWhatWasStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 2, 0, 0)
	trays := r.components[hardware.Compute]
	b.script(
		sim.Fault{Component: trays[1], Kind: sim.Unavailable, Call: hardware.CapFirmwareControl, Times: 1},
		// The tray that was started could not tell: who forgets that it was can't go on.
		sim.Fault{Component: trays[0], Kind: sim.WrongState, Call: hardware.CapFirmwareStatus, State: "Unknown"},
	)
	// Three seconds at the speed of the tests, for the other tray to cease to be ready.
	slowly := strings.Replace(patient("Compute", act("FirmwareControl", `"parameters": {"poll_interval": "1s", "poll_timeout": "10000s"}`)),
		`"initial_interval": "1s"`, `"initial_interval": "300s"`, 1)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(slowly)))
	b.until("the first start", func() bool { return b.received(trays[1], hardware.CapFirmwareControl) == 1 })
	b.exec("UPDATE component SET phase = 'ERROR', phase_at = now() WHERE id = $1", trays[1])
	b.await(id, "the gate", func(e db.Event) bool { return strings.Contains(e.Message, "waiting for readiness of 1 components") })
	if got := b.received(trays[1], hardware.CapFirmwareControl); got != 1 {
		t.Errorf("%d starts arrived at a tray that is not ready, want 1 from before", got)
	}
	b.exec("UPDATE component SET phase = 'READY', phase_at = now() WHERE id = $1", trays[1])
	b.until("the second start", func() bool { return b.received(trays[1], hardware.CapFirmwareControl) == 2 })
	b.site.ClearFaults()
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if got := b.received(trays[0], hardware.CapFirmwareControl); got != 1 {
		t.Errorf("%d starts arrived at the other tray, want 1", got)
	}
}

func TestNothingDisruptiveIsSentToWhatIsNotReady(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]hardware.Capability{
		"FirmwareControl": hardware.CapFirmwareControl, "BringUpControl": hardware.CapBringUpControl,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			r := b.addRack("r", 1, 0, 0)
			tray := r.components[hardware.Compute][0]
			b.exec("UPDATE component SET phase = 'ERROR', phase_at = now() WHERE id = $1", tray)
			id := b.submit(hardware.PowerOn, r, b.addAnyRule(rule(patient("Compute", act(name)))))
			b.await(id, "the gate", func(e db.Event) bool { return strings.Contains(e.Message, "waiting for readiness of 1 components") })
			if got := b.received(tray, call); got != 0 {
				t.Errorf("%d commands arrived at a tray that is not ready", got)
			}
			b.exec("UPDATE component SET phase = 'READY', phase_at = now() WHERE id = $1", tray)
			if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
				t.Errorf("%s: %s", view.State, view.Message)
			}
			if got := b.received(tray, call); got != 1 {
				t.Errorf("%d commands arrived, want 1", got)
			}
		})
	}
}
