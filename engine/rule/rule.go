// Package rule stores operation rules and binds them to racks. It checks a rule before it is written, so that what is
// stored can be planned; whether a rule governs an operation is decided where tasks are submitted.
//
// A write that takes more than one statement, or that has to look before it writes, locks the table of rules first:
// writers then go one after the other and never deadlock, while readers and tasks are not held up.
package rule

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// Create stores a rule and returns its id. All that is wrong with the draft is said at once.
func Create(ctx context.Context, st *store.Store, d Draft) (uuid.UUID, error) {
	doc, wrong := d.check()
	if wrong != nil {
		return uuid.Nil, wrong
	}
	id := uuid.New()
	q := db.New(st.API)
	err := q.RuleInsert(ctx, db.RuleInsertParams{
		ID: id, Name: d.Name, Description: d.Description,
		OperationType: string(d.Operation.Type), OperationCode: d.Operation.Code, Definition: doc, IsDefault: d.IsDefault,
	})
	if store.Violates(err, "operation_rule_default_key") {
		return uuid.Nil, fault.Exists("a default rule already exists for %s%s", d.Operation, holder(ctx, q, d.Operation))
	} else if err != nil {
		return uuid.Nil, fmt.Errorf("insert rule: %w", err)
	}
	return id, nil
}

// holder names the default rule that is in the way, where it can be found.
func holder(ctx context.Context, q *db.Queries, op rules.Operation) string {
	row, err := q.RuleGetDefault(ctx, db.RuleGetDefaultParams{OperationType: string(op.Type), OperationCode: op.Code})
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": %q (%s)", row.Name, row.ID)
}

// Get returns a stored rule.
func Get(ctx context.Context, st *store.Store, id uuid.UUID) (db.OperationRule, error) {
	return get(ctx, db.New(st.API), id)
}

func get(ctx context.Context, q *db.Queries, id uuid.UUID) (db.OperationRule, error) {
	row, err := q.RuleGet(ctx, db.RuleGetParams{ID: id})
	if errors.Is(err, store.ErrNotFound) {
		return row, notFound(id)
	}
	return row, err
}

func notFound(id uuid.UUID) *fault.Error { return fault.NotFound("operation rule %s not found", id) }

// Change is what to write over a rule; what is nil stays.
type Change struct {
	Name        *string
	Description *string
	Definition  *string // JSON document
}

// Update changes a rule in place: its id, associations and default flag are kept. Without any change it only says
// whether there is such a rule. What is wrong with the change is said before that the rule does not exist.
func Update(ctx context.Context, st *store.Store, id uuid.UUID, c Change) error {
	q := db.New(st.API)
	row, missing := get(ctx, q, id)
	if missing != nil && fault.KindOf(missing) != fault.KindNotFound {
		return missing
	}
	doc, wrong := c.check(rules.TaskType(row.OperationType))
	switch {
	case wrong != nil:
		return wrong
	case missing != nil || c == Change{}:
		return missing
	}
	n, err := q.RuleUpdate(ctx, db.RuleUpdateParams{ID: id, Name: c.Name, Description: c.Description, Definition: doc})
	if err == nil && n == 0 { // deleted meanwhile
		return notFound(id)
	}
	return err
}

// Delete removes a rule with its associations; tasks that used it forget it. Deleting what is not there is no error.
//
// The ended tasks forget it first, some at a time: with the rule locked that would hold up the ends of tasks for long. Those
// that run may want the rule while the deletion wants them; whom the database picks to give way tries again.
func Delete(ctx context.Context, st *store.Store, id uuid.UUID) error {
	const batch, tries = 2000, 5
	q := db.New(st.API)
	for n := int64(batch); n == batch; {
		var err error
		if n, err = q.TaskForgetRule(ctx, db.TaskForgetRuleParams{RuleID: &id, Max: batch}); err != nil {
			return err
		}
	}
	var err error
	for range tries {
		if err = q.RuleDelete(ctx, db.RuleDeleteParams{ID: id}); !store.Deadlock(err) {
			return err
		}
	}
	return err
}

// SetDefault makes a rule the default of its operation, in place of another one.
func SetDefault(ctx context.Context, st *store.Store, id uuid.UUID) error {
	return store.InTx(ctx, st.API, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.RuleLockAll(ctx); err != nil {
			return err
		}
		row, err := get(ctx, q, id)
		if err != nil {
			return err
		}
		err = q.RuleClearDefault(ctx, db.RuleClearDefaultParams{
			OperationType: row.OperationType, OperationCode: row.OperationCode, ID: id,
		})
		if err != nil {
			return err
		}
		return q.RuleSetDefault(ctx, db.RuleSetDefaultParams{ID: id})
	})
}
