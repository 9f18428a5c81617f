package hardware

import "slices"

// Expectation is what a site must know of a device to recognise it when it appears, as the inventory has it. It carries
// no credentials. Empty text means not known.
type Expectation struct {
	Component
	RackExternalID string `json:"rack_external_id,omitempty"` // the id the site knows the rack by
	Manufacturer   string `json:"manufacturer,omitempty"`
	Serial         string `json:"serial,omitempty"`
	Model          string `json:"model,omitempty"`
	Slot           int    `json:"slot"` // -1: not known, as with the next two
	Tray           int    `json:"tray"`
	Host           int    `json:"host"`
	BMCs           []BMC  `json:"bmcs,omitempty"` // ascending MAC
}

// BMCType tells what a BMC controls.
type BMCType string

// BMC types.
const (
	HostBMC BMCType = "HOST"
	DPUBMC  BMCType = "DPU"
)

// BMC is a management controller of a device.
type BMC struct {
	Type BMCType `json:"type"`
	MAC  string  `json:"mac"`
	IP   string  `json:"ip,omitempty"`
}

// ExpectedTarget is the target that a call with expectations is for. The type is that of the manager; expectations of
// another type are refused.
func ExpectedTarget(t ComponentType, expected []Expectation) (Target, error) {
	target := Target{Type: t}
	for _, e := range expected {
		target.Components = append(target.Components, e.Component)
	}
	if err := target.Validate(); err != nil {
		return target, err
	}
	if i := slices.IndexFunc(expected, func(e Expectation) bool { return e.Type != t }); i >= 0 {
		return target, Refused("component manager for " + string(t) + " can't expect components of type " + string(expected[i].Type))
	}
	return target, nil
}
