package rule

import (
	"context"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// Associate makes a rule the choice of a rack for the rule's operation, in place of another one. Of those who do so at the
// same time, the last one wins.
func Associate(ctx context.Context, st *store.Store, rack, rule uuid.UUID) error {
	q := db.New(st.API)
	n, err := q.RackRuleSet(ctx, db.RackRuleSetParams{RackID: rack, RuleID: rule})
	if err != nil || n > 0 {
		return err
	}
	if _, err := get(ctx, q, rule); err != nil {
		return err
	}
	return fault.NotFound("rack %s not found", rack)
}

// Disassociate removes the rule that a rack has for an operation, if there is one.
func Disassociate(ctx context.Context, st *store.Store, rack uuid.UUID, op rules.Operation) error {
	return db.New(st.API).RackRuleDelete(ctx, db.RackRuleDeleteParams{
		RackID: rack, OperationType: string(op.Type), OperationCode: op.Code,
	})
}
