package hardwaretest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// Harness is an adapter with a rack to try it on. Every check gets one of its own and changes it at will.
type Harness struct {
	Managers hardware.Managers

	// Rack holds components the adapter knows, at least two of each type it is to be tested with, powered on.
	Rack []hardware.Component

	// Settle returns when all accepted acts show in readings. Nil: they show at once.
	Settle func(t testing.TB)

	// Fault makes the next call go wrong and reports whether the adapter can be made to. Nil: no faults.
	Fault func(t testing.TB, f Fault) bool

	// Acts counts the commands that reached a device so far. Nil: not known.
	Acts func() int
}

// Problem is a way in which a call can go wrong.
type Problem int

// The problems. All but Hang concern the one component.
const (
	Refusal   Problem = iota + 1 // the device will never do it
	Busy                         // nothing was done, it may work later
	LostReply                    // the command may have been carried out
	Missing                      // the component is missing from the answer
	Hang                         // no answer at all to the call
)

// Fault is a problem with the next call.
type Fault struct {
	Component uuid.UUID
	Call      hardware.Capability
	Problem   Problem
}

// of lists the components of a type.
func (h Harness) of(kind hardware.ComponentType) hardware.Target {
	target := hardware.Target{Type: kind}
	for _, c := range h.Rack {
		if c.Type == kind {
			target.Components = append(target.Components, c)
		}
	}
	return target
}

func (h Harness) settle(t testing.TB) {
	if h.Settle != nil {
		h.Settle(t)
	}
}

func (h Harness) fault(t testing.TB, f Fault) {
	t.Helper()
	if h.Fault == nil || !h.Fault(t, f) {
		t.Skip("the adapter can't be made to fail like this")
	}
}

func (h Harness) acts() int {
	if h.Acts == nil {
		return 0
	}
	return h.Acts()
}

// each runs a check for every manager that has components in the rack, on a new harness each.
func each(t *testing.T, open func(t *testing.T) Harness, check func(t *testing.T, h Harness, m hardware.Manager)) {
	first := open(t)
	for _, kind := range hardware.ComponentTypes {
		if _, ok := first.Managers[kind]; !ok || len(first.of(kind).Components) == 0 {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			h := open(t)
			if len(h.of(kind).Components) < 2 {
				t.Fatalf("the harness has %d components of type %s, want at least 2", len(h.of(kind).Components), kind)
			}
			check(t, h, h.Managers[kind])
		})
	}
}

// call is one capability as a function. What is read comes back as results without errors, so that presence can be
// checked alike.
type call struct {
	capability hardware.Capability
	command    bool
	do         func(ctx context.Context, target hardware.Target) (hardware.Results, error)
}

// calls lists what a manager can do.
func calls(m hardware.Manager) []call {
	var cs []call
	command := func(c hardware.Capability, do func(ctx context.Context, target hardware.Target) (hardware.Results, error)) {
		cs = append(cs, call{capability: c, command: true, do: do})
	}
	if p, ok := m.(hardware.PowerController); ok {
		command(hardware.CapPowerControl, func(ctx context.Context, target hardware.Target) (hardware.Results, error) {
			return p.PowerControl(ctx, target, hardware.PowerOn, hardware.PowerOptions{})
		})
	}
	if f, ok := m.(hardware.FirmwareController); ok {
		command(hardware.CapFirmwareControl, func(ctx context.Context, target hardware.Target) (hardware.Results, error) {
			return f.StartFirmware(ctx, target, hardware.FirmwareRequest{Version: "7.7.7"})
		})
	}
	if b, ok := m.(hardware.BringUpController); ok {
		command(hardware.CapBringUpControl, b.BringUp)
	}
	if e, ok := m.(hardware.ExpectationInjector); ok {
		command(hardware.CapInjectExpectation, func(ctx context.Context, target hardware.Target) (hardware.Results, error) {
			return e.InjectExpectation(ctx, expectations(target))
		})
	}
	if d, ok := m.(hardware.Decommissioner); ok {
		command(hardware.CapDecommissionControl, d.Decommission)
	}
	if p, ok := m.(hardware.PowerReader); ok {
		cs = append(cs, call{capability: hardware.CapPowerStatus, do: reading(p.PowerStatus)})
	}
	if f, ok := m.(hardware.FirmwareReader); ok {
		cs = append(cs, call{capability: hardware.CapFirmwareStatus, do: reading(f.FirmwareStatus)})
	}
	if b, ok := m.(hardware.BringUpReader); ok {
		cs = append(cs, call{capability: hardware.CapBringUpStatus, do: reading(b.BringUpStatus)})
	}
	if d, ok := m.(hardware.DecommissionReader); ok {
		cs = append(cs, call{capability: hardware.CapDecommissionStatus, do: reading(d.DecommissionStatus)})
	}
	if f, ok := m.(hardware.FirmwareComparer); ok {
		cs = append(cs, call{capability: hardware.CapFirmwareConsistencyCheck,
			do: func(ctx context.Context, target hardware.Target) (hardware.Results, error) {
				return nil, f.CheckFirmwareConsistency(ctx, target)
			}})
	}
	return cs
}

// expectations are what an inventory could have of a target.
func expectations(target hardware.Target) []hardware.Expectation {
	var list []hardware.Expectation
	for i, c := range target.Components {
		c.Type = target.Type
		list = append(list, hardware.Expectation{
			Component: c, Manufacturer: "Acme", Serial: fmt.Sprintf("SN-%d", i), Slot: i, Tray: i, Host: -1,
			BMCs: []hardware.BMC{{Type: hardware.HostBMC, MAC: fmt.Sprintf("02:00:00:00:01:%02x", i), IP: fmt.Sprintf("192.0.2.%d", i+1)}},
		})
	}
	return list
}

func reading[T any](read func(context.Context, hardware.Target) (map[uuid.UUID]T, error)) func(context.Context, hardware.Target) (hardware.Results, error) {
	return func(ctx context.Context, target hardware.Target) (hardware.Results, error) {
		got, err := read(ctx, target)
		results := make(hardware.Results, len(got))
		for id := range got {
			results[id] = nil
		}
		return results, err
	}
}

// eachCall runs a check for every call of every manager, on a new harness each.
func eachCall(t *testing.T, open func(t *testing.T) Harness, check func(t *testing.T, h Harness, target hardware.Target, c call)) {
	each(t, open, func(t *testing.T, h Harness, m hardware.Manager) {
		for i, c := range calls(m) {
			t.Run(string(c.capability), func(t *testing.T) {
				h := open(t)
				check(t, h, h.of(m.Type()), calls(h.Managers[m.Type()])[i])
			})
		}
	})
}

// wantAll fails unless every component of the target, and nothing else, was answered without error.
func wantAll(t testing.TB, target hardware.Target, results hardware.Results, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("call failed: %v", err)
	}
	ids := target.IDs()
	for _, id := range ids {
		if err, ok := results[id]; !ok || err != nil {
			t.Errorf("component %s: answered %t, error %v; want success", id, ok, err)
		}
	}
	for id := range results {
		if !slices.Contains(ids, id) {
			t.Errorf("component %s was answered and not asked for", id)
		}
	}
}
