package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

func startFirmware(t testing.TB, s *sim.Site, target hardware.Target, req hardware.FirmwareRequest) error {
	t.Helper()
	results, err := s.Managers()[target.Type].(hardware.FirmwareController).StartFirmware(t.Context(), target, req)
	for _, e := range results {
		if e != nil {
			return e
		}
	}
	return err
}

func firmware(t testing.TB, s *sim.Site, c hardware.Component) hardware.FirmwareReading {
	t.Helper()
	cond, err := s.Inspect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return cond.Firmware
}

func TestFirmwareUpdateGoesThroughItsStates(t *testing.T) {
	t.Parallel()
	rack, now := rackOf(1), newClock()
	s := open(t, sim.Config{Inventory: inventory(rack), Latency: time.Second, Now: now.Now})
	target := named(rack, "tray-1")
	start := now.Now()
	want := func(when string, r hardware.FirmwareReading) {
		t.Helper()
		if d := cmp.Diff(r, firmware(t, s, target.Components[0])); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	want("before any update", hardware.FirmwareReading{State: hardware.FirmwareUnknown, Version: sim.FirstVersion})
	if err := startFirmware(t, s, target, hardware.FirmwareRequest{Version: "2.0", SubTargets: []string{" BMC"}}); err != nil {
		t.Fatal(err)
	}
	want("at the start", hardware.FirmwareReading{State: hardware.FirmwareQueued, Version: sim.FirstVersion, UpdatedAt: start})
	if err := startFirmware(t, s, target, hardware.FirmwareRequest{Version: "3.0"}); hardware.OutcomeOf(err) != hardware.OutcomeRefused {
		t.Errorf("second start while one runs: error %v, want one that is refused", err)
	}
	now.Advance(2 * time.Second)
	want("in the last third", hardware.FirmwareReading{State: hardware.FirmwareVerifying, Version: sim.FirstVersion, UpdatedAt: now.Now()})
	now.Advance(time.Second)
	want("at the end", hardware.FirmwareReading{State: hardware.FirmwareCompleted, Version: "2.0", UpdatedAt: now.Now()})

	if err := startFirmware(t, s, target, hardware.FirmwareRequest{Version: "2.0"}); err != nil {
		t.Fatal(err)
	}
	want("installed already", hardware.FirmwareReading{State: hardware.FirmwareCompleted, Version: "2.0", UpdatedAt: now.Now()})
	if err := startFirmware(t, s, target, hardware.FirmwareRequest{Version: "2.0", Force: true}); err != nil {
		t.Fatal(err)
	}
	want("forced", hardware.FirmwareReading{State: hardware.FirmwareQueued, Version: "2.0", UpdatedAt: now.Now()})
}

func TestFirmwareUpdateFailsWhenPowerIsLost(t *testing.T) {
	t.Parallel()
	rack, now := rackOf(1), newClock()
	s := open(t, sim.Config{Inventory: inventory(rack), Latency: time.Second, Now: now.Now})
	if err := startFirmware(t, s, named(rack, "tray-1"), hardware.FirmwareRequest{}); err != nil {
		t.Fatal(err)
	}
	order(t, s, named(rack, "shelf-1", "shelf-2"), hardware.ForcePowerOff)
	now.Advance(time.Minute)
	got := firmware(t, s, named(rack, "tray-1").Components[0])
	if got.State != hardware.FirmwareFailed || got.Version != sim.FirstVersion || got.Error == "" {
		t.Errorf("reading %+v, want Failed with the old version and a reason", got)
	}
	if err := startFirmware(t, s, named(rack, "tray-2"), hardware.FirmwareRequest{}); hardware.OutcomeOf(err) != hardware.OutcomeNotDone {
		t.Errorf("start without power: error %v, want one that is not done", err)
	}
}

func TestFirmwareConsistencyNamesAllThatDiffer(t *testing.T) {
	t.Parallel()
	rack := rackOf(1)
	s := open(t, sim.Config{Inventory: inventory(rack)})
	target := named(rack, "tray-1", "tray-2", "tray-3")
	check := s.Managers()[hardware.Compute].(hardware.FirmwareComparer).CheckFirmwareConsistency
	if err := check(t.Context(), target); err != nil {
		t.Errorf("all the same: %v", err)
	}
	if err := startFirmware(t, s, named(rack, "tray-2"), hardware.FirmwareRequest{Version: "9"}); err != nil {
		t.Fatal(err)
	}
	err := check(t.Context(), target)
	want := "Compute firmware versions are inconsistent: tray-2 (" + id(106).String() + ") has 9, expected 1.0.0"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	script(t, s, sim.Fault{Component: id(105), Kind: sim.Partial})
	if err := check(t.Context(), target); err == nil || !strings.Contains(err.Error(), "tray-1") {
		t.Errorf("error %v, want one that names tray-1 as without data", err)
	}
}

func TestPartNobodyKnowsIsRefusedWithTheOnesThatExist(t *testing.T) {
	t.Parallel()
	s := open(t, sim.Config{})
	err := startFirmware(t, s, named(rackOf(1), "switch-1"), hardware.FirmwareRequest{SubTargets: []string{"gpu"}})
	if want := `unknown nvswitch component "gpu" (expected one of: bios, bmc, cpld, nvos)`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
