package exec

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

type expireWorker struct {
	river.WorkerDefaults[expireArgs]
	x *Executor
}

// Work ends a task that still waits when its time is over. Until then it comes back: a worker that sat through the wait
// would keep others from tasks whose time is over before.
func (w *expireWorker) Work(ctx context.Context, job *river.Job[expireArgs]) error {
	var left time.Duration
	err := w.x.persist(ctx, func(ctx context.Context) (err error) {
		left, err = w.x.tasks.Expire(ctx, job.Args.Task)
		return err
	})
	if err != nil || left <= 0 {
		return err
	}
	return river.JobSnooze(min(left, maxSnooze))
}

type releaseWorker struct {
	river.WorkerDefaults[releaseArgs]
	x *Executor
}

// Work lets the tasks that wait for a rack go on.
func (w *releaseWorker) Work(ctx context.Context, job *river.Job[releaseArgs]) error {
	return w.x.releaseRack(ctx, job.Args.Rack)
}

func (x *Executor) releaseRack(ctx context.Context, rack uuid.UUID) error {
	return x.persist(ctx, func(ctx context.Context) error { return x.tasks.ReleaseRack(ctx, rack) })
}

const (
	// queueSweepEvery is how often the queues of all racks are looked after whether or not anything ended.
	queueSweepEvery = 5 * time.Minute
	// retainEvery is how often tasks that were kept long enough are removed.
	retainEvery = time.Hour
)

// keepHouse does what is due when a node starts, and now and then. A rack that it cannot look after is no reason not to start.
func (x *Executor) keepHouse(ctx context.Context) {
	var chores sync.WaitGroup
	defer chores.Wait()
	for _, c := range []struct {
		every time.Duration
		do    func(context.Context) error
	}{{queueSweepEvery, x.tasks.Sweep}, {retainEvery, x.tasks.RemoveOld}} {
		chores.Go(func() {
			again := time.NewTicker(c.every)
			defer again.Stop()
			for {
				if err := c.do(ctx); err != nil && ctx.Err() == nil {
					x.log.Warn("housekeeping", "err", err)
				}
				select {
				case <-ctx.Done():
					return
				case <-again.C:
				}
			}
		})
	}
}
