package task

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// rackTargets are the components of one rack that a task is for.
type rackTargets struct {
	RackID     uuid.UUID
	Components []rules.Component
}

// targets resolves a scope to racks with their components, in ascending order of rack id; those that do not pass the filter
// are left out.
func targets(ctx context.Context, q *db.Queries, scope inventory.Scope, filter inventory.Filter) ([]rackTargets, error) {
	sel, err := scope.Resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	passes := func(uuid.UUID) bool { return true }
	if len(filter.Matches) > 0 {
		ids, err := inventory.ComponentIDs(ctx, q, sel, filter)
		if err != nil {
			return nil, err
		}
		passes = func(id uuid.UUID) bool { return ids[id] }
	}
	racks := sel.RackIDs()
	rows, err := q.ComponentTargets(ctx, db.ComponentTargetsParams{RackIds: racks, Ids: sel.Components})
	if err != nil {
		return nil, fmt.Errorf("components of the scope: %w", err)
	}
	byRack := map[uuid.UUID][]rules.Component{}
	var homeless []string
	for _, row := range rows {
		c := component(row)
		switch {
		case !passes(row.ID):
		case row.RackID == nil:
			homeless = append(homeless, c.Label())
		case sel.Racks == nil || sel.Racks[c.RackID].Has(c.Type):
			byRack[c.RackID] = append(byRack[c.RackID], c)
		}
	}
	if len(homeless) > 0 {
		return nil, fault.Precondition("selected components are in no rack: %s", strings.Join(homeless, ", "))
	}
	if sel.Racks == nil {
		for id := range byRack {
			racks = append(racks, id)
		}
		sortIDs(racks)
	}
	if len(racks) == 0 && len(rows) > 0 {
		return nil, fault.Precondition("no selected components: the filters leave none of those it names")
	}
	if len(racks) == 0 {
		return nil, fault.Precondition("no valid racks found for request: %s", nothing(scope))
	}
	list := make([]rackTargets, len(racks))
	for i, id := range racks {
		list[i] = rackTargets{RackID: id, Components: byRack[id]}
	}
	return list, nil
}

// nothing says why a scope that resolved means no rack.
func nothing(scope inventory.Scope) string {
	if len(scope.Domains) > 0 {
		return "the NVLink domains it names have none"
	}
	return "what it names has been deleted meanwhile"
}

func component(row db.ComponentTargetsRow) rules.Component {
	c := rules.Component{
		Component: hardware.Component{
			ID:   row.ID,
			Type: hardware.ComponentType(row.Type),
			Name: row.Name,
			MAC:  row.Mac.String(),
		},
		Slot: int(row.SlotID),
		Tray: int(row.TrayIdx),
		Host: int(row.HostID),
	}
	if row.RackID != nil {
		c.RackID = *row.RackID
	}
	if row.ExternalID != nil {
		c.ExternalID = *row.ExternalID
	}
	return c
}
