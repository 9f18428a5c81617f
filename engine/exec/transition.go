package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// persist runs a database call until the database answers. What was learned from the hardware is not thrown away
// because the database is away for a while.
func (x *Executor) persist(ctx context.Context, fn func(context.Context) error) error {
	backoff := 20 * time.Millisecond
	for {
		err := x.try(ctx, fn)
		if err == nil || !store.Unavailable(err) && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		x.log.Warn("database unavailable, trying again", "err", err, "in", backoff)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, time.Second)
	}
}

// try bounds one attempt: a server that has vanished may leave a connection that never answers, while a new one would.
func (x *Executor) try(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return fn(ctx)
}

// opening is the first stage from an index on that has something to do, and how it is opened.
type opening struct {
	stage     int
	steps     []int32 // indexes of the steps that are not skipped
	totals    []int32
	deadlines []time.Time
	nodes     []uuid.UUID // this node for the step that is driven on, nil for the others
	jobs      []int64     // 0 for the step that is driven on
}

// open plans the opening of the next stage; ok is false when there is none.
func (d *drive) open(from int, now time.Time) (o opening, ok bool) {
	for o.stage = from; o.stage < len(d.plan.Stages); o.stage++ {
		for i, s := range d.plan.Stages[o.stage].Steps {
			if s.Skipped {
				continue
			}
			node := uuid.Nil
			if len(o.steps) == 0 {
				node = d.x.node.incarnation
			}
			o.steps = append(o.steps, int32(i))
			o.totals = append(o.totals, int32(len(d.plan.Components[s.ComponentType])))
			o.deadlines = append(o.deadlines, now.Add(d.x.scaled(time.Duration(s.Budget))))
			o.nodes = append(o.nodes, node)
			o.jobs = append(o.jobs, 0)
		}
		if len(o.steps) > 0 {
			return o, true
		}
	}
	return opening{}, false
}

// wake adds the jobs of the steps that are not driven on.
func (d *drive) wake(ctx context.Context, tx pgx.Tx, o opening) error {
	var args []stepArgs
	for _, s := range o.steps[1:] {
		args = append(args, stepArgs{Task: d.task, Stage: int32(o.stage), Step: s})
	}
	ids, err := d.x.insertSteps(ctx, tx, time.Time{}, args)
	if err != nil {
		return fmt.Errorf("step jobs: %w", err)
	}
	copy(o.jobs[1:], ids)
	return nil
}

func (d *drive) enter(o opening, now time.Time) {
	d.driving = true
	d.at = cursor{stage: o.stage, step: int(o.steps[0]), deadline: o.deadlines[0], actionStarted: now}
	d.place.Store(&stepArgs{Task: d.task, Stage: int32(o.stage), Step: o.steps[0]})
}

// start opens the first stage of the pending task; false when it is not pending any more.
func (d *drive) start(ctx context.Context) (bool, error) {
	now := d.x.now()
	o, err := d.begin(now)
	if err != nil {
		return false, err
	}
	err = d.x.persist(ctx, func(ctx context.Context) error {
		if len(o.steps) == 1 { // no jobs to add, so the statement is the whole transaction
			_, err := db.New(d.x.store.Engine).TaskStart(ctx, d.startParams(o, now))
			return err
		}
		return store.InTx(ctx, d.x.store.Engine, func(tx pgx.Tx) error { return d.startIn(ctx, tx, o, now) })
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("start: %w", err)
	}
	d.enter(o, now)
	d.started()
	return true, nil
}

// begin plans the opening of the first stage of a task that starts.
func (d *drive) begin(now time.Time) (opening, error) {
	d.deadline = now.Add(d.x.scaled(time.Duration(d.plan.Budget)))
	o, ok := d.open(0, now)
	if !ok {
		return o, fmt.Errorf("%w: the plan has nothing to do", errFault)
	}
	_, err := task.Next(db.TaskStatePending, task.Start)
	return o, err
}

func (d *drive) startParams(o opening, now time.Time) db.TaskStartParams {
	return db.TaskStartParams{
		ID: d.task, Message: task.MessageRunning, Stage: int32(o.stage), StageNumber: int32(d.plan.Stages[o.stage].Number),
		Stages: int32(len(d.plan.Stages)), DeadlineAt: &d.deadline, StartedAt: now,
		Steps: o.steps, Totals: o.totals, Deadlines: o.deadlines, Nodes: o.nodes, JobIds: o.jobs,
	}
}

func (d *drive) startIn(ctx context.Context, tx pgx.Tx, o opening, now time.Time) error {
	if err := d.wake(ctx, tx, o); err != nil {
		return err
	}
	_, err := db.New(tx).TaskStart(ctx, d.startParams(o, now))
	return err
}

// started tells watchers and log that the task runs, when that has been committed.
func (d *drive) started() {
	d.x.watch.Poke()
	d.x.log.Info("task started", "task", d.task, "rack", d.rack, "operation", d.plan.Operation.String(), "rule", d.plan.RuleName)
}

// adopter lets this drive go on with the next task of its rack, which is started where this one ends.
func (d *drive) adopter() *task.Adopter {
	return &task.Adopter{JobID: d.job, Start: func(ctx context.Context, tx pgx.Tx, id uuid.UUID, plan rules.Plan, opt task.Options) error {
		now := d.x.now()
		n := &drive{x: d.x, task: id, rack: d.rack, job: d.job, plan: plan, options: opt, began: now}
		o, err := n.begin(now)
		if err == nil {
			err = n.startIn(ctx, tx, o, now)
		}
		if err != nil {
			return fmt.Errorf("start task %s: %w", id, err)
		}
		n.enter(o, now)
		d.next = n
		return nil
	}}
}

// checkpoint records the cursor after an act. announce tells the watchers which action made progress.
func (stored) checkpoint(ctx context.Context, d *drive, a rules.PlanAction, announce bool) error {
	err := d.x.persist(ctx, func(ctx context.Context) error {
		_, err := db.New(d.x.store.Engine).StepCheckpoint(ctx, db.StepCheckpointParams{
			TaskID: d.task, Stage: int32(d.at.stage), Step: int32(d.at.step), Epoch: d.at.epoch, Node: &d.x.node.incarnation,
			Action: int32(d.at.action), Batch: int32(d.at.batch), Attempt: int32(d.at.attempt),
			ActionStartedAt: d.at.actionStarted, Intent: d.at.intent,
			Completed: int32(d.at.completed), Failed: int32(d.at.failed), Results: d.at.resultsJSON(),
			StageNumber: int32(d.plan.Stages[d.at.stage].Number), Stages: int32(len(d.plan.Stages)),
			ComponentType: string(d.stepPlan().ComponentType), ActionName: string(a.Name), Total: int32(d.total()), Announce: announce,
		})
		return err
	})
	if err != nil {
		return d.unrecorded(ctx, err)
	}
	if announce {
		d.x.watch.Poke()
	}
	return nil
}

// unrecorded says what it means for the drive that a row was not written. It is never the step's failure.
func (d *drive) unrecorded(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return errLost
	case ctx.Err() != nil:
		return ended(ctx)
	default:
		return fmt.Errorf("%w: %w", errFault, err)
	}
}

func (d *drive) total() int { return len(d.plan.Components[d.stepPlan().ComponentType]) }

// alone reports whether the current step is the only one of its stage.
func (d *drive) alone() bool {
	n := 0
	for _, s := range d.plan.Stages[d.at.stage].Steps {
		if !s.Skipped {
			n++
		}
	}
	return n == 1
}

// endAlone is end for what is usual: a step without siblings has succeeded, and what comes next has one step at most. It
// takes one statement. ok is false when it is not so.
func (d *drive) endAlone(ctx context.Context) (more, ok bool, err error) {
	if !d.alone() {
		return false, false, nil
	}
	now := d.x.now()
	next, more := d.open(d.at.stage+1, now)
	p := d.endParams(nil)
	switch {
	case !more:
		to, message, err := d.verdict(nil, now)
		if err != nil {
			return false, true, err
		}
		err = d.x.persist(ctx, func(ctx context.Context) error {
			_, err := db.New(d.x.store.Engine).StageFinish(ctx, db.StageFinishParams{
				TaskID: p.TaskID, RackID: d.rack, Stage: p.Stage, Step: p.Step, Epoch: p.Epoch, Node: p.Node, State: p.State, Action: p.Action,
				Completed: p.Completed, Failed: p.Failed, StageNumber: p.StageNumber, Stages: p.Stages,
				ComponentType: p.ComponentType, ActionName: p.ActionName, Total: p.Total,
				ToState: to, Message: message,
			})
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return false, false, nil // tasks wait for the rack, or the step is lost: end finds out
		}
		if err == nil {
			d.told(to, message)
		}
		return false, true, err
	case len(next.steps) == 1:
		err := d.x.persist(ctx, func(ctx context.Context) error {
			_, err := db.New(d.x.store.Engine).StageAdvance(ctx, db.StageAdvanceParams{
				TaskID: p.TaskID, Stage: p.Stage, Step: p.Step, Epoch: p.Epoch, Node: p.Node, State: p.State, Action: p.Action,
				Completed: p.Completed, Failed: p.Failed, StageNumber: p.StageNumber, Stages: p.Stages,
				ComponentType: p.ComponentType, ActionName: p.ActionName, Total: p.Total,
				NextStage: int32(next.stage), NextStageNumber: int32(d.plan.Stages[next.stage].Number), NextStep: next.steps[0],
				NextTotal: next.totals[0], NextDeadlineAt: next.deadlines[0], NextStartedAt: now,
			})
			return err
		})
		if err != nil {
			return false, true, lostIfNone(err)
		}
		d.x.watch.Poke()
		d.enter(next, now)
		return true, true, nil
	default:
		return false, false, nil
	}
}

// lostIfNone: a guarded statement that found no row means that the step is in other hands.
func lostIfNone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return errLost
	}
	return err
}

// told tells watchers and log that the task has ended.
func (d *drive) told(state db.TaskState, message string) {
	d.x.watch.Poke()
	d.x.log.Info("task ended", "task", d.task, "rack", d.rack, "state", string(state), "message", message)
}

// end records the end of the current step and, when it was the last of its stage, opens the next stage or ends the
// task, all in one transaction. It reports whether there is a step to go on with.
func (d *drive) end(ctx context.Context, failure error) (bool, error) {
	if failure == nil {
		if more, ok, err := d.endAlone(ctx); ok {
			return more, err
		}
	}
	var e ending
	now := d.x.now()
	err := d.x.tasks.Releasing(func(release task.ReleaseFunc) error {
		return d.x.persist(ctx, func(ctx context.Context) error {
			return store.InTx(ctx, d.x.store.Engine, func(tx pgx.Tx) (err error) {
				e, err = d.endIn(ctx, tx, failure, now, release)
				return err
			})
		})
	})
	if err != nil {
		return false, err
	}
	d.x.watch.Poke()
	if failure != nil {
		d.x.log.Warn("step failed", "task", d.task, "rack", d.rack, "stage", d.plan.Stages[d.at.stage].Number,
			"step", string(d.stepPlan().ComponentType), "err", failure)
	}
	if e.final != "" {
		d.told(e.final, e.message)
	}
	if d.next != nil {
		d.next.started()
	}
	if e.more {
		d.enter(e.next, now)
	}
	return e.more, nil
}

// ending is what the end of a step leads to: the next stage, the end of the task, or neither while a sibling still works.
type ending struct {
	next    opening
	more    bool // next is to be driven
	final   db.TaskState
	message string
}

// endIn is end in a transaction.
func (d *drive) endIn(ctx context.Context, tx pgx.Tx, failure error, now time.Time, release task.ReleaseFunc) (e ending, err error) {
	d.next = nil
	q := db.New(tx)
	row, err := q.StepEnd(ctx, d.endParams(failure))
	if err != nil {
		return e, fmt.Errorf("end step: %w", lostIfNone(err))
	}
	if row.DeadlineAt != nil { // a sibling may have got time back for the task
		d.deadline = *row.DeadlineAt
	}
	if row.OpenSteps > 0 {
		return e, nil
	}
	if row.StageError == nil {
		if e.next, e.more = d.open(d.at.stage+1, now); e.more {
			return e, d.openStage(ctx, tx, e.next, now)
		}
	}
	if e.final, e.message, err = d.verdict(row.StageError, now); err != nil {
		return e, err
	}
	_, err = q.TaskEnd(ctx, db.TaskEndParams{ID: d.task, FromState: db.TaskStateRunning, ToState: e.final, Message: e.message})
	if err != nil || row.Waiting == 0 {
		return e, lostIfNone(err)
	}
	return e, release(ctx, tx, d.rack, d.adopter())
}

func (d *drive) endParams(failure error) db.StepEndParams {
	step := d.stepPlan()
	how := succeeded
	if failure != nil {
		how = failed
	}
	p := db.StepEndParams{
		TaskID: d.task, RackID: d.rack, Stage: int32(d.at.stage), Step: int32(d.at.step), Epoch: d.at.epoch,
		Node: &d.x.node.incarnation, State: stepMoves[db.StepStateRunning][how], Action: int32(d.at.action), Batch: int32(d.at.batch),
		Completed: int32(d.at.completed), Failed: int32(d.at.failed), Results: d.at.resultsJSON(),
		StageNumber: int32(d.plan.Stages[d.at.stage].Number), Stages: int32(len(d.plan.Stages)),
		ComponentType: string(step.ComponentType), ActionName: d.actionName(), Total: int32(d.total()),
	}
	if failure != nil {
		text := storable(failure.Error())
		stage := fmt.Sprintf("component type %s failed: %s", step.ComponentType, text)
		p.Error, p.StageError = &text, &stage
	}
	return p
}

// actionName is the action the step ended with.
func (d *drive) actionName() string {
	actions := d.stepPlan().Actions
	return string(actions[min(d.at.action, len(actions)-1)].Name)
}

func (d *drive) openStage(ctx context.Context, tx pgx.Tx, o opening, now time.Time) error {
	if err := d.wake(ctx, tx, o); err != nil {
		return err
	}
	_, err := db.New(tx).StageOpen(ctx, db.StageOpenParams{
		ID: d.task, FromStage: int32(d.at.stage), Stage: int32(o.stage), StageNumber: int32(d.plan.Stages[o.stage].Number),
		Stages: int32(len(d.plan.Stages)), StartedAt: now,
		Steps: o.steps, Totals: o.totals, Deadlines: o.deadlines, Nodes: o.nodes, JobIds: o.jobs,
	})
	return lostIfNone(err)
}

// verdict is how a task ends whose last open stage has ended.
func (d *drive) verdict(stageError *string, now time.Time) (db.TaskState, string, error) {
	if stageError == nil {
		to, err := task.Next(db.TaskStateRunning, task.Finish)
		return to, task.MessageSucceeded, err
	}
	to, err := task.Next(db.TaskStateRunning, task.Fail)
	if !now.Before(d.deadline) {
		return to, fmt.Sprintf("task timed out after %s", d.plan.Budget), err
	}
	return to, task.FailureMessage(fmt.Sprintf("stage %d failed: %s", d.plan.Stages[d.at.stage].Number, *stageError)), err
}

// park gives the step back until its due time; the job that will wake it is in the same transaction.
func (d *drive) park(ctx context.Context, due time.Time) error {
	due = earliest(due, earliest(d.at.deadline, d.deadline).Add(d.waited()))
	var at time.Time // a job that is due is fetched at once; one with a time waits for River's next look
	if due.After(d.x.now()) {
		at = due
	}
	err := d.x.persist(ctx, func(ctx context.Context) error {
		return store.InTx(ctx, d.x.store.Engine, func(tx pgx.Tx) error {
			jobs, err := d.x.insertSteps(ctx, tx, at, []stepArgs{{
				Task: d.task, Stage: int32(d.at.stage), Step: int32(d.at.step), Epoch: d.at.epoch + 1,
			}})
			if err != nil {
				return fmt.Errorf("wake-up: %w", err)
			}
			_, err = db.New(tx).StepPark(ctx, db.StepParkParams{
				TaskID: d.task, Stage: int32(d.at.stage), Step: int32(d.at.step), Epoch: d.at.epoch, Node: &d.x.node.incarnation,
				JobID: &jobs[0], DueAt: due, Action: int32(d.at.action), Batch: int32(d.at.batch), Attempt: int32(d.at.attempt),
				ActionStartedAt: d.at.actionStarted, Completed: int32(d.at.completed), Failed: int32(d.at.failed),
				Results: d.at.resultsJSON(),
			})
			return err
		})
	})
	if err != nil {
		return d.unrecorded(ctx, err)
	}
	return errParked
}

// handOver parks the step for whoever takes it next, at once.
func (d *drive) handOver(ctx context.Context) error {
	if !d.driving {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	switch err := d.park(ctx, d.x.now()); {
	case errors.Is(err, errParked):
		return nil
	case errors.Is(err, errLost): // the task may have ended, and others wait for this driver to stop
		d.release(ctx)
		return nil
	default:
		d.x.log.Warn("step stays stamped with this node", "task", d.task, "err", err)
		return err
	}
}

// release says that nobody drives the step any more, where its task has ended.
func (d *drive) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	err := db.New(d.x.store.Engine).StepRelease(ctx, db.StepReleaseParams{
		TaskID: d.task, Stage: int32(d.at.stage), Step: int32(d.at.step), Epoch: d.at.epoch, Node: &d.x.node.incarnation,
	})
	if err == nil {
		err = d.x.releaseRack(ctx, d.rack) // tasks may wait for this driver to stop
	}
	if err != nil {
		d.x.log.Warn("step stays stamped with this node", "task", d.task, "err", err)
	}
}
