package exec

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// The queues of jobs: operations, which people wait for, and what keeps the queues of racks moving, which must not wait
// behind them.
const (
	queueOps   = "ops"
	queueMaint = "maint"
)

// startArgs wakes a worker to start a task.
type startArgs struct {
	Task uuid.UUID `json:"task"`
}

func (startArgs) Kind() string { return "task_start" }

// stepArgs wakes a worker to drive a step. With another epoch than the step's it is a wake-up of the past.
type stepArgs struct {
	Task  uuid.UUID `json:"task"`
	Stage int32     `json:"stage"`
	Step  int32     `json:"step"`
	Epoch int32     `json:"epoch"`
}

func (stepArgs) Kind() string { return "task_step" }

// expireArgs wakes a worker when the time of a waiting task is over.
type expireArgs struct {
	Task uuid.UUID `json:"task"`
}

func (expireArgs) Kind() string { return "task_expire" }

// releaseArgs wakes a worker to look after the tasks that wait for a rack.
type releaseArgs struct {
	Rack uuid.UUID `json:"rack"`
}

func (releaseArgs) Kind() string { return "rack_release" }

// InsertStarts adds the jobs that start tasks.
func (x *Executor) InsertStarts(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID) ([]int64, error) {
	params := make([]river.InsertManyParams, len(tasks))
	for i, id := range tasks {
		params[i].Args = startArgs{Task: id}
		// Behind the steps of running tasks, whose time is running.
		params[i].InsertOpts = &river.InsertOpts{Priority: 2}
	}
	return x.insert(ctx, tx, queueOps, params)
}

// InsertExpiries adds the jobs that end tasks whose time in the queue is over.
func (x *Executor) InsertExpiries(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID, at time.Time) error {
	params := make([]river.InsertManyParams, len(tasks))
	for i, id := range tasks {
		params[i] = river.InsertManyParams{Args: expireArgs{Task: id}, InsertOpts: &river.InsertOpts{ScheduledAt: x.wakeAt(at)}}
	}
	_, err := x.insert(ctx, tx, queueMaint, params)
	return err
}

// InsertRelease adds the job that looks after the tasks that wait for a rack.
func (x *Executor) InsertRelease(ctx context.Context, tx pgx.Tx, rack uuid.UUID, at time.Time) error {
	_, err := x.insert(ctx, tx, queueMaint, []river.InsertManyParams{{
		Args: releaseArgs{Rack: rack}, InsertOpts: &river.InsertOpts{ScheduledAt: at},
	}})
	return err
}

// wakeAt is when a job has to be there for something that is due at a time. River looks every 5 s for jobs that fall due
// until its next look, so a job for an earlier time could be late; it comes at once and is put off for less than that.
func (x *Executor) wakeAt(due time.Time) time.Time {
	if due.Sub(x.now()) < defaultInlineWait {
		return time.Time{}
	}
	return due
}

// insertSteps adds jobs that wake steps at a time; the zero time is now.
func (x *Executor) insertSteps(ctx context.Context, tx pgx.Tx, at time.Time, steps []stepArgs) ([]int64, error) {
	params := make([]river.InsertManyParams, len(steps))
	for i, s := range steps {
		params[i].Args = s
		if !at.IsZero() {
			params[i].InsertOpts = &river.InsertOpts{ScheduledAt: at}
		}
	}
	return x.insert(ctx, tx, queueOps, params)
}

func (x *Executor) insert(ctx context.Context, tx pgx.Tx, queue string, params []river.InsertManyParams) ([]int64, error) {
	if len(params) == 0 {
		return nil, nil
	}
	for i := range params {
		opts := river.InsertOpts{}
		if params[i].InsertOpts != nil {
			opts = *params[i].InsertOpts
		}
		opts.Queue = queue
		params[i].InsertOpts = &opts
	}
	rows, err := x.river.InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = r.Job.ID
	}
	return ids, nil
}

// Cancel takes jobs back. One that has run meanwhile, or is gone, is no matter.
func (x *Executor) Cancel(ctx context.Context, tx pgx.Tx, jobs []int64) error {
	for _, id := range jobs {
		if _, err := x.river.JobCancelTx(ctx, tx, id); err != nil && !isNotFound(err) {
			return err
		}
	}
	return nil
}
