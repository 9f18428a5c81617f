package sim

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// Site controller states of a component as DecommissionStatus tells them.
const (
	stateReady          = "Ready"
	stateSuppressing    = "Decommissioning/SuppressingSiteExplorer"
	stateResetting      = "Decommissioning/FactoryResettingBmcs"
	stateDecommissioned = "Decommissioned"
)

// life is what became of a component between its arrival and its end. A bring-up after a decommissioning starts anew.
type life struct {
	UpAt      time.Time             `json:"up_at,omitzero"`     // when it is or was brought up
	UpWrong   hardware.BringUpState `json:"up_wrong,omitempty"` // the state bring-up ends in instead
	EndFrom   time.Time             `json:"end_from,omitzero"`  // when decommissioning began
	EndAt     time.Time             `json:"end_at,omitzero"`    // when it is over
	EndsWrong string                `json:"end_wrong,omitempty"`
}

// BringUp is hardware.BringUpController: the component is powered on and ingested.
func (m *manager) BringUp(ctx context.Context, target hardware.Target) (hardware.Results, error) {
	order := Entry{Call: hardware.CapBringUpControl}
	return m.command(ctx, target, order, 1, func(r *rack, c *component, _ time.Time) string { return r.unreachable(c) })
}

// BringUpStatus is hardware.BringUpReader.
func (m *manager) BringUpStatus(ctx context.Context, target hardware.Target) (map[uuid.UUID]hardware.BringUpState, error) {
	return read(ctx, m, target, hardware.CapBringUpStatus,
		func(_ *rack, c *component, now time.Time) hardware.BringUpState { return c.bringUpState(now) },
		func(_ hardware.BringUpState, state string) hardware.BringUpState {
			return cmp.Or(hardware.BringUpState(state), hardware.BringUpNotDiscovered)
		})
}

// InjectExpectation is hardware.ExpectationInjector: the site remembers what it was told last, whether or not the device
// can be reached.
func (m *manager) InjectExpectation(ctx context.Context, expected []hardware.Expectation) (hardware.Results, error) {
	target, err := hardware.ExpectedTarget(m.kind, expected)
	if err != nil {
		return nil, err
	}
	order := Entry{Call: hardware.CapInjectExpectation, Expectations: expected}
	return m.command(ctx, target, order, 0, func(*rack, *component, time.Time) string { return "" })
}

// Decommission is hardware.Decommissioner. Like a real site it refuses a component that is not ready, so a second
// request is refused.
func (m *manager) Decommission(ctx context.Context, target hardware.Target) (hardware.Results, error) {
	order := Entry{Call: hardware.CapDecommissionControl}
	return m.command(ctx, target, order, 2, func(r *rack, c *component, now time.Time) string {
		if state := c.decommissionState(now); state != stateReady {
			return "can't be decommissioned in state " + state
		}
		return r.unreachable(c)
	})
}

// DecommissionStatus is hardware.DecommissionReader.
func (m *manager) DecommissionStatus(ctx context.Context, target hardware.Target) (map[uuid.UUID]string, error) {
	return read(ctx, m, target, hardware.CapDecommissionStatus,
		func(_ *rack, c *component, now time.Time) string { return c.decommissionState(now) },
		func(_, state string) string { return state })
}

// bringUp opens the gate. wrong is the state ingestion ends in instead of MachineCreated.
func (c *component) bringUp(at, doneAt time.Time, wrong string) {
	if wrong == "" && c.bringUpState(at) == hardware.BringUpMachineCreated {
		return
	}
	if c.Life != nil && c.Life.EndAt.IsZero() && at.Before(c.Life.UpAt) {
		return // on its way: sending it again must not put it off
	}
	c.Life = &life{UpAt: doneAt, UpWrong: hardware.BringUpState(wrong)}
}

// discover lets a component past the gate that was powered on without being brought up: there is nothing left to hold back.
func (c *component) discover(at, doneAt time.Time) {
	if c.Life == nil && !c.Ingested {
		c.bringUp(at, doneAt, "")
	}
}

// expect keeps what the site was told of the component.
func (c *component) expect(expected []hardware.Expectation) {
	for _, e := range expected {
		if e.ID == c.ID {
			c.Expectation = &e
		}
	}
}

func (c *component) bringUpState(now time.Time) hardware.BringUpState {
	l := c.Life
	switch {
	case c.decommissionState(now) == stateDecommissioned:
		return hardware.BringUpNotDiscovered
	case l == nil || l.UpAt.IsZero():
		if c.Ingested {
			return hardware.BringUpMachineCreated
		}
		return hardware.BringUpWaitingForIngestion
	case now.Before(l.UpAt):
		return hardware.BringUpMachineNotCreated
	default:
		return cmp.Or(l.UpWrong, hardware.BringUpMachineCreated)
	}
}

// decommission starts the end. wrong is the state text it ends with instead of Decommissioned.
func (c *component) decommission(at, doneAt time.Time, wrong string) {
	if c.Life == nil {
		c.Life = &life{}
	}
	c.Life.EndFrom, c.Life.EndAt, c.Life.EndsWrong = at, doneAt, wrong
}

func (c *component) decommissionState(now time.Time) string {
	l := c.Life
	switch {
	case l == nil || l.EndAt.IsZero():
		return stateReady
	case !now.Before(l.EndAt):
		return cmp.Or(l.EndsWrong, stateDecommissioned)
	case now.Before(l.EndFrom.Add(l.EndAt.Sub(l.EndFrom) / 2)):
		return stateSuppressing
	default:
		return stateResetting
	}
}
