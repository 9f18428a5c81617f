package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	Description string
	RuleID      *uuid.UUID // overrides the rule that would apply
	Options     Options
}

// Options are what a request asks for beside its operation. They are stored with each task.
type Options struct {
	Forced            bool       `json:"forced"`
	OverrideReadiness bool       `json:"override_readiness_check"`
	RuleID            *uuid.UUID `json:"rule_id,omitempty"`
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
	footprint footprint
}

// Submit admits one task a rack. What is wrong with the request, or with any of its racks, refuses the whole request
// and changes nothing; after that racks are admitted independently, and one that is in other hands is refused alone.
func (s *Service) Submit(ctx context.Context, req Request) (Submission, error) {
	if err := req.Operation.Validate(); err != nil {
		return Submission{}, fault.Invalid("operation", "%v", err)
	}
	if err := req.Scope.Check(); err != nil {
		return Submission{}, err
	}
	drafts, err := s.drafts(ctx, req)
	if err != nil {
		return Submission{}, err
	}
	req.Options.RuleID = req.RuleID
	options, err := json.Marshal(req.Options)
	if err != nil {
		return Submission{}, err
	}
	var sub Submission
	for batch := range slices.Chunk(drafts, submitBatch) {
		admitted, refusals, err := s.admit(ctx, req, options, batch)
		if err != nil {
			if len(sub.TaskIDs) == 0 {
				return Submission{}, err
			}
			// Tasks of earlier batches exist and run: their ids must reach the caller.
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

// drafts resolves scope, rules and plans; nothing is written.
func (s *Service) drafts(ctx context.Context, req Request) ([]draft, error) {
	q := db.New(s.Store.API)
	var explicit *rules.Rule
	if req.RuleID != nil {
		row, err := q.RuleGet(ctx, db.RuleGetParams{ID: *req.RuleID})
		if errors.Is(err, store.ErrNotFound) {
			return nil, fault.NotFound("requested rule_id %s not found", *req.RuleID)
		} else if err != nil {
			return nil, fmt.Errorf("rule %s: %w", *req.RuleID, err)
		}
		if row.OperationType != string(req.Operation.Type) || row.OperationCode != req.Operation.Code {
			s.Log.Warn("rule of another operation requested", "rule", row.ID,
				"rule_operation", row.OperationType+"/"+row.OperationCode, "operation", req.Operation.String())
		}
		if explicit, err = storedRule(row); err != nil {
			return nil, err
		}
	}
	selected, err := targets(ctx, q, req.Scope)
	if err != nil {
		return nil, err
	}
	ruleOf, err := s.rulesFor(ctx, q, req.Operation, explicit, selected)
	if err != nil {
		return nil, err
	}
	// One check after the other over all racks: the first that fails decides, whichever rack it is.
	inputs := make([]rules.Input, len(selected))
	for i, t := range selected {
		rule, err := ruleOf(t.RackID)
		if err != nil {
			return nil, fault.Precondition("rack %s: %v", t.RackID, err)
		}
		inputs[i] = rules.Input{Operation: req.Operation, Rule: rule, Components: t.Components}
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
	for _, t := range selected {
		if err := actionable(t); err != nil {
			return nil, err
		}
	}
	drafts := make([]draft, len(selected))
	for i, t := range selected {
		plan, err := rules.NewPlan(inputs[i])
		if err != nil {
			return nil, fault.Precondition("rack %s: %v", t.RackID, err)
		}
		drafts[i] = newDraft(inputs[i].Rule, plan)
	}
	for _, d := range drafts {
		if err := s.capable(d.plan); err != nil {
			return nil, fault.Precondition("rack %s: %v", d.rackID, err)
		}
	}
	return drafts, nil
}

func newDraft(rule rules.Rule, plan rules.Plan) draft {
	d := draft{id: uuid.New(), rackID: plan.RackID, plan: plan, rule: rule.ID}
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

// rulesFor loads the stored rules that may apply, in two queries, and says which one does for each rack.
func (s *Service) rulesFor(ctx context.Context, q *db.Queries, op rules.Operation, explicit *rules.Rule, targets []rackTargets) (
	func(rack uuid.UUID) (rules.Rule, error), error,
) {
	candidates := rules.Candidates{Request: explicit}
	bound := map[uuid.UUID]*rules.Rule{}
	if explicit == nil {
		row, err := q.RuleGetDefault(ctx, db.RuleGetDefaultParams{OperationType: string(op.Type), OperationCode: op.Code})
		if err == nil {
			candidates.Default, err = storedRule(row)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
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
			if bound[r.RackID], err = storedRule(r.OperationRule); err != nil {
				return nil, err
			}
		}
	}
	return func(rack uuid.UUID) (rules.Rule, error) {
		c := candidates
		c.Association = bound[rack]
		rule, _, err := c.Resolve(op)
		return rule, err
	}, nil
}

func storedRule(row db.OperationRule) (*rules.Rule, error) {
	def, err := rules.Parse(row.Definition)
	if err != nil {
		return nil, fault.Precondition("stored rule %q (%s) cannot be used: %v", row.Name, row.ID, err)
	}
	return &rules.Rule{ID: row.ID, Name: row.Name, Definition: def}, nil
}

// actionable refuses components that no adapter could address: power and firmware need an external id or a management
// MAC, and one kind of identifier for all components of a type.
func actionable(t rackTargets) error {
	var unlinked []string
	withoutID := map[hardware.ComponentType]bool{}
	for _, c := range t.Components {
		if c.ExternalID == "" {
			withoutID[c.Type] = true
			if c.MAC == "" {
				unlinked = append(unlinked, c.Label())
			}
		}
	}
	if len(unlinked) > 0 {
		return fault.Precondition("rack %s: selected components not linked to actual inventory (%d): %s",
			t.RackID, len(unlinked), strings.Join(unlinked, ", "))
	}
	for _, c := range t.Components {
		if withoutID[c.Type] && c.MAC == "" {
			return fault.Precondition("rack %s: %s has no management MAC, and other %s components of the task have no component id",
				t.RackID, c.Label(), c.Type)
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

// admit inserts the tasks of one batch of racks that are free, with the racks locked, and their start jobs.
func (s *Service) admit(ctx context.Context, req Request, options []byte, drafts []draft) ([]uuid.UUID, []Refusal, error) {
	var admitted []uuid.UUID
	var refusals []Refusal
	err := store.InTx(ctx, s.Store.Engine, func(tx pgx.Tx) error {
		q := db.New(tx)
		racks := make([]uuid.UUID, len(drafts))
		for i, d := range drafts {
			racks[i] = d.rackID
		}
		locked, err := q.RackLockMany(ctx, db.RackLockManyParams{Ids: racks})
		if err != nil {
			return fmt.Errorf("lock racks: %w", err)
		}
		strayed, err := strayed(ctx, q, drafts)
		if err != nil {
			return err
		}
		active, err := q.TaskActiveByRacks(ctx, db.TaskActiveByRacksParams{RackIds: racks})
		if err != nil {
			return fmt.Errorf("active tasks: %w", err)
		}
		free := make([]draft, 0, len(drafts))
		live := make(map[uuid.UUID]bool, len(locked))
		for _, r := range locked {
			live[r.ID] = r.DeletedAt == nil
		}
		for _, d := range drafts {
			if !live[d.rackID] {
				refusals = append(refusals, Refusal{d.rackID, fault.NotFound("rack %s was deleted", d.rackID)})
			} else if c, ok := strayed[d.rackID]; ok {
				refusals = append(refusals, Refusal{d.rackID, fault.Precondition("component %s has been deleted or moved meanwhile; submit again", c)})
			} else if err := d.conflictsWith(active); err != nil {
				refusals = append(refusals, Refusal{d.rackID, err})
			} else {
				free = append(free, d)
			}
		}
		if len(free) == 0 {
			return nil
		}
		params := db.TaskInsertManyParams{
			OperationType: string(req.Operation.Type), OperationCode: req.Operation.Code,
			Description: req.Description, Message: MessagePending, Request: options,
		}
		for _, d := range free {
			plan, err := json.Marshal(d.plan)
			if err != nil {
				return fmt.Errorf("rack %s: %w", d.rackID, err)
			}
			params.Ids = append(params.Ids, d.id)
			params.RackIds = append(params.RackIds, d.rackID)
			params.AppliedRuleIds = append(params.AppliedRuleIds, d.rule)
			params.Stages = append(params.Stages, int32(len(d.plan.Stages)))
			params.Plans = append(params.Plans, string(plan))
			params.ComponentTypes = append(params.ComponentTypes, arrayText(d.footprint.Types))
			params.ComponentIds = append(params.ComponentIds, arrayText(d.footprint.Components))
		}
		if params.JobIds, err = s.Jobs.InsertStarts(ctx, tx, params.Ids); err != nil {
			return fmt.Errorf("start jobs: %w", err)
		}
		if err := q.TaskInsertMany(ctx, params); store.Violates(err, "task_applied_rule_fkey") {
			return fault.Precondition("the rule that applies was deleted meanwhile; submit again")
		} else if err != nil {
			return fmt.Errorf("insert tasks: %w", err)
		}
		admitted = params.Ids
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	s.Watch.Poke()
	return admitted, refusals, nil
}

// strayed finds components that are no longer where the plans have them; called with the racks locked. It names one a
// rack.
func strayed(ctx context.Context, q *db.Queries, drafts []draft) (map[uuid.UUID]uuid.UUID, error) {
	var p db.ComponentStrayedParams
	for _, d := range drafts {
		for _, id := range d.footprint.Components {
			p.Ids, p.RackIds = append(p.Ids, id), append(p.RackIds, d.rackID)
		}
	}
	rows, err := q.ComponentStrayed(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("components of the plans: %w", err)
	}
	found := make(map[uuid.UUID]uuid.UUID, len(rows))
	for _, row := range rows {
		found[row.RackID] = row.ID
	}
	return found, nil
}

// conflictsWith compares with every active task of the rack. Waiting ones count as well: a newcomer must not overtake
// them (D-30.12).
func (d draft) conflictsWith(active []db.TaskActiveByRacksRow) error {
	for _, a := range active {
		if a.RackID != d.rackID {
			continue
		}
		other := footprint{Type: rules.TaskType(a.OperationType), Components: a.ComponentIds}
		for _, t := range a.ComponentTypes {
			other.Types = append(other.Types, hardware.ComponentType(t))
		}
		if rule := conflict(d.footprint, other); rule != "" {
			return fault.Precondition("conflicts with %s task %s (%s %s, rule %s)", a.State, a.ID, a.OperationType, a.OperationCode, rule)
		}
	}
	return nil
}

// refusedAll is the error of a submission none of whose racks got a task.
func refusedAll(refusals []Refusal) error {
	lines := make([]string, len(refusals))
	for i, r := range refusals {
		lines[i] = fmt.Sprintf("rack %s: %v", r.RackID, r.Err)
	}
	return fault.Precondition("failed to create any tasks: %s", strings.Join(lines, "; "))
}

// arrayText writes a PostgreSQL array of values that need no quoting: one list a task can't be a parameter of its own
// when many tasks go in one statement.
func arrayText[T any](list []T) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func sortIDs(ids []uuid.UUID) {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
}
