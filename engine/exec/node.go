package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

const (
	heartbeatEvery = 2 * time.Second
	// staleAfter is how long a node may miss its heartbeats before others take its work.
	staleAfter = 10 * time.Second
	// heartbeatLimit is how long a heartbeat may take; it is lost then, not late.
	heartbeatLimit = 2 * time.Second
	// never is a staleness that no node reaches. A node that starts takes only its own former lives for dead: others may
	// have missed heartbeats because the database was away.
	never = 10 * 365 * 24 * time.Hour
	// lostGrace is how long a wake-up may be late before it counts as lost.
	lostGrace = 30 * time.Second
)

// node is this process in the database.
type node struct {
	incarnation uuid.UUID // of this life
	id          uuid.UUID
	host        string
	version     string
}

func (x *Executor) register(ctx context.Context) error {
	err := db.New(x.store.Engine).NodeInsert(ctx, db.NodeInsertParams{
		Incarnation: x.node.incarnation, NodeID: x.node.id, Host: x.node.host, Version: x.node.version,
	})
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	return nil
}

func (x *Executor) unregister(ctx context.Context) error {
	return db.New(x.store.Engine).NodeDelete(ctx, db.NodeDeleteParams{Incarnation: x.node.incarnation})
}

// Run heartbeats and sweeps until ctx ends.
func (x *Executor) Run(ctx context.Context) {
	house := make(chan struct{})
	go func() {
		defer close(house)
		x.keepHouse(ctx)
	}()
	defer func() { <-house }()
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	// Since when heartbeats have gone through without a gap. After an outage of the database every node looks dead to
	// the first one that is back; it must give the others the time to show themselves.
	steady := x.now()
	last := steady
	var strangers map[stepArgs]bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		n, err := x.heartbeat(ctx)
		now := x.now()
		if err != nil {
			if ctx.Err() == nil {
				x.log.Warn("no heartbeat", "err", err)
			}
			continue
		}
		if now.Sub(last) > staleAfter/2 {
			steady = now
		}
		last = now
		if n == 0 {
			x.rejoin(ctx)
			continue
		}
		strangers = x.tend(ctx, now.Sub(steady) >= staleAfter, strangers)
	}
}

// tend looks after work between two heartbeats: in no more time than a heartbeat may be late.
func (x *Executor) tend(ctx context.Context, others bool, strangers map[stepArgs]bool) map[stepArgs]bool {
	limited, cancel := context.WithTimeout(ctx, staleAfter/2)
	defer cancel()
	var err error
	if others {
		err = x.sweep(limited, staleAfter, uuid.Nil)
	}
	strangers, derr := x.disown(limited, strangers)
	// The job that ends a task's wait may have died with its node.
	if err = errors.Join(err, derr, x.interruptEnded(limited), x.tasks.SweepOverdue(limited)); err != nil && ctx.Err() == nil {
		x.log.Warn("sweep", "err", err)
	}
	return strangers
}

func (x *Executor) heartbeat(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()
	return db.New(x.store.Engine).NodeHeartbeat(ctx, db.NodeHeartbeatParams{Incarnation: x.node.incarnation})
}

// interruptEnded stops drives whose tasks have ended elsewhere; the notification of that may have been lost.
func (x *Executor) interruptEnded(ctx context.Context) error {
	var ids []uuid.UUID
	x.mu.Lock()
	for d := range x.drives {
		ids = append(ids, d.task)
	}
	x.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	ended, err := db.New(x.store.Engine).TaskListEnded(ctx, db.TaskListEndedParams{Ids: ids})
	if err != nil {
		return fmt.Errorf("ended tasks: %w", err)
	}
	for _, id := range ended {
		x.Interrupt(id)
	}
	return nil
}

// rejoin comes back after this node was declared dead: its steps are in other hands, so their drives must end.
func (x *Executor) rejoin(ctx context.Context) {
	x.log.Warn("this node was taken for dead; its work is in other hands")
	x.mu.Lock()
	for _, cancel := range x.drives {
		cancel(errLost)
	}
	x.mu.Unlock()
	if err := x.register(ctx); err != nil {
		x.log.Warn("register node", "err", err)
	}
}

// sweep takes over the work of nodes that have not been heard of for so long, and of the earlier lives of one whose id is
// given, and finds wake-ups that were lost.
func (x *Executor) sweep(ctx context.Context, stale time.Duration, earlier uuid.UUID) error {
	var freed []uuid.UUID // racks whose tasks may have waited for a driver that is no more
	err := store.InTx(ctx, x.store.Engine, func(tx pgx.Tx) error {
		q := db.New(tx)
		// Whoever deletes a node's row takes its work over; others wait for the row and then find it gone.
		dead, err := q.NodeReap(ctx, db.NodeReapParams{Self: x.node.incarnation, NodeID: earlier, StaleAfter: stale})
		if err != nil {
			return fmt.Errorf("reap nodes: %w", err)
		}
		names := make([]string, len(dead))
		for i, d := range dead {
			names[i] = d.String()
		}
		rows, err := q.StepTakeOver(ctx)
		if err != nil {
			return fmt.Errorf("take over steps: %w", err)
		}
		var orphans []stepArgs
		for _, r := range rows {
			orphans = append(orphans, stepArgs{Task: r.TaskID, Stage: r.Stage, Step: r.Step, Epoch: r.Epoch})
		}
		if freed, err = q.StepForget(ctx); err != nil {
			return fmt.Errorf("steps of ended tasks: %w", err)
		}
		if len(dead) > 0 {
			if err := q.LeaderGiveUp(ctx, db.LeaderGiveUpParams{Leaders: names}); err != nil {
				return fmt.Errorf("river leadership: %w", err)
			}
		}
		lost, err := q.StepListLost(ctx, db.StepListLostParams{Grace: lostGrace, Dead: names})
		if err != nil {
			return fmt.Errorf("lost steps: %w", err)
		}
		revoke := make([]stepArgs, len(lost))
		for i, r := range lost {
			revoke[i] = stepArgs{Task: r.TaskID, Stage: r.Stage, Step: r.Step}
		}
		revoked, err := x.revoke(ctx, q, revoke)
		if err != nil {
			return err
		}
		if err := x.rewake(ctx, tx, append(orphans, revoked...)); err != nil {
			return err
		}
		unstarted, err := q.TaskListUnstarted(ctx, db.TaskListUnstartedParams{Grace: lostGrace, Dead: names})
		if err != nil {
			return fmt.Errorf("unstarted tasks: %w", err)
		}
		if len(unstarted) > 0 {
			jobs, err := x.InsertStarts(ctx, tx, unstarted)
			if err != nil {
				return fmt.Errorf("start jobs: %w", err)
			}
			if err := q.TaskTouch(ctx, db.TaskTouchParams{Ids: unstarted, JobIds: jobs}); err != nil {
				return err
			}
		}
		if len(dead)+len(orphans)+len(lost)+len(unstarted) > 0 {
			x.log.Warn("took over work", "nodes", names, "steps", len(orphans), "lost", len(lost), "unstarted", len(unstarted))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := x.tasks.ReleaseRacks(ctx, freed); err != nil { // the next sweep of the queues comes to them
		x.log.Warn("queues of racks", "err", err)
	}
	return nil
}

// revoke gives steps a new epoch, whoever has them.
func (x *Executor) revoke(ctx context.Context, q *db.Queries, steps []stepArgs) ([]stepArgs, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	var p db.StepRevokeParams
	for _, s := range steps {
		p.TaskIds = append(p.TaskIds, s.Task)
		p.Stages = append(p.Stages, s.Stage)
		p.Steps = append(p.Steps, s.Step)
	}
	rows, err := q.StepRevoke(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("revoke steps: %w", err)
	}
	revoked := make([]stepArgs, len(rows))
	for i, r := range rows {
		revoked[i] = stepArgs{Task: r.TaskID, Stage: r.Stage, Step: r.Step, Epoch: r.Epoch}
	}
	return revoked, nil
}

// rewake gives steps the jobs of their new epochs.
func (x *Executor) rewake(ctx context.Context, tx pgx.Tx, steps []stepArgs) error {
	if len(steps) == 0 {
		return nil
	}
	jobs, err := x.insertSteps(ctx, tx, time.Time{}, steps)
	if err != nil {
		return fmt.Errorf("step jobs: %w", err)
	}
	p := db.StepSetJobsParams{JobIds: jobs}
	for _, s := range steps {
		p.TaskIds = append(p.TaskIds, s.Task)
		p.Stages = append(p.Stages, s.Stage)
		p.Steps = append(p.Steps, s.Step)
	}
	return db.New(tx).StepSetJobs(ctx, p)
}

// disown gives back the steps that are stamped with this node but that no drive here stands for: a commit whose answer
// was lost may have claimed them. Only what is seen twice in a row counts; a claim may be on its way to its drive. A step
// whose task has ended meanwhile loses its stamp, which tasks may wait for.
func (x *Executor) disown(ctx context.Context, before map[stepArgs]bool) (map[stepArgs]bool, error) {
	rows, err := db.New(x.store.Engine).StepListOwn(ctx, db.StepListOwnParams{Node: &x.node.incarnation})
	if err != nil {
		return before, err
	}
	driven := map[stepArgs]bool{}
	x.mu.Lock()
	for d := range x.drives {
		if place := d.place.Load(); place != nil {
			driven[*place] = true
		}
	}
	x.mu.Unlock()
	strangers := map[stepArgs]bool{}
	var orphans []stepArgs
	var freed []uuid.UUID
	for _, r := range rows {
		s := stepArgs{Task: r.TaskID, Stage: r.Stage, Step: r.Step, Epoch: r.Epoch}
		if driven[s] {
			continue
		}
		switch strangers[s] = true; {
		case !before[s]:
		case !r.Ended:
			orphans = append(orphans, s)
		default:
			freed = append(freed, r.RackID)
			err := db.New(x.store.Engine).StepRelease(ctx, db.StepReleaseParams{
				TaskID: s.Task, Stage: s.Stage, Step: s.Step, Epoch: s.Epoch, Node: &x.node.incarnation,
			})
			if err != nil {
				return strangers, fmt.Errorf("steps of ended tasks: %w", err)
			}
		}
	}
	if err := x.tasks.ReleaseRacks(ctx, freed); err != nil {
		return strangers, err
	}
	if len(orphans) == 0 {
		return strangers, nil
	}
	err = store.InTx(ctx, x.store.Engine, func(tx pgx.Tx) error {
		revoked, err := x.revoke(ctx, db.New(tx), orphans)
		if err != nil {
			return err
		}
		return x.rewake(ctx, tx, revoked)
	})
	if err != nil {
		return strangers, errors.Join(errors.New("give back steps"), err)
	}
	x.log.Warn("gave back steps without a driver", "steps", len(orphans))
	return nil, nil
}
