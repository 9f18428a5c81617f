package inventory

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// CreateRack records a rack with all its components and BMCs, or nothing of it.
func CreateRack(ctx context.Context, pool *pgxpool.Pool, r NewRack) error {
	r.normalize()
	if err := r.check(); err != nil {
		return err
	}
	create := func(tx pgx.Tx) error { return createRack(ctx, db.New(tx), &r) }
	err := store.InTx(ctx, pool, create)
	if raced(err) {
		// Somebody recorded one of our keys after we had looked. Now it is there to be named.
		err = store.InTx(ctx, pool, create)
	}
	return keyFault(err)
}

func createRack(ctx context.Context, q *db.Queries, r *NewRack) error {
	if err := checkRackFree(ctx, q, r); err != nil {
		return err
	}
	if err := checkComponentsFree(ctx, q, r); err != nil {
		return err
	}
	if err := takeMACs(ctx, q, r); err != nil {
		return err
	}
	var domain *uuid.UUID
	if r.DomainID != uuid.Nil {
		domain = &r.DomainID
		_, err := q.DomainHold(ctx, db.DomainHoldParams{ID: r.DomainID})
		if errors.Is(err, store.ErrNotFound) {
			return fault.NotFound("NVLink domain %s not found", r.DomainID).On("rack.nvl_domain_ids[0]")
		}
		if err != nil {
			return err
		}
	}
	err := q.RackInsert(ctx, db.RackInsertParams{
		ID:           r.ID,
		Name:         r.Plate.Name,
		Manufacturer: known(r.Plate.Manufacturer),
		Serial:       known(r.Plate.Serial),
		Model:        known(r.Plate.Model),
		Description:  known(r.Plate.Description),
		Region:       r.Region,
		Datacenter:   r.Datacenter,
		Room:         r.Room,
		Position:     r.Position,
		ExternalID:   known(r.ExternalID),
		NvlDomainID:  domain,
		Health:       r.Health,
	})
	if err != nil || len(r.Components) == 0 {
		return err
	}
	components, bmcs := r.rows()
	if err := q.ComponentInsertMany(ctx, components); err != nil || len(bmcs.Macs) == 0 {
		return err
	}
	return q.BMCInsertMany(ctx, bmcs)
}

// rows lays the components and BMCs out as the columns the inserts take.
func (r *NewRack) rows() (db.ComponentInsertManyParams, db.BMCInsertManyParams) {
	c := db.ComponentInsertManyParams{RackID: &r.ID}
	var b db.BMCInsertManyParams
	for _, n := range r.Components {
		c.Ids = append(c.Ids, n.ID)
		c.Types = append(c.Types, string(n.Type))
		c.Names = append(c.Names, n.Plate.Name)
		c.Manufacturers = append(c.Manufacturers, n.Plate.Manufacturer)
		c.Serials = append(c.Serials, n.Plate.Serial)
		c.Models = append(c.Models, n.Plate.Model)
		c.Descriptions = append(c.Descriptions, n.Plate.Description)
		c.FirmwareVersions = append(c.FirmwareVersions, n.FirmwareVersion)
		c.SlotIds = append(c.SlotIds, n.Slot)
		c.TrayIdxs = append(c.TrayIdxs, n.Tray)
		c.HostIds = append(c.HostIds, n.Host)
		c.ExternalIds = append(c.ExternalIds, n.ExternalID)
		c.Healths = append(c.Healths, string(n.Health))
		for _, m := range n.BMCs {
			b.Macs = append(b.Macs, m.MAC)
			b.Types = append(b.Types, m.Type)
			b.ComponentIds = append(b.ComponentIds, n.ID)
			ip := ""
			if m.IP.IsValid() {
				ip = m.IP.String()
			}
			b.Ips = append(b.Ips, ip)
		}
	}
	return c, b
}

// known gives null for empty text: what is not known must never collide.
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// raced reports whether a concurrent write was the reason, so that a second look may find it.
func raced(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "23505" || pg.Code == "40P01") // unique violation, deadlock
}

// keyFault turns what still collides at the second attempt into a fault that names the key at least.
func keyFault(err error) error {
	if what, ok := uniqueKeys[store.Constraint(err)]; ok {
		return fault.Exists("%s was recorded by another request at the same time", what).Because(err)
	}
	return err
}

// uniqueKeys are the unique indexes a new rack can hit.
var uniqueKeys = map[string]string{
	"rack_pkey":                 "the id of the rack",
	"rack_external_id_key":      "the external id of the rack",
	"rack_serial_key":           "the serial number of the rack",
	"component_pkey":            "the id of a component",
	"component_external_id_key": "the external id of a component",
	"component_serial_key":      "the serial number of a component",
	"bmc_pkey":                  "the MAC address of a BMC",
}
