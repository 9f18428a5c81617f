package rules

import (
	"slices"

	"rackflow.dev/flow/hardware"
)

// Need is a capability that the manager of a component type must have for a plan to be carried out.
type Need struct {
	Type       hardware.ComponentType
	Capability hardware.Capability
}

// Capabilities lists what the plan needs, each once, in the order it is needed first. Skipped steps need nothing.
func (p Plan) Capabilities() []Need {
	var needs []Need
	need := func(t hardware.ComponentType, c hardware.Capability) {
		if n := (Need{t, c}); !slices.Contains(needs, n) {
			needs = append(needs, n)
		}
	}
	for _, stage := range p.Stages {
		for _, s := range stage.Steps {
			for _, a := range s.Actions {
				for _, c := range actions[a.Name].capabilities {
					need(s.ComponentType, c)
				}
				for _, t := range a.Types { // reachability asks about other types too
					need(t, hardware.CapPowerStatus)
				}
			}
		}
	}
	return needs
}
