package task

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
)

// Missing says what becomes of a disruptive action when the status of a component it depends on is not known.
type Missing string

// What can be done about a status that is missing, UNKNOWN or too old.
const (
	MissingAllow  Missing = "allow"  // go on, with a warning in log, message and report; the default
	MissingBlock  Missing = "block"  // wait until it is known
	MissingIgnore Missing = "ignore" // go on without a word: nobody reports a status on this site
)

// Readiness is how the readiness gate judges. The zero value has the defaults.
type Readiness struct {
	Missing Missing       // "": allow
	MaxAge  time.Duration // an older status counts as missing; 0: 5 minutes
}

const defaultReadinessAge = 5 * time.Minute

// Unready is a component that is not known to be ready for a disruptive action.
type Unready struct {
	hardware.Component
	Phase inventory.Phase // UNKNOWN: not known, or not lately
	Stale bool            // a phase is on record and too old
}

// Blocks reports whether actions have to wait for the component.
func (r Readiness) Blocks(u Unready) bool {
	return u.Phase.Blocks() || u.Phase == inventory.PhaseUnknown && r.Missing == MissingBlock
}

// Warns reports whether actions go on with a warning about the component.
func (r Readiness) Warns(u Unready) bool {
	return u.Phase == inventory.PhaseUnknown && cmp.Or(r.Missing, MissingAllow) == MissingAllow
}

// Reason says in words why the component is not known to be ready.
func (u Unready) Reason() string {
	switch {
	case u.Stale:
		return "its status is too old"
	case u.Phase == inventory.PhaseUnknown:
		return "its status is not known"
	default:
		return "it is " + string(u.Phase)
	}
}

// Unready lists the components that a disruptive action on a batch depends on and that are not known to be ready: trays for
// themselves, and all trays of the rack for what feeds or connects them. They are in the order of their names.
func (s *Service) Unready(ctx context.Context, rack uuid.UUID, t hardware.ComponentType, batch []hardware.Component) ([]Unready, error) {
	q, racks := db.New(s.Store.Engine), []uuid.UUID{rack}
	switch t {
	case hardware.Compute:
		return s.unready(ctx, q, racks, hardware.Target{Components: batch}.IDs())
	case hardware.NVSwitch, hardware.PowerShelf:
		return s.unready(ctx, q, racks, nil)
	default:
		return nil, nil
	}
}

// unready is Unready for the given trays of racks, or without ids for all of their trays.
func (s *Service) unready(ctx context.Context, q *db.Queries, racks, ids []uuid.UUID) ([]Unready, error) {
	rows, err := s.notReady(ctx, q, racks, ids)
	if err != nil {
		return nil, fmt.Errorf("readiness of components: %w", err)
	}
	list := make([]Unready, len(rows))
	for i, row := range rows {
		u := Unready{Component: hardware.Component{ID: row.ID, Type: hardware.ComponentType(row.Type), Name: row.Name}, Phase: inventory.PhaseUnknown}
		if row.ExternalID != nil {
			u.ExternalID = *row.ExternalID
		}
		if row.RackID != nil {
			u.RackID = *row.RackID
		}
		switch {
		case row.Phase == nil:
		case row.Fresh:
			u.Phase = inventory.Phase(*row.Phase)
		default:
			u.Stale = true
		}
		list[i] = u
	}
	slices.SortFunc(list, func(a, b Unready) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list, nil
}

func (s *Service) notReady(ctx context.Context, q *db.Queries, racks, ids []uuid.UUID) ([]db.ComponentReadinessRow, error) {
	since := s.Now().Add(-cmp.Or(s.Settings.Readiness.MaxAge, defaultReadinessAge))
	if s.Settings.Readiness.Missing != MissingIgnore {
		if ids == nil {
			return q.ComponentReadiness(ctx, db.ComponentReadinessParams{FreshSince: &since, Ids: []uuid.UUID{}, RackIds: racks})
		}
		return q.ComponentReadiness(ctx, db.ComponentReadinessParams{FreshSince: &since, Ids: ids, RackIds: []uuid.UUID{}})
	}
	// What is not known does not matter, and of what is known an index has all: usually nothing.
	found, err := q.ComponentUnready(ctx, db.ComponentUnreadyParams{FreshSince: &since, RackIds: racks})
	var rows []db.ComponentReadinessRow
	for _, row := range found {
		if ids == nil || slices.Contains(ids, row.ID) {
			rows = append(rows, db.ComponentReadinessRow(row))
		}
	}
	return rows, err
}
