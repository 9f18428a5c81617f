package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// Retry asks for what is left of a task that failed or was terminated.
type Retry struct {
	TaskID            uuid.UUID
	Description       *string // nil: that of the task
	OverrideReadiness *bool   // nil: as for the task
	Queue             time.Duration
}

// Retry goes on with a task from its first step that was not completed, as a new task on the same plan. It returns the new
// task's id and the number of the stage it begins with.
func (s *Service) Retry(ctx context.Context, r Retry) (uuid.UUID, int, error) {
	var old db.TaskListByIDsRow
	var plan rules.Plan
	err := s.snapshot(ctx, func(q *db.Queries) (err error) {
		old, plan, err = s.unfinishedRest(ctx, q, r.TaskID)
		return err
	})
	if err != nil {
		return uuid.Nil, 0, err
	}
	o := order{
		operation: plan.Operation, description: old.Task.Description, queue: min(r.Queue, MaxQueueTimeout), retryOf: &r.TaskID,
	}
	if err := json.Unmarshal(old.Request, &o.options); err != nil {
		return uuid.Nil, 0, fmt.Errorf("task %s: stored request: %w", r.TaskID, err)
	}
	o.options.Frozen = true
	if r.Description != nil {
		o.description = *r.Description
	}
	if r.OverrideReadiness != nil {
		o.options.OverrideReadiness = *r.OverrideReadiness
	}
	d := newDraft(plan)
	d.rule = uuid.Nil
	if old.Task.AppliedRuleID != nil { // else it was deleted since, which does not matter to the plan
		d.rule = *old.Task.AppliedRuleID
	}
	ids, refusals, err := s.admit(ctx, o, []draft{d})
	if err != nil {
		return uuid.Nil, 0, err
	}
	if len(refusals) > 0 {
		return uuid.Nil, 0, refusals[0].Err
	}
	for _, stage := range plan.Stages {
		if !stage.Skipped() {
			return ids[0], stage.Number, nil
		}
	}
	return ids[0], 0, nil
}

// unfinishedRest is a task that may be retried, with the plan of what is left of it.
func (s *Service) unfinishedRest(ctx context.Context, q *db.Queries, id uuid.UUID) (db.TaskListByIDsRow, rules.Plan, error) {
	var plan rules.Plan
	rows, err := q.TaskListByIDs(ctx, db.TaskListByIDsParams{Ids: []uuid.UUID{id}})
	if err != nil {
		return db.TaskListByIDsRow{}, plan, err
	}
	if len(rows) == 0 {
		return db.TaskListByIDsRow{}, plan, fault.NotFound("task %s not found", id)
	}
	old := rows[0]
	if old.Task.State != db.TaskStateFailed && old.Task.State != db.TaskStateTerminated {
		return old, plan, fault.Precondition("task %s is %s: only failed and terminated tasks can be retried", id, old.Task.State)
	}
	if err := notRetried(ctx, q, id); err != nil {
		return old, plan, err
	}
	if err := json.Unmarshal(old.Plan, &plan); err != nil {
		return old, plan, fault.Precondition("task %s has a plan that cannot be read: %v", id, err)
	}
	steps, err := q.StepListByTasks(ctx, db.StepListByTasksParams{TaskIds: []uuid.UUID{id}})
	if err != nil {
		return old, plan, err
	}
	type place struct{ stage, step int }
	done := map[place]bool{}
	for _, step := range steps {
		done[place{int(step.Stage), int(step.Step)}] = step.State == db.StepStateCompleted
	}
	plan = plan.Rest(func(stage, step int) bool { return done[place{stage, step}] })
	if plan.Empty() {
		return old, plan, fault.Precondition("task %s has completed all of its steps: there is nothing to go on with", id)
	}
	components, err := q.ComponentTargets(ctx, db.ComponentTargetsParams{RackIds: []uuid.UUID{}, Ids: old.ComponentIds})
	if err != nil {
		return old, plan, err
	}
	found := make([]rules.Component, len(components))
	for i, row := range components {
		found[i] = component(row)
	}
	if err := matches(plan, found); err != nil {
		return old, plan, err
	}
	if old.Task.StartedAt == nil {
		if err := s.ruleKept(ctx, q, old); err != nil {
			return old, plan, err
		}
	}
	return old, plan, s.fit(plan)
}

// ruleKept refuses a task that never began and whose rule has been deleted: its plan was still to be made anew, and it may
// have failed for that very reason.
func (s *Service) ruleKept(ctx context.Context, q *db.Queries, old db.TaskListByIDsRow) error {
	var opt Options
	if err := json.Unmarshal(old.Request, &opt); err != nil {
		return fmt.Errorf("task %s: stored request: %w", old.Task.ID, err)
	}
	if opt.RuleID == nil || opt.Frozen {
		return nil
	}
	_, err := q.RuleGet(ctx, db.RuleGetParams{ID: *opt.RuleID})
	if errors.Is(err, store.ErrNotFound) {
		return fault.Precondition("task %s was never begun, and the rule it asks for, %s, has been deleted", old.Task.ID, *opt.RuleID)
	}
	return err
}

// notRetried refuses a task that has been retried.
func notRetried(ctx context.Context, q *db.Queries, id uuid.UUID) error {
	next, err := q.TaskRetriedBy(ctx, db.TaskRetriedByParams{ID: &id})
	if err == nil {
		return fault.Precondition("task %s has been retried already, as task %s", id, next)
	} else if !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("retry of task %s: %w", id, err)
	}
	return nil
}

// matches refuses a frozen plan that the inventory no longer agrees with: a component that is gone, is in another rack or
// has another identity is not the one the plan was made for.
func matches(plan rules.Plan, found []rules.Component) error {
	now := make(map[uuid.UUID]hardware.Component, len(found))
	for _, c := range found {
		now[c.ID] = c.Component
	}
	var wrong []string
	for _, list := range plan.Components {
		for _, c := range list {
			is, ok := now[c.ID]
			switch {
			case !ok || is.RackID != plan.RackID:
				wrong = append(wrong, c.Label()+" is no longer in the rack")
			case is.Type != c.Type:
				wrong = append(wrong, fmt.Sprintf("%s is a %s now", c.Label(), is.Type))
			case is.ExternalID != c.ExternalID:
				wrong = append(wrong, fmt.Sprintf("%s has the component id %q now, and had %q", c.Label(), is.ExternalID, c.ExternalID))
			case is.MAC != c.MAC:
				wrong = append(wrong, fmt.Sprintf("%s has the management MAC %q now, and had %q", c.Label(), is.MAC, c.MAC))
			}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.Precondition("the inventory no longer matches the plan: %s", strings.Join(wrong, "; "))
}
