package hardware

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ComponentType is the kind of a device in a rack, in its canonical spelling: the one rules, reports and the
// database use.
type ComponentType string

// The component types of an NVL72 rack and its surroundings.
const (
	Compute    ComponentType = "Compute"
	NVSwitch   ComponentType = "NVSwitch"
	PowerShelf ComponentType = "PowerShelf"
	ToRSwitch  ComponentType = "ToRSwitch"
	UMS        ComponentType = "UMS"
	CDU        ComponentType = "CDU"
)

// ComponentTypes lists every type in canonical order.
var ComponentTypes = []ComponentType{Compute, NVSwitch, PowerShelf, ToRSwitch, UMS, CDU}

// ParseComponentType reads a canonical name in any letter case. No other spelling is a type.
func ParseComponentType(s string) (ComponentType, error) {
	for _, t := range ComponentTypes {
		if strings.EqualFold(s, string(t)) {
			return t, nil
		}
	}
	return "", fmt.Errorf("component type %q is unknown or invalid", s)
}

// Component is one device as an adapter has to address it.
type Component struct {
	ID         uuid.UUID     `json:"id"`                    // Flow's own id; the key of every answer
	RackID     uuid.UUID     `json:"rack_id"`               // the rack it stands in
	Type       ComponentType `json:"type"`                  //
	Name       string        `json:"name,omitempty"`        // for people
	ExternalID string        `json:"external_id,omitempty"` // the id its manager knows it by; may be empty
	MAC        string        `json:"mac,omitempty"`         // management MAC (smallest host BMC MAC); may be empty
}

// Label names the component in messages for people: by name where it has one, and always by id.
func (c Component) Label() string {
	if c.Name == "" {
		return c.ID.String()
	}
	return c.Name + " (" + c.ID.String() + ")"
}

// Target is what one call is for: components of one type, at least one.
type Target struct {
	Type       ComponentType
	Components []Component
}

// IDs lists the Flow ids of the target in order.
func (t Target) IDs() []uuid.UUID {
	ids := make([]uuid.UUID, len(t.Components))
	for i, c := range t.Components {
		ids[i] = c.ID
	}
	return ids
}

// Validate refuses a target that no adapter could serve.
func (t Target) Validate() error {
	if _, err := ParseComponentType(string(t.Type)); err != nil {
		return Refused(err.Error())
	}
	if len(t.Components) == 0 {
		return Refused("target names no component")
	}
	for i, c := range t.Components {
		if c.ID == uuid.Nil {
			return Refused(fmt.Sprintf("target component %d has no id", i))
		}
	}
	return nil
}
