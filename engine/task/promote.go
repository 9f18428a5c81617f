package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// Adopter is a driver that goes on with a task as soon as it is promoted, so that the rack does not stand idle until a job
// is fetched.
type Adopter struct {
	JobID int64 // the driver's own; the task is known to clients as handed over with it
	Start func(ctx context.Context, tx pgx.Tx, id uuid.UUID, plan rules.Plan, opt Options) error
}

// promote lets a task go on whose turn it is: its rule and its components are looked up again, and what is found now
// counts. It reports whether those behind it have to mind it, and whether it goes on.
func (s *Service) promote(ctx context.Context, tx pgx.Tx, w db.TaskListWaitingRow, behind int, adopt *Adopter) (stays, promoted bool, err error) {
	q := db.New(tx)
	plan, opt, err := s.replan(ctx, q, w)
	var unlinked *unlinkedError
	switch {
	case errors.As(err, &unlinked):
		// It waits on, at its place, until its time is over.
		if limit := s.queueLimit(); behind >= limit {
			_, err := s.end(ctx, q, w.Task.ID, w.Task.State, Expire, fmt.Sprintf(messageUnlinkedFull, behind, limit, unlinked))
			return false, false, err
		}
		return true, false, q.TaskDefer(ctx, db.TaskDeferParams{ID: w.Task.ID, Message: cut(messageUnlinked+unlinked.Error(), maxMessage)})
	case fault.KindOf(err) == fault.KindPrecondition:
		to, nerr := Next(w.Task.State, Promote)
		if nerr != nil {
			return false, false, nerr
		}
		if _, err := q.TaskPromote(ctx, db.TaskPromoteParams{ID: w.Task.ID, Message: MessagePromoted}); err != nil {
			return false, false, err
		}
		_, eerr := s.end(ctx, q, w.Task.ID, to, Fail, FailureMessage(err.Error()))
		return false, false, eerr
	case err != nil:
		return false, false, err
	}
	doc, err := json.Marshal(plan)
	if err != nil {
		return false, false, err
	}
	p := db.TaskPromoteParams{ID: w.Task.ID, Message: MessagePromoted, Plan: doc, Stages: int32(len(plan.Stages))}
	if plan.RuleID != uuid.Nil {
		p.AppliedRuleID = &plan.RuleID
	}
	if p.AppliedRuleID != nil && opt.Frozen {
		// Nobody has looked for it yet. It may have been deleted, which does not matter to the plan.
		rows, err := q.RuleCandidates(ctx, db.RuleCandidatesParams{RuleID: p.AppliedRuleID})
		if err != nil {
			return false, false, fmt.Errorf("rule %s: %w", plan.RuleID, err)
		}
		if len(rows) == 0 {
			p.AppliedRuleID = nil
		}
	}
	if adopt != nil {
		p.JobID = &adopt.JobID
	} else {
		jobs, err := s.Jobs.InsertStarts(ctx, tx, []uuid.UUID{w.Task.ID})
		if err != nil {
			return false, false, fmt.Errorf("start job: %w", err)
		}
		p.JobID = &jobs[0]
	}
	if _, err := q.TaskPromote(ctx, p); err != nil {
		return false, false, err
	}
	if adopt != nil {
		if err := adopt.Start(ctx, tx, w.Task.ID, plan, opt); err != nil {
			return false, false, err
		}
	}
	s.Log.Info("task promoted", "task", w.Task.ID, "rack", w.Task.RackID)
	return true, true, nil
}

// unlinkedError says which components of a waiting task can't be addressed yet.
type unlinkedError struct{ error }

// replan makes the plan of a waiting task whose turn has come. A precondition fault is the end of the task, an
// unlinkedError puts it off; any other error is ours.
func (s *Service) replan(ctx context.Context, q *db.Queries, w db.TaskListWaitingRow) (plan rules.Plan, opt Options, err error) {
	if err := errors.Join(json.Unmarshal(w.Plan, &plan), json.Unmarshal(w.Request, &opt)); err != nil {
		return plan, opt, fault.Precondition("the task cannot be read: %v", err)
	}
	rows, err := q.ComponentTargets(ctx, db.ComponentTargetsParams{RackIds: []uuid.UUID{}, Ids: w.ComponentIds})
	if err != nil {
		return plan, opt, fmt.Errorf("components of the task: %w", err)
	}
	in := rules.Input{Operation: plan.Operation}
	for _, row := range rows {
		if c := component(row); c.RackID == w.Task.RackID {
			in.Components = append(in.Components, c)
		}
	}
	if len(in.Components) == 0 {
		return plan, opt, fault.Precondition("no component of the task is left in the rack: %s", labels(plan))
	}
	if opt.Frozen {
		if err := matches(plan, in.Components); err != nil {
			return plan, opt, err
		}
		return plan, opt, s.fit(plan)
	}
	if in.Rule, err = s.ruleOf(ctx, q, w.Task.RackID, plan.Operation, opt.RuleID); err != nil {
		return plan, opt, err
	}
	if err := actionable(in); err != nil {
		return plan, opt, &unlinkedError{err}
	}
	if plan, err = rules.NewPlan(in); err != nil {
		return plan, opt, fault.Precondition("%v", err)
	}
	return plan, opt, s.fit(plan)
}

// fit is capable as a fault.
func (s *Service) fit(plan rules.Plan) error {
	if err := s.capable(plan); err != nil {
		return fault.Precondition("%v", err)
	}
	return nil
}

// ruleOf finds the rule that governs an operation on one rack, and holds it until the transaction ends.
func (s *Service) ruleOf(ctx context.Context, q *db.Queries, rack uuid.UUID, op rules.Operation, explicit *uuid.UUID) (rules.Rule, error) {
	rows, err := q.RuleCandidates(ctx, db.RuleCandidatesParams{
		RuleID: explicit, RackID: rack, OperationType: string(op.Type), OperationCode: op.Code,
	})
	if err != nil {
		return rules.Rule{}, fmt.Errorf("rules of rack %s: %w", rack, err)
	}
	var c stored
	for _, row := range rows {
		switch {
		case row.Requested:
			c.request = &row.OperationRule
		case row.Associated:
			c.association = &row.OperationRule
		default:
			c.byDefault = &row.OperationRule
		}
	}
	if explicit != nil && c.request == nil {
		return rules.Rule{}, fault.Precondition("the requested rule %s was deleted while the task waited", *explicit)
	}
	rule, _, err := c.resolve(op)
	return rule, err
}

// labels names the components of a plan.
func labels(p rules.Plan) string {
	var names []string
	for _, list := range p.Components {
		for _, c := range list {
			names = append(names, c.Label())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
