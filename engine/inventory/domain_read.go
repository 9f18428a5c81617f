package inventory

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// DomainQuery says which NVLink domains to list, and how: by name, unnamed ones last, then by id.
type DomainQuery struct {
	Name           Match
	WithExternalID bool // leaves out domains without
	Descending     bool
	Offset         int32
	Limit          int32
}

// ListDomains returns a page of live domains and how many there are on all pages, both as of the same moment.
func ListDomains(ctx context.Context, pool *pgxpool.Pool, query DomainQuery) ([]db.NvlDomain, int32, error) {
	var (
		rows  []db.NvlDomain
		total int32
	)
	err := snapshot(ctx, pool, func(q *db.Queries) error {
		var err error
		rows, total, err = query.run(ctx, q)
		return err
	})
	return rows, total, err
}

func (query DomainQuery) run(ctx context.Context, q *db.Queries) ([]db.NvlDomain, int32, error) {
	c, err := conditionOf([]Match{query.Name})
	if err != nil {
		return nil, 0, err
	}
	rows, err := q.DomainList(ctx, db.DomainListParams{
		Names: c.values, NamePatterns: c.patterns, WithExternalID: query.WithExternalID,
		Descending: query.Descending, Skip: query.Offset, Max: query.Limit,
	})
	if err != nil {
		return nil, 0, err
	}
	total, err := q.DomainCount(ctx, db.DomainCountParams{
		Names: c.values, NamePatterns: c.patterns, WithExternalID: query.WithExternalID,
	})
	return rows, total, err
}

// Domain is a live NVLink domain with what is derived for readers.
type Domain struct {
	db.NvlDomain
	Phase      Phase       // the strictest of its racks
	Topology   string      // "" unless all its racks tell the same
	Components []Component // of all its racks, by name, then id; only when asked for
}

// GetDomain finds an NVLink domain that has an external id, by that or by its Flow id.
func GetDomain(ctx context.Context, pool *pgxpool.Pool, id string, components bool) (Domain, error) {
	if id = strings.TrimSpace(id); id == "" {
		return Domain{}, fault.Invalid("id", "domain identifier is required")
	}
	var list []Domain
	err := snapshot(ctx, pool, func(q *db.Queries) error {
		p := db.DomainGetByAnyIDParams{ExternalID: &id}
		if own, err := uuid.Parse(id); err == nil {
			p.ID = &own
		}
		rows, err := q.DomainGetByAnyID(ctx, p)
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].ExternalID == nil {
			return fault.NotFound("NVLink domain %s not found", quote(id)).On("id")
		}
		list, err = completeDomains(ctx, q, rows[:1], components)
		return err
	})
	if err != nil {
		return Domain{}, err
	}
	return list[0], nil
}

// ListLinkedDomains is ListDomains with what is derived for readers.
func ListLinkedDomains(ctx context.Context, pool *pgxpool.Pool, query DomainQuery, components bool) ([]Domain, int32, error) {
	query.WithExternalID = true
	var (
		list  []Domain
		total int32
	)
	err := snapshot(ctx, pool, func(q *db.Queries) error {
		rows, n, err := query.run(ctx, q)
		if err != nil {
			return err
		}
		total = n
		list, err = completeDomains(ctx, q, rows, components)
		return err
	})
	return list, total, err
}

// completeDomains adds to domains what is derived, by a fixed number of statements.
func completeDomains(ctx context.Context, q *db.Queries, rows []db.NvlDomain, components bool) ([]Domain, error) {
	list := make([]Domain, len(rows))
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		list[i].NvlDomain, ids[i] = row, row.ID
	}
	members, err := q.RackListByDomains(ctx, db.RackListByDomainsParams{DomainIds: ids})
	if err != nil {
		return nil, err
	}
	racks, err := complete(ctx, q, members, components)
	if err != nil {
		return nil, err
	}
	of := map[uuid.UUID][]Rack{}
	for _, r := range racks {
		of[*r.NvlDomainID] = append(of[*r.NvlDomainID], r)
	}
	for i := range list {
		d := &list[i]
		phases := map[Phase]bool{}
		for _, r := range of[d.ID] {
			phases[r.Phase] = true
			d.Components = append(d.Components, r.Components...)
		}
		slices.SortFunc(d.Components, compareComponents)
		d.Phase, d.Topology = strictest(phases), topology(of[d.ID])
	}
	return list, nil
}

// profile is the name of a rack's profile: what the rack is, who built it, and perhaps that its shelves are elsewhere.
var profile = regexp.MustCompile(`^(.+)_(?:WIWYNN|LENOVO|SMC|NVIDIA)(?:_NO_POWERSHELF)?$`)

// topology is what the profiles of all racks of a domain agree on, or "".
func topology(racks []Rack) string {
	agreed := ""
	for i, r := range racks {
		m := profile.FindStringSubmatch(value(r.RackProfileID))
		if m == nil || i > 0 && m[1] != agreed {
			return ""
		}
		agreed = m[1]
	}
	return agreed
}

// ListDomainRacks returns the live racks of a domain with their components, by name, then id. A domain that is named by
// an id nobody has is one without racks.
func ListDomainRacks(ctx context.Context, pool *pgxpool.Pool, domain DomainRef) ([]Rack, error) {
	var racks []Rack
	err := snapshot(ctx, pool, func(q *db.Queries) error {
		id := domain.ID
		if domain.Name != "" {
			found, err := lookUpDomains(ctx, q, []DomainRef{domain})
			if err != nil {
				return err
			}
			if id, err = found.pick("nvl_domain_identifier", domain.key()); err != nil {
				return err
			}
		}
		rows, err := q.RackListByDomains(ctx, db.RackListByDomainsParams{DomainIds: []uuid.UUID{id}})
		if err != nil {
			return err
		}
		racks, err = complete(ctx, q, rows, true)
		return err
	})
	return racks, err
}

func domainFault(err error, id uuid.UUID, field string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("NVLink domain %s not found", id).On(field).Because(err)
	}
	return err
}
