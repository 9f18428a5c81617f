package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// submitBatch is how many racks are admitted in one transaction: the first tasks run while later ones are still being
// admitted, and a lock on a rack is held shortly.
const submitBatch = 128

// Request asks for one operation on the racks of a scope.
type Request struct {
	Operation   rules.Operation
	Scope       inventory.Scope
	Filter      inventory.Filter // narrows the components of the scope further
	Description string
	RuleID      *uuid.UUID // overrides the rule that would apply
	Options     Options

	// Queue makes a task wait where it conflicts with others, instead of being refused; for at most so long. 0: no queueing.
	Queue time.Duration
	// IdempotencyKey finds the tasks of an earlier request with the same key instead of making others; "": none.
	IdempotencyKey string
}

// The bounds of a wait in the queue.
const (
	DefaultQueueTimeout = time.Hour
	MaxQueueTimeout     = 30 * 24 * time.Hour
)

// maxKey is the longest idempotency key, in bytes.
const maxKey = 255

// Options are what a request asks for beside its operation. They are stored with each task.
type Options struct {
	Forced            bool       `json:"forced"`
	OverrideReadiness bool       `json:"override_readiness_check"`
	RuleID            *uuid.UUID `json:"rule_id,omitempty"`
	Frozen            bool       `json:"frozen,omitempty"` // a retry: the plan stays what it is also when the task has to wait
}

// Refusal is why one rack of a submission got no task.
type Refusal struct {
	RackID uuid.UUID
	Err    error
}

// Submission is what became of a request.
type Submission struct {
	TaskIDs  []uuid.UUID // ascending rack id
	Refusals []Refusal
}

// draft is a task on its way to being admitted.
type draft struct {
	id        uuid.UUID
	rackID    uuid.UUID
	plan      rules.Plan
	rule      uuid.UUID // nil: built-in
	source    rules.Source
	footprint footprint
}

// Submit admits one task a rack. What is wrong with the request, or with any of its racks, refuses the whole request
// and changes nothing; after that racks are admitted independently, and one that is in other hands is refused alone.
func (s *Service) Submit(ctx context.Context, req Request) (Submission, error) {
	if len(req.IdempotencyKey) > maxKey {
		return Submission{}, fault.Invalid("idempotency-key", "has %d bytes, at most %d are allowed", len(req.IdempotencyKey), maxKey)
	}
	if !utf8.ValidString(req.IdempotencyKey) {
		return Submission{}, fault.Invalid("idempotency-key", "is not UTF-8")
	}
	if ids, err := s.repeated(ctx, req); err != nil || ids != nil {
		return Submission{TaskIDs: ids}, err
	}
	drafts, err := s.drafts(ctx, req)
	if err != nil {
		return Submission{}, err
	}
	req.Options.RuleID = req.RuleID
	o := order{
		operation: req.Operation, description: req.Description, options: req.Options,
		queue: min(req.Queue, MaxQueueTimeout), key: req.IdempotencyKey,
	}
	var sub Submission
	for batch := range slices.Chunk(drafts, submitBatch) {
		admitted, refusals, err := s.admit(ctx, o, batch)
		if err != nil {
			if len(sub.TaskIDs) == 0 {
				return Submission{}, err
			}
			// Tasks of earlier batches exist and run: their ids must reach the caller.
			s.Log.Error("racks not admitted", "racks", len(batch), "err", err)
			for _, d := range batch {
				refusals = append(refusals, Refusal{RackID: d.rackID, Err: err})
			}
		}
		sub.TaskIDs = append(sub.TaskIDs, admitted...)
		sub.Refusals = append(sub.Refusals, refusals...)
	}
	if len(sub.TaskIDs) == 0 {
		return Submission{}, refusedAll(sub.Refusals)
	}
	return sub, nil
}

// repeated finds the tasks of a request that was made before, when there is one for each of its racks: whatever has changed
// since, a client that asks again must hear of them. nil: it is a new request, or a part of it is.
func (s *Service) repeated(ctx context.Context, req Request) ([]uuid.UUID, error) {
	if req.IdempotencyKey == "" || req.Scope.Check() != nil {
		return nil, nil
	}
	q := db.New(s.Store.API)
	selected, err := targets(ctx, q, req.Scope, req.Filter)
	if fault.KindOf(err) != fault.KindUnknown {
		return nil, nil // drafts says so, in its order
	} else if err != nil {
		return nil, err
	}
	racks := make([]uuid.UUID, len(selected))
	for i, t := range selected {
		racks[i] = t.RackID
	}
	rows, err := q.TaskGetByKey(ctx, db.TaskGetByKeyParams{IdempotencyKey: req.IdempotencyKey, RackIds: racks})
	if err != nil {
		return nil, fmt.Errorf("tasks of the idempotency key: %w", err)
	}
	known := make(map[uuid.UUID]uuid.UUID, len(rows))
	for _, row := range rows {
		if row.OperationType == string(req.Operation.Type) && row.OperationCode == req.Operation.Code {
			known[row.RackID] = row.ID
		}
	}
	if len(known) < len(racks) {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(racks))
	for i, rack := range racks {
		ids[i] = known[rack]
	}
	return ids, nil
}

// drafts resolves scope, rules and plans; nothing is written.
func (s *Service) drafts(ctx context.Context, req Request) ([]draft, error) {
	if err := req.Operation.Validate(); err != nil {
		return nil, fault.Invalid("operation", "%v", err)
	}
	if err := req.Scope.Check(); err != nil {
		return nil, err
	}
	q := db.New(s.Store.API)
	explicit, err := s.requested(ctx, q, req.Operation, req.RuleID)
	if err != nil {
		return nil, err
	}
	selected, err := targets(ctx, q, req.Scope, req.Filter)
	if err != nil {
		return nil, err
	}
	ruleOf, err := s.rulesFor(ctx, q, req.Operation, explicit, selected)
	if err != nil {
		return nil, err
	}
	// One check after the other over all racks: the first that fails decides, whichever rack it is.
	inputs := make([]rules.Input, len(selected))
	sources := make([]rules.Source, len(selected))
	for i, t := range selected {
		inputs[i] = rules.Input{Operation: req.Operation, Components: t.Components}
		if inputs[i].Rule, sources[i], err = ruleOf(t.RackID); err != nil {
			return nil, fault.Precondition("rack %s: %v", t.RackID, err)
		}
	}
	var empty []string
	for _, t := range selected {
		if len(t.Components) == 0 {
			empty = append(empty, t.RackID.String())
		}
	}
	if len(empty) > 0 {
		return nil, fault.Precondition("racks have no selected components: %s", strings.Join(empty, ", "))
	}
	for _, in := range inputs {
		if err := actionable(in); err != nil {
			return nil, fault.Precondition("rack %s: %v", in.Components[0].RackID, err)
		}
	}
	drafts := make([]draft, len(selected))
	for i, t := range selected {
		plan, err := rules.NewPlan(inputs[i])
		if err != nil {
			return nil, fault.Precondition("rack %s: %v", t.RackID, err)
		}
		drafts[i] = newDraft(plan)
		drafts[i].source = sources[i]
	}
	for _, d := range drafts {
		if err := s.capable(d.plan); err != nil {
			refuse := fault.Precondition
			if req.Operation.Type == rules.TaskDecommission {
				refuse = fault.Unimplemented // no manager has it until the site controller offers it
			}
			return nil, refuse("rack %s: %v", d.rackID, err)
		}
	}
	return drafts, nil
}

func newDraft(plan rules.Plan) draft {
	d := draft{id: uuid.New(), rackID: plan.RackID, plan: plan, rule: plan.RuleID}
	d.footprint.Type = plan.Operation.Type
	for t, list := range plan.Components {
		d.footprint.Types = append(d.footprint.Types, t)
		for _, c := range list {
			d.footprint.Components = append(d.footprint.Components, c.ID)
		}
	}
	slices.Sort(d.footprint.Types)
	sortIDs(d.footprint.Components)
	return d
}

// requested loads the rule that a request names; nil when it names none.
func (s *Service) requested(ctx context.Context, q *db.Queries, op rules.Operation, id *uuid.UUID) (*db.OperationRule, error) {
	if id == nil {
		return nil, nil
	}
	row, err := q.RuleGet(ctx, db.RuleGetParams{ID: *id})
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.NotFound("requested rule_id %s not found", *id)
	} else if err != nil {
		return nil, fmt.Errorf("rule %s: %w", *id, err)
	}
	if row.OperationType != string(op.Type) || row.OperationCode != op.Code {
		s.Log.Warn("rule of another operation requested", "rule", row.ID,
			"rule_operation", row.OperationType+"/"+row.OperationCode, "operation", op.String())
	}
	return &row, nil
}

// rulesFor loads the stored rules that may apply, in two queries, and says which one does for each rack.
func (s *Service) rulesFor(ctx context.Context, q *db.Queries, op rules.Operation, explicit *db.OperationRule, targets []rackTargets) (
	func(rack uuid.UUID) (rules.Rule, rules.Source, error), error,
) {
	var byDefault *db.OperationRule
	bound := map[uuid.UUID]*db.OperationRule{}
	if explicit == nil {
		row, err := q.RuleGetDefault(ctx, db.RuleGetDefaultParams{OperationType: string(op.Type), OperationCode: op.Code})
		if err == nil {
			byDefault = &row
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("default rule of %s: %w", op, err)
		}
		racks := make([]uuid.UUID, len(targets))
		for i, t := range targets {
			racks[i] = t.RackID
		}
		rows, err := q.RuleListByRacks(ctx, db.RuleListByRacksParams{
			RackIds: racks, OperationType: string(op.Type), OperationCode: op.Code,
		})
		if err != nil {
			return nil, fmt.Errorf("rules associated with racks: %w", err)
		}
		for _, r := range rows {
			bound[r.RackID] = &r.OperationRule
		}
	}
	return func(rack uuid.UUID) (rules.Rule, rules.Source, error) {
		return stored{request: explicit, association: bound[rack], byDefault: byDefault}.resolve(op)
	}, nil
}

// stored are the stored rules that could govern an operation on one rack; nil where there is none.
type stored struct{ request, association, byDefault *db.OperationRule }

// resolve picks the rule that governs the operation. Only that one has to be readable. An error is a precondition fault.
func (c stored) resolve(op rules.Operation) (rules.Rule, rules.Source, error) {
	var candidates rules.Candidates
	var err error
	switch {
	case c.request != nil:
		candidates.Request, err = storedRule(*c.request)
	case c.association != nil:
		candidates.Association, err = storedRule(*c.association)
	case c.byDefault != nil:
		candidates.Default, err = storedRule(*c.byDefault)
	}
	if err != nil {
		return rules.Rule{}, "", err
	}
	rule, source, err := candidates.Resolve(op)
	if err != nil {
		return rule, source, fault.Precondition("%v", err)
	}
	return rule, source, nil
}

func storedRule(row db.OperationRule) (*rules.Rule, error) {
	def, err := rules.Parse(row.Definition)
	if err != nil {
		return nil, fault.Precondition("stored rule %q (%s) cannot be used: %v", row.Name, row.ID, err)
	}
	return &rules.Rule{ID: row.ID, Name: row.Name, Definition: def}, nil
}

// actionable refuses components that no adapter could address. Power and firmware need an external id or a management MAC,
// and one kind of identifier for all components of a type; the rest needs external ids, except for telling a site what
// to expect.
func actionable(in rules.Input) error {
	if in.Operation.Code == rules.CodeIngest && in.Rule.Definition.Only(rules.ActionInjectExpectation, rules.ActionSleep) {
		return nil
	}
	macs := in.Operation.Type == rules.TaskPowerControl || in.Operation.Type == rules.TaskFirmwareControl
	var unlinked []string
	withoutID := map[hardware.ComponentType]bool{}
	for _, c := range in.Components {
		if c.ExternalID == "" {
			withoutID[c.Type] = true
			if c.MAC == "" || !macs {
				unlinked = append(unlinked, c.Label())
			}
		}
	}
	if len(unlinked) > 0 {
		return fmt.Errorf("selected components not linked to actual inventory (%d): %s", len(unlinked), strings.Join(unlinked, ", "))
	}
	for _, c := range in.Components {
		if withoutID[c.Type] && c.MAC == "" {
			return fmt.Errorf("%s has no management MAC, and other %s components of the task have no component id", c.Label(), c.Type)
		}
	}
	return nil
}

func (s *Service) capable(plan rules.Plan) error {
	for _, need := range plan.Capabilities() {
		if err := s.Managers.Check(need.Type, need.Capability); err != nil {
			return err
		}
	}
	return nil
}
