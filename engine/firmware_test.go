package engine_test

import (
	"strings"
	"testing"
	"time"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

const pollFirmware = `"parameters": {"poll_interval": "1s", "poll_timeout": "60s"}`

func TestFirmwareControl(t *testing.T) {
	t.Parallel()
	start := func(kind sim.Kind, times int) sim.Fault {
		return sim.Fault{Kind: kind, Call: hardware.CapFirmwareControl, Times: times, Text: "told so"}
	}
	status := func(kind sim.Kind, times int, state string) sim.Fault {
		return sim.Fault{Kind: kind, Call: hardware.CapFirmwareStatus, Times: times, State: state}
	}
	const started = "main operation failed: failed to start firmware update: firmware update failed for r-Compute-1"
	for name, c := range map[string]actionCase{
		"starts each component once and waits for all": {sent: 1},
		"a refusal fails at once, naming component and reason": {
			fault: start(sim.Refuse, 0), fails: started, sent: 1, known: []string{"-", "told so", "-"}, counted: [2]int32{0, 1},
		},
		"a busy component is started again, alone": {fault: start(sim.Unavailable, 2), sent: 3},
		"attempts end": {
			fault: start(sim.Unavailable, 0), fails: started, sent: 3, known: []string{"-", "told so", "-"}, counted: [2]int32{0, 1},
		},
		"a start with a lost reply is found in the readings":      {fault: start(sim.LostReply, 0), sent: 1},
		"a component missing from the answer is found as well":    {fault: start(sim.Partial, 0), sent: 1},
		"a start that hangs and was carried out is found as well": {fault: start(sim.HangDone, 1), sent: 1},
		"where the readings can't tell, nothing is started again": {
			fault: start(sim.Fail, 1), fails: "outcome unknown: told so", sent: 1, known: []string{"-", "outcome unknown: told so", "-"}, counted: [2]int32{0, 1},
		},
		"a start that hangs and was not carried out can't be told from one that was": {
			fault: start(sim.Hang, 1), fails: "outcome unknown: no answer within 20s", sent: 1, counted: [2]int32{0, 1},
		},
		"an update that fails fails the step": {
			fault: sim.Fault{Kind: sim.WrongState, Call: hardware.CapFirmwareControl, State: "Failed", Text: "bad image"},
			fails: "main operation failed: firmware update failed for components: [r-Compute-1", sent: 1, known: []string{"", "bad image", ""}, counted: [2]int32{2, 1},
		},
		"an update that does not end runs into the poll timeout": {
			fault: sim.Fault{Kind: sim.WrongState, Call: hardware.CapFirmwareControl, State: "Queued"},
			fails: "main operation failed: Compute firmware update timed out after 1m0s: r-Compute-1",
			sent:  1, known: []string{"", "-", ""}, counted: [2]int32{2, 0},
		},
		"an unknown state is progress":         {fault: status(sim.WrongState, 3, "Unknown"), sent: 1},
		"a missing component is progress":      {fault: status(sim.Partial, 3, ""), sent: 1},
		"queries that fail are polled through": {fault: status(sim.Unavailable, 3, ""), whole: true, sent: 1},
		"an empty answer is not success": {
			fault: status(sim.Partial, 0, ""), whole: true, fails: "Compute firmware update timed out after 1m0s", sent: 1, known: []string{"-", "-", "-"},
		},
		"queries that always fail run into the poll timeout": {
			fault: status(sim.Refuse, 0, ""), whole: true, fails: "Compute firmware update timed out after 1m0s", sent: 1, known: []string{"-", "-", "-"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t, newBench(t, nil), hardware.Compute, hardware.CapFirmwareControl,
				rule(stage(1, "Compute", act("FirmwareControl", `"timeout": "20s"`, pollFirmware))), true)
		})
	}
}

// update installs a version on a component behind the engine's back.
func (b *bench) update(r rack, kind hardware.ComponentType, i int, version string) {
	b.t.Helper()
	id := r.components[kind][i]
	results, err := b.site.Managers()[kind].(hardware.FirmwareController).StartFirmware(b.t.Context(),
		hardware.Target{Type: kind, Components: []hardware.Component{{ID: id, RackID: r.id, Type: kind}}}, hardware.FirmwareRequest{Version: version})
	if err != nil || results[id] != nil {
		b.t.Fatal(err, results)
	}
}

func TestTheEndOfAnEarlierUpdateIsNotTakenForThatOfThisOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   sim.Fault
		message string
		state   db.TaskState
		sent    int // the earlier one included
	}{
		"a start that leads to nothing does not succeed": {
			sim.Fault{Kind: sim.WrongState, Call: hardware.CapFirmwareControl},
			"firmware update timed out after 1m0s: r-Compute-0", db.TaskStateFailed, 2,
		},
		"a start that may have been lost is plainly not running and sent again": {
			sim.Fault{Kind: sim.Fail, Call: hardware.CapFirmwareControl, Times: 1}, "Succeeded", db.TaskStateCompleted, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			r := b.addRack("r", 1, 0, 0)
			b.update(r, hardware.Compute, 0, "0.9")
			b.script(c.fault)
			view, _ := b.finished(b.submit(hardware.PowerOn, r, b.addRule(rule(stage(1, "Compute", act("FirmwareControl", pollFirmware))))))
			if view.State != c.state || !strings.Contains(view.Message, c.message) {
				t.Errorf("%s: %s", view.State, view.Message)
			}
			if got := b.received(r.components[hardware.Compute][0], hardware.CapFirmwareControl); got != c.sent {
				t.Errorf("%d starts arrived, want %d", got, c.sent)
			}
		})
	}
}

func TestFirmwareBatchesAreStartedAndPolledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 5, 0, 0)
	trays := r.components[hardware.Compute]
	b.script(
		sim.Fault{Component: trays[1], Kind: sim.WrongState, Call: hardware.CapFirmwareStatus, State: "Queued", Times: 2},
		sim.Fault{Component: trays[3], Kind: sim.WrongState, Call: hardware.CapFirmwareControl, State: "Failed"},
	)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(stage(1, "Compute", `"max_parallel": 2, `+act("FirmwareControl", pollFirmware)))))
	b.await(id, "a tray that is done before its sibling", func(e db.Event) bool {
		return e.Kind == db.EventKindStepProgress && e.Completed == 1 && e.Failed == 0
	})
	view, report := b.finished(id)
	if want := "main operation failed: batch 2 of 3 failed: firmware update failed for components: [r-Compute-3"; !strings.Contains(view.Message, want) {
		t.Errorf("message %q, want ...%s...", view.Message, want)
	}
	if s := report.Stages[0].Steps[0]; s.Completed != 3 || s.Failed != 1 {
		t.Errorf("%d completed and %d failed, want 3 and 1", s.Completed, s.Failed)
	}
	if got := strings.Join(b.commands(), ", "); got != "FirmwareControl Compute x2, FirmwareControl Compute x2" {
		t.Errorf("commands: %s", got)
	}
	b.wantKnown(id, trays, []string{"-", "-", "", "the update failed", "-"})
}

func TestTheTimeOfAFirmwarePollCountsFromTheEndOfTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 1, 0, 0)
	b.script(
		sim.Fault{Kind: sim.Slow, Call: hardware.CapFirmwareControl, Delay: 800 * time.Millisecond}, // 80 s of the rule
		sim.Fault{Kind: sim.WrongState, Call: hardware.CapFirmwareStatus, State: "Queued", Times: 2},
	)
	id := b.submit(hardware.PowerOn, r, b.addRule(rule(stage(1, "Compute", act("FirmwareControl", `"timeout": "200s"`, pollFirmware)))))
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
}

func TestVerifyFirmwareConsistency(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		differs bool
		fault   sim.Fault
		message string // empty: it completes
	}{
		"switches that run the same are consistent": {},
		"a switch that differs is named":            {differs: true, message: "main operation failed: NVSwitch firmware versions are inconsistent: r-NVSwitch-1"},
		"a switch without data fails": {
			fault: sim.Fault{Kind: sim.Partial, Call: hardware.CapFirmwareConsistencyCheck}, message: "no firmware version data",
		},
		"an error is tried again": {fault: sim.Fault{Kind: sim.Unavailable, Call: hardware.CapFirmwareConsistencyCheck, Times: 2}},
		"a refusal is not tried again": {
			fault: sim.Fault{Kind: sim.Refuse, Call: hardware.CapFirmwareConsistencyCheck, Type: hardware.NVSwitch, Times: 1, Text: "no rights"}, message: "no rights",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			r := b.addRack("r", 0, 3, 0)
			if c.differs {
				b.update(r, hardware.NVSwitch, 1, "2.0")
			}
			if c.fault.Kind != "" {
				if c.fault.Kind == sim.Partial {
					c.fault.Component = r.components[hardware.NVSwitch][1]
				}
				b.script(c.fault)
			}
			// One batch, whatever the step says: versions are compared over all of it.
			view, report := b.finished(b.submit(hardware.PowerOn, r, b.addAnyRule(rule(stage(1, "NVSwitch", `"max_parallel": 1, `+act("VerifyFirmwareConsistency"))))))
			want := db.TaskStateCompleted
			if c.message != "" {
				want = db.TaskStateFailed
			}
			if view.State != want || !strings.Contains(view.Message, c.message) {
				t.Errorf("%s: %s", view.State, view.Message)
			}
			if s := report.Stages[0].Steps[0]; want == db.TaskStateCompleted && s.Completed != 3 {
				t.Errorf("%d completed, want 3", s.Completed)
			}
		})
	}
}
