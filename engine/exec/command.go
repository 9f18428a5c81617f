package exec

import (
	"context"
	"fmt"
	"time"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// powerControl sends one power command to a batch and sees that every component took it.
//
// On and off lead to a state, so they are sent again where they may have been lost, after a look at which components
// have got there already. A reset leads nowhere that could be read back: it is written down before it is sent, and
// never sent again.
func (d *drive) powerControl(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	t := d.stepPlan().ComponentType
	controller, err := hardware.As[hardware.PowerController](d.x.managers, t, hardware.CapPowerControl)
	if err != nil {
		return err
	}
	if !a.Operation.Supports(t) {
		return fmt.Errorf("unsupported power operation for %s: %s", t, a.Operation)
	}
	_, repeatable := a.Operation.WantedState()
	if !repeatable {
		if d.at.intent {
			return d.settle(ctx, a, batch)
		}
		if err := d.ready(ctx, a, batch); err != nil {
			return err
		}
		d.markRestless(ctx, a, batch)
		d.at.intent = true
		if err := d.checkpoint(ctx, a, false); err != nil {
			return err
		}
	}
	for {
		if repeatable && (d.at.attempt > 0 || d.at.resumed) {
			d.look(ctx, a, batch)
		}
		open := d.at.open(batch)
		if len(open) == 0 {
			return nil
		}
		if repeatable {
			if err := d.ready(ctx, a, open); err != nil {
				return err
			}
		}
		d.at.attempt++
		refused := d.send(ctx, controller, a, open)
		if open = d.at.open(batch); len(open) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			// The call was cut off by us: what it says of itself is no verdict. Whoever drives on looks at the device.
			for _, c := range open {
				delete(d.at.results, c.ID)
			}
			return ctx.Err()
		}
		if refused || d.at.attempt >= a.Retry.MaxAttempts {
			return d.commandError(open)
		}
		if err := d.backOff(ctx, a); err != nil {
			return err
		}
	}
}

// markRestless notes which components are not at rest before a reset is sent: of those, a later look can't tell whether it
// is this reset that makes them reboot. Sending it overwrites the note.
func (d *drive) markRestless(ctx context.Context, a rules.PlanAction, batch []hardware.Component) {
	readings, err := d.powerStatus(ctx, hardware.Target{Type: d.stepPlan().ComponentType, Components: batch},
		d.x.scaled(time.Duration(a.AttemptTimeout)))
	for _, c := range batch {
		if s := readings[c.ID].State; err != nil || s != hardware.PowerStateOn && s != hardware.PowerStateOff {
			d.at.note(c.ID, "outcome unknown: the server stopped while it was sent, to a component that was not at rest before; not sent again")
		}
	}
}

// send makes one attempt and notes what became of each component; it tells whether any was refused.
func (d *drive) send(ctx context.Context, controller hardware.PowerController, a rules.PlanAction, open []hardware.Component) (refused bool) {
	call, cancel := d.x.within(ctx, d.x.limit(a))
	defer cancel()
	results, err := controller.PowerControl(call, hardware.Target{Type: d.stepPlan().ComponentType, Components: open}, a.Operation,
		hardware.PowerOptions{Bypass: d.options.OverrideReadiness})
	for _, c := range open {
		failure, known := results[c.ID]
		switch {
		case err != nil:
			failure = err
		case !known:
			failure = hardware.Uncertain("no result")
		case failure == nil:
			d.at.confirm(c.ID)
			continue
		}
		how := hardware.OutcomeOf(failure)
		refused = refused || how == hardware.OutcomeRefused
		text := d.attemptError(failure, a).Error()
		if _, repeatable := a.Operation.WantedState(); !repeatable && how == hardware.OutcomeUncertain {
			text = "outcome unknown: " + text
		}
		d.at.note(c.ID, text)
	}
	return refused
}

// look confirms the components that are in the wanted state already. When it can't tell, the command is sent again.
func (d *drive) look(ctx context.Context, a rules.PlanAction, batch []hardware.Component) {
	want, _ := a.Operation.WantedState()
	open := d.at.open(batch)
	readings, err := d.powerStatus(ctx, hardware.Target{Type: d.stepPlan().ComponentType, Components: open},
		d.x.scaled(time.Duration(a.AttemptTimeout)))
	if err != nil {
		return
	}
	for _, c := range open {
		if readings[c.ID].State == want {
			d.at.confirm(c.ID)
		}
	}
}

// settle finds out about a reset that was written down by a driver that died. Only a component that is rebooting is
// known to have got it; for any other the step stops and says so.
func (d *drive) settle(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	open := d.at.open(batch)
	readings, err := d.powerStatus(ctx, hardware.Target{Type: d.stepPlan().ComponentType, Components: open},
		d.x.scaled(time.Duration(a.AttemptTimeout)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, c := range open {
		_, known := d.at.results[c.ID]
		switch {
		case known: // it was not at rest before, or what the call said of it was recorded before the stop
		case err != nil:
			d.at.note(c.ID, fmt.Sprintf("outcome unknown: the server stopped while it was sent, and its state cannot be read: %v", err))
		case readings[c.ID].State == hardware.PowerStateRebooting:
			d.at.confirm(c.ID)
		default:
			d.at.note(c.ID, fmt.Sprintf("outcome unknown: the server stopped while it was sent (power is %s now); not sent again", readings[c.ID].State))
		}
	}
	if open = d.at.open(batch); len(open) == 0 {
		return nil
	}
	return d.commandError(open)
}

// commandError names the components a command failed for.
func (d *drive) commandError(open []hardware.Component) error {
	return d.failures("power control failed for", open)
}
