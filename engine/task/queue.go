package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// onRack runs fn in a transaction with the rack locked. Whoever ends a task locks its rack first and its row after that:
// ending a task and promoting those that wait for it is one step, and everybody does it in the same order.
func (s *Service) onRack(ctx context.Context, rack uuid.UUID, fn func(tx pgx.Tx, waiting int32) error) error {
	return store.InTx(ctx, s.Store.Engine, func(tx pgx.Tx) error {
		rows, err := db.New(tx).RackLockMany(ctx, db.RackLockManyParams{Ids: []uuid.UUID{rack}})
		if err != nil {
			return fmt.Errorf("lock rack %s: %w", rack, err)
		}
		var waiting int32
		for _, r := range rows { // none when the rack has been purged
			waiting = r.Waiting
		}
		return fn(tx, waiting)
	})
}

// end moves a task to a terminal state in a transaction that holds its rack, and reports whether it was still in the state
// it is moved from.
func (s *Service) end(ctx context.Context, q *db.Queries, id uuid.UUID, from db.TaskState, ev Event, message string) (bool, error) {
	to, err := Next(from, ev)
	if err != nil {
		return false, err
	}
	_, err = q.TaskEnd(ctx, db.TaskEndParams{ID: id, FromState: from, ToState: to, Message: cut(message, maxMessage)})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("task %s: %w", id, err)
	}
	s.Log.Info("task ended", "task", id, "state", string(to), "message", message)
	return true, nil
}

// Fail ends a task that cannot be carried out, and lets the tasks that wait for its rack go on.
func (s *Service) Fail(ctx context.Context, id, rack uuid.UUID, from db.TaskState, reason error) error {
	return s.Releasing(func(release ReleaseFunc) error {
		return s.onRack(ctx, rack, func(tx pgx.Tx, waiting int32) error {
			ended, err := s.end(ctx, db.New(tx), id, from, Fail, FailureMessage(reason.Error()))
			if err != nil || !ended || waiting == 0 {
				return err
			}
			return release(ctx, tx, rack, nil)
		})
	})
}

// Expire ends a task whose time in the queue is over. It returns how long that is still to come; 0 when it is not waiting,
// or not any more.
func (s *Service) Expire(ctx context.Context, id uuid.UUID) (left time.Duration, err error) {
	t, err := db.New(s.Store.Engine).TaskGet(ctx, db.TaskGetParams{ID: id})
	if errors.Is(err, store.ErrNotFound) || err == nil && t.State != db.TaskStateWaiting {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("task %s: %w", id, err)
	}
	if left := t.QueueExpiresAt.Sub(s.Now()); left > 0 {
		return left, nil
	}
	return 0, s.ReleaseRack(ctx, t.RackID)
}

// ReleaseRack lets the tasks that wait for a rack go on as far as they can.
func (s *Service) ReleaseRack(ctx context.Context, rack uuid.UUID) error {
	released := false
	err := s.Releasing(func(release ReleaseFunc) error {
		return s.onRack(ctx, rack, func(tx pgx.Tx, waiting int32) error {
			if released = waiting > 0; !released {
				return nil
			}
			return release(ctx, tx, rack, nil)
		})
	})
	if released {
		s.Watch.Poke()
	}
	return err
}

// Sweep looks after the queues of all racks: a wake-up may have been lost, or what a task waited for may have changed
// without one.
func (s *Service) Sweep(ctx context.Context) error {
	racks, err := db.New(s.Store.Engine).RackListWaiting(ctx)
	if err != nil {
		return fmt.Errorf("racks with waiting tasks: %w", err)
	}
	return s.ReleaseRacks(ctx, racks)
}

// overdueAfter is how late the job that ends a task's wait may be before others do its work.
const overdueAfter = time.Second

// SweepOverdue looks after the queues with tasks whose time is over and that nobody has ended.
func (s *Service) SweepOverdue(ctx context.Context) error {
	before := s.Now().Add(-overdueAfter)
	racks, err := db.New(s.Store.Engine).RackListOverdue(ctx, db.RackListOverdueParams{Before: &before})
	if err != nil {
		return fmt.Errorf("racks with overdue tasks: %w", err)
	}
	return s.ReleaseRacks(ctx, racks)
}

// ReleaseRacks is ReleaseRack for many, one after the other.
func (s *Service) ReleaseRacks(ctx context.Context, racks []uuid.UUID) error {
	var errs []error
	for _, rack := range racks {
		errs = append(errs, s.ReleaseRack(ctx, rack))
	}
	return errors.Join(errs...)
}

// release promotes the tasks that wait for a rack, oldest first, up to the first that conflicts with one that is active or
// ahead of it. It belongs into every transaction that ends a task of the rack; the rack is locked. Tasks whose time is over
// end here as well, so that none can be promoted after it.
//
// The first task that is promoted goes to adopt, when there is one, which starts it in the same transaction.
func (s *Service) release(ctx context.Context, tx pgx.Tx, rack uuid.UUID, adopt *Adopter) error {
	q := db.New(tx)
	waiting, err := q.TaskListWaiting(ctx, db.TaskListWaitingParams{RackID: rack})
	if err != nil || len(waiting) == 0 {
		return err
	}
	busy := false
	if !s.Settings.AllowOverlap {
		// The driver comes back here when it has stopped, and a job does when the minute is over.
		until, err := q.TaskRackBusy(ctx, db.TaskRackBusyParams{RackID: rack})
		if busy = err == nil; busy {
			err = s.Jobs.InsertRelease(ctx, tx, rack, until)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("rack %s: %w", rack, err)
		}
	}
	tasks, err := s.unfinished(ctx, q, []uuid.UUID{rack})
	if err != nil {
		return err
	}
	ahead := slices.DeleteFunc(tasks[rack], func(o other) bool { return o.state == db.TaskStateWaiting })
	for i, w := range waiting {
		if !w.Task.QueueExpiresAt.After(s.Now()) {
			if _, err := s.end(ctx, q, w.Task.ID, w.Task.State, Expire, expired(w.Task.Message)); err != nil {
				return err
			}
			continue
		}
		f := footprintOf(w.Task.OperationType, w.ComponentTypes, w.ComponentIds)
		if busy || len(s.conflicts(f, ahead)) > 0 {
			busy = true // of those behind it, only the expired ones still matter
			if strings.HasPrefix(w.Task.Message, messageUnlinked) {
				if err := q.TaskDefer(ctx, db.TaskDeferParams{ID: w.Task.ID, Message: MessageQueued}); err != nil {
					return err
				}
			}
			continue
		}
		stays, promoted, err := s.promote(ctx, tx, w, len(waiting)-i-1, adopt)
		if err != nil {
			return &promotionError{w.Task.ID, err}
		}
		if promoted {
			adopt = nil
		}
		if stays {
			ahead = append(ahead, other{footprint: f, id: w.Task.ID, state: db.TaskStatePending})
		}
	}
	return nil
}

// promoteAgain is how soon a promotion is tried again that failed for a reason of ours.
const promoteAgain = 5 * time.Second

// promotionError is why a waiting task could not be promoted although its turn has come; the reason is none of its own.
type promotionError struct {
	task uuid.UUID
	err  error
}

func (e *promotionError) Error() string { return fmt.Sprintf("promote task %s: %v", e.task, e.err) }
func (e *promotionError) Unwrap() error { return e.err }

// ReleaseFunc is what ends a transaction that has ended a task; the rack is locked.
type ReleaseFunc func(ctx context.Context, tx pgx.Tx, rack uuid.UUID, adopt *Adopter) error

// Releasing runs end, a transaction that ends with a release. When the release is what fails, end runs again and leaves the
// tasks that wait for later: what has ended is not held up by what cannot begin.
func (s *Service) Releasing(end func(ReleaseFunc) error) error {
	err := end(s.release)
	if failed, ok := errors.AsType[*promotionError](err); ok && !store.Unavailable(failed.err) {
		s.Log.Error("task cannot be promoted", "task", failed.task, "err", failed.err)
		err = end(func(ctx context.Context, tx pgx.Tx, rack uuid.UUID, _ *Adopter) error {
			return s.Jobs.InsertRelease(ctx, tx, rack, s.Now().Add(promoteAgain))
		})
	}
	return err
}

// expired is the message of a task whose time in the queue is over.
func expired(message string) string {
	if missing, ok := strings.CutPrefix(message, messageUnlinked); ok {
		return messageUnlinkedExpired + missing
	}
	return MessageExpired
}
