package inventory

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store/db"
)

// NewDomain is an NVLink domain to record.
type NewDomain struct {
	ID         uuid.UUID
	Name       string
	ExternalID string
	ClusterID  *uuid.UUID // of the NMX-C cluster, when it is known
}

// CreateDomain records an NVLink domain. One that has this id and this name already is left as it is.
func CreateDomain(ctx context.Context, pool *pgxpool.Pool, d NewDomain) error {
	d.Name, d.ExternalID = strings.TrimSpace(d.Name), strings.TrimSpace(d.ExternalID)
	if d.Name == "" {
		return fault.Invalid("nvl_domain.identifier.name", "is required")
	}
	if err := checkLength("nvl_domain.identifier.name", d.Name); err != nil {
		return err
	}
	if err := checkLength("nvl_domain.external_id", d.ExternalID); err != nil {
		return err
	}
	return write(ctx, pool, func(q *db.Queries) error {
		rows, err := q.DomainListTaken(ctx, db.DomainListTakenParams{ID: d.ID, Name: &d.Name, ExternalID: known(d.ExternalID)})
		if err != nil {
			return err
		}
		for _, row := range rows {
			switch {
			case row.ID == d.ID && row.Deleted:
				return fault.Exists("NVLink domain %s exists but is deleted", d.ID).On("nvl_domain.identifier.id")
			case row.ID == d.ID && value(row.Name) == d.Name:
				return nil
			case row.ID == d.ID:
				return fault.Exists("NVLink domain %s exists with the name %s", d.ID, quote(value(row.Name))).On("nvl_domain.identifier.id")
			}
		}
		if len(rows) > 0 && value(rows[0].Name) == d.Name {
			return fault.Exists("%s is held by NVLink domain %s", quote(d.Name), rows[0].ID).On("nvl_domain.identifier.name")
		} else if len(rows) > 0 {
			return fault.Exists("%s is held by NVLink domain %s", quote(d.ExternalID), rows[0].ID).On("nvl_domain.external_id")
		}
		return q.DomainInsert(ctx, db.DomainInsertParams{
			ID: d.ID, Name: &d.Name, ExternalID: known(d.ExternalID), NmxcClusterID: d.ClusterID,
		})
	})
}

// AttachRacks makes racks members of a domain, all or none of them. A rack that is one already stays.
func AttachRacks(ctx context.Context, pool *pgxpool.Pool, domain DomainRef, racks []RackRef) error {
	return write(ctx, pool, func(q *db.Queries) error {
		found, err := lookUpDomains(ctx, q, []DomainRef{domain})
		if err != nil {
			return err
		}
		id, err := found.pick("nvl_domain_identifier", domain.key())
		if err != nil {
			return err
		}
		if _, err := q.DomainHold(ctx, db.DomainHoldParams{ID: id}); err != nil {
			return domainFault(err, id, "nvl_domain_identifier")
		}
		return setDomain(ctx, q, racks, &id)
	})
}

// DetachRacks makes racks members of no domain, all or none of them. A rack that is none stays.
func DetachRacks(ctx context.Context, pool *pgxpool.Pool, racks []RackRef) error {
	return write(ctx, pool, func(q *db.Queries) error { return setDomain(ctx, q, racks, nil) })
}

// setDomain moves racks into a domain, or out of theirs.
func setDomain(ctx context.Context, q *db.Queries, refs []RackRef, domain *uuid.UUID) error {
	if len(refs) > maxTargets {
		return fault.Invalid("rack_identifiers", "has %d entries, at most %d are allowed", len(refs), maxTargets)
	}
	if len(refs) == 0 {
		return nil
	}
	found, err := lookUpRacks(ctx, q, refs)
	if err != nil {
		return err
	}
	ids := make([]uuid.UUID, len(refs))
	for i, r := range refs {
		if ids[i], err = found.pick(fmt.Sprintf("rack_identifiers[%d]", i), r.key()); err != nil {
			return err
		}
	}
	rows, err := q.RackLockMany(ctx, db.RackLockManyParams{Ids: ids})
	if err != nil {
		return err
	}
	locked := byID(rows)
	var moved []uuid.UUID
	for i, id := range ids {
		field := fmt.Sprintf("rack_identifiers[%d]", i)
		rack, ok := locked[id]
		switch {
		case !ok || rack.DeletedAt != nil:
			return fault.NotFound("rack %s not found", id).On(field)
		case sameID(rack.NvlDomainID, domain):
		case rack.RackGroupID != nil:
			return fault.Precondition("rack %s: membership is managed by Core, which has the rack in group %s", id,
				quote(*rack.RackGroupID)).On(field)
		case domain != nil && rack.NvlDomainID != nil:
			return fault.Exists("rack %s is already attached to NVLink domain %s", id, *rack.NvlDomainID).On(field)
		default:
			moved = append(moved, id)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	return q.RackSetDomain(ctx, db.RackSetDomainParams{Ids: moved, DomainID: domain})
}
