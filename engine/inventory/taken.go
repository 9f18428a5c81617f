package inventory

import (
	"context"
	"net"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store/db"
)

// checkRackFree refuses a rack whose id or other keys somebody has.
func checkRackFree(ctx context.Context, q *db.Queries, r *NewRack) error {
	rows, err := q.RackListTaken(ctx, db.RackListTakenParams{
		ID:           r.ID,
		ExternalID:   known(r.ExternalID),
		Manufacturer: known(r.Plate.Manufacturer),
		Serial:       known(r.Plate.Serial),
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		switch {
		case row.ID == r.ID && row.Deleted:
			return fault.Exists("rack %s exists but is deleted; purge or restore it", r.ID).On("rack.info.id")
		case row.ID == r.ID:
			return fault.Exists("rack %s exists already", r.ID).On("rack.info.id")
		}
	}
	for _, row := range rows {
		if r.ExternalID != "" && value(row.ExternalID) == r.ExternalID {
			return fault.Exists("%s is held by rack %s", quote(r.ExternalID), row.ID).On("rack.external_id")
		}
	}
	if len(rows) > 0 {
		return fault.Exists("%s of manufacturer %s is held by rack %s", quote(r.Plate.Serial), quote(r.Plate.Manufacturer),
			rows[0].ID).On("rack.info.serial_number")
	}
	return nil
}

// checkComponentsFree refuses components whose ids or other keys somebody has. MACs are takeMACs's.
func checkComponentsFree(ctx context.Context, q *db.Queries, list []NewComponent) error {
	if len(list) == 0 {
		return nil
	}
	type plate struct{ manufacturer, serial string }
	type external struct{ kind, id string }
	params := db.ComponentListTakenParams{
		Ids: []uuid.UUID{}, ExternalIds: []string{}, Manufacturers: []string{}, Serials: []string{},
	}
	for _, c := range list {
		params.Ids = append(params.Ids, c.ID)
		if c.ExternalID != "" {
			params.ExternalIds = append(params.ExternalIds, c.ExternalID)
		}
		if c.Plate.serialized() {
			params.Manufacturers = append(params.Manufacturers, c.Plate.Manufacturer)
			params.Serials = append(params.Serials, c.Plate.Serial)
		}
	}
	rows, err := q.ComponentListTaken(ctx, params)
	if err != nil {
		return err
	}
	deleted := map[uuid.UUID]bool{} // holders of an id, tombstones true
	plates := map[plate]uuid.UUID{}
	externals := map[external]uuid.UUID{}
	for _, row := range rows {
		deleted[row.ID] = row.Deleted
		if row.Deleted {
			continue
		}
		plates[plate{value(row.Manufacturer), value(row.Serial)}] = row.ID
		externals[external{row.Type, value(row.ExternalID)}] = row.ID
	}
	for _, c := range list {
		path := c.Path
		if dead, ok := deleted[c.ID]; ok && dead {
			return fault.Exists("component %s exists but is deleted; purge it, or restore its rack", c.ID).On(path + ".info.id")
		} else if ok {
			return fault.Exists("component %s exists already", c.ID).On(path + ".info.id")
		}
		if id, ok := plates[plate{c.Plate.Manufacturer, c.Plate.Serial}]; ok && c.Plate.serialized() {
			return fault.Exists("%s of manufacturer %s is held by component %s", quote(c.Plate.Serial),
				quote(c.Plate.Manufacturer), id).On(path + ".info.serial_number")
		}
		if id, ok := externals[external{string(c.Type), c.ExternalID}]; ok && c.ExternalID != "" {
			return fault.Exists("%s is held by %s component %s", quote(c.ExternalID), c.Type, id).On(path + ".component_id")
		}
	}
	return nil
}

// takeMACs refuses MACs of live components and takes those of tombstones away from them.
func takeMACs(ctx context.Context, q *db.Queries, bmcs []NewBMC) error {
	if len(bmcs) == 0 {
		return nil
	}
	macs := make([]net.HardwareAddr, len(bmcs))
	for i, b := range bmcs {
		macs[i] = b.MAC
	}
	rows, err := q.BMCListTaken(ctx, db.BMCListTakenParams{Macs: macs})
	if err != nil || len(rows) == 0 {
		return err
	}
	held := map[[6]byte]uuid.UUID{}
	for _, row := range rows {
		if !row.Deleted {
			held[[6]byte(row.Mac)] = row.ComponentID
		}
	}
	for _, b := range bmcs {
		if id, ok := held[[6]byte(b.MAC)]; ok {
			return fault.Exists("%s is held by component %s", b.MAC, id).On(b.Path + ".mac_address")
		}
	}
	return q.BMCReleaseDeleted(ctx, db.BMCReleaseDeletedParams{Macs: macs})
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
