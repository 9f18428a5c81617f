// Package rule stores operation rules. It checks a rule before it is written, so that what is stored can be planned;
// whether a rule governs an operation is decided where tasks are submitted.
package rule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// maxName is the longest name of a rule, in characters.
const maxName = 128

// Draft is a rule to be stored.
type Draft struct {
	Name        string
	Description string
	Operation   rules.Operation
	Definition  string // JSON document
	IsDefault   bool
}

// Create stores a rule and returns its id. All that is wrong with the definition is said at once.
func Create(ctx context.Context, st *store.Store, d Draft) (uuid.UUID, error) {
	def, err := rules.Parse([]byte(d.Definition))
	if err != nil {
		return uuid.Nil, fault.Invalid("rule_definition_json", "invalid rule definition: %v", err)
	}
	switch {
	case strings.TrimSpace(d.Name) == "":
		return uuid.Nil, fault.Invalid("name", "rule validation failed: rule name is required")
	case utf8.RuneCountInString(d.Name) > maxName:
		return uuid.Nil, fault.Invalid("name", "rule validation failed: rule name has %d characters, at most %d are allowed",
			utf8.RuneCountInString(d.Name), maxName)
	}
	if err := d.Operation.Validate(); err != nil {
		return uuid.Nil, fault.Invalid("operation_code", "%v", err)
	}
	if err := def.Validate(d.Operation); err != nil {
		return uuid.Nil, fault.Invalid("rule_definition_json", "rule validation failed: %v", err)
	}
	doc, err := json.Marshal(def)
	if err != nil {
		return uuid.Nil, err
	}
	id := uuid.New()
	q := db.New(st.API)
	err = q.RuleInsert(ctx, db.RuleInsertParams{
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
	row, err := db.New(st.API).RuleGet(ctx, db.RuleGetParams{ID: id})
	if errors.Is(err, store.ErrNotFound) {
		return row, fault.NotFound("operation rule %s not found", id)
	}
	return row, err
}
