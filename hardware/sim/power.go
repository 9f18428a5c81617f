package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// PowerControl is hardware.PowerController. The newest order wins over one still on its way; an order for the state a
// component is already in, or on its way to, changes nothing. Graceful and forced orders differ for faults only.
func (m *manager) PowerControl(ctx context.Context, target hardware.Target, op hardware.PowerOperation, _ hardware.PowerOptions) (hardware.Results, error) {
	if _, err := hardware.ParsePowerOperation(string(op)); err != nil {
		return nil, hardware.Refused(err.Error())
	}
	if !op.Supports(m.kind) {
		return nil, hardware.Refused(fmt.Sprintf("unsupported power operation for %s: %s", m.kind, op))
	}
	order := Entry{Call: hardware.CapPowerControl, Operation: op}
	return m.command(ctx, target, order, 1, func(r *rack, c *component, _ time.Time) string {
		if want, _ := op.WantedState(); want == hardware.PowerStateOff {
			return "" // without a shelf the tray is off, which is what was asked for
		}
		return r.unreachable(c)
	})
}

// PowerStatus is hardware.PowerReader.
func (m *manager) PowerStatus(ctx context.Context, target hardware.Target) (map[uuid.UUID]hardware.PowerReading, error) {
	return read(ctx, m, target, hardware.CapPowerStatus,
		func(r *rack, c *component, _ time.Time) hardware.PowerReading { return r.powerReading(c) },
		func(p hardware.PowerReading, state string) hardware.PowerReading {
			switch {
			case state != "":
				p.State = hardware.PowerState(state)
			case p.State == hardware.PowerStateOn:
				p.State = hardware.PowerStateOff
			default:
				p.State = hardware.PowerStateOn
			}
			return p
		})
}

func (r *rack) powerReading(c *component) hardware.PowerReading {
	return hardware.PowerReading{State: c.Power, Reachable: r.reachable(c)}
}

// unreachable says why nothing can be asked of a component; empty when it can.
func (r *rack) unreachable(c *component) string {
	if r.reachable(c) {
		return ""
	}
	return "is unreachable: no power shelf of its rack is on"
}

// order carries out a power operation. wrong is the state it leads to instead of the right one; empty: the right one.
func (r *rack) order(c *component, op hardware.PowerOperation, at, effectAt time.Time, wrong string) {
	state, settled := op.WantedState()
	if !settled {
		state = hardware.PowerStateOn
	}
	if wrong != "" {
		state = hardware.PowerState(wrong)
	}
	if settled && r.destiny(c) == state {
		return // sending it again must not put the effect off
	}
	r.forget(c.ID)
	if settled && c.Power == state {
		return
	}
	if !settled {
		r.turn(c, hardware.PowerStateRebooting, at)
	}
	r.schedule(effect{At: effectAt, ID: c.ID, State: state})
	r.settle(at)
}
