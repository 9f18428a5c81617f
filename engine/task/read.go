package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// View is a task as clients see it.
type View struct {
	db.Task
	Operation    string // text form
	ComponentIDs []uuid.UUID
	Report       string // JSON; empty when not asked for or when the task never started
}

// ListFilter narrows a list of tasks. Filters that are set must all hold.
type ListFilter struct {
	RackID      *uuid.UUID
	ComponentID *uuid.UUID
	ActiveOnly  bool
	Offset      int32
	Limit       int32
	WithReport  bool
}

// List returns a page of tasks, newest first, and how many there are in all.
func (s *Service) List(ctx context.Context, f ListFilter) ([]View, int32, error) {
	var views []View
	var total int32
	err := s.snapshot(ctx, func(q *db.Queries) error {
		var err error
		total, err = q.TaskCount(ctx, db.TaskCountParams{RackID: f.RackID, ComponentID: f.ComponentID, ActiveOnly: f.ActiveOnly})
		if err != nil {
			return err
		}
		rows, err := q.TaskList(ctx, db.TaskListParams{
			RackID: f.RackID, ComponentID: f.ComponentID, ActiveOnly: f.ActiveOnly, Max: f.Limit, Skip: f.Offset,
		})
		if err != nil {
			return err
		}
		plans := map[uuid.UUID]json.RawMessage{}
		if f.WithReport {
			ids := make([]uuid.UUID, len(rows))
			for i, r := range rows {
				ids[i] = r.Task.ID
			}
			stored, err := q.TaskPlans(ctx, db.TaskPlansParams{TaskIds: ids})
			if err != nil {
				return err
			}
			for _, p := range stored {
				plans[p.TaskID] = p.Plan
			}
		}
		for _, r := range rows {
			v, err := view(r.Task, r.ComponentIds, r.Request)
			if err != nil {
				return err
			}
			views = append(views, v)
		}
		return s.addReports(ctx, q, views, plans)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list tasks: %w", err)
	}
	return views, total, nil
}

// Get returns tasks with their reports in the order of the ids, which may repeat.
func (s *Service) Get(ctx context.Context, ids []uuid.UUID) ([]View, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var found []View
	err := s.snapshot(ctx, func(q *db.Queries) error {
		rows, err := q.TaskListByIDs(ctx, db.TaskListByIDsParams{Ids: ids})
		if err != nil {
			return err
		}
		plans := make(map[uuid.UUID]json.RawMessage, len(rows))
		for _, r := range rows {
			v, err := view(r.Task, r.ComponentIds, r.Request)
			if err != nil {
				return err
			}
			found = append(found, v)
			plans[r.Task.ID] = r.Plan
		}
		return s.addReports(ctx, q, found, plans)
	})
	if err != nil {
		return nil, fmt.Errorf("get tasks: %w", err)
	}
	byID := make(map[uuid.UUID]View, len(found))
	for _, v := range found {
		byID[v.ID] = v
	}
	views := make([]View, len(ids))
	for i, id := range ids {
		v, ok := byID[id]
		if !ok {
			return nil, fault.NotFound("task %s not found", id)
		}
		views[i] = v
	}
	return views, nil
}

// snapshot runs reads that belong together on one view of the database.
func (s *Service) snapshot(ctx context.Context, fn func(*db.Queries) error) error {
	return pgx.BeginTxFunc(ctx, s.Store.API, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error { return fn(db.New(tx)) })
}

func view(t db.Task, components []uuid.UUID, options json.RawMessage) (View, error) {
	var opt Options
	if err := json.Unmarshal(options, &opt); err != nil {
		return View{}, fmt.Errorf("task %s: stored request: %w", t.ID, err)
	}
	op := rules.Operation{Type: rules.TaskType(t.OperationType), Code: t.OperationCode}
	return View{Task: t, Operation: OperationText(op, opt), ComponentIDs: components}, nil
}

// addReports fills in the reports of the tasks whose plans are given.
func (s *Service) addReports(ctx context.Context, q *db.Queries, views []View, plans map[uuid.UUID]json.RawMessage) error {
	if len(plans) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, 0, len(plans))
	for id := range plans {
		ids = append(ids, id)
	}
	rows, err := q.StepListByTasks(ctx, db.StepListByTasksParams{TaskIds: ids})
	if err != nil {
		return err
	}
	steps := map[uuid.UUID][]db.TaskStep{}
	for _, r := range rows {
		steps[r.TaskID] = append(steps[r.TaskID], r)
	}
	for i, v := range views {
		var plan rules.Plan
		if err := json.Unmarshal(plans[v.ID], &plan); err != nil {
			return fmt.Errorf("task %s: stored plan: %w", v.ID, err)
		}
		if views[i].Report, err = reportText(v.Task, plan, steps[v.ID], s.Settings.ReportComponents); err != nil {
			return fmt.Errorf("task %s: report: %w", v.ID, err)
		}
	}
	return nil
}

// RackByAnyID finds the rack a client's filter means: by external id first, then by Flow's own.
func (s *Service) RackByAnyID(ctx context.Context, id string) (uuid.UUID, error) {
	q := db.New(s.Store.API)
	row, err := q.RackGetByExternalID(ctx, db.RackGetByExternalIDParams{ExternalID: &id})
	if err == nil {
		return row.ID, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return uuid.Nil, fmt.Errorf("rack %s: %w", id, err)
	}
	// The tasks of a deleted rack are still found by its Flow id.
	if own, err := uuid.Parse(id); err == nil && own != uuid.Nil {
		if _, err := q.RackIDTaken(ctx, db.RackIDTakenParams{ID: own}); err == nil {
			return own, nil
		} else if !errors.Is(err, store.ErrNotFound) {
			return uuid.Nil, fmt.Errorf("rack %s: %w", id, err)
		}
	}
	return uuid.Nil, fault.NotFound("rack %s not found", id)
}

// ComponentByAnyID finds the component a client's filter means: by external id or BMC MAC first, then by Flow's own id.
func (s *Service) ComponentByAnyID(ctx context.Context, id string) (uuid.UUID, error) {
	mac, _ := inventory.ParseMAC(id) // nil: no MAC, which nothing has
	rows, err := db.New(s.Store.API).ComponentListByAnyID(ctx, db.ComponentListByAnyIDParams{
		ExternalID: &id, Mac: mac, ID: idOf(id),
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("component %s: %w", id, err)
	}
	var own, other []uuid.UUID
	for _, r := range rows {
		if r.ByID {
			own = append(own, r.ID)
		} else if !slices.Contains(other, r.ID) {
			other = append(other, r.ID)
		}
	}
	switch {
	case len(other) > 1:
		return uuid.Nil, fault.Precondition("component %s is ambiguous: it names %d components", id, len(other))
	case len(other) == 1:
		return other[0], nil
	case len(own) == 1:
		return own[0], nil
	default:
		return uuid.Nil, fault.NotFound("component %s not found", id)
	}
}

func idOf(text string) uuid.UUID {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil
	}
	return id
}
