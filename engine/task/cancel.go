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
	ended := false
	err := store.InTx(ctx, s.Store.Engine, func(tx pgx.Tx) error {
		q := db.New(tx)
		t, err := q.TaskLock(ctx, db.TaskLockParams{ID: id})
		if errors.Is(err, store.ErrNotFound) {
			return fault.NotFound("task %s not found", id)
		} else if err != nil {
			return fmt.Errorf("task %s: %w", id, err)
		}
		if t.State == db.TaskStateTerminated {
			return nil
		}
		to, err := Next(t.State, Cancel)
		if err != nil {
			return fault.Precondition("task cannot be cancelled: %s is %s", id, t.State)
		}
		steps, err := q.StepListByTasks(ctx, db.StepListByTasksParams{TaskIds: []uuid.UUID{id}})
		if err != nil {
			return fmt.Errorf("task %s: %w", id, err)
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
			return fmt.Errorf("task %s: take back jobs: %w", id, err)
		}
		if _, err := q.TaskEnd(ctx, db.TaskEndParams{ID: id, FromState: t.State, ToState: to, Message: MessageCancelled}); err != nil {
			return fmt.Errorf("task %s: %w", id, err)
		}
		ended = true
		return q.TaskNotifyEnd(ctx, db.TaskNotifyEndParams{ID: id})
	})
	if err != nil || !ended {
		return err
	}
	s.Log.Info("task cancelled", "task", id)
	s.Jobs.Interrupt(id)
	s.Watch.Poke()
	return nil
}
