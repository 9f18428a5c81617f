package inventory

import "rackflow.dev/flow/hardware"

// Phase is where a component stands in its life, as the last synchronisation saw it.
type Phase string

// The phases.
const (
	PhaseUnknown      Phase = "UNKNOWN"
	PhaseInitializing Phase = "INITIALIZING"
	PhaseReady        Phase = "READY"
	PhaseInUse        Phase = "IN_USE"
	PhaseError        Phase = "ERROR"
	PhaseDeleting     Phase = "DELETING"
)

// Phases lists every phase from the strictest to the most lenient.
var Phases = []Phase{PhaseUnknown, PhaseError, PhaseInitializing, PhaseDeleting, PhaseInUse, PhaseReady}

// Blocks reports whether operations on a component in this phase have to wait. An unknown phase blocks nothing by
// itself.
func (p Phase) Blocks() bool { return p != PhaseReady && p != PhaseUnknown }

// phased are the types whose phases make that of a rack; the query RackPhases says the same.
var phased = []hardware.ComponentType{hardware.Compute, hardware.NVSwitch, hardware.PowerShelf}

// phaseOf reads a recorded phase, which there is none of before the first synchronisation.
func phaseOf(recorded *string) Phase {
	if recorded == nil {
		return PhaseUnknown
	}
	return Phase(*recorded)
}

// strictest is the phase of a whole made of parts in these phases; of no parts nothing is known.
func strictest(parts map[Phase]bool) Phase {
	for _, p := range Phases {
		if parts[p] {
			return p
		}
	}
	return PhaseUnknown
}
