package rpc

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
)

// newRack reads a rack to record. What is derived is ignored.
func newRack(m *flowv1.Rack) (inventory.NewRack, error) {
	var r inventory.NewRack
	if m == nil {
		return r, fault.Invalid("rack", "is required")
	}
	var err error
	if r.ID, err = requiredID("rack.info.id", m.GetInfo().GetId()); err != nil {
		return r, err
	}
	switch domains := m.GetNvlDomainIds(); len(domains) {
	case 0:
	case 1:
		if r.DomainID, err = requiredID("rack.nvl_domain_ids[0]", domains[0]); err != nil {
			return r, err
		}
	default:
		return r, fault.Invalid("rack.nvl_domain_ids", "names %d domains, a rack belongs to at most one", len(domains))
	}
	if r.Health, err = storedHealth("rack.health", m.GetHealth()); err != nil {
		return r, err
	}
	r.Plate = plate(m.GetInfo())
	r.Region = m.GetLocation().GetRegion()
	r.Datacenter = m.GetLocation().GetDatacenter()
	r.Room = m.GetLocation().GetRoom()
	r.Position = m.GetLocation().GetPosition()
	r.ExternalID = m.GetExternalId()
	r.Components = make([]inventory.NewComponent, len(m.GetComponents()))
	for i, c := range m.GetComponents() {
		if c == nil {
			return r, fault.Invalid("rack.components", "rack component %d is required", i)
		}
		path := fmt.Sprintf("rack.components[%d]", i)
		if _, err := requiredID(path+".info.id", c.GetInfo().GetId()); err != nil {
			return r, err
		}
		if r.Components[i], err = newComponent(path, c); err != nil {
			return r, err
		}
	}
	return r, nil
}

// newComponent reads a component to record at a path of the request. It need not have an id.
func newComponent(path string, m *flowv1.Component) (inventory.NewComponent, error) {
	c, err := componentPatch(path, m)
	if err != nil {
		return c, err
	}
	if c.Type == "" {
		return c, fault.Invalid(path+".type", "%s is not a component type", m.GetType())
	}
	for i, b := range c.BMCs {
		if b.Type == "" {
			return c, fault.Invalid(b.Path+".type", "%s is not a BMC type", m.GetBmcs()[i].GetType())
		}
	}
	return c, nil
}

// componentPatch is newComponent for a component that may be recorded already: types that are not known are left out.
func componentPatch(path string, m *flowv1.Component) (inventory.NewComponent, error) {
	c := inventory.NewComponent{
		Path:            path,
		Type:            componentTypes[m.GetType()],
		Plate:           plate(m.GetInfo()),
		FirmwareVersion: m.GetFirmwareVersion(),
		Slot:            -1,
		Tray:            -1,
		Host:            -1,
		ExternalID:      m.GetComponentId(),
		BMCs:            make([]inventory.NewBMC, len(m.GetBmcs())),
	}
	var err error
	if c.ID, err = optionalID(path+".info.id", m.GetInfo().GetId()); err != nil {
		return c, err
	}
	if p := m.GetPosition(); p != nil {
		c.Slot, c.Tray, c.Host = p.GetSlotId(), p.GetTrayIdx(), p.GetHostId()
	}
	if c.Health, err = storedHealth(path+".health", m.GetHealth()); err != nil {
		return c, err
	}
	for i, b := range m.GetBmcs() {
		if c.BMCs[i], err = newBMC(fmt.Sprintf("%s.bmcs[%d]", path, i), b); err != nil {
			return c, err
		}
	}
	return c, nil
}

// newBMC reads a BMC; one of a type that is not known has none.
func newBMC(path string, m *flowv1.BMCInfo) (inventory.NewBMC, error) {
	b := inventory.NewBMC{Path: path, Type: bmcTypes[m.GetType()]}
	var err error
	if b.MAC, err = inventory.ParseMAC(m.GetMacAddress()); err != nil {
		return b, fault.Invalid(path+".mac_address", "%s", err)
	}
	if m.IpAddress != nil {
		if b.IP, err = inventory.ParseIP(m.GetIpAddress()); err != nil {
			return b, fault.Invalid(path+".ip_address", "%s", err)
		}
	}
	return b, nil
}

func plate(m *flowv1.DeviceInfo) inventory.Plate {
	return inventory.Plate{
		Name:         m.GetName(),
		Manufacturer: m.GetManufacturer(),
		Serial:       m.GetSerialNumber(),
		Model:        m.GetModel(),
		Description:  m.GetDescription(),
	}
}

// storedHealth gives a health report the form in which it is kept: the one it has on the wire.
func storedHealth(field string, m *flowv1.HealthReport) ([]byte, error) {
	if m == nil {
		return nil, nil
	}
	// All that a message can hold and JSON can't: whoever reads the report as JSON would get an error.
	if _, err := protojson.Marshal(m); err != nil {
		return nil, fault.Invalid(field, "has a time out of range").Because(err)
	}
	return proto.Marshal(m)
}
