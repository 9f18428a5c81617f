package inventory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store/db"
)

// Component is a live component with what is derived for readers.
type Component struct {
	*db.LiveComponent
	BMCs  []BMC // host before DPU, then by MAC
	Rack  db.ComponentRackInfoRow
	Tasks TaskCounts
	Leak  LeakHandling
}

// SmallestMAC is the MAC of its BMCs, of any type, that sorts first; "" when it has none.
func (c Component) SmallestMAC() string {
	smallest := ""
	for _, b := range c.BMCs {
		if mac := b.Mac.String(); smallest == "" || mac < smallest {
			smallest = mac
		}
	}
	return smallest
}

// BMC is a controller of a component.
type BMC = db.BMCListRow

// LeakHandling is how the newest answer to a leak in a component goes.
type LeakHandling string

// What is known of the answer to a leak. Down is history: it stays when the component is on again.
const (
	LeakNone         LeakHandling = "NONE"
	LeakShuttingDown LeakHandling = "SHUTTING_DOWN"
	LeakDown         LeakHandling = "DOWN"
	LeakFailed       LeakHandling = "FAILED"
)

// leakHandlings says what the state of the task that answers a leak means for the component.
var leakHandlings = map[db.TaskState]LeakHandling{
	db.TaskStateWaiting:    LeakShuttingDown,
	db.TaskStatePending:    LeakShuttingDown,
	db.TaskStateRunning:    LeakShuttingDown,
	db.TaskStateCompleted:  LeakDown,
	db.TaskStateFailed:     LeakFailed,
	db.TaskStateTerminated: LeakFailed,
}

// ComponentQuery says which components to list, and how.
type ComponentQuery struct {
	Filter
	Scope      *Scope // nil: all
	Order      Field  // "": by name; ties go by id
	Descending bool
	Offset     int32
	Limit      int32
}

// GetComponent finds a component by its external id or a MAC of its BMCs, else by its Flow id. Its rack, if it has one,
// comes along when asked for.
func GetComponent(ctx context.Context, pool *pgxpool.Pool, id string, rack bool) (Component, *Rack, error) {
	if id = strings.TrimSpace(id); id == "" {
		return Component{}, nil, fault.Invalid("id", "component identifier is required")
	}
	return getComponent(ctx, pool, rack, func(q *db.Queries) (uuid.UUID, error) {
		refs := []ComponentRef{{External: id}}
		own, err := uuid.Parse(id)
		if err == nil {
			refs = append(refs, ComponentRef{ID: own})
		}
		found, err := lookUpComponents(ctx, q, refs)
		if err != nil {
			return uuid.Nil, err
		}
		for _, ref := range refs {
			switch hits := found.of(ref); {
			case len(hits) == 1:
				return hits[0], nil
			case len(hits) > 1:
				return uuid.Nil, fault.Precondition("component %s is ambiguous: it names %d components", quote(id), len(hits)).On("id")
			}
		}
		return uuid.Nil, fault.NotFound("component %s not found", quote(id)).On("id")
	})
}

// GetComponentBySerial finds a component by manufacturer and serial number; without a manufacturer the serial number
// must be unique.
func GetComponentBySerial(ctx context.Context, pool *pgxpool.Pool, manufacturer, serial string, rack bool) (Component, *Rack, error) {
	manufacturer, serial = strings.TrimSpace(manufacturer), strings.TrimSpace(serial)
	return getComponent(ctx, pool, rack, func(q *db.Queries) (uuid.UUID, error) {
		if serial == "" {
			return uuid.Nil, errNoSerial
		}
		rows, err := q.ComponentListBySerial(ctx, db.ComponentListBySerialParams{Serial: &serial, Manufacturer: known(manufacturer)})
		if err != nil {
			return uuid.Nil, err
		}
		row, err := one(serialField, "component", rows, manufacturer, serial)
		return row.ID, err
	})
}

func getComponent(ctx context.Context, pool *pgxpool.Pool, rack bool, find func(*db.Queries) (uuid.UUID, error)) (Component, *Rack, error) {
	var (
		c     Component
		owner *Rack
	)
	err := snapshot(ctx, pool, func(q *db.Queries) error {
		id, err := find(q)
		if err != nil {
			return err
		}
		if c, err = readComponent(ctx, q, id); err != nil || !rack || c.RackID == nil {
			return err
		}
		rows, err := q.RackListByIDs(ctx, db.RackListByIDsParams{Ids: []uuid.UUID{*c.RackID}})
		if err != nil || len(rows) == 0 {
			return err
		}
		racks, err := complete(ctx, q, rows, false)
		if err != nil {
			return err
		}
		owner = &racks[0]
		return nil
	})
	return c, owner, err
}

// readComponent reads one live component as clients are shown it.
func readComponent(ctx context.Context, q *db.Queries, id uuid.UUID) (Component, error) {
	list, err := readComponents(ctx, q, []uuid.UUID{id})
	if err != nil {
		return Component{}, err
	}
	if len(list) == 0 {
		return Component{}, componentNotFound(id)
	}
	return list[0], nil
}

// readComponents reads live components in the order of their ids; what is not there is left out.
func readComponents(ctx context.Context, q *db.Queries, ids []uuid.UUID) ([]Component, error) {
	rows, err := q.ComponentListByIDs(ctx, db.ComponentListByIDsParams{Ids: ids})
	if err != nil {
		return nil, err
	}
	place := make(map[uuid.UUID]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(rows, func(a, b db.LiveComponent) int { return cmp.Compare(place[a.ID], place[b.ID]) })
	return completeComponents(ctx, q, rows)
}

func componentNotFound(id uuid.UUID) error { return fault.NotFound("component %s not found", id) }

// ListComponents returns a page of live components and how many there are on all pages, both as of the same moment.
func ListComponents(ctx context.Context, pool *pgxpool.Pool, query ComponentQuery) ([]Component, int32, error) {
	c, err := query.conditions()
	if err != nil {
		return nil, 0, err
	}
	if query.Order == "" {
		query.Order = ByName
	}
	var (
		list  []Component
		total int32
	)
	err = snapshot(ctx, pool, func(q *db.Queries) error {
		sel, err := query.selection(ctx, q)
		if err != nil {
			return err
		}
		ids, err := componentPage(ctx, q, c, sel, query)
		if err != nil {
			return err
		}
		if total, err = countComponents(ctx, q, c, sel); err != nil {
			return err
		}
		list, err = readComponents(ctx, q, ids)
		return err
	})
	return list, total, err
}

func componentPage(ctx context.Context, q *db.Queries, c conditions, sel selected, query ComponentQuery) ([]uuid.UUID, error) {
	return q.ComponentPage(ctx, db.ComponentPageParams{
		Names: c.names.values, NameLikes: c.names.likes, NamePatterns: c.names.others,
		Manufacturers: c.manufacturers.values, ManufacturerPatterns: c.manufacturers.patterns,
		Models: c.models.values, ModelPatterns: c.models.patterns,
		Types:    c.types,
		ScopeIds: sel.ids, ScopeRacks: sel.racks, TypedRacks: sel.typedRacks, TypedTypes: sel.typedTypes,
		Field: string(query.Order), Descending: query.Descending,
		Skip: query.Offset, Max: query.Limit,
	})
}

func countComponents(ctx context.Context, q *db.Queries, c conditions, sel selected) (int32, error) {
	return q.ComponentCount(ctx, db.ComponentCountParams{
		Names: c.names.values, NameLikes: c.names.likes, NamePatterns: c.names.others,
		Manufacturers: c.manufacturers.values, ManufacturerPatterns: c.manufacturers.patterns,
		Models: c.models.values, ModelPatterns: c.models.patterns,
		Types:    c.types,
		ScopeIds: sel.ids, ScopeRacks: sel.racks, TypedRacks: sel.typedRacks, TypedTypes: sel.typedTypes,
	})
}

// selected is a scope as the queries take it; nil lists restrict nothing.
type selected struct {
	ids        []uuid.UUID
	racks      []uuid.UUID
	typedRacks []uuid.UUID
	typedTypes []string
}

// selection resolves the scope of a query.
func (query ComponentQuery) selection(ctx context.Context, q *db.Queries) (selected, error) {
	if query.Scope == nil {
		return selected{}, nil
	}
	sel, err := query.Scope.Resolve(ctx, q)
	return sel.selected(), err
}

// selected puts a selection the way the queries take it.
func (s Selection) selected() selected {
	if s.Racks == nil {
		return selected{ids: s.Components}
	}
	out := selected{racks: s.RackIDs()}
	for _, t := range s.Racks {
		if !t.All {
			out.typedRacks, out.typedTypes = s.pairs()
			break
		}
	}
	return out
}

// ComponentIDs tells which live components of a selection pass a filter.
func ComponentIDs(ctx context.Context, q *db.Queries, sel Selection, f Filter) (map[uuid.UUID]bool, error) {
	c, err := f.conditions()
	if err != nil {
		return nil, err
	}
	ids, err := componentPage(ctx, q, c, sel.selected(), ComponentQuery{Order: ByName, Limit: math.MaxInt32})
	if err != nil {
		return nil, fmt.Errorf("components of the filter: %w", err)
	}
	passing := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		passing[id] = true
	}
	return passing, nil
}

// pairs lists every rack with every type that is meant of it.
func (s Selection) pairs() (racks []uuid.UUID, types []string) {
	for _, id := range s.RackIDs() {
		for _, t := range componentTypes {
			if s.Racks[id].Has(t) {
				racks, types = append(racks, id), append(types, string(t))
			}
		}
	}
	return racks, types
}

// completeComponents adds to components what is derived, by a fixed number of statements.
func completeComponents(ctx context.Context, q *db.Queries, rows []db.LiveComponent) ([]Component, error) {
	list := make([]Component, len(rows))
	at := make(map[uuid.UUID]*Component, len(rows))
	racks := []uuid.UUID{}
	for i := range rows {
		list[i].LiveComponent = &rows[i]
		at[rows[i].ID] = &list[i]
		if rows[i].RackID != nil {
			racks = append(racks, *rows[i].RackID)
		}
	}
	if len(rows) == 0 {
		return list, nil
	}
	slices.SortFunc(racks, compareIDs)
	racks = slices.Compact(racks)
	info, err := q.ComponentRackInfo(ctx, db.ComponentRackInfoParams{RackIds: racks})
	if err != nil {
		return nil, fmt.Errorf("racks of components: %w", err)
	}
	of := make(map[uuid.UUID]db.ComponentRackInfoRow, len(info))
	for _, row := range info {
		of[row.ID] = row
	}
	for i := range list {
		if id := list[i].RackID; id != nil {
			list[i].Rack = of[*id]
		}
	}
	return list, addParts(ctx, q, racks, at, false)
}

// addParts adds to components of these racks their BMCs, tasks and leak handling. Whole says that they are all there are
// in the racks.
func addParts(ctx context.Context, q *db.Queries, racks []uuid.UUID, at map[uuid.UUID]*Component, whole bool) error {
	ids := make([]uuid.UUID, 0, len(at))
	for id, c := range at {
		c.Leak = LeakNone
		ids = append(ids, id)
	}
	wanted := db.BMCListParams{RackIds: []uuid.UUID{}, ComponentIds: ids}
	if whole {
		wanted = db.BMCListParams{RackIds: racks, ComponentIds: []uuid.UUID{}}
	}
	bmcs, err := q.BMCList(ctx, wanted)
	if err != nil {
		return fmt.Errorf("BMCs: %w", err)
	}
	stats, err := q.ComponentTaskStats(ctx, db.ComponentTaskStatsParams{RackIds: racks})
	if err != nil {
		return fmt.Errorf("tasks of components: %w", err)
	}
	var leaks []db.ComponentLeakTasksRow
	if leaked, err := q.TaskLeakAnswered(ctx); err != nil {
		return fmt.Errorf("leak tasks: %w", err)
	} else if leaked {
		if leaks, err = q.ComponentLeakTasks(ctx, db.ComponentLeakTasksParams{ComponentIds: ids}); err != nil {
			return fmt.Errorf("leak tasks of components: %w", err)
		}
	}
	for _, b := range bmcs {
		if c, ok := at[b.ComponentID]; ok {
			c.BMCs = append(c.BMCs, b)
		}
	}
	for _, c := range at {
		slices.SortFunc(c.BMCs, compareBMCs)
	}
	for _, row := range stats {
		// A task may name a component that has been deleted since, or has left the rack.
		if c, ok := at[row.ComponentID]; ok && c.RackID != nil && *c.RackID == row.RackID {
			c.Tasks.add(row.State, row.Tasks)
		}
	}
	for _, row := range leaks {
		at[row.ComponentID].Leak = leakHandlings[row.State]
	}
	return nil
}
