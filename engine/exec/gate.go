package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

const (
	// gatePoll is how often components that are not ready are looked at again; the reference has the same.
	gatePoll = 5 * time.Second
	// gateLimit is how long a step waits for them; the reference has the same.
	gateLimit = 30 * time.Minute
)

// errUnready says that the step waits until its components are ready. It is no error of the step, and the time it waits is
// not the step's.
var errUnready = errors.New("components are not ready")

// ready holds a disruptive call back until the components it depends on are ready. It is asked before every attempt. What it
// returns is for runStep, or the failure of the action when the wait was too long.
func (stored) ready(ctx context.Context, d *drive, a rules.PlanAction, batch []hardware.Component) error {
	if d.options.OverrideReadiness {
		if !d.overridden {
			d.overridden = true
			d.x.log.Warn("readiness check overridden", "task", d.task, "rack", d.rack, "action", string(a.Name))
		}
		return nil
	}
	var unready []task.Unready
	err := d.x.persist(ctx, func(ctx context.Context) (err error) {
		unready, err = d.x.tasks.Unready(ctx, d.rack, d.stepPlan().ComponentType, batch)
		return err
	})
	if err != nil {
		return d.unrecorded(ctx, err) // no verdict on the components
	}
	policy := d.x.tasks.Settings.Readiness
	var blocking, unknown []string
	for _, u := range unready {
		switch {
		case policy.Blocks(u):
			blocking = append(blocking, u.Label())
		case policy.Warns(u):
			unknown = append(unknown, u.Label())
		}
	}
	if len(blocking) > 0 {
		return d.hold(ctx, a, blocking)
	}
	if !d.at.gateSince.IsZero() {
		if err := d.openGate(ctx, a); err != nil {
			return err
		}
	}
	return d.warn(ctx, a, unknown)
}

// warn says of which components the step does not know whether they are ready, when there are more than before.
func (d *drive) warn(ctx context.Context, a rules.PlanAction, unknown []string) error {
	before := len(d.at.unknown)
	d.at.unknown = append(d.at.unknown, unknown...)
	slices.Sort(d.at.unknown)
	d.at.unknown = slices.Compact(d.at.unknown)
	n := len(d.at.unknown)
	if n == before {
		return nil
	}
	d.x.log.Warn("readiness is not known", "task", d.task, "rack", d.rack, "action", string(a.Name), "components", n)
	d.at.warning = fmt.Sprintf("readiness of %d components is not known: %s", n, list(d.at.unknown, ", "))
	return d.recordGate(ctx, a, fmt.Sprintf("%s: readiness of %d components is not known", task.MessageRunning, n))
}

// hold keeps the step waiting, or gives up when it has waited too long.
func (d *drive) hold(ctx context.Context, a rules.PlanAction, blocking []string) error {
	if d.at.gateSince.IsZero() {
		d.at.gateSince = d.x.now()
		d.x.log.Info("waiting for readiness", "task", d.task, "rack", d.rack, "action", string(a.Name), "components", len(blocking))
		err := d.recordGate(ctx, a, fmt.Sprintf("%s: waiting for readiness of %d components", task.MessageRunning, len(blocking)))
		if err != nil {
			return err
		}
	}
	if d.waited() < d.x.scaled(gateLimit) {
		return errUnready
	}
	if err := d.openGate(ctx, a); err != nil {
		return err
	}
	slices.Sort(blocking)
	kind := rules.TaskPowerControl
	if a.Name == rules.ActionFirmwareControl {
		kind = rules.TaskFirmwareControl
	}
	return fmt.Errorf("refused: timed out after %s waiting for components to become ready for %s: %s", gateLimit, kind, strings.Join(blocking, ", "))
}

// waited is how long the step has been waiting for its components until now.
func (d *drive) waited() time.Duration {
	if d.at.gateSince.IsZero() {
		return 0
	}
	return d.x.now().Sub(d.at.gateSince)
}

// recordGate stores since when the step waits and what it was warned of, and says the message.
func (d *drive) recordGate(ctx context.Context, a rules.PlanAction, message string) error {
	p := db.StepGateParams{
		TaskID: d.task, Stage: int32(d.at.stage), Step: int32(d.at.step), Epoch: d.at.epoch, Node: &d.x.node.incarnation,
		Message: message, Warning: d.at.warning, StageNumber: int32(d.plan.Stages[d.at.stage].Number), Stages: int32(len(d.plan.Stages)),
		ComponentType: string(d.stepPlan().ComponentType), ActionName: string(a.Name),
	}
	if !d.at.gateSince.IsZero() {
		p.GateSince = &d.at.gateSince
	}
	err := d.onTask(ctx, func(q *db.Queries) error {
		_, err := q.StepGate(ctx, p)
		return err
	})
	if err != nil {
		return d.unrecorded(ctx, err)
	}
	d.x.watch.Poke()
	return nil
}

// onTask runs fn with the task locked.
func (d *drive) onTask(ctx context.Context, fn func(*db.Queries) error) error {
	return d.x.persist(ctx, func(ctx context.Context) error {
		return store.InTx(ctx, d.x.store.Engine, func(tx pgx.Tx) error {
			q := db.New(tx)
			if _, err := q.TaskLock(ctx, db.TaskLockParams{ID: d.task}); err != nil {
				return err
			}
			return fn(q)
		})
	})
}

// openGate ends the wait and gives its time back to step and task.
func (d *drive) openGate(ctx context.Context, a rules.PlanAction) error {
	waited := d.waited()
	err := d.onTask(ctx, func(q *db.Queries) error {
		// The answer to an earlier try may have been lost: the time is given back once.
		since, err := q.StepGateSince(ctx, db.StepGateSinceParams{TaskID: d.task, Stage: int32(d.at.stage), Step: int32(d.at.step)})
		if err != nil {
			return err
		}
		if since == nil {
			waited = 0
		}
		row, err := q.StepGateOpen(ctx, db.StepGateOpenParams{
			TaskID: d.task, Stage: int32(d.at.stage), Step: int32(d.at.step), Epoch: d.at.epoch, Node: &d.x.node.incarnation,
			Waited: waited, Message: task.MessageRunning,
			StageNumber: int32(d.plan.Stages[d.at.stage].Number), Stages: int32(len(d.plan.Stages)),
			ComponentType: string(d.stepPlan().ComponentType), ActionName: string(a.Name),
		})
		if err == nil {
			d.at.deadline, d.deadline = row.DeadlineAt, *row.TaskDeadlineAt
		}
		return err
	})
	if err != nil {
		return d.unrecorded(ctx, err)
	}
	d.at.gateSince = time.Time{}
	d.x.watch.Poke()
	return nil
}
