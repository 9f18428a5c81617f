package task

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// maxTargets bounds the entries of one scope.
const maxTargets = 10_000

// Scope is what a request names, before it is resolved.
type Scope struct {
	Racks []RackRef
}

// RackRef names a rack by one of its identifiers, and which of its components are meant.
type RackRef struct {
	ID         uuid.UUID
	Name       string
	ExternalID string
	Types      []hardware.ComponentType // empty: all
}

// RackTargets are the components of one rack that a task is for.
type RackTargets struct {
	RackID     uuid.UUID
	Components []rules.Component
}

// validate refuses a scope of the wrong size.
func (s Scope) validate() error {
	switch n := len(s.Racks); {
	case n == 0:
		return fault.Invalid("target_spec.racks.targets", "must have at least one entry")
	case n > maxTargets:
		return fault.Invalid("target_spec.racks.targets", "has %d entries, at most %d are allowed", n, maxTargets)
	}
	return nil
}

// resolve turns a scope into racks with their components, in ascending order of rack id. It takes two queries whatever
// the size of the scope; the first entry that names nothing fails the whole.
func (s Scope) resolve(ctx context.Context, q *db.Queries) ([]RackTargets, error) {
	params := db.RackListByScopeParams{Ids: []uuid.UUID{}, Names: []string{}, ExternalIds: []string{}}
	for _, r := range s.Racks {
		switch {
		case r.Name != "":
			params.Names = append(params.Names, r.Name)
		case r.ExternalID != "":
			params.ExternalIds = append(params.ExternalIds, r.ExternalID)
		default:
			params.Ids = append(params.Ids, r.ID)
		}
	}
	found, err := q.RackListByScope(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("resolve racks: %w", err)
	}
	// Types asked for by rack; nil in the list of a rack means all of them.
	wanted := map[uuid.UUID][][]hardware.ComponentType{}
	byIdentifier := map[string][]uuid.UUID{}
	for _, row := range found {
		for _, key := range []string{row.ID.String(), "name " + row.Name, "external id " + deref(row.ExternalID)} {
			byIdentifier[key] = append(byIdentifier[key], row.ID)
		}
	}
	for i, r := range s.Racks {
		id, err := r.pick(i, byIdentifier)
		if err != nil {
			return nil, err
		}
		wanted[id] = append(wanted[id], r.Types)
	}

	ids := make([]uuid.UUID, 0, len(wanted))
	for id := range wanted {
		ids = append(ids, id)
	}
	sortIDs(ids)
	rows, err := q.ComponentTargets(ctx, db.ComponentTargetsParams{RackIds: ids, Ids: []uuid.UUID{}})
	if err != nil {
		return nil, fmt.Errorf("resolve components: %w", err)
	}
	byRack := make(map[uuid.UUID][]rules.Component, len(ids))
	for _, row := range rows {
		c := component(row)
		if slices.ContainsFunc(wanted[c.RackID], func(types []hardware.ComponentType) bool {
			return len(types) == 0 || slices.Contains(types, c.Type)
		}) {
			byRack[c.RackID] = append(byRack[c.RackID], c)
		}
	}
	targets := make([]RackTargets, len(ids))
	for i, id := range ids {
		targets[i] = RackTargets{RackID: id, Components: byRack[id]}
	}
	return targets, nil
}

// key is how the reference names its rack, for looking up and for messages.
func (r RackRef) key() string {
	switch {
	case r.Name != "":
		return "name " + r.Name
	case r.ExternalID != "":
		return "external id " + r.ExternalID
	default:
		return r.ID.String()
	}
}

func (r RackRef) pick(index int, found map[string][]uuid.UUID) (uuid.UUID, error) {
	switch hits := found[r.key()]; len(hits) {
	case 0:
		return uuid.Nil, fault.NotFound("rack %s not found (target_spec.racks.targets[%d])", r.key(), index)
	case 1:
		return hits[0], nil
	default:
		return uuid.Nil, fault.Invalid(fmt.Sprintf("target_spec.racks.targets[%d].name", index),
			"rack name %q matches multiple racks; use rack id", r.Name)
	}
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
	c.ExternalID = deref(row.ExternalID)
	return c
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
