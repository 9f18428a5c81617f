package task

import (
	"context"
	"fmt"

	"rackflow.dev/flow/store/db"
)

// RemoveOld removes the tasks that ended longer ago than the site keeps them. Nothing is removed where no time is set.
func (s *Service) RemoveOld(ctx context.Context) error {
	if s.Settings.Retention <= 0 {
		return nil
	}
	const batch = 500 // tasks a statement, so that none holds locks for long
	before := s.Now().Add(-s.Settings.Retention)
	for {
		ids, err := db.New(s.Store.Engine).TaskDeleteOld(ctx, db.TaskDeleteOldParams{Before: &before, Max: batch})
		if err != nil {
			return fmt.Errorf("remove old tasks: %w", err)
		}
		if len(ids) > 0 {
			s.Log.Info("old tasks removed", "tasks", len(ids), "before", before)
		}
		if len(ids) < batch {
			return nil
		}
	}
}
