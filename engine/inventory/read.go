package inventory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// Rack is a live rack with what is derived for readers.
type Rack struct {
	db.Rack
	Domain     *db.NvlDomain // nil: in no domain
	Phase      Phase         // the strictest of its compute trays, NVSwitches and power shelves
	Tasks      TaskCounts
	Components []Component // by name, then id; only when asked for
}

// TaskCounts is how many unfinished tasks concern a rack or a component.
type TaskCounts struct{ Waiting, Pending, Running int32 }

func (t *TaskCounts) add(state db.TaskState, n int32) {
	switch state {
	case db.TaskStateWaiting:
		t.Waiting += n
	case db.TaskStatePending:
		t.Pending += n
	case db.TaskStateRunning:
		t.Running += n
	}
}

// GetRack finds a rack by its external id, else by its Flow id.
func GetRack(ctx context.Context, pool *pgxpool.Pool, id string, components bool) (Rack, error) {
	id = strings.TrimSpace(id)
	if id == "" {
		return Rack{}, fault.Invalid("id", "rack identifier is required")
	}
	return getRack(ctx, pool, components, func(q *db.Queries) (db.Rack, error) {
		row, err := q.RackGetByExternalID(ctx, db.RackGetByExternalIDParams{ExternalID: &id})
		if own, bad := uuid.Parse(id); bad == nil && errors.Is(err, store.ErrNotFound) {
			row, err = q.RackGetByID(ctx, db.RackGetByIDParams{ID: own})
		}
		if errors.Is(err, store.ErrNotFound) {
			return row, fault.NotFound("rack %s not found", quote(id)).Because(err)
		}
		return row, err
	})
}

// GetRackBySerial finds a rack by manufacturer and serial number; without a manufacturer the serial number must be
// unique.
func GetRackBySerial(ctx context.Context, pool *pgxpool.Pool, manufacturer, serial string, components bool) (Rack, error) {
	manufacturer, serial = strings.TrimSpace(manufacturer), strings.TrimSpace(serial)
	return getRack(ctx, pool, components, func(q *db.Queries) (db.Rack, error) {
		if serial == "" {
			return db.Rack{}, errNoSerial
		}
		rows, err := q.RackListBySerial(ctx, db.RackListBySerialParams{Serial: &serial, Manufacturer: known(manufacturer)})
		if err != nil {
			return db.Rack{}, err
		}
		return one(serialField, "rack", rows, manufacturer, serial)
	})
}

const serialField = "serial_info.serial_number"

var errNoSerial = fault.Invalid(serialField, "serial number is not specified")

// one is the only row of a look-up by serial number.
func one[T any](field, noun string, rows []T, manufacturer, serial string) (T, error) {
	var none T
	switch {
	case len(rows) == 0 && manufacturer == "":
		return none, fault.NotFound("%s with serial number %s not found", noun, quote(serial)).On(field)
	case len(rows) == 0:
		return none, fault.NotFound("%s with serial number %s of manufacturer %s not found", noun, quote(serial), quote(manufacturer)).On(field)
	case len(rows) > 1:
		return none, fault.Precondition("serial number %s is ambiguous: %d %ss have it; name the manufacturer", quote(serial), len(rows), noun).On(field)
	}
	return rows[0], nil
}

func getRack(ctx context.Context, pool *pgxpool.Pool, components bool, find func(*db.Queries) (db.Rack, error)) (Rack, error) {
	var racks []Rack
	err := snapshot(ctx, pool, func(q *db.Queries) error {
		row, err := find(q)
		if err != nil {
			return err
		}
		racks, err = complete(ctx, q, []db.Rack{row}, components)
		return err
	})
	if err != nil {
		return Rack{}, err
	}
	return racks[0], nil
}

// snapshot runs reads that must agree with each other.
func snapshot(ctx context.Context, pool *pgxpool.Pool, fn func(*db.Queries) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, pool, opts, func(tx pgx.Tx) error { return fn(db.New(tx)) })
}

// complete adds to racks what is derived, by a fixed number of statements.
func complete(ctx context.Context, q *db.Queries, rows []db.Rack, components bool) ([]Rack, error) {
	racks := make([]Rack, len(rows))
	if len(rows) == 0 {
		return racks, nil
	}
	ids := make([]uuid.UUID, len(rows))
	at := make(map[uuid.UUID]*Rack, len(rows))
	for i, row := range rows {
		racks[i].Rack = row
		ids[i] = row.ID
		at[row.ID] = &racks[i]
	}
	phases := addPhases
	if components {
		phases = addComponents // which tell the phases as well
	}
	for _, add := range []addFunc{addDomains, addTaskCounts, phases} {
		if err := add(ctx, q, ids, at); err != nil {
			return nil, err
		}
	}
	return racks, nil
}

// addFunc adds something to racks, which are given by their ids too.
type addFunc = func(ctx context.Context, q *db.Queries, ids []uuid.UUID, at map[uuid.UUID]*Rack) error

func addDomains(ctx context.Context, q *db.Queries, _ []uuid.UUID, at map[uuid.UUID]*Rack) error {
	ids := []uuid.UUID{}
	for _, r := range at {
		if r.NvlDomainID != nil {
			ids = append(ids, *r.NvlDomainID)
		}
	}
	rows, err := q.DomainListByIDs(ctx, db.DomainListByIDsParams{Ids: ids})
	if err != nil {
		return err
	}
	domains := make(map[uuid.UUID]*db.NvlDomain, len(rows))
	for i := range rows {
		domains[rows[i].ID] = &rows[i]
	}
	for _, r := range at {
		if r.NvlDomainID != nil {
			r.Domain = domains[*r.NvlDomainID]
		}
	}
	return nil
}

func addPhases(ctx context.Context, q *db.Queries, ids []uuid.UUID, at map[uuid.UUID]*Rack) error {
	rows, err := q.RackPhases(ctx, db.RackPhasesParams{RackIds: ids})
	if err != nil {
		return err
	}
	parts := make(map[uuid.UUID]map[Phase]bool, len(at))
	for _, row := range rows {
		if parts[*row.RackID] == nil {
			parts[*row.RackID] = map[Phase]bool{}
		}
		parts[*row.RackID][phaseOf(row.Phase)] = true
	}
	for id, r := range at {
		r.Phase = strictest(parts[id])
	}
	return nil
}

func addTaskCounts(ctx context.Context, q *db.Queries, ids []uuid.UUID, at map[uuid.UUID]*Rack) error {
	rows, err := q.RackTaskStats(ctx, db.RackTaskStatsParams{RackIds: ids})
	for _, row := range rows {
		at[row.RackID].Tasks.add(row.State, row.Tasks)
	}
	return err
}

func addComponents(ctx context.Context, q *db.Queries, ids []uuid.UUID, at map[uuid.UUID]*Rack) error {
	rows, err := q.ComponentListByRacks(ctx, db.ComponentListByRacksParams{RackIds: ids})
	if err != nil {
		return err
	}
	all := make([]Component, len(rows))
	own := make(map[uuid.UUID]*Component, len(rows))
	for i := range rows {
		r := at[*rows[i].RackID]
		all[i] = Component{LiveComponent: &rows[i], Rack: r.info()}
		own[rows[i].ID] = &all[i]
	}
	if len(rows) > 0 {
		if err := addParts(ctx, q, ids, own, true); err != nil {
			return err
		}
	}
	for _, c := range all {
		r := at[*c.RackID]
		r.Components = append(r.Components, c)
	}
	for _, r := range at {
		slices.SortFunc(r.Components, compareComponents)
		parts := map[Phase]bool{}
		for _, c := range r.Components {
			if slices.Contains(phased, hardware.ComponentType(c.Type)) {
				parts[phaseOf(c.Phase)] = true
			}
		}
		r.Phase = strictest(parts)
	}
	return nil
}

// info is what the components of a rack tell of it.
func (r *Rack) info() db.ComponentRackInfoRow {
	row := db.ComponentRackInfoRow{ID: r.ID, ExternalID: r.ExternalID}
	if r.Domain != nil {
		row.DomainID, row.DomainExternalID = &r.Domain.ID, r.Domain.ExternalID
	}
	return row
}

// compareComponents is the order clients see: by name byte by byte, then by id.
func compareComponents(a, b Component) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
}

// compareBMCs is the order clients see: host before DPU, then by MAC.
func compareBMCs(a, b BMC) int {
	return cmp.Or(-strings.Compare(a.Type, b.Type), slices.Compare(a.Mac, b.Mac))
}
