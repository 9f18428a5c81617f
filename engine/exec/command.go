package exec

import (
	"context"
	"fmt"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// powerFailed begins the error of a power command.
const powerFailed = "power control failed for"

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
		d.at.forget(batch)
		d.markRestless(ctx, a, batch)
		if err := d.ready(ctx, a, batch); err != nil { // last, so that nothing comes between it and the command
			return err
		}
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
		doubtful, refused := d.try(ctx, a, open, func(ctx context.Context, open []hardware.Component) (hardware.Results, error) {
			return controller.PowerControl(ctx, d.target(open), a.Operation, hardware.PowerOptions{Bypass: d.options.OverrideReadiness})
		}, func(c hardware.Component) { d.at.confirm(c.ID) })
		if open = d.at.open(batch); len(open) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			d.at.forget(open) // the call was cut off by us: what it says of itself is no verdict
			return ctx.Err()
		}
		if !repeatable {
			d.doubt(doubtful)
		}
		if refused || d.at.attempt >= a.Retry.MaxAttempts {
			return d.failures(powerFailed, open)
		}
		if err := d.backOff(ctx, a); err != nil {
			return err
		}
	}
}

// markRestless notes which components are not at rest before a reset is sent: of those, a later look can't tell whether it
// is this reset that makes them reboot. Sending it overwrites the note.
func (d *drive) markRestless(ctx context.Context, a rules.PlanAction, batch []hardware.Component) {
	readings, err := d.powerStatus(ctx, d.target(batch), d.x.limit(a))
	for _, c := range batch {
		if s := readings[c.ID].State; err != nil || s != hardware.PowerStateOn && s != hardware.PowerStateOff {
			d.at.note(c.ID, unknownOutcome+"the server stopped while it was sent, to a component that was not at rest before; not sent again")
		}
	}
}

// look confirms the components that are in the wanted state already. When it can't tell, the command is sent again.
func (d *drive) look(ctx context.Context, a rules.PlanAction, batch []hardware.Component) {
	want, _ := a.Operation.WantedState()
	open := d.at.open(batch)
	readings, err := d.powerStatus(ctx, d.target(open), d.x.limit(a))
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
	readings, err := d.powerStatus(ctx, d.target(open), d.x.limit(a))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, c := range open {
		_, known := d.at.results[c.ID]
		switch {
		case known: // it was not at rest before, or what the call said of it was recorded before the stop
		case err != nil:
			d.at.note(c.ID, fmt.Sprintf("%sthe server stopped while it was sent, and its state cannot be read: %v", unknownOutcome, err))
		case readings[c.ID].State == hardware.PowerStateRebooting:
			d.at.confirm(c.ID)
		default:
			d.at.note(c.ID, fmt.Sprintf("%sthe server stopped while it was sent (power is %s now); not sent again", unknownOutcome, readings[c.ID].State))
		}
	}
	if open = d.at.open(batch); len(open) == 0 {
		return nil
	}
	return d.failures(powerFailed, open)
}
