package inventory

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/store/db"
)

// CreateRack records a rack with all its components and BMCs, or nothing of it.
func CreateRack(ctx context.Context, pool *pgxpool.Pool, r NewRack) error {
	r.normalize()
	if err := r.check(); err != nil {
		return err
	}
	return write(ctx, pool, func(q *db.Queries) error { return createRack(ctx, q, &r) })
}

func createRack(ctx context.Context, q *db.Queries, r *NewRack) error {
	if err := checkRackFree(ctx, q, r); err != nil {
		return err
	}
	var domain *uuid.UUID
	if r.DomainID != uuid.Nil {
		domain = &r.DomainID
		if _, err := q.DomainHold(ctx, db.DomainHoldParams{ID: r.DomainID}); err != nil {
			return domainFault(err, r.DomainID, "rack.nvl_domain_ids[0]")
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
	if err != nil {
		return err
	}
	return addComponentRows(ctx, q, &r.ID, r.Components)
}

// AddComponent records a component, in a rack or in none, and returns it as clients are shown it.
func AddComponent(ctx context.Context, pool *pgxpool.Pool, c NewComponent, rack *uuid.UUID) (Component, error) {
	c.normalize()
	if err := checkComponents([]NewComponent{c}); err != nil {
		return Component{}, err
	}
	if c.ID == uuid.Nil {
		c.ID = uuid.New()
	}
	var added Component
	err := write(ctx, pool, func(q *db.Queries) error {
		if rack != nil {
			if _, err := q.RackHold(ctx, db.RackHoldParams{ID: *rack}); err != nil {
				return rackFault(err, *rack, c.Path+".rack_id")
			}
		}
		err := addComponentRows(ctx, q, rack, []NewComponent{c})
		if err == nil {
			added, err = readComponent(ctx, q, c.ID)
		}
		return err
	})
	return added, err
}

// addComponentRows records components and their BMCs, unless somebody has one of their keys.
func addComponentRows(ctx context.Context, q *db.Queries, rack *uuid.UUID, list []NewComponent) error {
	if len(list) == 0 {
		return nil
	}
	if err := checkComponentsFree(ctx, q, list); err != nil {
		return err
	}
	c := db.ComponentInsertManyParams{RackID: rack}
	var bmcs bmcRows
	for _, n := range list {
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
		c.Healths = append(c.Healths, n.Health)
		for _, b := range n.BMCs {
			bmcs.add(n.ID, b)
		}
	}
	if err := q.ComponentInsertMany(ctx, c); err != nil {
		return err
	}
	return bmcs.insert(ctx, q)
}

// bmcRows are BMCs to record, as the insert takes them.
type bmcRows struct {
	list []NewBMC
	rows db.BMCInsertManyParams
}

func (r *bmcRows) add(component uuid.UUID, b NewBMC) {
	r.list = append(r.list, b)
	r.rows.Macs = append(r.rows.Macs, b.MAC)
	r.rows.Types = append(r.rows.Types, b.Type)
	r.rows.ComponentIds = append(r.rows.ComponentIds, component)
	ip := ""
	if b.IP.IsValid() {
		ip = b.IP.String()
	}
	r.rows.Ips = append(r.rows.Ips, ip)
}

// insert records the BMCs unless another live component has one of their MACs.
func (r *bmcRows) insert(ctx context.Context, q *db.Queries) error {
	if len(r.list) == 0 {
		return nil
	}
	if err := takeMACs(ctx, q, r.list); err != nil {
		return err
	}
	return q.BMCInsertMany(ctx, r.rows)
}

// known gives null for empty text: what is not known must never collide.
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
