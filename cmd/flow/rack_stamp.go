package main

import (
	"fmt"

	"github.com/google/uuid"
)

// What stands in a GB200 NVL72 rack, from the bottom up: power shelves, compute trays, NVSwitch trays, compute trays,
// power shelves.
const (
	rackShelves  = 8
	rackTrays    = 18
	rackSwitches = 9
)

// rackIDs is the name space of stamped racks: rack n has the same ids wherever it is stamped.
const rackIDs = "7d5a3b0c-52f4-4a53-8b7e-6d0f2a9c1e44"

// stampRack makes the document of the nth simulated GB200 NVL72 rack, from 0 to 65535. No two share an id, a serial
// number, a MAC or an IP address.
func stampRack(n int) rackDocument {
	s := rackStamp{n: n, name: fmt.Sprintf("nvl72-%02d", n+1)}
	doc := rackDocument{
		Info: deviceDocument{
			ID:           s.id("rack"),
			Name:         s.name,
			Manufacturer: "NVIDIA",
			Model:        "GB200 NVL72",
			SerialNumber: fmt.Sprintf("18212240%05d", n+1),
			Description:  "Simulated rack",
		},
		Location: &locationDocument{
			Region:     "us-west",
			Datacenter: "sjc4",
			Room:       fmt.Sprintf("hall-%d", n/40+1),
			Position:   fmt.Sprintf("row-%c rack-%02d", 'a'+n/10%4, n%10+1),
		},
	}
	for i := range rackShelves {
		slot := i + 1 // slots 1 to 4 and 32 to 35
		if i >= rackShelves/2 {
			slot += rackTrays + rackSwitches
		}
		doc.Components = append(doc.Components, s.shelf(i, slot))
	}
	for i := range rackTrays {
		slot := rackShelves/2 + i + 1 // slots 5 to 14 and 24 to 31
		if i >= 10 {
			slot += rackSwitches
		}
		doc.Components = append(doc.Components, s.tray(i, slot))
	}
	for i := range rackSwitches {
		doc.Components = append(doc.Components, s.nvSwitch(i, rackShelves/2+10+i+1))
	}
	return doc
}

// rackStamp numbers the parts of one rack.
type rackStamp struct {
	n    int
	name string
}

// The kinds of controller, as they number the addresses of a rack.
const (
	shelfBMC  = 1
	trayBMC   = 2
	switchBMC = 3
	dpuBMC    = 4
)

func (s rackStamp) shelf(i, slot int) componentDocument {
	name := fmt.Sprintf("%s-ps%02d", s.name, i+1)
	return componentDocument{
		Type: "powershelf",
		Info: deviceDocument{
			ID:           s.id(name),
			Name:         name,
			Manufacturer: "LITEON",
			Model:        "33kW Power Shelf",
			SerialNumber: s.serial("PS", i),
		},
		FirmwareVersion: "r1.3.7",
		ComponentID:     name,
		Position:        stampPosition(slot, i, 0),
		BMCs:            []bmcDocument{s.bmc("host", shelfBMC, i)},
	}
}

func (s rackStamp) tray(i, slot int) componentDocument {
	name := fmt.Sprintf("%s-ct%02d", s.name, i+1)
	return componentDocument{
		Type: "compute",
		Info: deviceDocument{
			ID:           s.id(name),
			Name:         name,
			Manufacturer: "NVIDIA",
			Model:        "GB200 Compute Tray",
			SerialNumber: s.serial("CT", i),
		},
		FirmwareVersion: "GB200Nvl-25.08-5",
		ComponentID:     name,
		Position:        stampPosition(slot, i, i),
		BMCs:            []bmcDocument{s.bmc("host", trayBMC, i), s.bmc("dpu", dpuBMC, i)},
	}
}

func (s rackStamp) nvSwitch(i, slot int) componentDocument {
	name := fmt.Sprintf("%s-sw%02d", s.name, i+1)
	return componentDocument{
		Type: "nvswitch",
		Info: deviceDocument{
			ID:           s.id(name),
			Name:         name,
			Manufacturer: "NVIDIA",
			Model:        "NVLink Switch Tray",
			SerialNumber: s.serial("SW", i),
		},
		FirmwareVersion: "25.02.2344",
		ComponentID:     name,
		Position:        stampPosition(slot, i, 0),
		BMCs:            []bmcDocument{s.bmc("host", switchBMC, i)},
	}
}

// bmc has a MAC address of the locally administered range and an IP address in 10.0.0.0/8: kind and rack are parts of
// both.
func (s rackStamp) bmc(controls string, kind, i int) bmcDocument {
	return bmcDocument{
		Type: controls,
		MAC:  fmt.Sprintf("02:72:%02x:%02x:%02x:%02x", s.n>>8, s.n&0xff, kind, i+1),
		IP:   fmt.Sprintf("10.%d.%d.%d", s.n>>8, s.n&0xff, kind*40+i+1),
	}
}

func stampPosition(slot, tray, host int) positionDocument {
	return positionDocument{SlotID: new(int32(slot)), TrayIndex: new(int32(tray)), HostID: new(int32(host))}
}

func (s rackStamp) serial(kind string, i int) string {
	return fmt.Sprintf("%s%05d%03d", kind, s.n+1, i+1)
}

// id is the same for the same part of the same rack every time.
func (s rackStamp) id(part string) string {
	return uuid.NewSHA1(uuid.MustParse(rackIDs), fmt.Appendf(nil, "%d/%s", s.n, part)).String()
}
