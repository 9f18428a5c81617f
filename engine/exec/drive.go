package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// Why a drive ends without ending its step. None of these is an error of the step.
var (
	errLost      = errors.New("the step is in other hands")
	errParked    = errors.New("the step waits for its next wake-up")
	errTaskEnded = errors.New("the task has ended")
	errStopping  = errors.New("the node is stopping")
)

// drive is one job's work on one task: a step at a time, and on into the next stage.
type drive struct {
	x        *Executor
	task     uuid.UUID
	rack     uuid.UUID
	job      int64 // the River job that drives
	plan     rules.Plan
	options  task.Options
	deadline time.Time // of the task
	began    time.Time
	driving  bool // at is a step this drive has
	at       cursor
	next     *drive // the task that waited for the rack and was started where this one ended

	overridden bool                     // it has been said that the readiness check is overridden
	lastMoment time.Time                // of a rehearsal: when its last moment ended
	place      atomic.Pointer[stepArgs] // the step of at, or the one that is being claimed, for the sweep
}

// Timeout implements river.Worker.
func (*startWorker) Timeout(*river.Job[startArgs]) time.Duration { return jobTimeout }

// Timeout implements river.Worker.
func (*stepWorker) Timeout(*river.Job[stepArgs]) time.Duration { return jobTimeout }

type startWorker struct {
	river.WorkerDefaults[startArgs]
	x *Executor
}

// Work starts a pending task by opening its first stage, and drives on.
func (w *startWorker) Work(ctx context.Context, job *river.Job[startArgs]) error {
	x := w.x
	d := &drive{x: x, task: job.Args.Task, job: job.ID, began: x.now()}
	// A few at a time: tasks that run go before tasks that are still to start.
	select {
	case x.starts <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	started := sync.OnceFunc(func() { <-x.starts })
	defer started()
	var row db.TaskPlanRow
	err := x.persist(ctx, func(ctx context.Context) (err error) {
		row, err = db.New(x.store.Engine).TaskPlan(ctx, db.TaskPlanParams{ID: d.task})
		return err
	})
	if errors.Is(err, store.ErrNotFound) || err == nil && row.State != db.TaskStatePending {
		return nil // purged, cancelled or started by another wake-up
	}
	if err != nil {
		return fmt.Errorf("task %s: %w", d.task, err)
	}
	if row.Busy && !x.tasks.Settings.AllowOverlap {
		return river.JobSnooze(busyWait)
	}
	if err := d.load(row.RackID, row.Plan, row.Request); err != nil {
		return d.giveUp(ctx, db.TaskStatePending, err)
	}
	driving, leave := x.enter(ctx, d)
	err = d.run(driving, func(ctx context.Context) (bool, error) {
		defer started()
		return d.start(ctx)
	})
	leave()
	return d.follow(ctx, err)
}

type stepWorker struct {
	river.WorkerDefaults[stepArgs]
	x *Executor
}

// Work takes a step that is due and drives on.
func (w *stepWorker) Work(ctx context.Context, job *river.Job[stepArgs]) error {
	x := w.x
	d := &drive{x: x, task: job.Args.Task, job: job.ID, began: x.now()}
	d.place.Store(&job.Args)
	// Registered before the claim: the sweep looks for claimed steps that no drive of this process stands for.
	driving, leave := x.enter(ctx, d)
	defer leave()
	var row db.StepClaimRow
	err := x.persist(driving, func(ctx context.Context) (err error) {
		row, err = db.New(x.store.Engine).StepClaim(ctx, db.StepClaimParams{
			TaskID: d.task, Stage: job.Args.Stage, Step: job.Args.Step, Epoch: job.Args.Epoch, Node: &x.node.incarnation,
		})
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // a wake-up of the past, or a second one
	}
	if err != nil {
		return fmt.Errorf("task %s: %w", d.task, err)
	}
	err = d.load(row.RackID, row.Plan, row.Request)
	if err == nil {
		d.at, err = cursorOf(row.TaskStep)
	}
	if err != nil {
		return d.giveUp(driving, db.TaskStateRunning, err)
	}
	d.deadline, d.driving = *row.TaskDeadlineAt, true
	err = d.run(driving, goOn)
	leave()
	return d.follow(ctx, err)
}

// goOn is the beginning of a run that has its step already.
func goOn(context.Context) (bool, error) { return true, nil }

// follow goes on with the tasks that waited for the rack, as long as each is started where the one before has ended.
func (d *drive) follow(ctx context.Context, err error) error {
	for n := d.next; n != nil && err == nil; n = d.next {
		driving, leave := n.x.enter(ctx, n)
		err = n.run(driving, goOn)
		leave()
		d.next = n.next // what has ended is let go of: a busy rack may keep this job going for long
	}
	return err
}

func (d *drive) load(rack uuid.UUID, plan, options []byte) error {
	d.rack = rack
	if err := json.Unmarshal(plan, &d.plan); err != nil {
		return fmt.Errorf("stored plan: %w", err)
	}
	if err := json.Unmarshal(options, &d.options); err != nil {
		return fmt.Errorf("stored request: %w", err)
	}
	return nil
}

// giveUp fails a task that this Flow can't read: no other wake-up would do better.
func (d *drive) giveUp(ctx context.Context, from db.TaskState, reason error) error {
	d.x.log.Error("task cannot be read", "task", d.task, "err", reason)
	err := d.x.persist(ctx, func(ctx context.Context) error { return d.x.tasks.Fail(ctx, d.task, d.rack, from, reason) })
	d.x.watch.Poke()
	return err
}

// run drives steps until there is none to go on with. first says whether there is one to begin with.
func (d *drive) run(ctx context.Context, first func(context.Context) (bool, error)) error {
	more, err := first(ctx)
	for more && err == nil {
		ended := d.runStep(ctx)
		if handedOver(ended) {
			err = ended
			break
		}
		more, err = d.end(lasting(ctx), ended)
	}
	switch {
	case err == nil, errors.Is(err, errParked):
		return nil
	case errors.Is(err, errTaskEnded), errors.Is(err, errLost):
		d.x.log.Info("drive ends", "task", d.task, "stage", d.at.stage, "step", d.at.step, "reason", err)
		d.release(ctx)
		return nil
	case errors.Is(err, errStopping), ctx.Err() != nil:
		return d.handOver(ctx)
	default:
		// Nothing was recorded, so River's retry of this job would find the step driven. The sweep gives it back.
		d.x.log.Error("drive ended by an error", "task", d.task, "err", err)
		return fmt.Errorf("task %s: %w", d.task, err)
	}
}

// handedOver reports whether a step was left unfinished, for whatever reason, rather than ended.
func handedOver(err error) bool {
	return errors.Is(err, errParked) || errors.Is(err, errLost) || errors.Is(err, errTaskEnded) ||
		errors.Is(err, errStopping) || errors.Is(err, errFault)
}

// errFault marks an error of ours, not of the hardware: the step has no outcome.
var errFault = errors.New("internal fault")

// runStep drives the current step to its end. nil is success; an error for which handedOver holds leaves the step
// where it is; any other error is the step's failure.
func (d *drive) runStep(parent context.Context) error {
	step := d.stepPlan()
	for d.at.action < len(step.Actions) {
		if parent.Err() != nil {
			return ended(parent)
		}
		a := step.Actions[d.at.action]
		batches := d.plan.Batches(step, a)
		if d.at.batch == 0 && d.at.attempt == 0 && counts(a.Name) {
			d.at.completed, d.at.failed = 0, 0
		}
		if d.x.stopping() || d.x.now().Sub(d.began) > d.x.segment {
			return d.park(parent, d.x.now())
		}
		cause, err := d.actInTime(parent, a, batches[d.at.batch])
		if errors.Is(err, errUnready) {
			if err := d.wait(parent, d.x.now().Add(d.x.scaled(gatePoll))); handedOver(err) {
				return err
			}
			continue // the drive may be over: the loop looks at that first
		}
		switch {
		case err == nil && parent.Err() != nil: // done, though this drive is to end: it is recorded before
		case parent.Err() != nil:
			return ended(parent)
		case handedOver(err):
			return err
		case cause != nil: // the step's or the task's time is over
			d.tally(a, batches[d.at.batch])
			return cause
		case err != nil:
			d.tally(a, batches[d.at.batch])
			if len(batches) > 1 {
				err = fmt.Errorf("batch %d of %d failed: %w", d.at.batch+1, len(batches), err)
			}
			return fmt.Errorf("%s: %w", where(a), err)
		}
		if counts(a.Name) {
			d.at.completed += len(batches[d.at.batch])
		}
		last := d.at.action == len(step.Actions)-1 && d.at.batch == len(batches)-1
		d.at.next(d.x.now(), len(batches))
		if last {
			break // recorded together with the end of the step
		}
		if err := d.checkpoint(lasting(parent), a, true); err != nil {
			return err
		}
	}
	return nil
}

// tally counts what an action that failed has left behind, from what is known of each component.
func (d *drive) tally(a rules.PlanAction, batch []hardware.Component) {
	if !counts(a.Name) {
		return
	}
	d.at.completed, d.at.failed = d.finished(a), 0
	for _, c := range batch {
		switch text, known := d.at.results[c.ID]; {
		case known && text == "":
			d.at.completed++
		case known:
			d.at.failed++
		}
	}
}

// actInTime carries an action out within the time of the step and of the task; cause is the error of the one that is over.
// What the step waits for its components to be ready is on top.
func (d *drive) actInTime(parent context.Context, a rules.PlanAction, batch []hardware.Component) (cause, err error) {
	limit, cause := d.at.deadline, fmt.Errorf("step timed out after %s", d.stepPlan().Budget)
	if d.deadline.Before(limit) {
		limit, cause = d.deadline, fmt.Errorf("task timed out after %s", d.plan.Budget)
	}
	ctx, cancel := d.x.clock.withDeadline(parent, limit.Add(d.waited()), cause)
	defer cancel()
	if ctx.Err() == nil {
		err = d.act(ctx, a, batch)
	}
	if ctx.Err() == nil {
		cause = nil
	}
	return cause, err
}

// lasting is the context for recording what has been done: ctx, or when that is over a little time more.
func lasting(ctx context.Context) context.Context {
	if ctx.Err() == nil {
		return ctx
	}
	more, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	context.AfterFunc(more, cancel)
	return more
}

// ended tells why a drive's context is over.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errTaskEnded) || errors.Is(cause, errLost) {
		return cause
	}
	return errStopping
}

func (d *drive) stepPlan() rules.PlanStep { return d.plan.Stages[d.at.stage].Steps[d.at.step] }

// wait passes the time until then, in here when it is short and by parking the step when it is long.
func (d *drive) wait(ctx context.Context, until time.Time) error {
	left := until.Sub(d.x.now())
	if left <= 0 {
		return nil
	}
	if left > d.x.inline || d.x.now().Sub(d.began) > d.x.segment {
		return d.park(ctx, until)
	}
	switch {
	case d.x.clock.sleep(ctx, until, d.x.draining):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default: // the node stops: whoever takes the step waits out the rest
		return d.park(ctx, d.x.now())
	}
}
