package task

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// footprint is what of a task decides its conflicts: never the operation code.
type footprint struct {
	Type       rules.TaskType
	Types      []hardware.ComponentType
	Components []uuid.UUID // sorted
}

func (f footprint) has(t hardware.ComponentType) bool { return slices.Contains(f.Types, t) }

// conflictRule is one row of the conflict table: a pair of task types, in either order, that exclude each other.
type conflictRule struct {
	name string
	a, b rules.TaskType // empty: any type
	// with, when set, is the component type that the tasks of type power_control (a; b too when it is one) include.
	with hardware.ComponentType
	// both: b includes it as well.
	both bool
	// rackWide: whatever the targets. Otherwise the tasks must share a component.
	rackWide bool
}

const power, firmware = rules.TaskPowerControl, rules.TaskFirmwareControl

// conflictRules are the pairs that exclude each other on one rack. Nothing conflicts across racks.
var conflictRules = []conflictRule{
	{name: "C1", a: power, b: power, with: hardware.PowerShelf, rackWide: true},
	{name: "C2", a: power, b: firmware, with: hardware.PowerShelf, rackWide: true},
	{name: "C3", a: power, b: power, with: hardware.Compute, both: true},
	{name: "C4", a: power, b: power, with: hardware.NVSwitch, both: true},
	{name: "C5", a: power, b: firmware, with: hardware.Compute, both: true},
	{name: "C6", a: power, b: firmware, with: hardware.NVSwitch, both: true},
	{name: "C7", a: firmware, b: firmware},
	{name: "C8", a: rules.TaskBringUp, rackWide: true},
	{name: "C9", a: rules.TaskDecommission, rackWide: true},
	// D-30.10: other component types exclude each other as well, where the same component is meant.
	{name: otherTypes, a: power, b: power},
	{name: otherTypes, a: power, b: firmware},
}

// otherTypes is the name of the rules the reference does not have.
const otherTypes = "D-30.10"

// conflict names the rule by which two tasks of one rack exclude each other, or returns "". It is symmetric. The rules of
// the reference come first, so that a pair that only ours excludes has the name of ours.
func conflict(x, y footprint) string {
	for _, r := range conflictRules {
		if r.holds(x, y) || r.holds(y, x) {
			return r.name
		}
	}
	return ""
}

func (r conflictRule) holds(x, y footprint) bool {
	if x.Type != r.a || r.b != "" && y.Type != r.b {
		return false
	}
	if r.with != "" && (!x.has(r.with) || r.both && !y.has(r.with)) {
		return false
	}
	return r.rackWide || shareComponent(x.Components, y.Components)
}

// shareComponent walks two sorted lists.
func shareComponent(a, b []uuid.UUID) bool {
	for len(a) > 0 && len(b) > 0 {
		switch c := slices.Compare(a[0][:], b[0][:]); {
		case c == 0:
			return true
		case c < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// other is an unfinished task of a rack, as far as conflicts with it go.
type other struct {
	footprint
	id    uuid.UUID
	state db.TaskState
	op    rules.Operation
	due   *time.Time // the end of its time in the queue
}

func otherOf(row db.TaskActiveByRacksRow) other {
	return other{
		footprint: footprintOf(row.OperationType, row.ComponentTypes, row.ComponentIds),
		id:        row.ID, state: row.State, due: row.QueueExpiresAt,
		op: rules.Operation{Type: rules.TaskType(row.OperationType), Code: row.OperationCode},
	}
}

func footprintOf(typ string, types []string, components []uuid.UUID) footprint {
	f := footprint{Type: rules.TaskType(typ), Components: components}
	for _, t := range types {
		f.Types = append(f.Types, hardware.ComponentType(t))
	}
	return f
}

// Conflict is a task that excludes another, and the rule by which it does.
type Conflict struct {
	TaskID    uuid.UUID
	State     db.TaskState
	Operation rules.Operation
	Rule      string
}

func (c Conflict) String() string {
	return fmt.Sprintf("conflicts with %s task %s (%s, rule %s)", c.State, c.TaskID, c.Operation, c.Rule)
}

// conflicts lists the tasks of a rack that a newcomer must not run beside. Waiting ones count as well: it must not overtake
// them (D-30.12).
func (s *Service) conflicts(f footprint, tasks []other) []Conflict {
	var list []Conflict
	for _, o := range tasks {
		if o.state == db.TaskStateWaiting && s.Settings.AllowOvertaking {
			continue
		}
		rule := conflict(f, o.footprint)
		if rule == "" || rule == otherTypes && s.Settings.ReferenceConflicts {
			continue
		}
		list = append(list, Conflict{TaskID: o.id, State: o.state, Operation: o.op, Rule: rule})
	}
	return list
}
