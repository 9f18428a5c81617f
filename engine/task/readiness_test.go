package task

import (
	"testing"

	"rackflow.dev/flow/engine/inventory"
)

func TestWhatThePolicyMakesOfAPhase(t *testing.T) {
	t.Parallel()
	const goes, warns, blocks = "goes on", "goes on with a warning", "waits"
	for phase, want := range map[inventory.Phase]map[Missing]string{
		inventory.PhaseReady:        {"": goes, MissingAllow: goes, MissingBlock: goes, MissingIgnore: goes},
		inventory.PhaseUnknown:      {"": warns, MissingAllow: warns, MissingBlock: blocks, MissingIgnore: goes},
		inventory.PhaseInitializing: {"": blocks, MissingAllow: blocks, MissingBlock: blocks, MissingIgnore: blocks},
		inventory.PhaseInUse:        {"": blocks, MissingAllow: blocks, MissingBlock: blocks, MissingIgnore: blocks},
		inventory.PhaseError:        {"": blocks, MissingAllow: blocks, MissingBlock: blocks, MissingIgnore: blocks},
		inventory.PhaseDeleting:     {"": blocks, MissingAllow: blocks, MissingBlock: blocks, MissingIgnore: blocks},
	} {
		for missing, how := range want {
			r, u := Readiness{Missing: missing}, Unready{Phase: phase}
			got := goes
			if r.Warns(u) {
				got = warns
			}
			if r.Blocks(u) {
				got = blocks
			}
			if got != how || r.Warns(u) && r.Blocks(u) {
				t.Errorf("%s with %q: an action %s, want that it %s", phase, missing, got, how)
			}
		}
	}
}
