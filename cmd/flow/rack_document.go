package main

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowv1"
)

// rackDocument is what rack create and rack patch read: a rack with its components, as one JSON object.
type rackDocument struct {
	Info         deviceDocument      `json:"info"`
	Location     *locationDocument   `json:"location,omitempty"`
	NVLDomainIDs []string            `json:"nvl_domain_ids,omitempty"`
	Components   []componentDocument `json:"components,omitempty"`
}

type deviceDocument struct {
	ID           string `json:"id,omitempty"`
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
	Position        positionDocument `json:"position,omitzero"`
	BMCs            []bmcDocument    `json:"bmcs,omitempty"`
}

// positionDocument says where a component sits.
type positionDocument struct {
	SlotID    *int32 `json:"slot_id,omitempty"`
	TrayIndex *int32 `json:"tray_index,omitempty"`
	HostID    *int32 `json:"host_id,omitempty"`
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
func parseRack(doc []byte, as reading) (*flowv1.Rack, []string, error) {
	var d rackDocument
	warnings, problems := decodeStrict(doc, &d)
	rack, values := d.message(as)
	return rack, warnings, allProblems(problems, values)
}

// parseComponent is parseRack for the document of one component.
func parseComponent(doc []byte) (*flowv1.Component, []string, error) {
	var d componentDocument
	warnings, problems := decodeStrict(doc, &d)
	c := checker{as: asPart}
	part := c.component("", d)
	return part, warnings, allProblems(problems, c.problems)
}

// reading is what a document is read for, which decides what leaving something out means.
type reading int

const (
	// asNew: ids are generated, and a number of a position is 0.
	asNew reading = iota
	// asPart is a single component: its id is left to the server, and a number of its position is not known.
	asPart
	// asPatch: what is left out stays as it is.
	asPatch
)

// message checks the values and makes the message.
func (d rackDocument) message(as reading) (*flowv1.Rack, []error) {
	c := checker{as: as}
	rack := &flowv1.Rack{Info: c.device("info.", d.Info)}
	if l := d.Location; l != nil {
		rack.Location = &flowv1.Location{Region: l.Region, Datacenter: l.Datacenter, Room: l.Room, Position: l.Position}
	}
	for i, id := range d.NVLDomainIDs {
		rack.NvlDomainIds = append(rack.NvlDomainIds, c.id(fmt.Sprintf("nvl_domain_ids[%d]", i), id))
	}
	for i, part := range d.Components {
		rack.Components = append(rack.Components, c.component(fmt.Sprintf("components[%d].", i), part))
	}
	return rack, c.problems
}

// checker makes messages of documents and collects what is wrong with them. Its paths end where a key is to follow.
type checker struct {
	as       reading
	problems []error
}

func (c *checker) check(path string, err error) {
	if err != nil {
		c.problems = append(c.problems, &problem{path: path, err: err})
	}
}

func (c *checker) component(path string, d componentDocument) *flowv1.Component {
	m := &flowv1.Component{
		Info:            c.device(path+"info.", d.Info),
		FirmwareVersion: d.FirmwareVersion,
		ComponentId:     d.ComponentID,
		Position:        c.position(d.Position),
	}
	if d.Type != "" || c.as != asPatch {
		var err error
		m.Type, err = parseWord(componentTypeWords, "component type", d.Type)
		c.check(path+"type", err)
	}
	for i, b := range d.BMCs {
		m.Bmcs = append(m.Bmcs, c.bmc(fmt.Sprintf("%sbmcs[%d].", path, i), b))
	}
	return m
}

func (c *checker) device(path string, d deviceDocument) *flowv1.DeviceInfo {
	if d.ID == "" && c.as == asNew {
		d.ID = uuid.NewString()
	}
	info := &flowv1.DeviceInfo{
		Name:         d.Name,
		Manufacturer: d.Manufacturer,
		SerialNumber: d.SerialNumber,
	}
	if d.ID != "" {
		info.Id = c.id(path+"id", d.ID)
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

// position is nil when nothing is said, except for a new rack, whose documents have always said 0 that way.
func (c *checker) position(d positionDocument) *flowv1.RackPosition {
	other := int32(-1) // not known, and in a patch: as it is
	switch {
	case c.as == asNew:
		other = 0
	case d == positionDocument{}:
		return nil
	}
	number := func(n *int32) int32 {
		if n == nil {
			return other
		}
		return *n
	}
	return &flowv1.RackPosition{SlotId: number(d.SlotID), TrayIdx: number(d.TrayIndex), HostId: number(d.HostID)}
}

func (c *checker) bmc(path string, b bmcDocument) *flowv1.BMCInfo {
	kind := flowv1.BMCType_BMC_TYPE_HOST
	if b.Type != "" {
		var err error
		kind, err = parseWord(bmcTypeWords, "BMC type", b.Type)
		c.check(path+"type", err)
	}
	mac, err := parseMAC(b.MAC)
	c.check(path+"mac", err)
	info := &flowv1.BMCInfo{Type: kind, MacAddress: mac}
	if b.IP != "" {
		ip, err := netip.ParseAddr(b.IP)
		if err != nil || ip.Zone() != "" {
			c.check(path+"ip", fmt.Errorf("%q is not an IP address", b.IP))
		}
		text := ip.String()
		info.IpAddress = &text
	}
	return info
}

// parseMAC reads a MAC address in any of its usual notations.
func parseMAC(text string) (string, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return "", fmt.Errorf("%q is not a MAC address", text)
	}
	return mac.String(), nil
}
