package inventory

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
)

// Field is a field that lists can be filtered and ordered by.
type Field string

// The fields, as RackList and ComponentList know them.
const (
	ByName         Field = "name"
	ByManufacturer Field = "manufacturer"
	ByModel        Field = "model"
	ByType         Field = "type" // of components only
)

// Filter says what of a list is wanted.
type Filter struct {
	Matches map[Field][]Match // all must hold
}

// componentTypes lists every type a component may have.
var componentTypes = []hardware.ComponentType{
	hardware.Compute, hardware.NVSwitch, hardware.PowerShelf, hardware.ToRSwitch, hardware.UMS, hardware.CDU,
}

// conditions are a filter as the queries take it.
type conditions struct {
	names, manufacturers, models condition
	types                        []string // nil: any
}

func (f Filter) conditions() (conditions, error) {
	var c conditions
	n := 0
	for _, matches := range f.Matches {
		for _, m := range matches {
			if m.Wildcard {
				n += len(m.Patterns)
			}
		}
	}
	for field, into := range map[Field]*condition{ByName: &c.names, ByManufacturer: &c.manufacturers, ByModel: &c.models} {
		var err error
		if *into, err = conditionOf(f.Matches[field]); err != nil {
			return c, err
		}
	}
	// The limit of one filter holds for the wildcards of all of them together: the time a regular expression takes to
	// compile grows with the square of its length.
	if n > maxPatterns {
		return c, fault.Invalid("filters", "%d wildcard patterns, at most %d are allowed together", n, maxPatterns)
	}
	types, err := typesOf(f.Matches[ByType])
	c.types = types
	return c, err
}

// typesOf reads matches of types: their names in any letter case, with or without the prefix they have on the wire,
// whether wildcards were asked for or not.
func typesOf(matches []Match) ([]string, error) {
	var types []string
	for _, m := range matches {
		if err := m.check(); err != nil {
			return nil, err
		}
		if len(m.Patterns) == 0 {
			continue
		}
		wanted := []string{}
		for _, p := range m.Patterns {
			t, ok := typeNamed(p)
			if !ok {
				return nil, fault.Invalid(m.Field, "unsupported component type %s", quote(p))
			}
			if types == nil || slices.Contains(types, t) {
				wanted = append(wanted, t)
			}
		}
		types = wanted
	}
	return types, nil
}

func typeNamed(name string) (string, bool) {
	const prefix = "COMPONENT_TYPE_"
	if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
		name = name[len(prefix):]
	}
	i := slices.IndexFunc(componentTypes, func(t hardware.ComponentType) bool { return strings.EqualFold(string(t), name) })
	if i < 0 {
		return "", false
	}
	return string(componentTypes[i]), true
}

// RackQuery says which racks to list, and how.
type RackQuery struct {
	Filter
	WithExternalID bool  // leaves out racks without
	Order          Field // "": by name; ties go by id
	Descending     bool
	Offset         int32
	Limit          int32
	Components     bool // with their components
}

// ListRacks returns a page of live racks and how many there are on all pages, both as of the same moment.
func ListRacks(ctx context.Context, pool *pgxpool.Pool, query RackQuery) ([]Rack, int32, error) {
	c, err := query.conditions()
	if err != nil {
		return nil, 0, err
	}
	if query.Order == "" {
		query.Order = ByName
	}
	var (
		racks []Rack
		total int32
	)
	err = snapshot(ctx, pool, func(q *db.Queries) error {
		rows, err := q.RackList(ctx, db.RackListParams{
			Names: c.names.values, NamePatterns: c.names.patterns,
			Manufacturers: c.manufacturers.values, ManufacturerPatterns: c.manufacturers.patterns,
			Models: c.models.values, ModelPatterns: c.models.patterns,
			WithExternalID: query.WithExternalID,
			Field:          string(query.Order), Descending: query.Descending,
			Skip: query.Offset, Max: query.Limit,
		})
		if err != nil {
			return err
		}
		total, err = q.RackCount(ctx, db.RackCountParams{
			Names: c.names.values, NamePatterns: c.names.patterns,
			Manufacturers: c.manufacturers.values, ManufacturerPatterns: c.manufacturers.patterns,
			Models: c.models.values, ModelPatterns: c.models.patterns,
			WithExternalID: query.WithExternalID,
		})
		if err != nil {
			return err
		}
		racks, err = complete(ctx, q, rows, query.Components)
		return err
	})
	return racks, total, err
}
