package hardwaretest

import (
	"testing"

	"rackflow.dev/flow/hardware"
)

// powerTruth sends every order twice, as a caller does that has lost the first answer. Orders that lead nowhere in
// particular are sent once and must leave the component on.
func powerTruth(t *testing.T, open func(t *testing.T) Harness) {
	each(t, open, func(t *testing.T, h Harness, m hardware.Manager) {
		p, target := power(t, m), h.of(m.Type())
		order := func(op hardware.PowerOperation) {
			t.Helper()
			results, err := p.PowerControl(t.Context(), target, op, hardware.PowerOptions{})
			wantAll(t, target, results, err)
		}
		for _, op := range []hardware.PowerOperation{
			hardware.PowerOff, hardware.PowerOn, hardware.ForcePowerOff, hardware.ForcePowerOn,
		} {
			want, _ := op.WantedState()
			order(op)
			order(op)
			h.settle(t)
			wantPower(t, h, m, want)
			order(op)
			h.settle(t)
			wantPower(t, h, m, want)
		}
		for _, op := range hardware.PowerOperations {
			if _, leads := op.WantedState(); leads || !op.Supports(m.Type()) {
				continue
			}
			order(op)
			h.settle(t)
			wantPower(t, h, m, hardware.PowerStateOn)
		}
	})
}

func firmwareTruth(t *testing.T, open func(t *testing.T) Harness) {
	each(t, open, func(t *testing.T, h Harness, m hardware.Manager) {
		f, ok := m.(hardware.FirmwareController)
		r, readable := m.(hardware.FirmwareReader)
		if !ok || !readable {
			t.Skip("no firmware control")
		}
		target := h.of(m.Type())
		results, err := f.StartFirmware(t.Context(), target, hardware.FirmwareRequest{Version: "7.7.7"})
		wantAll(t, target, results, err)
		h.settle(t)
		got, err := r.FirmwareStatus(t.Context(), target)
		if err != nil {
			t.Fatalf("firmware status: %v", err)
		}
		for _, c := range target.Components {
			reading, ok := got[c.ID]
			if !ok || reading.State != hardware.FirmwareCompleted || reading.Version != "" && reading.Version != "7.7.7" {
				t.Errorf("component %s: present %t, reading %+v; want Completed with version 7.7.7", c.ID, ok, reading)
			}
		}
	})
}

func lifeTruth(t *testing.T, open func(t *testing.T) Harness) {
	each(t, open, func(t *testing.T, h Harness, m hardware.Manager) {
		target := h.of(m.Type())
		if b, ok := m.(hardware.BringUpController); ok {
			for range 2 {
				results, err := b.BringUp(t.Context(), target)
				wantAll(t, target, results, err)
			}
			h.settle(t)
			if r, ok := m.(hardware.BringUpReader); ok {
				got, err := r.BringUpStatus(t.Context(), target)
				if err != nil {
					t.Fatalf("bring-up status: %v", err)
				}
				for _, c := range target.Components {
					if got[c.ID] != hardware.BringUpMachineCreated {
						t.Errorf("component %s: bring-up state %q, want %s", c.ID, got[c.ID], hardware.BringUpMachineCreated)
					}
				}
			}
		}
		if d, ok := m.(hardware.Decommissioner); ok {
			results, err := d.Decommission(t.Context(), target)
			wantAll(t, target, results, err)
			h.settle(t)
			if r, ok := m.(hardware.DecommissionReader); ok {
				got, err := r.DecommissionStatus(t.Context(), target)
				if err != nil {
					t.Fatalf("decommission status: %v", err)
				}
				for _, c := range target.Components {
					// Both spellings of the end are in use.
					if s := got[c.ID]; s != "Decommissioned" && s != "Decommissioning/Decommissioned" {
						t.Errorf("component %s: decommission state %q, want Decommissioned", c.ID, s)
					}
				}
			}
		}
	})
}
