package exec

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// queueOps is the queue of operations that people wait for.
const queueOps = "ops"

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

// InsertStarts adds the jobs that start tasks.
func (x *Executor) InsertStarts(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID) ([]int64, error) {
	params := make([]river.InsertManyParams, len(tasks))
	for i, id := range tasks {
		params[i].Args = startArgs{Task: id}
		// Behind the steps of running tasks, whose time is running.
		params[i].InsertOpts = &river.InsertOpts{Priority: 2}
	}
	return x.insert(ctx, tx, params)
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
	return x.insert(ctx, tx, params)
}

func (x *Executor) insert(ctx context.Context, tx pgx.Tx, params []river.InsertManyParams) ([]int64, error) {
	if len(params) == 0 {
		return nil, nil
	}
	for i := range params {
		opts := river.InsertOpts{}
		if params[i].InsertOpts != nil {
			opts = *params[i].InsertOpts
		}
		opts.Queue = queueOps
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
