package task

import (
	"slices"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
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
	{name: "D-30.10", a: power, b: power},
	{name: "D-30.10", a: power, b: firmware},
}

// conflict names the rule by which two tasks of one rack exclude each other, or returns "". It is symmetric.
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
