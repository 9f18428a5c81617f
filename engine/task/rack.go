package task

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// DeleteRack deletes a rack and ends the tasks that wait for it. Those that have been scheduled finish on their frozen
// plans.
func (s *Service) DeleteRack(ctx context.Context, id uuid.UUID) error {
	to, err := Next(db.TaskStateWaiting, Cancel)
	if err != nil {
		return err
	}
	var ended []uuid.UUID
	err = store.InTx(ctx, s.Store.API, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := inventory.DeleteRack(ctx, q, id); err != nil {
			return err
		}
		ended, err = q.TaskEndWaiting(ctx, db.TaskEndWaitingParams{
			RackID: id, ToState: to, Message: fmt.Sprintf(messageRackDeleted, id),
		})
		return err
	})
	if err != nil {
		return err
	}
	for _, task := range ended {
		s.Log.Info("waiting task ended with its rack", "task", task, "rack", id)
	}
	s.Watch.Poke()
	return nil
}
