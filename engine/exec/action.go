package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// actFunc carries out one batch of one action. nil: done; an error for which handedOver holds: not ended; any other
// error: the action failed, in words for the report.
type actFunc func(d *drive, ctx context.Context, a rules.PlanAction, batch []hardware.Component) error

// actions are the acts this executor knows; a plan with any other fails at that action.
var actions = map[rules.ActionName]actFunc{
	rules.ActionSleep:                     (*drive).sleep,
	rules.ActionPowerControl:              (*drive).powerControl,
	rules.ActionVerifyPowerStatus:         (*drive).verifyPowerStatus,
	rules.ActionVerifyReachability:        (*drive).verifyReachability,
	rules.ActionGetPowerStatus:            (*drive).getPowerStatus,
	rules.ActionFirmwareControl:           (*drive).firmwareControl,
	rules.ActionVerifyFirmwareConsistency: (*drive).verifyFirmwareConsistency,
	rules.ActionBringUpControl:            (*drive).bringUpControl,
	rules.ActionWaitBringUp:               (*drive).waitBringUp,
	rules.ActionInjectExpectation:         (*drive).injectExpectation,
	rules.ActionDecommissionControl:       (*drive).decommissionControl,
	rules.ActionWaitDecommissioned:        (*drive).waitDecommissioned,
}

// counts reports whether an action's results are the step's counters: those of what is done to, or asked of, each component.
func counts(name rules.ActionName) bool {
	return name != rules.ActionSleep && name != rules.ActionGetPowerStatus
}

// act carries an action out. A component manager that panics fails the step: the same call would do it again.
func (d *drive) act(ctx context.Context, a rules.PlanAction, batch []hardware.Component) (err error) {
	do, ok := actions[a.Name]
	if !ok {
		return fmt.Errorf("action %s is not supported", a.Name)
	}
	defer func() {
		if p := recover(); p != nil {
			d.x.log.Error("panic in an action", "task", d.task, "action", string(a.Name), "err", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error: %v", p)
		}
		// Of an action that has failed only outcomes stay. A cancelled context is somebody else's to drive on.
		if err != nil && !unfinished(err) && !errors.Is(ctx.Err(), context.Canceled) {
			d.at.unmark()
		}
	}()
	return do(d, ctx, a, batch)
}

// unfinished reports whether an action goes on, here or elsewhere, after it returned an error.
func unfinished(err error) bool { return handedOver(err) || errors.Is(err, errUnready) }

// sleep ends at a time that was fixed when the action began, however often it is interrupted.
func (d *drive) sleep(ctx context.Context, a rules.PlanAction, _ []hardware.Component) error {
	return d.wait(ctx, d.at.actionStarted.Add(d.x.scaled(time.Duration(a.SleepFor))))
}

// getPowerStatus asks once; only an error of the query matters.
func (d *drive) getPowerStatus(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	return d.ask(ctx, a, func(ctx context.Context) error {
		_, err := d.powerStatus(ctx, d.target(batch), d.x.limit(a))
		return err
	})
}

// target is a list of components of the step's type.
func (d *drive) target(list []hardware.Component) hardware.Target {
	return hardware.Target{Type: d.stepPlan().ComponentType, Components: list}
}

// limit is how long one attempt at an action may take here.
func (x *Executor) limit(a rules.PlanAction) time.Duration {
	return x.scaled(time.Duration(a.AttemptTimeout))
}

// backOff waits before the next attempt, which is recorded first: a crash must not give an action more attempts.
func (d *drive) backOff(ctx context.Context, a rules.PlanAction) error {
	if err := d.checkpoint(ctx, a, false); err != nil {
		return err
	}
	return d.wait(ctx, d.x.now().Add(d.x.scaled(a.Retry.Wait(d.at.attempt))))
}

// attemptError says how a call failed; a deadline is told by the declared timeout, which the operator knows.
func (d *drive) attemptError(err error, a rules.PlanAction) error {
	if hardware.IsTimeout(err) {
		return fmt.Errorf("no answer within %s", a.AttemptTimeout)
	}
	return err
}

// powerStatus asks the manager of a type for the power of a target.
func (d *drive) powerStatus(ctx context.Context, target hardware.Target, limit time.Duration) (map[componentID]hardware.PowerReading, error) {
	reader, err := hardware.As[hardware.PowerReader](d.x.managers, target.Type, hardware.CapPowerStatus)
	if err != nil {
		return nil, err
	}
	ctx, cancel := d.x.within(ctx, limit)
	defer cancel()
	return reader.PowerStatus(ctx, target)
}

// poll calls look until it finds nothing missing or the action's time is over; the deadline counts from the start of
// the batch and is checked after each look, so there is at least one. late makes the error of a timeout.
func (d *drive) poll(ctx context.Context, a rules.PlanAction, look func(ctx context.Context, limit time.Duration) (done bool), late func() error) error {
	deadline := d.at.actionStarted.Add(d.x.scaled(time.Duration(a.Timeout)))
	interval := d.x.scaled(time.Duration(a.PollInterval))
	for {
		d.at.attempt++
		left := max(deadline.Sub(d.x.now()), 0)
		limit := min(d.x.limit(a), left+interval)
		if look(ctx, limit) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now := d.x.now()
		if !now.Before(deadline) {
			return late()
		}
		if err := d.wait(ctx, earliest(now.Add(interval), deadline)); err != nil {
			return err
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// list joins what is to be said of components, at most ten of them.
func list(parts []string, sep string) string {
	const most = 10
	if len(parts) > most {
		return strings.Join(parts[:most], sep) + fmt.Sprintf("%sand %d more", sep, len(parts)-most)
	}
	return strings.Join(parts, sep)
}
