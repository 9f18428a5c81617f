package inventory

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store/db"
)

func TestWhetherAComponentChanges(t *testing.T) {
	t.Parallel()
	id, rack, other := uuid.New(), uuid.New(), uuid.New()
	from := db.Component{
		ID: id, Name: "a", FirmwareVersion: "1", Description: known("d"), SlotID: 1, TrayIdx: 2, HostID: 3, RackID: &rack, PowerState: "on",
	}
	for name, c := range map[string]struct {
		change func(*db.Component)
		want   string
	}{
		"nothing":                    {func(*db.Component) {}, reportNoChange},
		"an equal description":       {func(to *db.Component) { to.Description = known("d") }, reportNoChange},
		"an equal rack":              {func(to *db.Component) { same := rack; to.RackID = &same }, reportNoChange},
		"what no patch writes":       {func(to *db.Component) { to.Name, to.PowerState = "b", "off" }, reportNoChange},
		"a firmware version":         {func(to *db.Component) { to.FirmwareVersion = "" }, reportPatched},
		"a description":              {func(to *db.Component) { to.Description = known("e") }, reportPatched},
		"a description that is gone": {func(to *db.Component) { to.Description = nil }, reportPatched},
		"a slot":                     {func(to *db.Component) { to.SlotID = -1 }, reportPatched},
		"a tray index":               {func(to *db.Component) { to.TrayIdx = 0 }, reportPatched},
		"a host":                     {func(to *db.Component) { to.HostID = 0 }, reportPatched},
		"another rack":               {func(to *db.Component) { to.RackID = &other }, reportPatched},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := from
			c.change(&to)
			var ch changes
			if got := ch.component(from, to); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if wrote := len(ch.components.Ids) == 1; wrote != (c.want == reportPatched) {
				t.Errorf("written: %v", ch.components.Ids)
			}
		})
	}
}

func TestWhatBecomesOfABMC(t *testing.T) {
	t.Parallel()
	ip := netip.MustParseAddr("10.0.0.1")
	mac := func(last byte) net.HardwareAddr { return net.HardwareAddr{6, 0, 0, 0, 0, last} }
	has := []BMC{{Mac: mac(1), Type: BMCHost, Ip: &ip}, {Mac: mac(2), Type: BMCDPU}}
	for name, c := range map[string]struct {
		bmc  NewBMC
		want string
	}{
		"known":                       {NewBMC{MAC: mac(1), Type: BMCHost}, reportNoChange},
		"known, at its address":       {NewBMC{MAC: mac(1), Type: BMCHost, IP: ip}, reportNoChange},
		"known, of another type":      {NewBMC{MAC: mac(1), Type: BMCDPU}, reportNoChange},
		"known, of unknown type":      {NewBMC{MAC: mac(1)}, reportNoChange},
		"known, at another address":   {NewBMC{MAC: mac(1), IP: netip.MustParseAddr("10.0.0.2")}, reportPatched},
		"known, at its first address": {NewBMC{MAC: mac(2), Type: BMCDPU, IP: ip}, reportPatched},
		"new":                         {NewBMC{MAC: mac(3), Type: BMCDPU, IP: ip}, reportAdded},
		"new, of unknown type":        {NewBMC{MAC: mac(3), IP: ip}, reportInvalidType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ch changes
			if got := ch.bmc(uuid.New(), has, c.bmc); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if len(ch.ips.Macs) != len(ch.ips.Ips) || (len(ch.ips.Macs) == 1) != (c.want == reportPatched) || (len(ch.bmcs.list) == 1) != (c.want == reportAdded) {
				t.Errorf("written: %v, added: %v", ch.ips, ch.bmcs.list)
			}
		})
	}
}

func TestWhichComponentOfARackIsMeant(t *testing.T) {
	t.Parallel()
	rows := []db.Component{
		{ID: uuid.New(), Manufacturer: known("NVIDIA"), Serial: known("1")},
		{ID: uuid.New(), Manufacturer: known("Other"), Serial: known("1")},
		{ID: uuid.New(), Manufacturer: known("NVIDIA"), Serial: known("2")},
		{ID: uuid.New()},
	}
	for name, c := range map[string]struct {
		id           uuid.UUID
		manufacturer string
		serial       string
		want         int // -1: none
	}{
		"by id":                        {id: rows[3].ID, want: 3},
		"by id, whatever the serial":   {id: rows[0].ID, manufacturer: "NVIDIA", serial: "2", want: 0},
		"by an unknown id of a serial": {id: uuid.New(), manufacturer: "NVIDIA", serial: "2", want: -1},
		"by manufacturer and serial":   {manufacturer: "Other", serial: "1", want: 1},
		"by the wrong manufacturer":    {manufacturer: "Other", serial: "2", want: -1},
		"by a serial nobody has":       {manufacturer: "NVIDIA", serial: "3", want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := RackPatchComponent{NewComponent: NewComponent{ID: c.id, Plate: Plate{Manufacturer: c.manufacturer, Serial: c.serial}}}
			hit, err := p.find(rows)
			if err != nil {
				t.Fatal(err)
			}
			if c.want < 0 && hit != nil || c.want >= 0 && (hit == nil || hit.ID != rows[c.want].ID) {
				t.Errorf("found %v", hit)
			}
		})
	}
	if _, err := (RackPatchComponent{NewComponent: NewComponent{Plate: Plate{Serial: "1"}}}).find(rows); fault.KindOf(err) != fault.KindPrecondition {
		t.Errorf("a serial number of two: %v", err)
	}
}

func TestEveryStateOfALeakAnswerHasAMeaning(t *testing.T) {
	t.Parallel()
	for _, state := range db.AllTaskStateValues() {
		if leakHandlings[state] == "" {
			t.Errorf("none for %s", state)
		}
	}
}

func TestTheSmallestMAC(t *testing.T) {
	t.Parallel()
	c := Component{BMCs: []BMC{
		{Mac: net.HardwareAddr{6, 0, 0, 0, 0, 9}, Type: BMCHost}, {Mac: net.HardwareAddr{2, 0, 0, 0, 0, 10}, Type: BMCDPU}, {Mac: net.HardwareAddr{2, 0, 0, 0, 0, 16}, Type: BMCHost},
	}}
	if got := c.SmallestMAC(); got != "02:00:00:00:00:0a" {
		t.Errorf("got %s", got)
	}
	if got := (Component{}).SmallestMAC(); got != "" {
		t.Errorf("got %s of none", got)
	}
}
