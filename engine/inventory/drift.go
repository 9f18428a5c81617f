package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// The kinds of drift, as the table drift has them.
const (
	DriftMissing    = "missing_in_actual"   // expected, and nothing there
	DriftUnexpected = "missing_in_expected" // there, and not expected
	DriftMismatch   = "mismatch"            // there, and different
)

// Drift is one difference between expected and actual inventory.
type Drift struct {
	Kind       string
	ExternalID string     // of what was found; "" when nothing was
	Expected   *Component // nil for what nobody expects
	Fields     []FieldDiff
}

// FieldDiff is a field that differs.
type FieldDiff struct {
	Name     string `json:"name"`
	Expected string `json:"expected"`
	Actual   string `json:"actual"`
}

// Comparison is a page of what the last comparison found, with the counts of all pages.
type Comparison struct {
	Drifts                               []Drift
	Missing, Unexpected, Mismatch, Match int32
	CheckedAt                            *time.Time // of the type that was compared the longest ago; nil: never
}

// Compare tells what the last comparison of expected and actual inventory found for the components of a query. It
// compares nothing itself.
func Compare(ctx context.Context, pool *pgxpool.Pool, query ComponentQuery) (Comparison, error) {
	c, err := query.conditions()
	if err != nil {
		return Comparison{}, err
	}
	if query.Order == "" {
		query.Order = ByName
	}
	var result Comparison
	err = snapshot(ctx, pool, func(q *db.Queries) error {
		sel, err := query.selection(ctx, q)
		if err != nil {
			return err
		}
		p := db.DriftListParams{
			Names: c.names.values, NamePatterns: c.names.patterns,
			Manufacturers: c.manufacturers.values, ManufacturerPatterns: c.manufacturers.patterns,
			Models: c.models.values, ModelPatterns: c.models.patterns,
			Types:    c.types,
			ScopeIds: sel.ids, ScopeRacks: sel.racks, TypedRacks: sel.typedRacks, TypedTypes: sel.typedTypes,
			Field: string(query.Order), Descending: query.Descending,
			Skip: query.Offset, Max: query.Limit,
		}
		rows, err := q.DriftList(ctx, p)
		if err != nil {
			return err
		}
		counted := rows
		if len(rows) == 0 && p.Skip > 0 {
			p.Skip, p.Max = 0, 1 // any row has the counts
			if counted, err = q.DriftList(ctx, p); err != nil {
				return err
			}
		}
		var counts db.DriftListRow
		if len(counted) > 0 {
			counts = counted[0]
		}
		if query.Scope == nil {
			c.types = phasedOf(c.types) // no other type is ever compared
		}
		compared, err := countComponents(ctx, q, c, sel)
		if err != nil {
			return err
		}
		result = Comparison{
			Missing: counts.Missing, Unexpected: counts.Unexpected, Mismatch: counts.Mismatch,
			Match: max(0, compared-counts.Missing-counts.Mismatch),
		}
		at, err := q.DriftCheckedAt(ctx)
		if err == nil {
			result.CheckedAt = &at
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		result.Drifts, err = drifts(ctx, q, rows)
		return err
	})
	return result, err
}

// phasedOf narrows a filter of types down to those that are compared.
func phasedOf(types []string) []string {
	list := []string{}
	for _, t := range phased {
		if types == nil || slices.Contains(types, string(t)) {
			list = append(list, string(t))
		}
	}
	return list
}

// drifts adds to rows the components they are about.
func drifts(ctx context.Context, q *db.Queries, rows []db.DriftListRow) ([]Drift, error) {
	ids := []uuid.UUID{}
	for _, row := range rows {
		if row.ComponentID != nil {
			ids = append(ids, *row.ComponentID)
		}
	}
	components, err := readComponents(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	at := make(map[uuid.UUID]*Component, len(components))
	for i := range components {
		at[components[i].ID] = &components[i]
	}
	list := make([]Drift, len(rows))
	for i, row := range rows {
		d := &list[i]
		d.Kind = row.Kind
		if row.Kind != DriftMissing {
			d.ExternalID = value(row.ExternalID)
		}
		if row.ComponentID != nil {
			d.Expected = at[*row.ComponentID]
		}
		if err := json.Unmarshal(row.FieldDiffs, &d.Fields); err != nil {
			return nil, fmt.Errorf("drift %d: %w", row.ID, err)
		}
	}
	return list, nil
}
