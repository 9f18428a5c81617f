package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"

	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowv1"
)

// rackDocument is what rack create reads: a rack with its components, as one JSON object.
type rackDocument struct {
	Info         deviceDocument      `json:"info"`
	Location     *locationDocument   `json:"location,omitempty"`
	NVLDomainIDs []string            `json:"nvl_domain_ids,omitempty"`
	Components   []componentDocument `json:"components,omitempty"`
}

type deviceDocument struct {
	ID           string `json:"id,omitempty"` // generated when empty
	Name         string `json:"name,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	SerialNumber string `json:"serial_number,omitempty"`
	Description  string `json:"description,omitempty"`
}

type locationDocument struct {
	Region     string `json:"region,omitempty"`
	Datacenter string `json:"datacenter,omitempty"`
	Room       string `json:"room,omitempty"`
	Position   string `json:"position,omitempty"`
}

type componentDocument struct {
	Type            string           `json:"type"` // a word of componentTypeWords
	Info            deviceDocument   `json:"info"`
	FirmwareVersion string           `json:"firmware_version,omitempty"`
	ComponentID     string           `json:"component_id,omitempty"` // the external id
	Position        positionDocument `json:"position"`
	BMCs            []bmcDocument    `json:"bmcs,omitempty"`
}

// positionDocument says where a component sits; a number left out is 0.
type positionDocument struct {
	SlotID    int32 `json:"slot_id"`
	TrayIndex int32 `json:"tray_index"`
	HostID    int32 `json:"host_id"`
}

type bmcDocument struct {
	Type     string  `json:"type,omitempty"` // a word of bmcTypeWords; host when empty
	MAC      string  `json:"mac"`
	IP       string  `json:"ip,omitempty"`
	User     dropped `json:"user,omitzero"`
	Password dropped `json:"password,omitzero"`
}

// dropped is a key that older documents have and that is never sent: its value is not even kept.
type dropped struct{}

// UnmarshalJSON is part of json.Unmarshaler.
func (dropped) UnmarshalJSON([]byte) error { return nil }

// parseRack makes the message of a rack document. The error names every problem there is, each with its path; the
// warnings name what is not sent.
func parseRack(doc []byte) (*flowv1.Rack, []string, error) {
	var d rackDocument
	warnings, problems := decodeStrict(doc, &d)
	if len(problems) > 0 {
		return nil, warnings, errors.Join(problems...)
	}
	rack, problems := d.message()
	return rack, warnings, errors.Join(problems...)
}

// message checks the values and makes the message, with new ids where there are none.
func (d rackDocument) message() (*flowv1.Rack, []error) {
	var c checker
	rack := &flowv1.Rack{Info: c.device("info", d.Info)}
	if l := d.Location; l != nil {
		rack.Location = &flowv1.Location{Region: l.Region, Datacenter: l.Datacenter, Room: l.Room, Position: l.Position}
	}
	for i, id := range d.NVLDomainIDs {
		rack.NvlDomainIds = append(rack.NvlDomainIds, c.id(fmt.Sprintf("nvl_domain_ids[%d]", i), id))
	}
	for i, p := range d.Components {
		path := fmt.Sprintf("components[%d]", i)
		kind, err := parseWord(componentTypeWords, "component type", p.Type)
		c.check(path+".type", err)
		part := &flowv1.Component{
			Type:            kind,
			Info:            c.device(path+".info", p.Info),
			FirmwareVersion: p.FirmwareVersion,
			ComponentId:     p.ComponentID,
			Position:        &flowv1.RackPosition{SlotId: p.Position.SlotID, TrayIdx: p.Position.TrayIndex, HostId: p.Position.HostID},
		}
		for j, b := range p.BMCs {
			part.Bmcs = append(part.Bmcs, c.bmc(fmt.Sprintf("%s.bmcs[%d]", path, j), b))
		}
		rack.Components = append(rack.Components, part)
	}
	return rack, c.problems
}

// checker collects what is wrong with a document.
type checker struct {
	problems []error
}

func (c *checker) check(path string, err error) {
	if err != nil {
		c.problems = append(c.problems, fmt.Errorf("%s: %w", path, err))
	}
}

func (c *checker) device(path string, d deviceDocument) *flowv1.DeviceInfo {
	if d.ID == "" {
		d.ID = uuid.NewString()
	}
	info := &flowv1.DeviceInfo{
		Id:           c.id(path+".id", d.ID),
		Name:         d.Name,
		Manufacturer: d.Manufacturer,
		SerialNumber: d.SerialNumber,
	}
	if d.Model != "" {
		info.Model = &d.Model
	}
	if d.Description != "" {
		info.Description = &d.Description
	}
	return info
}

func (c *checker) id(path, text string) *flowv1.UUID {
	id, err := uuidOf("id", text)
	c.check(path, err)
	return id
}

func (c *checker) bmc(path string, b bmcDocument) *flowv1.BMCInfo {
	kind := flowv1.BMCType_BMC_TYPE_HOST
	if b.Type != "" {
		var err error
		kind, err = parseWord(bmcTypeWords, "BMC type", b.Type)
		c.check(path+".type", err)
	}
	mac, err := parseMAC(b.MAC)
	c.check(path+".mac", err)
	info := &flowv1.BMCInfo{Type: kind, MacAddress: mac}
	if b.IP != "" {
		ip, err := netip.ParseAddr(b.IP)
		if err != nil || ip.Zone() != "" {
			c.check(path+".ip", fmt.Errorf("%q is not an IP address", b.IP))
		}
		text := ip.String()
		info.IpAddress = &text
	}
	return info
}

var bareMAC = regexp.MustCompile(`^[0-9A-Fa-f]{12}$`)

// parseMAC reads a MAC address in any of its usual notations.
func parseMAC(text string) (string, error) {
	plain := text
	if bareMAC.MatchString(text) {
		plain = text[:4] + "." + text[4:8] + "." + text[8:]
	}
	mac, err := net.ParseMAC(plain)
	if err != nil || len(mac) != 6 {
		return "", fmt.Errorf("%q is not a MAC address", text)
	}
	return mac.String(), nil
}
