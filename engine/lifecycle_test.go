package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

func TestBringUpActions(t *testing.T) {
	t.Parallel()
	control := func(kind sim.Kind, times int) sim.Fault {
		return sim.Fault{Kind: kind, Call: hardware.CapBringUpControl, Times: times, Text: "told so"}
	}
	status := func(kind sim.Kind, times int, state string) sim.Fault {
		return sim.Fault{Kind: kind, Call: hardware.CapBringUpStatus, Times: times, State: state}
	}
	const (
		failed = "main operation failed: bring-up failed for r-Compute-1"
		late   = "post-operation failed: action 0 (WaitBringUp) failed: timeout after 1m0s waiting for bring-up (attempts: "
	)
	for name, c := range map[string]actionCase{
		"opens the gate of each component once and waits for its machine": {sent: 1},
		"a refusal fails at once": {
			fault: control(sim.Refuse, 0), fails: failed, sent: 1, known: []string{"", "told so", ""},
		},
		"a busy component is asked again, alone":                {fault: control(sim.Unavailable, 2), sent: 3},
		"attempts end":                                          {fault: control(sim.Unavailable, 0), fails: failed, sent: 3, known: []string{"", "told so", ""}},
		"after a lost reply it is asked again: no harm is done": {fault: control(sim.LostReply, 1), sent: 2},
		"a component missing from the answer is asked again":    {fault: control(sim.Partial, 1), sent: 2},
		"ingestion that does not end runs into the timeout": {
			fault: sim.Fault{Kind: sim.WrongState, Call: hardware.CapBringUpControl, State: "WaitingForIngestion"}, fails: late, sent: 1,
			known: []string{"", "WaitingForIngestion", ""},
		},
		"a component that is created later is waited for": {fault: status(sim.WrongState, 3, "MachineNotCreated"), sent: 1},
		"a missing component is not done":                 {fault: status(sim.Partial, 0, ""), fails: late, sent: 1, known: []string{"", "no answer", ""}},
		"an empty answer is not done": {
			fault: status(sim.Partial, 0, ""), whole: true, fails: late, sent: 1, known: []string{"no answer", "no answer", "no answer"},
		},
		"queries that fail are polled through": {fault: status(sim.Unavailable, 4, ""), whole: true, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t, newBench(t, nil), hardware.Compute, hardware.CapBringUpControl,
				rule(stage(1, "Compute", act("BringUpControl")+then("WaitBringUp", "60s", "1s"))), false)
		})
	}
}

func TestBringUpGoesOnAfterATakeoverWithWhatIsStillToDo(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 2, 0, 0)
	trays := r.components[hardware.Compute]
	b.script(
		sim.Fault{Component: trays[1], Kind: sim.Unavailable, Call: hardware.CapBringUpControl, Times: 1},
		sim.Fault{Component: trays[1], Kind: sim.Hang, Call: hardware.CapBringUpControl, Times: 1},
	)
	id := b.submit(hardware.PowerOn, r, b.addAnyRule(rule(patient("Compute", act("BringUpControl")+then("WaitBringUp", "10000s", "1s")))))
	b.until("the command that hangs", func() bool { return b.received(trays[1], hardware.CapBringUpControl) == 2 })
	b.orphan(id)
	b.join(idle)
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	for i, want := range []int{1, 3} {
		if got := b.received(trays[i], hardware.CapBringUpControl); got != want {
			t.Errorf("tray %d was asked %d times, want %d", i, got, want)
		}
	}
}

func TestInjectExpectation(t *testing.T) {
	t.Parallel()
	inject := func(kind sim.Kind, times int) sim.Fault {
		return sim.Fault{Kind: kind, Call: hardware.CapInjectExpectation, Times: times, Text: "told so"}
	}
	const failed = "main operation failed: injection of the expectation failed for r-NVSwitch-1"
	for name, c := range map[string]actionCase{
		"tells the site of each component once":        {sent: 1},
		"a refusal fails at once":                      {fault: inject(sim.Refuse, 0), fails: failed, sent: 1, known: []string{"", "told so", ""}},
		"a component that was not taken is told again": {fault: inject(sim.Unavailable, 2), sent: 3},
		"after a lost reply it is told again":          {fault: inject(sim.LostReply, 1), sent: 2},
		"attempts end":                                 {fault: inject(sim.Partial, 0), fails: failed, sent: 3, known: []string{"", "no result", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t, newBench(t, nil), hardware.NVSwitch, hardware.CapInjectExpectation,
				rule(stage(1, "NVSwitch", act("InjectExpectation"))), false)
		})
	}
}

func TestExpectationsAreWhatTheInventoryHasWhenTheyAreInjected(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 2, 0, 0)
	trays := r.components[hardware.Compute]
	id := b.request(ingest, r, nil)
	b.exec("UPDATE rack SET external_id = 'rack-7' WHERE id = $1", r.id)
	b.exec("UPDATE component SET manufacturer = 'Acme', serial = 'SN-1', model = 'T1', host_id = -1 WHERE id = $1", trays[0])
	b.exec(`INSERT INTO bmc (mac, type, component_id, rack_id, ip) VALUES
		('02:00:00:00:00:03', 'HOST', $1, $2, NULL), ('02:00:00:00:00:01', 'DPU', $1, $2, '2001:db8::1'), ('02:00:00:00:00:02', 'HOST', $1, $2, '192.0.2.2')`,
		trays[0], r.id)
	b.join(func(c *engine.Config) { c.NoWork = false })
	if view, _ := b.finished(id); view.State != db.TaskStateCompleted {
		t.Fatalf("%s: %s", view.State, view.Message)
	}
	conditions := b.inspect(r)
	for i, want := range []hardware.Expectation{
		{
			Component: hardware.Component{
				ID: trays[0], RackID: r.id, Type: hardware.Compute, Name: "r-Compute-0", ExternalID: trays[0].String(), MAC: "02:00:00:00:00:02",
			},
			RackExternalID: "rack-7", Manufacturer: "Acme", Serial: "SN-1", Model: "T1", Host: -1,
			BMCs: []hardware.BMC{
				{Type: hardware.DPUBMC, MAC: "02:00:00:00:00:01", IP: "2001:db8::1"},
				{Type: hardware.HostBMC, MAC: "02:00:00:00:00:02", IP: "192.0.2.2"},
				{Type: hardware.HostBMC, MAC: "02:00:00:00:00:03"},
			},
		},
		{
			Component: hardware.Component{
				ID: trays[1], RackID: r.id, Type: hardware.Compute, Name: "r-Compute-1", ExternalID: trays[1].String(),
			},
			RackExternalID: "rack-7", Slot: 1, Tray: 1,
		},
	} {
		if d := cmp.Diff(&want, conditions[fmt.Sprintf("Compute-%d", i)].Expectation); d != "" {
			t.Errorf("tray %d (-inventory +site):\n%s", i, d)
		}
	}
}

func TestAComponentDeletedMeanwhileIsNotExpected(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 3, 0, 0)
	trays := r.components[hardware.Compute]
	id := b.request(ingest, r, nil)
	b.exec("UPDATE component SET deleted_at = now() WHERE id = $1", trays[1])
	b.join(func(c *engine.Config) { c.NoWork = false })
	view, _ := b.finished(id)
	if want := "injection of the expectation failed for r-Compute-1 (" + trays[1].String() + "): no longer in inventory"; view.State != db.TaskStateFailed || !strings.Contains(view.Message, want) {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	b.wantKnown(id, trays, []string{"-", "no longer in inventory", "-"})
	if got := b.commands(); len(got) > 0 {
		t.Errorf("the site was told: %v", got)
	}
}

// retire is a decommissioning whose wait has a timeout.
func retire(timeout, interval string) string {
	return rule(strings.Replace(stage(1, "NVSwitch", act("DecommissionControl")+then("WaitDecommissioned", timeout, interval)), `"timeout": "20s"`, `"timeout": "4h"`, 1))
}

func TestDecommissionActions(t *testing.T) {
	t.Parallel()
	control := func(kind sim.Kind) sim.Fault {
		return sim.Fault{Kind: kind, Call: hardware.CapDecommissionControl, Text: "told so"}
	}
	// The first reading is the look before the command.
	status := func(kind sim.Kind, times int, state string) sim.Fault {
		return sim.Fault{Kind: kind, Call: hardware.CapDecommissionStatus, Times: times, After: 1, State: state}
	}
	const (
		failed = "main operation failed: decommissioning failed for r-NVSwitch-1"
		waited = "post-operation failed: action 0 (WaitDecommissioned) failed: "
	)
	for name, c := range map[string]actionCase{
		"asks once and waits for the end":                      {sent: 1},
		"a refusal fails":                                      {fault: control(sim.Refuse), fails: failed, sent: 1, known: []string{"", "told so", ""}},
		"there is one attempt, whatever the error":             {fault: control(sim.Unavailable), fails: failed, sent: 1, known: []string{"", "told so", ""}},
		"a request with a lost reply is found in the readings": {fault: control(sim.LostReply), sent: 1},
		"a request that can't be found is told to be unknown": {
			fault: control(sim.Fail), fails: failed, sent: 1, known: []string{"", "outcome unknown: told so", ""},
		},
		"ready, maintenance and sub-states are waited through": {fault: status(sim.WrongState, 3, "Maintenance(PowerCycle)"), sent: 1},
		"a site that is slow to begin is waited for":           {fault: status(sim.WrongState, 3, "Ready"), sent: 1},
		"the older spelling of the end is an end":              {fault: status(sim.WrongState, 0, "Decommissioning/Decommissioned"), sent: 1},
		"any other state fails, naming component and state": {
			fault: status(sim.WrongState, 0, "Assigned"), fails: waited + "decommissioning failed for r-NVSwitch-1", sent: 1,
			known: []string{"", `reached unexpected state "Assigned"`, ""},
		},
		"a component that is not found fails": {
			fault: status(sim.Partial, 0, ""), fails: waited + "decommissioning failed for r-NVSwitch-1", sent: 1,
			known: []string{"", "not found by its site controller", ""},
		},
		"an empty answer fails": {
			fault: status(sim.Partial, 0, ""), whole: true, fails: "not found by its site controller", sent: 1,
			known: []string{"not found by its site controller", "not found by its site controller", "not found by its site controller"},
		},
		"a query that is refused fails": {
			fault: status(sim.Refuse, 0, ""), whole: true, fails: waited + "decommissioning failed for r-NVSwitch-0", sent: 1,
		},
		"queries that fail are polled through": {fault: status(sim.Unavailable, 5, ""), whole: true, sent: 1},
		"queries that fail for five minutes fail the step": {
			fault: status(sim.Unavailable, 0, ""), whole: true, fails: waited + "no decommission status for 5m0s: simulated fault: unavailable", sent: 1,
			known: []string{"-", "-", "-"},
		},
		"an end that does not come runs into the timeout": {
			fault: status(sim.WrongState, 0, "Decommissioning/PowerCyclingHost"), fails: waited + "timeout after 20m0s waiting for decommissioning (attempts: ", sent: 1,
			known: []string{"", "-", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *engine.Config) { c.Speed = 1000 })
			c.check(t, b, hardware.NVSwitch, hardware.CapDecommissionControl, retire("20m", "30s"), false)
		})
	}
}

func TestWhatIsDecommissionedAlreadyIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 3, 0)
	switches := r.components[hardware.NVSwitch]
	first, err := b.site.Managers()[hardware.NVSwitch].(hardware.Decommissioner).Decommission(t.Context(), hardware.Target{
		Type: hardware.NVSwitch, Components: []hardware.Component{{ID: switches[1], RackID: r.id, Type: hardware.NVSwitch}},
	})
	if err != nil || first[switches[1]] != nil {
		t.Fatal(first, err)
	}
	if view, _ := b.finished(b.request(decommission, r, nil)); view.State != db.TaskStateCompleted {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	if got := b.received(switches[1], hardware.CapDecommissionControl); got != 1 {
		t.Errorf("%d requests arrived, want 1", got)
	}
}

func TestSilenceIsRememberedWhileADecommissioningIsParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.InlineWait = time.Millisecond })
	r := b.addRack("r", 0, 1, 0)
	b.script(sim.Fault{Kind: sim.Unavailable, Call: hardware.CapDecommissionStatus, Type: hardware.NVSwitch, After: 1})
	id := b.submit(hardware.PowerOn, r, b.addAnyRule(retire("4h", "30s")))
	b.parked(id)
	b.exec(`UPDATE task_step SET results = jsonb_build_object($2::text, 'no answer since ' || to_char(now() at time zone 'UTC' - interval '1 hour', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
		WHERE task_id = $1`, id, r.components[hardware.NVSwitch][0].String())
	b.exec("UPDATE river_job SET state = 'available', scheduled_at = now() WHERE id = (SELECT job_id FROM task_step WHERE task_id = $1)", id)
	view, _ := b.finished(id)
	if !strings.Contains(view.Message, "no decommission status for 5m0s") {
		t.Errorf("%s: %s", view.State, view.Message)
	}
	b.wantKnown(id, r.components[hardware.NVSwitch], []string{"-"})
}

func TestDecommissionBatchesRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	r := b.addRack("r", 0, 5, 0)
	switches := r.components[hardware.NVSwitch]
	b.script(sim.Fault{Component: switches[2], Kind: sim.Refuse, Call: hardware.CapDecommissionControl, Text: "interlock open"})
	view, _ := b.finished(b.submit(hardware.PowerOn, r, b.addAnyRule(strings.Replace(retire("20s", "1s"), `"stage": 1,`, `"stage": 1, "max_parallel": 2,`, 1))))
	if want := "main operation failed: batch 2 of 3 failed: decommissioning failed for r-NVSwitch-2"; !strings.Contains(view.Message, want) {
		t.Errorf("message %q, want ...%s...", view.Message, want)
	}
	for i, want := range []int{1, 1, 1, 1, 0} {
		if got := b.received(switches[i], hardware.CapDecommissionControl); got != want {
			t.Errorf("switch %d got %d requests, want %d", i, got, want)
		}
	}
}

func TestAFailedVerificationTellsWhatIsKnownOfEachComponent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		main  string
		fault sim.Fault
		known []string
	}{
		"power status":          {"VerifyPowerStatus", sim.Fault{Kind: sim.WrongState, Call: hardware.CapPowerStatus, State: "Rebooting"}, []string{"", "Rebooting", ""}},
		"power status not told": {"VerifyPowerStatus", sim.Fault{Kind: sim.Partial, Call: hardware.CapPowerStatus}, []string{"", "no answer", ""}},
		"reachability":          {"VerifyReachability", sim.Fault{Kind: sim.Partial, Call: hardware.CapPowerStatus}, []string{"", "no answer", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			r := b.addRack("r", 3, 0, 0)
			trays := r.components[hardware.Compute]
			c.fault.Component = trays[1]
			b.script(c.fault)
			id := b.submit(hardware.PowerOn, r, b.addRule(rule(stage(1, "Compute", act(c.main, `"timeout": "20s", "poll_interval": "1s",
				"parameters": {"expected_status": "off", "component_types": ["Compute"], "require_all": true}`)))))
			if view, _ := b.finished(id); view.State != db.TaskStateFailed {
				t.Errorf("%s: %s", view.State, view.Message)
			}
			b.wantKnown(id, trays, c.known)
		})
	}
}
