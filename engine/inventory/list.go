package inventory

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store/db"
)

// RackField is a field that racks can be matched and ordered by.
type RackField string

// The fields, as RackList knows them.
const (
	RackName         RackField = "name"
	RackManufacturer RackField = "manufacturer"
	RackModel        RackField = "model"
)

// RackQuery says which racks to list, and how.
type RackQuery struct {
	Matches        map[RackField][]Match // all must hold
	WithExternalID bool                  // leaves out racks without
	Order          RackField             // "": by name; ties go by id
	Descending     bool
	Offset         int32
	Limit          int32
	Components     bool // with their components
}

// ListRacks returns a page of live racks and how many there are on all pages, both as of the same moment.
func ListRacks(ctx context.Context, pool *pgxpool.Pool, query RackQuery) ([]Rack, int32, error) {
	params, err := query.params()
	if err != nil {
		return nil, 0, err
	}
	var (
		racks []Rack
		total int32
	)
	err = snapshot(ctx, pool, func(q *db.Queries) error {
		rows, err := q.RackList(ctx, params)
		if err != nil {
			return err
		}
		total, err = q.RackCount(ctx, db.RackCountParams{
			Names:                params.Names,
			Manufacturers:        params.Manufacturers,
			Models:               params.Models,
			NamePatterns:         params.NamePatterns,
			ManufacturerPatterns: params.ManufacturerPatterns,
			ModelPatterns:        params.ModelPatterns,
			WithExternalID:       params.WithExternalID,
		})
		if err != nil {
			return err
		}
		racks, err = complete(ctx, q, rows, query.Components)
		return err
	})
	return racks, total, err
}

// patterns counts those of all filters: the limit of one holds for them together, because the time a regular expression
// takes to compile grows with the square of its length.
func (query RackQuery) patterns() int {
	n := 0
	for _, matches := range query.Matches {
		for _, m := range matches {
			n += len(m.Patterns)
		}
	}
	return n
}

func (query RackQuery) params() (db.RackListParams, error) {
	p := db.RackListParams{
		WithExternalID: query.WithExternalID,
		Field:          string(query.Order),
		Descending:     query.Descending,
		Skip:           query.Offset,
		Max:            query.Limit,
	}
	if p.Field == "" {
		p.Field = string(RackName)
	}
	for _, f := range []struct {
		field            RackField
		values, patterns *[]string
	}{
		{RackName, &p.Names, &p.NamePatterns},
		{RackManufacturer, &p.Manufacturers, &p.ManufacturerPatterns},
		{RackModel, &p.Models, &p.ModelPatterns},
	} {
		c, err := conditionOf(query.Matches[f.field])
		if err != nil {
			return p, err
		}
		*f.values, *f.patterns = c.values, c.patterns
	}
	if n := query.patterns(); n > maxPatterns {
		return p, fault.Invalid("filters", "%d patterns, at most %d are allowed", n, maxPatterns)
	}
	return p, nil
}
