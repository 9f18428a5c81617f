package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// Explanation is what would become of an operation on one rack, if it were submitted now.
type Explanation struct {
	RackID    uuid.UUID
	RackName  string
	Plan      rules.Plan
	Source    rules.Source
	Conflicts []Conflict
	Refusal   error // why there would be no task; nil: there would be one, that waits when there are conflicts
	Unready   []Unready
}

// Explain says what a request would do, and does nothing. What would refuse the request as a whole is its error.
func (s *Service) Explain(ctx context.Context, req Request) ([]Explanation, error) {
	drafts, err := s.drafts(ctx, req)
	if err != nil {
		return nil, err
	}
	list := make([]Explanation, len(drafts))
	err = s.snapshot(ctx, func(q *db.Queries) error {
		racks := make([]uuid.UUID, len(drafts))
		for i, d := range drafts {
			racks[i] = d.rackID
		}
		rows, err := q.RackListByIDs(ctx, db.RackListByIDsParams{Ids: racks})
		if err != nil {
			return err
		}
		names := make(map[uuid.UUID]string, len(rows))
		for _, row := range rows {
			names[row.ID] = row.Name
		}
		busy, err := s.unfinished(ctx, q, racks)
		if err != nil {
			return err
		}
		unready := map[uuid.UUID][]Unready{}
		if !req.Options.OverrideReadiness {
			all, err := s.unready(ctx, q, racks, nil)
			if err != nil {
				return err
			}
			for _, u := range all {
				unready[u.RackID] = append(unready[u.RackID], u)
			}
		}
		for i, d := range drafts {
			conflicts := s.conflicts(d.footprint, busy[d.rackID])
			list[i] = Explanation{
				RackID: d.rackID, RackName: names[d.rackID], Plan: d.plan, Source: d.source, Conflicts: conflicts,
				Refusal: s.refusal(req.Queue, conflicts, busy[d.rackID]),
			}
			matter := gated(d.plan)
			for _, u := range unready[d.rackID] {
				if matter(u.ID) {
					list[i].Unready = append(list[i].Unready, u)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return list, nil
}

// gated tells which trays of the rack the disruptive actions of a plan wait for.
func gated(p rules.Plan) func(tray uuid.UUID) bool {
	all, own := false, map[uuid.UUID]bool{}
	for _, stage := range p.Stages {
		for _, step := range stage.Steps {
			if !slices.ContainsFunc(step.Actions, func(a rules.PlanAction) bool { return a.Name.Disruptive() }) {
				continue
			}
			switch step.ComponentType {
			case hardware.NVSwitch, hardware.PowerShelf:
				all = true
			case hardware.Compute:
				for _, c := range p.Components[hardware.Compute] {
					own[c.ID] = true
				}
			}
		}
	}
	return func(tray uuid.UUID) bool { return all || own[tray] }
}

// PlanOf is the frozen plan of a task, and the tasks it is linked to.
type PlanOf struct {
	Plan      rules.Plan
	RetryOf   *uuid.UUID
	RetriedBy *uuid.UUID
}

// Plan returns the plan of a task.
func (s *Service) Plan(ctx context.Context, id uuid.UUID) (PlanOf, error) {
	var p PlanOf
	err := s.snapshot(ctx, func(q *db.Queries) error {
		rows, err := q.TaskListByIDs(ctx, db.TaskListByIDsParams{Ids: []uuid.UUID{id}})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fault.NotFound("task %s not found", id)
		}
		p.RetryOf = rows[0].Task.RetryOf
		next, err := q.TaskRetriedBy(ctx, db.TaskRetriedByParams{ID: &id})
		if err == nil {
			p.RetriedBy = &next
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return json.Unmarshal(rows[0].Plan, &p.Plan)
	})
	if err != nil {
		return p, fmt.Errorf("plan of task %s: %w", id, err)
	}
	return p, nil
}
