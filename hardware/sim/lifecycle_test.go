package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

// walk moves the clock in steps and returns the different texts that were seen on the way.
func walk(now *clock, step time.Duration, steps int, see func() string) []string {
	seen := []string{see()}
	for range steps {
		now.Advance(step)
		seen = append(seen, see())
	}
	return slices.Compact(seen)
}

func TestLifeOfAComponent(t *testing.T) {
	t.Parallel()
	rack, now := rackOf(1), newClock()
	s := open(t, sim.Config{Inventory: inventory(rack), Latency: time.Second, Now: now.Now, InitialPower: hardware.PowerStateOff})
	shelf := named(rack, "shelf-1")
	m := s.Managers()[hardware.PowerShelf]
	see := func() sim.Condition {
		t.Helper()
		cond, err := s.Inspect(t.Context(), shelf.Components[0])
		if err != nil {
			t.Fatal(err)
		}
		return cond
	}
	do := func(results hardware.Results, err error) {
		t.Helper()
		if err != nil || results[shelf.Components[0].ID] != nil {
			t.Fatalf("results %v, error %v", results, err)
		}
	}
	bringUp := func() string { return string(see().BringUp) }
	end := func() string { return see().Decommission }

	expected := hardware.Expectation{Component: shelf.Components[0], Serial: "SN-1", Slot: 3, Tray: -1, Host: -1,
		BMCs: []hardware.BMC{{Type: hardware.HostBMC, MAC: "02:00:00:00:00:01", IP: "192.0.2.1"}}}
	do(m.(hardware.ExpectationInjector).InjectExpectation(t.Context(), []hardware.Expectation{expected}))
	if d := cmp.Diff(&expected, see().Expectation); d != "" {
		t.Errorf("expectation (-told +remembered):\n%s", d)
	}
	if c := see(); c.BringUp != hardware.BringUpWaitingForIngestion {
		t.Errorf("%s after it was expected, want WaitingForIngestion", c.BringUp)
	}
	do(m.(hardware.BringUpController).BringUp(t.Context(), shelf))
	if d := cmp.Diff([]string{"MachineNotCreated", "MachineCreated"}, walk(now, time.Second/4, 8, bringUp)); d != "" {
		t.Errorf("bring-up (-want +got):\n%s", d)
	}
	if c := see(); c.Power.State != hardware.PowerStateOn {
		t.Errorf("power %s after bring-up, want On", c.Power.State)
	}
	do(m.(hardware.Decommissioner).Decommission(t.Context(), shelf))
	want := []string{"Decommissioning/SuppressingSiteExplorer", "Decommissioning/FactoryResettingBmcs", "Decommissioned"}
	if d := cmp.Diff(want, walk(now, time.Second/4, 12, end)); d != "" {
		t.Errorf("decommissioning (-want +got):\n%s", d)
	}
	results, err := m.(hardware.Decommissioner).Decommission(t.Context(), shelf)
	if err != nil || hardware.OutcomeOf(results[shelf.Components[0].ID]) != hardware.OutcomeRefused {
		t.Errorf("decommissioned twice: results %v, error %v; want a refusal", results, err)
	}
	do(m.(hardware.BringUpController).BringUp(t.Context(), shelf))
	now.Advance(time.Second)
	if c := see(); c.Decommission != "Ready" || c.BringUp != hardware.BringUpMachineCreated {
		t.Errorf("brought up again: %s, %s; want Ready, MachineCreated", c.Decommission, c.BringUp)
	}
}

func TestAComponentFoundOffIsIngestedWhenItIsPoweredOn(t *testing.T) {
	t.Parallel()
	rack, now := rackOf(1), newClock()
	s := open(t, sim.Config{Inventory: inventory(rack), Latency: time.Second, Now: now.Now, InitialPower: hardware.PowerStateOff})
	shelf := named(rack, "shelf-1")
	see := func() string {
		t.Helper()
		cond, err := s.Inspect(t.Context(), shelf.Components[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(cond.BringUp)
	}
	order(t, s, shelf, hardware.PowerOff)
	if got := see(); got != "WaitingForIngestion" {
		t.Errorf("%s after it was powered off, want WaitingForIngestion", got)
	}
	order(t, s, shelf, hardware.PowerOn)
	if d := cmp.Diff([]string{"MachineNotCreated", "MachineCreated"}, walk(now, time.Second/4, 8, see)); d != "" {
		t.Errorf("bring-up (-want +got):\n%s", d)
	}
}
