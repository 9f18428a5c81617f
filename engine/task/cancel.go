package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// Cancel ends a task that has not ended. The state is written first, in one transaction with taking back its jobs; then
// whoever works on it is interrupted. A call to the hardware in flight is not undone. Cancelling a terminated task
// changes nothing.
func (s *Service) Cancel(ctx context.Context, id uuid.UUID) error {
	t, err := db.New(s.Store.Engine).TaskGet(ctx, db.TaskGetParams{ID: id})
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("task %s not found", id)
	} else if err != nil {
		return fmt.Errorf("task %s: %w", id, err)
	}
	ended := false
	err = s.Releasing(func(release ReleaseFunc) error {
		return s.onRack(ctx, t.RackID, func(tx pgx.Tx, waiting int32) (err error) {
			ended, err = s.cancel(ctx, tx, id)
			if err != nil || !ended || waiting == 0 {
				return err
			}
			return release(ctx, tx, t.RackID, nil)
		})
	})
	if err != nil || !ended {
		return err
	}
	s.Jobs.Interrupt(id)
	s.Watch.Poke()
	return nil
}

// cancel ends a task in a transaction that holds its rack; false when it is terminated already.
func (s *Service) cancel(ctx context.Context, tx pgx.Tx, id uuid.UUID) (ended bool, err error) {
	q := db.New(tx)
	t, err := q.TaskLock(ctx, db.TaskLockParams{ID: id})
	if errors.Is(err, store.ErrNotFound) { // removed with other old tasks
		return false, fault.NotFound("task %s not found", id)
	} else if err != nil {
		return false, fmt.Errorf("task %s: %w", id, err)
	}
	if t.State == db.TaskStateTerminated {
		return false, nil
	}
	if _, err := Next(t.State, Cancel); err != nil {
		return false, fault.Precondition("task cannot be cancelled: %s is %s", id, t.State)
	}
	if err := s.takeBack(ctx, tx, t); err != nil {
		return false, err
	}
	if ended, err = s.end(ctx, q, id, t.State, Cancel, MessageCancelled); err != nil || !ended {
		return false, err
	}
	return true, q.TaskNotifyEnd(ctx, db.TaskNotifyEndParams{ID: id})
}

// takeBack cancels the jobs of a task that are still to run.
func (s *Service) takeBack(ctx context.Context, tx pgx.Tx, t db.Task) error {
	steps, err := db.New(tx).StepListByTasks(ctx, db.StepListByTasksParams{TaskIds: []uuid.UUID{t.ID}})
	if err != nil {
		return fmt.Errorf("task %s: %w", t.ID, err)
	}
	var jobs []int64
	if t.State == db.TaskStatePending && t.StartJobID != nil {
		jobs = append(jobs, *t.StartJobID)
	}
	for _, step := range steps {
		if step.State == db.StepStateRunning && step.Node == nil && step.JobID != nil {
			jobs = append(jobs, *step.JobID)
		}
	}
	if err := s.Jobs.Cancel(ctx, tx, jobs); err != nil {
		return fmt.Errorf("task %s: take back jobs: %w", t.ID, err)
	}
	return nil
}
