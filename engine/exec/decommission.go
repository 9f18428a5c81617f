package exec

import (
	"context"
	"fmt"
	"strings"
	"time"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// statusSilence is how long a decommissioning goes on without an answer to where it is (chapter 31, 4.6).
const statusSilence = 5 * time.Minute

// What a site controller says of a component. While it is being decommissioned the state has the step behind a slash.
const (
	stateReady           = "Ready"
	stateDecommissioned  = "Decommissioned"
	prefixDecommission   = "Decommissioning/"
	prefixInMaintenance  = "Maintenance("
	stateDecommissionEnd = prefixDecommission + stateDecommissioned // how older site controllers spell the end
)

// accepted tells from its state whether a component has been told to decommission.
func accepted(state string) bool {
	return state == stateDecommissioned || strings.HasPrefix(state, prefixDecommission)
}

// decommissionControl starts the decommissioning of a batch. A site refuses a second request, and there is but one
// attempt, so components that are on their way already are found first and left alone.
func (d *drive) decommissionControl(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	t := d.stepPlan().ComponentType
	decommissioner, err := hardware.As[hardware.Decommissioner](d.x.managers, t, hardware.CapDecommissionControl)
	if err != nil {
		return err
	}
	reader, err := hardware.As[hardware.DecommissionReader](d.x.managers, t, hardware.CapDecommissionStatus)
	if err != nil {
		return err
	}
	states, err := d.findAccepted(ctx, a, batch, reader)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	open := d.at.open(batch)
	if d.at.intent {
		if unknown := d.untold(open, states, err); len(unknown) > 0 {
			return d.failures("decommissioning failed for", unknown)
		}
	}
	if len(open) == 0 {
		return nil
	}
	d.at.intent = true
	d.at.forget(open)
	if err := d.checkpoint(ctx, a, false); err != nil {
		return err
	}
	d.at.attempt++
	doubtful, _ := d.try(ctx, a, open, func(ctx context.Context, open []hardware.Component) (hardware.Results, error) {
		return decommissioner.Decommission(ctx, d.target(open))
	}, func(c hardware.Component) { d.at.confirm(c.ID) })
	if ctx.Err() == nil && len(doubtful) > 0 {
		d.doubt(doubtful)
		_, _ = d.findAccepted(ctx, a, doubtful, reader) // without an answer they stay in doubt
	}
	if open = d.at.open(batch); len(open) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		d.at.forget(open) // whoever drives on looks at the device
		return ctx.Err()
	}
	return d.failures("decommissioning failed for", open)
}

// findAccepted confirms the components that are being decommissioned or are at its end, and returns the states of all.
func (d *drive) findAccepted(ctx context.Context, a rules.PlanAction, batch []hardware.Component, reader hardware.DecommissionReader) (
	states map[componentID]string, err error,
) {
	open := d.at.open(batch)
	if len(open) == 0 {
		return nil, nil
	}
	err = d.within(ctx, a, func(ctx context.Context) (err error) {
		states, err = reader.DecommissionStatus(ctx, d.target(open))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, c := range open {
		if accepted(states[c.ID]) {
			d.at.confirm(c.ID)
		}
	}
	return states, nil
}

// untold notes and returns the components that may have got a request from a driver that died and whose state does not
// tell. One that is ready has not got it.
func (d *drive) untold(open []hardware.Component, states map[componentID]string, err error) (unknown []hardware.Component) {
	for _, c := range open {
		state := states[c.ID]
		switch {
		case err != nil:
			d.at.note(c.ID, fmt.Sprintf("%sthe server stopped while it was sent, and its state cannot be read: %v", unknownOutcome, err))
		case state == stateReady:
			continue
		default:
			d.at.note(c.ID, fmt.Sprintf("%sthe server stopped while it was sent (state is %s now); not sent again", unknownOutcome, shown(state)))
		}
		unknown = append(unknown, c)
	}
	return unknown
}

// waitDecommissioned polls until every component of the batch has been decommissioned. One that is found at the end is
// not asked about again.
func (d *drive) waitDecommissioned(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	t := d.stepPlan().ComponentType
	reader, err := hardware.As[hardware.DecommissionReader](d.x.managers, t, hardware.CapDecommissionStatus)
	if err != nil {
		return err
	}
	deadline := d.at.actionStarted.Add(d.x.scaled(time.Duration(a.Timeout)))
	var waiting []string // for what, by component
	var failure error
	look := func(ctx context.Context, limit time.Duration) bool {
		// The last look falls on the deadline and has the poll's own time.
		if left := deadline.Sub(d.x.now()); left > 0 {
			limit = min(limit, left)
		}
		open := d.at.open(batch)
		if len(open) == 0 {
			return true
		}
		call, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		states, err := reader.DecommissionStatus(call, d.target(open))
		if ctx.Err() != nil {
			return false
		}
		waiting = waiting[:0]
		if err != nil {
			for _, c := range open {
				waiting = append(waiting, fmt.Sprintf("%s: %v", c.Label(), err))
			}
			failure = d.unanswered(open, err)
			return failure != nil
		}
		d.at.forget(open) // since when there was no answer
		waiting, failure = d.progress(open, states, waiting)
		return failure != nil || len(waiting) == 0
	}
	err = d.poll(ctx, a, look, func() error {
		return fmt.Errorf("timeout after %s waiting for decommissioning (attempts: %d): %s", a.Timeout, d.at.attempt, list(waiting, "; "))
	})
	if err != nil {
		return err
	}
	return failure
}

// progress confirms what has been decommissioned, adds to waiting what is on its way, and fails for anything else.
func (d *drive) progress(open []hardware.Component, states map[componentID]string, waiting []string) ([]string, error) {
	var failed []hardware.Component
	for _, c := range open {
		state, known := states[c.ID]
		switch {
		case !known:
			d.at.note(c.ID, "not found by its site controller")
			failed = append(failed, c)
		case state == stateDecommissioned || state == stateDecommissionEnd:
			d.at.confirm(c.ID)
		case state == stateReady || strings.HasPrefix(state, prefixInMaintenance) || strings.HasPrefix(state, prefixDecommission):
			waiting = append(waiting, c.Label()+": "+state)
		default:
			d.at.note(c.ID, fmt.Sprintf("reached unexpected state %q", state))
			failed = append(failed, c)
		}
	}
	if len(failed) > 0 {
		return waiting, d.failures("decommissioning failed for", failed)
	}
	return waiting, nil
}

// unanswered tolerates a query that failed until there has been no answer for too long. A query that will never be
// answered is not tolerated.
func (d *drive) unanswered(open []hardware.Component, err error) error {
	if hardware.OutcomeOf(err) == hardware.OutcomeRefused {
		for _, c := range open {
			d.at.note(c.ID, err.Error())
		}
		return d.failures("decommissioning failed for", open)
	}
	d.x.log.Warn("decommission status unknown", "task", d.task, "rack", d.rack, "step", string(d.stepPlan().ComponentType), "err", err)
	now := d.x.now()
	since, silent := d.at.marked(open[0].ID, markSilent)
	if !silent {
		since = now
		for _, c := range open {
			d.at.mark(c.ID, markSilent, now)
		}
	}
	if now.Sub(since) >= d.x.scaled(statusSilence) {
		return fmt.Errorf("no decommission status for %s: %w", statusSilence, err)
	}
	return nil
}
