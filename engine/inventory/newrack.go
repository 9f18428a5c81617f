package inventory

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
)

// maxPlate is the limit of names and external ids in characters, and of manufacturers, serial numbers and models in bytes:
// they stand together in indexes, whose entries hold 2,704 bytes.
const maxPlate = 255

// Plate is what stands on the type plate of a rack or a component, and what people call it.
type Plate struct {
	Name         string
	Manufacturer string
	Serial       string
	Model        string
	Description  string
}

// NewRack is a rack to record. Every id is the caller's choice.
type NewRack struct {
	ID         uuid.UUID
	Plate      Plate
	Region     string
	Datacenter string
	Room       string
	Position   string
	ExternalID string
	DomainID   uuid.UUID // nil: in no domain
	Health     []byte    // as the API reads it back; opaque here
	Components []NewComponent
}

// NewComponent is a component to record.
type NewComponent struct {
	Path            string // where it stands in the request, as in rack.components[3]
	ID              uuid.UUID
	Type            hardware.ComponentType
	Plate           Plate
	FirmwareVersion string
	Slot            int32 // like Tray and Host, -1 when not known
	Tray            int32
	Host            int32
	ExternalID      string
	Health          []byte
	BMCs            []NewBMC
}

// NewBMC is a controller to record.
type NewBMC struct {
	Path string // where it stands in the request, as in component.bmcs[1]
	Type string // BMCHost or BMCDPU; "" in a patch: not known
	MAC  net.HardwareAddr
	IP   netip.Addr // the zero Addr when not known
}

// The types of a BMC.
const (
	BMCHost = "HOST"
	BMCDPU  = "DPU"
)

// normalize gives every text the form in which it is kept.
func (r *NewRack) normalize() {
	r.Plate.trim()
	r.Plate.Description = RackDescription(r.Plate.Description)
	r.ExternalID = strings.TrimSpace(r.ExternalID)
	r.Components = slices.Clone(r.Components)
	for i := range r.Components {
		r.Components[i].normalize()
	}
}

func (c *NewComponent) normalize() {
	c.Plate.trim()
	c.Plate.Description = ComponentDescription(c.Plate.Description)
	c.ExternalID = strings.TrimSpace(c.ExternalID)
}

func (p *Plate) trim() {
	for _, s := range []*string{&p.Name, &p.Manufacturer, &p.Serial, &p.Model} {
		*s = strings.TrimSpace(*s)
	}
}

// check refuses what is wrong with the rack by itself, whatever is recorded already.
func (r *NewRack) check() error {
	if r.Plate.Name == "" {
		return fault.Invalid("rack.info.name", "is required")
	}
	if err := r.Plate.check("rack.info"); err != nil {
		return err
	}
	if err := checkLength("rack.external_id", r.ExternalID); err != nil {
		return err
	}
	return checkComponents(r.Components)
}

// checkComponents refuses what is wrong with components by themselves or among each other.
func checkComponents(list []NewComponent) error {
	for _, c := range list {
		if err := c.check(); err != nil {
			return err
		}
	}
	return checkTwins(list)
}

func (c *NewComponent) check() error {
	if err := c.Plate.check(c.Path + ".info"); err != nil {
		return err
	}
	if err := checkLength(c.Path+".component_id", c.ExternalID); err != nil {
		return err
	}
	return checkPosition(c.Path+".position", &c.Slot, &c.Tray, &c.Host)
}

// checkPosition refuses what is below -1, which is "not known". A nil part is one that is not given.
func checkPosition(path string, slot, tray, host *int32) error {
	for _, p := range []struct {
		field string
		value *int32
	}{{"slot_id", slot}, {"tray_idx", tray}, {"host_id", host}} {
		if p.value != nil && *p.value < -1 {
			return fault.Invalid(path+"."+p.field, "%d is below -1", *p.value)
		}
	}
	return nil
}

// checkTwins refuses keys that occur twice in the request.
func checkTwins(list []NewComponent) error {
	seen := map[any]string{}
	once := func(key any, path, field string) error {
		first, twice := seen[key]
		if !twice {
			seen[key] = path
			return nil
		}
		return fault.Invalid(path+"."+field, "is the same as in %s", first)
	}
	type plate [2]string
	type external [2]string
	for _, c := range list {
		if c.ID != uuid.Nil {
			if err := once(c.ID, c.Path, "info.id"); err != nil {
				return err
			}
		}
		if c.Plate.serialized() {
			if err := once(plate{c.Plate.Manufacturer, c.Plate.Serial}, c.Path, "info.serial_number"); err != nil {
				return err
			}
		}
		if c.ExternalID != "" {
			if err := once(external{string(c.Type), c.ExternalID}, c.Path, "component_id"); err != nil {
				return err
			}
		}
		for _, b := range c.BMCs {
			if err := once([6]byte(b.MAC), b.Path, "mac_address"); err != nil {
				return err
			}
		}
	}
	return nil
}

// serialized reports whether the plate has a serial number that must be unique.
func (p *Plate) serialized() bool { return p.Manufacturer != "" && p.Serial != "" }

func (p *Plate) check(path string) error {
	if err := checkLength(path+".name", p.Name); err != nil {
		return err
	}
	for _, f := range []struct{ field, value string }{
		{"manufacturer", p.Manufacturer}, {"serial_number", p.Serial}, {"model", p.Model},
	} {
		if err := checkBytes(path+"."+f.field, f.value); err != nil {
			return err
		}
	}
	return nil
}

func checkBytes(field, value string) error {
	if n := len(value); n > maxPlate {
		return fault.Invalid(field, "has %d bytes, at most %d are allowed", n, maxPlate)
	}
	return nil
}

func checkLength(field, value string) error {
	if n := utf8.RuneCountInString(value); n > maxPlate {
		return fault.Invalid(field, "has %d characters, at most %d are allowed", n, maxPlate)
	}
	return nil
}
