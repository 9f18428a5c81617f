package sim_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

// told is what the caller of a command hears of a component, in a word.
func told(results hardware.Results, err error, c uuid.UUID) string {
	if err != nil {
		return "call " + outcomeWord(err)
	}
	e, ok := results[c]
	switch {
	case !ok:
		return "missing"
	case e == nil:
		return "success"
	default:
		return outcomeWord(e)
	}
}

func outcomeWord(err error) string {
	return map[hardware.Outcome]string{
		hardware.OutcomeRefused: "refused", hardware.OutcomeNotDone: "not done", hardware.OutcomeUncertain: "uncertain",
	}[hardware.OutcomeOf(err)]
}

func TestFaultsOfACommand(t *testing.T) {
	t.Parallel()
	one, two := id(105), id(106) // tray-1 and tray-2, which both are powered off; the fault is the first one's
	type got struct{ One, Two, OneIs, TwoIs string }
	for name, tc := range map[string]struct {
		fault sim.Fault
		want  got
	}{
		"a refusal concerns its component":               {sim.Fault{Component: one, Kind: sim.Refuse}, got{"refused", "success", "On", "Off"}},
		"a refusal of any component concerns the call":   {sim.Fault{Kind: sim.Refuse}, got{"call refused", "call refused", "On", "On"}},
		"an unavailable component was not reached":       {sim.Fault{Component: one, Kind: sim.Unavailable}, got{"not done", "success", "On", "Off"}},
		"an unavailable site was not reached":            {sim.Fault{Kind: sim.Unavailable}, got{"call not done", "call not done", "On", "On"}},
		"a failure does not say whether":                 {sim.Fault{Component: one, Kind: sim.Fail}, got{"uncertain", "success", "On", "Off"}},
		"a failure is always told by component":          {sim.Fault{Kind: sim.Fail}, got{"uncertain", "uncertain", "On", "On"}},
		"a lost reply hides an act":                      {sim.Fault{Component: one, Kind: sim.LostReply}, got{"uncertain", "success", "Off", "Off"}},
		"a lost connection hides all acts":               {sim.Fault{Kind: sim.LostReply}, got{"call uncertain", "call uncertain", "Off", "Off"}},
		"a missing component was ordered":                {sim.Fault{Component: one, Kind: sim.Partial}, got{"missing", "success", "Off", "Off"}},
		"success may be a lie":                           {sim.Fault{Component: one, Kind: sim.WrongState}, got{"success", "success", "On", "Off"}},
		"success may lead elsewhere":                     {sim.Fault{Component: one, Kind: sim.WrongState, State: "Unknown"}, got{"success", "success", "Unknown", "Off"}},
		"a hanging component is not ordered":             {sim.Fault{Component: one, Kind: sim.Hang}, got{"call uncertain", "call uncertain", "On", "Off"}},
		"a call may hang after the act":                  {sim.Fault{Kind: sim.HangDone}, got{"call uncertain", "call uncertain", "Off", "Off"}},
		"a slow call is done late":                       {sim.Fault{Kind: sim.Slow, Delay: time.Second}, got{"success", "success", "Off", "Off"}},
		"a call slower than its caller is not done":      {sim.Fault{Kind: sim.Slow, Delay: time.Hour}, got{"call uncertain", "call uncertain", "On", "On"}},
		"any kind may be slow":                           {sim.Fault{Component: one, Kind: sim.Refuse, Delay: time.Second}, got{"refused", "success", "On", "Off"}},
		"flapping readings do not touch commands":        {sim.Fault{Kind: sim.Flap}, got{"success", "success", "Off", "Off"}},
		"a fault for another operation does not apply":   {sim.Fault{Kind: sim.Refuse, Operation: hardware.PowerOn}, got{"success", "success", "Off", "Off"}},
		"a fault for another type does not apply":        {sim.Fault{Kind: sim.Refuse, Type: hardware.NVSwitch}, got{"success", "success", "Off", "Off"}},
		"a fault for another call does not apply":        {sim.Fault{Kind: sim.Refuse, Call: hardware.CapBringUpControl}, got{"success", "success", "Off", "Off"}},
		"a fault for another component does not apply":   {sim.Fault{Kind: sim.Refuse, Component: id(107)}, got{"success", "success", "Off", "Off"}},
		"a fault lets as many calls pass as it is told":  {sim.Fault{Kind: sim.Refuse, After: 1}, got{"success", "success", "Off", "Off"}},
		"a fault for all of the filters at once applies": {sim.Fault{Kind: sim.Refuse, Component: two, Type: hardware.Compute, Call: hardware.CapPowerControl, Operation: hardware.PowerOff}, got{"success", "refused", "Off", "On"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rack, path := rackOf(1), filepath.Join(t.TempDir(), "journal")
			cfg := sim.Config{Inventory: inventory(rack), Journal: path}
			synctest.Test(t, func(t *testing.T) {
				s, err := sim.Open(cfg)
				if err != nil {
					t.Fatal(err)
				}
				script(t, s, tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				target := named(rack, "tray-1", "tray-2")
				results, err := s.Managers()[hardware.Compute].(hardware.PowerController).PowerControl(ctx, target, hardware.PowerOff, hardware.PowerOptions{})
				s.ClearFaults()
				is := look(t, s, target.Components)
				g := got{told(results, err, one), told(results, err, two), is["tray-1"], is["tray-2"]}
				if d := cmp.Diff(tc.want, g); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				_ = s.Close()
			})
			// The journal must tell the same story: one arrival, and the acts that took place.
			entries, err := sim.ReadJournal(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := count(entries, sim.Entry.Arrived); n != 1 {
				t.Errorf("%d commands arrived by the journal, want 1", n)
			}
			again := look(t, open(t, cfg), named(rack, "tray-1", "tray-2").Components)
			if d := cmp.Diff(map[string]string{"tray-1": tc.want.OneIs, "tray-2": tc.want.TwoIs}, again); d != "" {
				t.Errorf("opened again (-want +got):\n%s", d)
			}
		})
	}
}

func TestFaultsOfAReading(t *testing.T) {
	t.Parallel()
	one := id(105)
	for name, tc := range map[string]struct {
		fault sim.Fault
		want  []string // reading after reading of tray-1, which is on
	}{
		"a component may be missing":             {sim.Fault{Component: one, Kind: sim.Partial, Times: 1}, []string{"missing", "On"}},
		"a component may be out of reach":        {sim.Fault{Component: one, Kind: sim.Unavailable, After: 1, Times: 2}, []string{"On", "missing", "missing", "On"}},
		"a call may fail":                        {sim.Fault{Kind: sim.Unavailable, Times: 1}, []string{"call not done", "On"}},
		"a reading may be wrong for ever":        {sim.Fault{Component: one, Kind: sim.WrongState, State: "Rebooting"}, []string{"Rebooting", "Rebooting"}},
		"a reading may flap":                     {sim.Fault{Component: one, Kind: sim.Flap}, []string{"Off", "On", "Off", "On"}},
		"a reading may flap between chosen ones": {sim.Fault{Component: one, Kind: sim.Flap, State: "Unknown"}, []string{"Unknown", "On"}},
		"a call may hang once":                   {sim.Fault{Kind: sim.Hang, Times: 1}, []string{"call uncertain", "On"}},
		"a slow call still tells the truth":      {sim.Fault{Kind: sim.Slow, Delay: time.Second}, []string{"On"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rack := rackOf(1)
				s := open(t, sim.Config{Inventory: inventory(rack)})
				tc.fault.Call = hardware.CapPowerStatus
				script(t, s, tc.fault)
				var got []string
				for range tc.want {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					readings, err := s.Managers()[hardware.Compute].(hardware.PowerReader).PowerStatus(ctx, named(rack, "tray-1", "tray-2"))
					cancel()
					r, ok := readings[one]
					switch {
					case err != nil:
						got = append(got, "call "+outcomeWord(err))
					case !ok:
						got = append(got, "missing")
					default:
						got = append(got, string(r.State))
					}
					if _, ok := readings[id(106)]; err == nil && !ok {
						t.Error("the component without a fault is missing")
					}
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("readings (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestSlowCallIsFasterOnAFastSite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, sim.Config{Speed: 60})
		script(t, s, sim.Fault{Kind: sim.Slow, Delay: time.Minute})
		start := time.Now()
		order(t, s, named(rackOf(1), "tray-1"), hardware.PowerOff)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}

func TestFaultScriptedFirstWins(t *testing.T) {
	t.Parallel()
	s := open(t, sim.Config{})
	script(t, s, sim.Fault{Component: id(105), Kind: sim.Fail, Times: 1}, sim.Fault{Component: id(105), Kind: sim.Refuse})
	for _, want := range []string{"uncertain", "refused", "refused"} {
		results, err := powerControl(t, s, named(rackOf(1), "tray-1"), hardware.PowerOff)
		if got := told(results, err, id(105)); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
}

func TestWrongEndsOfLongActs(t *testing.T) {
	t.Parallel()
	rack, now := rackOf(1), newClock()
	s := open(t, sim.Config{Inventory: inventory(rack), Latency: time.Second, Now: now.Now, InitialPower: hardware.PowerStateOff})
	shelf := named(rack, "shelf-1")
	script(t, s,
		sim.Fault{Call: hardware.CapFirmwareControl, Kind: sim.WrongState, State: "Failed", Text: "bad image"},
		sim.Fault{Call: hardware.CapBringUpControl, Kind: sim.WrongState, State: "WaitingForIngestion"},
		sim.Fault{Call: hardware.CapDecommissionControl, Kind: sim.WrongState, State: "Failed/NoBmc"})
	m := s.Managers()[hardware.PowerShelf]
	for _, do := range []func(context.Context, hardware.Target) (hardware.Results, error){
		m.(hardware.BringUpController).BringUp, m.(hardware.Decommissioner).Decommission,
	} {
		if _, err := do(t.Context(), shelf); err != nil {
			t.Fatal(err)
		}
	}
	if err := startFirmware(t, s, shelf, hardware.FirmwareRequest{}); err != nil {
		t.Fatal(err)
	}
	now.Advance(time.Minute)
	got, err := s.Inspect(t.Context(), shelf.Components[0])
	if err != nil {
		t.Fatal(err)
	}
	want := sim.Condition{
		Power: hardware.PowerReading{State: hardware.PowerStateOn, Reachable: true},
		Firmware: hardware.FirmwareReading{State: hardware.FirmwareFailed, Version: sim.FirstVersion, Error: "bad image",
			UpdatedAt: now.Now().Add(-57 * time.Second)},
		BringUp: hardware.BringUpWaitingForIngestion, Decommission: "Failed/NoBmc",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestFaultsCountTheCallsTheyApplyTo(t *testing.T) {
	t.Parallel()
	rack := rackOf(1)
	s := open(t, sim.Config{Inventory: inventory(rack)})
	script(t, s,
		sim.Fault{Kind: sim.Unavailable, Component: id(105), Call: hardware.CapPowerStatus, After: 1, Times: 1},
		sim.Fault{Kind: sim.Refuse, Call: hardware.CapPowerControl},
		sim.Fault{Kind: sim.Unavailable, Call: hardware.CapPowerStatus, After: 9},
		sim.Fault{Kind: sim.Slow, Delay: time.Nanosecond, Call: hardware.CapPowerStatus},
	)
	for range 3 {
		_, _ = s.Managers()[hardware.Compute].(hardware.PowerReader).PowerStatus(t.Context(), named(rack, "tray-1"))
	}
	if d := cmp.Diff([]int{1, 0, 0, 3}, s.FaultsMet()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
