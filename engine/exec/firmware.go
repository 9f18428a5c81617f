package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// firmwareControl starts a firmware update of a batch and polls it to its end.
//
// A start must not be sent to a device that has got it, so the intent is recorded ahead of each attempt, and where no
// answer is known the device is read before the next. In the row, an intent means that the starts are not over; attempts
// without an intent are polls. The time at which a component was started is kept with it: what the device says of an
// update is believed if it is newer. From the end of the starts on, actionStarted is that end, from which the time of
// the poll counts.
func (d *drive) firmwareControl(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	t := d.stepPlan().ComponentType
	controller, err := hardware.As[hardware.FirmwareController](d.x.managers, t, hardware.CapFirmwareControl)
	if err != nil {
		return err
	}
	reader, err := hardware.As[hardware.FirmwareReader](d.x.managers, t, hardware.CapFirmwareStatus)
	if err != nil {
		return err
	}
	if d.at.intent || d.at.attempt == 0 {
		if err := d.startFirmware(ctx, a, batch, controller, reader); err != nil {
			return err
		}
		d.at.intent, d.at.attempt, d.at.actionStarted = false, 1, d.x.now()
		if err := d.checkpoint(ctx, a, false); err != nil {
			return err
		}
	}
	return d.pollFirmware(ctx, a, batch, reader)
}

// firmwareRequest says what to install: nothing in particular, which is what the site wants to have installed.
func (d *drive) firmwareRequest(rules.PlanAction) hardware.FirmwareRequest {
	return hardware.FirmwareRequest{}
}

// startFirmware returns once every component of the batch has been started.
func (d *drive) startFirmware(ctx context.Context, a rules.PlanAction, batch []hardware.Component,
	controller hardware.FirmwareController, reader hardware.FirmwareReader,
) error {
	send := func(ctx context.Context, open []hardware.Component) (hardware.Results, error) {
		return controller.StartFirmware(ctx, d.target(open), d.firmwareRequest(a))
	}
	for {
		doubtful := d.settleStarts(ctx, a, batch, reader)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		open, refused := d.at.without(markStarted, batch), false
		if len(open) == 0 {
			return nil
		}
		if len(doubtful) == 0 {
			if err := d.ready(ctx, a, open); err != nil {
				return err
			}
			d.at.intent = true
			d.at.forget(open)
			if err := d.checkpoint(ctx, a, false); err != nil {
				return err
			}
			begun := d.x.now()
			doubtful, refused = d.try(ctx, a, open, send, func(c hardware.Component) { d.at.mark(c.ID, markStarted, begun) })
			if open = d.at.without(markStarted, batch); len(open) == 0 {
				return nil
			}
			if ctx.Err() != nil {
				d.at.forget(open) // whoever drives on looks at the device
				return ctx.Err()
			}
			d.doubt(doubtful)
		}
		d.at.attempt++
		if refused || d.at.attempt >= a.Retry.MaxAttempts {
			_, _ = d.findStarted(ctx, a, doubtful, reader) // without an answer they stay in doubt
			if open = d.at.without(markStarted, batch); len(open) == 0 || ctx.Err() != nil {
				return ctx.Err()
			}
			for _, c := range open {
				if _, noted := d.at.results[c.ID]; !noted {
					d.at.note(c.ID, "not started")
				}
			}
			return fmt.Errorf("failed to start firmware update: %w", d.failures("firmware update failed for", open))
		}
		if err := d.backOff(ctx, a); err != nil {
			return err
		}
	}
}

// settleStarts finds out about the starts that may have been sent. It marks the components that have been started and
// returns those of which the device can't tell; what is left was plainly not started.
func (d *drive) settleStarts(ctx context.Context, a rules.PlanAction, batch []hardware.Component, reader hardware.FirmwareReader) []hardware.Component {
	if !d.at.intent {
		return nil
	}
	doubtful := slices.DeleteFunc(d.at.without(markStarted, batch), func(c hardware.Component) bool {
		text, known := d.at.results[c.ID]
		return known && !strings.HasPrefix(text, unknownOutcome) // the device itself said that it did nothing
	})
	readings, err := d.findStarted(ctx, a, doubtful, reader)
	if ctx.Err() != nil {
		return doubtful
	}
	return slices.DeleteFunc(doubtful, func(c hardware.Component) bool {
		r := readings[c.ID]
		_, noted := d.at.results[c.ID]
		switch started, known := startedSince(r, d.at.actionStarted); {
		case started:
			return true
		case known:
			delete(d.at.results, c.ID)
			return true
		case noted: // what the call said of itself tells more
		case err != nil:
			d.at.note(c.ID, fmt.Sprintf("%sthe server stopped while it was started, and its state cannot be read: %v", unknownOutcome, err))
		default:
			d.at.note(c.ID, fmt.Sprintf("%sthe server stopped while it was started (firmware update is %s now); not started again", unknownOutcome, shown(r.State)))
		}
		return false
	})
}

// findStarted reads components that may have got a start and marks those that show an update which is not older.
func (d *drive) findStarted(ctx context.Context, a rules.PlanAction, doubtful []hardware.Component, reader hardware.FirmwareReader) (
	readings map[componentID]hardware.FirmwareReading, err error,
) {
	if len(doubtful) == 0 {
		return nil, nil
	}
	err = d.within(ctx, a, func(ctx context.Context) (err error) {
		readings, err = reader.FirmwareStatus(ctx, d.target(doubtful))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, c := range doubtful {
		if started, _ := startedSince(readings[c.ID], d.at.actionStarted); started {
			d.at.mark(c.ID, markStarted, d.at.actionStarted)
		}
	}
	return readings, nil
}

// startedSince tells from a reading whether an update has been started at or after a time. known is false where the
// reading can't tell.
func startedSince(r hardware.FirmwareReading, since time.Time) (started, known bool) {
	switch r.State {
	case hardware.FirmwareQueued, hardware.FirmwareVerifying:
		return true, true
	case hardware.FirmwareCompleted, hardware.FirmwareFailed:
		known = !r.UpdatedAt.IsZero()
		return known && !r.UpdatedAt.Before(since), known
	default:
		return false, false
	}
}

// pollFirmware returns when the update of every component has ended.
func (d *drive) pollFirmware(ctx context.Context, a rules.PlanAction, batch []hardware.Component, reader hardware.FirmwareReader) error {
	before := d.finished(a)
	var failed []hardware.Component
	var waiting []string // for what, by component
	var trouble error
	look := func(ctx context.Context, limit time.Duration) bool {
		open := d.at.open(batch)
		if len(open) == 0 {
			return true
		}
		call, cancel := d.x.within(ctx, limit)
		defer cancel()
		readings, err := reader.FirmwareStatus(call, d.target(open))
		if ctx.Err() != nil {
			return false
		}
		waiting = waiting[:0]
		if err != nil {
			d.x.log.Warn("firmware status unknown", "task", d.task, "rack", d.rack, "step", string(d.stepPlan().ComponentType), "err", err)
			for _, c := range open {
				waiting = append(waiting, fmt.Sprintf("%s: %v", c.Label(), err))
			}
			return false
		}
		for _, c := range open {
			r := readings[c.ID]
			since, _ := d.at.marked(c.ID, markStarted)
			stale := !r.UpdatedAt.IsZero() && r.UpdatedAt.Before(since)
			switch {
			case r.State == hardware.FirmwareCompleted && !stale:
				d.at.confirm(c.ID)
			case r.State == hardware.FirmwareFailed && !stale:
				d.at.note(c.ID, said(r.Error))
				failed = append(failed, c)
			case r.State == hardware.FirmwareCompleted || r.State == hardware.FirmwareFailed:
				waiting = append(waiting, fmt.Sprintf("%s: %s before this update", c.Label(), r.State))
			default:
				waiting = append(waiting, fmt.Sprintf("%s: %s", c.Label(), shown(r.State)))
			}
		}
		over := len(failed) > 0 || len(waiting) == 0
		completed := before + len(batch) - len(waiting) - len(failed)
		if completed == d.at.completed && len(failed) == d.at.failed {
			return over
		}
		d.at.completed, d.at.failed = completed, len(failed)
		if !over { // the end is announced as the action's
			trouble = d.checkpoint(ctx, a, true)
		}
		return over || trouble != nil
	}
	err := d.poll(ctx, a, look, func() error {
		return fmt.Errorf("%s firmware update timed out after %s: %s", d.stepPlan().ComponentType, a.Timeout, list(waiting, "; "))
	})
	switch {
	case err != nil:
		return err
	case trouble != nil:
		return trouble
	case len(failed) > 0:
		return d.firmwareFailure(failed)
	}
	d.at.completed = before // the batch is added when it is recorded
	return nil
}

// firmwareFailure names the components whose update has failed, and why.
func (d *drive) firmwareFailure(failed []hardware.Component) error {
	var labels, reasons []string
	for _, c := range failed {
		labels = append(labels, c.Label())
		if reason := d.at.results[c.ID]; !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return fmt.Errorf("firmware update failed for components: [%s]: %s", list(labels, ", "), list(reasons, "; "))
}

// verifyFirmwareConsistency fails unless all components of the step run the same firmware.
func (d *drive) verifyFirmwareConsistency(ctx context.Context, a rules.PlanAction, all []hardware.Component) error {
	t := d.stepPlan().ComponentType
	comparer, err := hardware.As[hardware.FirmwareComparer](d.x.managers, t, hardware.CapFirmwareConsistencyCheck)
	if err != nil {
		return err
	}
	return d.ask(ctx, a, func(ctx context.Context) error { return comparer.CheckFirmwareConsistency(ctx, d.target(all)) })
}

// finished is how many components the earlier batches of an action have.
func (d *drive) finished(a rules.PlanAction) int {
	n := 0
	for _, batch := range d.plan.Batches(d.stepPlan(), a)[:d.at.batch] {
		n += len(batch)
	}
	return n
}

// said is what a device said, or that it said nothing.
func said(text string) string {
	if text == "" {
		return "no reason given"
	}
	return text
}

// shown is a state for people; a device that did not answer has none.
func shown[S ~string](state S) string {
	if state == "" {
		return "not reported"
	}
	return string(state)
}
