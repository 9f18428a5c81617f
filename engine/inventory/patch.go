package inventory

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// ComponentPatch is what to change of a component. What is nil stays.
type ComponentPatch struct {
	ID              uuid.UUID
	FirmwareVersion *string
	Description     *string
	Slot            *int32 // like Tray and Host, -1 makes it not known
	Tray            *int32
	Host            *int32
	RackID          *uuid.UUID
	BMCs            []NewBMC // by MAC: an address is written, an unknown one added, none removed
}

// PatchComponent changes a component and returns it as clients are shown it. It does not move a component that a task
// is working on.
func PatchComponent(ctx context.Context, pool *pgxpool.Pool, p ComponentPatch) (Component, error) {
	// The keys of the component are not the patch's to change; only what it says about BMCs can collide within it.
	if err := checkTwins([]NewComponent{{BMCs: p.BMCs}}); err != nil {
		return Component{}, err
	}
	if err := checkPosition("position", p.Slot, p.Tray, p.Host); err != nil {
		return Component{}, err
	}
	var patched Component
	err := write(ctx, pool, func(q *db.Queries) error {
		if err := p.apply(ctx, q); err != nil {
			return err
		}
		var err error
		patched, err = readComponent(ctx, q, p.ID)
		return err
	})
	return patched, err
}

func (p ComponentPatch) apply(ctx context.Context, q *db.Queries) error {
	row, err := p.hold(ctx, q)
	if err != nil {
		return err
	}
	bmcs, err := q.BMCList(ctx, db.BMCListParams{RackIds: []uuid.UUID{}, ComponentIds: []uuid.UUID{p.ID}})
	if err != nil {
		return err
	}
	var ch changes
	set := row
	if p.FirmwareVersion != nil {
		set.FirmwareVersion = *p.FirmwareVersion
	}
	if p.Description != nil {
		set.Description = known(patchDescription(value(row.Description), *p.Description, false))
	}
	for _, at := range []struct{ to, from *int32 }{{&set.SlotID, p.Slot}, {&set.TrayIdx, p.Tray}, {&set.HostID, p.Host}} {
		if at.from != nil {
			*at.to = *at.from
		}
	}
	if p.RackID != nil {
		set.RackID = p.RackID
	}
	ch.component(row, set)
	for _, b := range p.BMCs {
		if ch.bmc(p.ID, bmcs, b) == reportInvalidType {
			return fault.Invalid(b.Path+".type", "a BMC that is new to the component needs the type HOST or DPU")
		}
	}
	return ch.write(ctx, q)
}

// hold locks the component to patch, its rack, and the rack it is to move to.
func (p ComponentPatch) hold(ctx context.Context, q *db.Queries) (db.Component, error) {
	var to []uuid.UUID
	if p.RackID != nil {
		to = append(to, *p.RackID)
	}
	row, racks, err := lockComponent(ctx, q, p.ID, to...)
	if err != nil {
		return row, err
	}
	if row.DeletedAt != nil {
		return row, componentNotFound(p.ID)
	}
	if p.RackID == nil {
		return row, nil
	}
	if rack, ok := racks[*p.RackID]; !ok || rack.DeletedAt != nil {
		return row, rackFault(store.ErrNotFound, *p.RackID, "rack_id")
	}
	if sameID(row.RackID, p.RackID) {
		return row, nil
	}
	return row, refuseWhileActive(ctx, q, p.ID, "moved")
}

// lockComponent locks a component, tombstones too, and before it its rack and others, as submissions do: no task can be
// admitted for the component meanwhile.
func lockComponent(ctx context.Context, q *db.Queries, id uuid.UUID, others ...uuid.UUID) (
	db.Component, map[uuid.UUID]db.RackLockManyRow, error,
) {
	var none db.Component
	rack, err := q.ComponentRack(ctx, db.ComponentRackParams{ID: id})
	if errors.Is(err, store.ErrNotFound) {
		return none, nil, componentNotFound(id)
	} else if err != nil {
		return none, nil, err
	}
	if rack != nil {
		others = append(others, *rack)
	}
	locked, err := q.RackLockMany(ctx, db.RackLockManyParams{Ids: others})
	if err != nil {
		return none, nil, err
	}
	row, err := q.ComponentLock(ctx, db.ComponentLockParams{ID: id})
	if errors.Is(err, store.ErrNotFound) || err == nil && !sameID(row.RackID, rack) {
		err = errRaced // it was purged, or moved to a rack that is not locked
	}
	return row, byID(locked), err
}

func byID(rows []db.RackLockManyRow) map[uuid.UUID]db.RackLockManyRow {
	m := make(map[uuid.UUID]db.RackLockManyRow, len(rows))
	for _, row := range rows {
		m[row.ID] = row
	}
	return m
}

// refuseWhileActive refuses to have something done to a component that an unfinished task names.
func refuseWhileActive(ctx context.Context, q *db.Queries, id uuid.UUID, done string) error {
	tasks, err := q.TaskActiveByComponent(ctx, db.TaskActiveByComponentParams{ComponentID: id})
	if err != nil || len(tasks) == 0 {
		return err
	}
	return fault.Precondition("component %s cannot be %s: %s task %s names it", id, done, tasks[0].State, tasks[0].ID)
}

func sameID(a, b *uuid.UUID) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// changes collects what a patch writes, to write it in a fixed number of statements.
type changes struct {
	components db.ComponentPatchManyParams
	ips        db.BMCSetIPsParams
	bmcs       bmcRows
}

// component notes how a component is to be; unchanged ones are not written.
func (c *changes) component(from, to db.Component) string {
	if from.FirmwareVersion == to.FirmwareVersion && value(from.Description) == value(to.Description) &&
		from.SlotID == to.SlotID && from.TrayIdx == to.TrayIdx && from.HostID == to.HostID && sameID(from.RackID, to.RackID) {
		return reportNoChange
	}
	p := &c.components
	p.Ids = append(p.Ids, to.ID)
	p.FirmwareVersions = append(p.FirmwareVersions, to.FirmwareVersion)
	p.Descriptions = append(p.Descriptions, value(to.Description))
	p.SlotIds = append(p.SlotIds, to.SlotID)
	p.TrayIdxs = append(p.TrayIdxs, to.TrayIdx)
	p.HostIds = append(p.HostIds, to.HostID)
	rack := uuid.Nil
	if to.RackID != nil {
		rack = *to.RackID
	}
	p.RackIds = append(p.RackIds, rack)
	return reportPatched
}

// bmc notes how a BMC of a component is to be, given those it has. Type and MAC of one it has never change.
func (c *changes) bmc(component uuid.UUID, has []BMC, b NewBMC) string {
	i := slices.IndexFunc(has, func(h BMC) bool { return slices.Equal(h.Mac, b.MAC) })
	switch {
	case i < 0 && b.Type == "":
		return reportInvalidType
	case i < 0:
		c.bmcs.add(component, b)
		return reportAdded
	case !b.IP.IsValid() || has[i].Ip != nil && *has[i].Ip == b.IP:
		return reportNoChange
	}
	c.ips.Macs = append(c.ips.Macs, b.MAC)
	c.ips.Ips = append(c.ips.Ips, b.IP)
	return reportPatched
}

func (c *changes) write(ctx context.Context, q *db.Queries) error {
	if len(c.components.Ids) > 0 {
		if err := q.ComponentPatchMany(ctx, c.components); err != nil {
			return err
		}
	}
	if len(c.ips.Macs) > 0 {
		if err := q.BMCSetIPs(ctx, c.ips); err != nil {
			return err
		}
	}
	return c.bmcs.insert(ctx, q)
}
