package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// unknownOutcome begins what is said of a component that may or may not have got a command.
const unknownOutcome = "outcome unknown: "

// sendFunc is one call of a command for components of the step's type.
type sendFunc func(ctx context.Context, open []hardware.Component) (hardware.Results, error)

// try makes one attempt at a command. Of each component that did not take it, it notes why; those that may have got it
// all the same are returned. refused: some will never take it.
func (d *drive) try(ctx context.Context, a rules.PlanAction, open []hardware.Component, send sendFunc, took func(hardware.Component)) (
	doubtful []hardware.Component, refused bool,
) {
	ctx, cancel := context.WithTimeout(ctx, d.x.limit(a))
	defer cancel()
	results, err := send(ctx, open)
	for _, c := range open {
		failure, known := results[c.ID]
		switch {
		case err != nil:
			failure = err
		case !known:
			failure = hardware.Uncertain("no result")
		case failure == nil:
			took(c)
			continue
		}
		switch hardware.OutcomeOf(failure) {
		case hardware.OutcomeRefused:
			refused = true
		case hardware.OutcomeUncertain:
			doubtful = append(doubtful, c)
		}
		d.at.note(c.ID, d.attemptError(failure, a).Error())
	}
	return doubtful, refused
}

// insist sends a command that is safe to repeat until every component of the batch has taken it. before is asked ahead
// of each attempt. failed begins the error, as in "bring-up failed for".
func (d *drive) insist(ctx context.Context, a rules.PlanAction, batch []hardware.Component, failed string,
	before func(open []hardware.Component) error, send sendFunc,
) error {
	for {
		open := d.at.open(batch)
		if len(open) == 0 {
			return nil
		}
		if err := before(open); err != nil {
			return err
		}
		d.at.attempt++
		_, refused := d.try(ctx, a, open, send, func(c hardware.Component) { d.at.confirm(c.ID) })
		if open = d.at.open(batch); len(open) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			d.at.forget(open) // the call was cut off by us: what it says of itself is no verdict
			return ctx.Err()
		}
		if refused || d.at.attempt >= a.Retry.MaxAttempts {
			return d.failures(failed, open)
		}
		if err := d.backOff(ctx, a); err != nil {
			return err
		}
	}
}

// ask makes a call that changes nothing, for the whole batch at once, until it succeeds or its attempts are used up.
func (d *drive) ask(ctx context.Context, a rules.PlanAction, call func(context.Context) error) error {
	for {
		d.at.attempt++
		err := d.within(ctx, a, call)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if hardware.OutcomeOf(err) == hardware.OutcomeRefused || d.at.attempt >= a.Retry.MaxAttempts {
			return d.attemptError(err, a)
		}
		if err := d.backOff(ctx, a); err != nil {
			return err
		}
	}
}

// within makes a call in the time of one attempt.
func (d *drive) within(ctx context.Context, a rules.PlanAction, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.x.limit(a))
	defer cancel()
	return call(ctx)
}

// failures names the components that an action failed for, those with the same reason together.
func (d *drive) failures(what string, open []hardware.Component) error {
	var reasons []string
	failed := map[string][]string{}
	for _, c := range open {
		reason := d.at.results[c.ID]
		if failed[reason] == nil {
			reasons = append(reasons, reason)
		}
		failed[reason] = append(failed[reason], c.Label())
	}
	parts := make([]string, len(reasons))
	for i, reason := range reasons {
		parts[i] = fmt.Sprintf("%s %s: %s", what, list(failed[reason], ", "), reason)
	}
	return errors.New(list(parts, "; "))
}

// doubt notes of components that it is not known whether they got the command.
func (d *drive) doubt(doubtful []hardware.Component) {
	for _, c := range doubtful {
		if text := d.at.results[c.ID]; !strings.HasPrefix(text, unknownOutcome) {
			d.at.note(c.ID, unknownOutcome+text)
		}
	}
}
