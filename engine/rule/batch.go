package rule

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// MaxBatch is how many rules a batch may have.
const MaxBatch = 1000

// Outcome is what became of a rule of a batch.
type Outcome int

// The outcomes.
const (
	Created Outcome = iota
	Overwritten
	Skipped // one is stored already and was left as it is
)

// Replaced is a stored rule that a rule of a batch has become, or stands for.
type Replaced struct {
	ID      uuid.UUID
	Outcome Outcome
}

// Replace stores a batch of rules, all or none, and says what became of each. A default rule stands for the stored default
// of its operation, any other for a stored rule of the same operation and name. Where there is one, it is left as it is or,
// with overwrite, takes over name, description and definition; id, associations and default flag stay.
func Replace(ctx context.Context, st *store.Store, drafts []Draft, overwrite bool) ([]Replaced, error) {
	docs, wrong := checkBatch(drafts)
	if wrong != nil {
		return nil, wrong
	}
	if len(drafts) == 0 {
		return nil, nil
	}
	var done []Replaced
	err := store.InTx(ctx, st.API, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.RuleLockAll(ctx); err != nil {
			return err
		}
		names := make([]string, len(drafts))
		for i, d := range drafts {
			names[i] = d.Name
		}
		rows, err := q.RuleListForBatch(ctx, db.RuleListForBatchParams{Names: names})
		if err != nil {
			return err
		}
		done = match(drafts, rows, overwrite)
		return write(ctx, q, drafts, docs, done)
	})
	return done, err
}

// checkBatch returns the definitions in the form they are stored, or all that is wrong with the batch.
func checkBatch(drafts []Draft) ([]string, *fault.Error) {
	if len(drafts) > MaxBatch {
		return nil, fault.Invalid("rules", "a batch has at most %d rules, got %d", MaxBatch, len(drafts))
	}
	var wrong []*fault.Error
	docs := make([]string, len(drafts))
	names, defaults := map[key]int{}, map[rules.Operation]int{}
	for i, d := range drafts {
		note := func(e *fault.Error) { wrong = append(wrong, e.Within(fmt.Sprintf("rules[%d]", i))) }
		doc, err := d.check()
		if err != nil {
			note(err)
		}
		docs[i] = string(doc)
		if other, ok := names[d.key()]; ok {
			note(fault.Invalid(fieldName, "rules[%d] has the same name and is for %s as well", other, d.Operation))
		} else {
			names[d.key()] = i
		}
		if !d.IsDefault {
			continue
		}
		if other, ok := defaults[d.Operation]; ok {
			note(fault.Invalid(fieldDefault, "rules[%d] is a default rule of %s as well", other, d.Operation))
		} else {
			defaults[d.Operation] = i
		}
	}
	return docs, fault.All(wrong)
}

// key is what a rule of a batch that is no default is known by.
type key struct {
	operation rules.Operation
	name      string
}

func (d Draft) key() key { return key{d.Operation, d.Name} }

// match finds the stored rule that each draft stands for; a draft without one gets an id. Names are not unique among
// stored rules: the first row counts. A default that takes over another name in this very batch is not found by its old
// one, or two drafts would be written over the same rule.
func match(drafts []Draft, rows []db.RuleListForBatchRow, overwrite bool) []Replaced {
	renamed := map[rules.Operation]bool{}
	for _, d := range drafts {
		if d.IsDefault && overwrite {
			renamed[d.Operation] = true
		}
	}
	names, defaults := map[key]uuid.UUID{}, map[rules.Operation]uuid.UUID{}
	for _, r := range rows {
		k := key{rules.Operation{Type: rules.TaskType(r.OperationType), Code: r.OperationCode}, r.Name}
		if r.IsDefault {
			defaults[k.operation] = r.ID
			if renamed[k.operation] {
				continue
			}
		}
		if _, ok := names[k]; !ok {
			names[k] = r.ID
		}
	}
	done := make([]Replaced, len(drafts))
	for i, d := range drafts {
		id, ok := names[d.key()]
		if d.IsDefault {
			id, ok = defaults[d.Operation]
		}
		switch {
		case !ok:
			done[i] = Replaced{uuid.New(), Created}
		case overwrite:
			done[i] = Replaced{id, Overwritten}
		default:
			done[i] = Replaced{id, Skipped}
		}
	}
	return done
}

// write stores the created and overwritten rules of a batch, in a statement each.
func write(ctx context.Context, q *db.Queries, drafts []Draft, docs []string, done []Replaced) error {
	var created db.RuleInsertManyParams
	var changed db.RuleUpdateManyParams
	for i, d := range drafts {
		switch done[i].Outcome {
		case Created:
			created.Ids = append(created.Ids, done[i].ID)
			created.Names = append(created.Names, d.Name)
			created.Descriptions = append(created.Descriptions, d.Description)
			created.OperationTypes = append(created.OperationTypes, string(d.Operation.Type))
			created.OperationCodes = append(created.OperationCodes, d.Operation.Code)
			created.Definitions = append(created.Definitions, docs[i])
			created.Defaults = append(created.Defaults, d.IsDefault)
		case Overwritten:
			changed.Ids = append(changed.Ids, done[i].ID)
			changed.Names = append(changed.Names, d.Name)
			changed.Descriptions = append(changed.Descriptions, d.Description)
			changed.Definitions = append(changed.Definitions, docs[i])
		}
	}
	if err := q.RuleInsertMany(ctx, created); err != nil {
		return err
	}
	return q.RuleUpdateMany(ctx, changed)
}
