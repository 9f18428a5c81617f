package rpc

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
)

// TestRacksThatAreRefused holds one site with rack 1 and its two trays, a rack 2 that is deleted with its tray, and a
// domain. Each case changes a third rack of two trays; none of them may leave a trace.
func TestRacksThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 2))
	s.create(testRack(2, 1))
	s.bury(testID(1, 2, 0))
	s.exec("INSERT INTO nvl_domain (id, deleted_at) VALUES ($1, NULL), ($2, now())", testID(3, 0, 1).GetId(), testID(3, 0, 2).GetId())

	invalid, exists := connect.CodeInvalidArgument, connect.CodeAlreadyExists
	long := strings.Repeat("ä", 256)
	tray := func(r *flowv1.Rack) *flowv1.Component { return r.GetComponents()[1] }
	bmc := func(r *flowv1.Rack) *flowv1.BMCInfo { return tray(r).GetBmcs()[0] }
	mac := func(s string) func(r *flowv1.Rack) { return func(r *flowv1.Rack) { bmc(r).MacAddress = s } }
	ip := func(s string) func(r *flowv1.Rack) { return func(r *flowv1.Rack) { bmc(r).IpAddress = &s } }

	cases := map[string]struct {
		change func(*flowv1.Rack)
		code   connect.Code
		words  []string
	}{
		"a rack without type plate":      {func(r *flowv1.Rack) { r.Info = nil }, invalid, []string{"rack.info.id"}},
		"a rack without id":              {func(r *flowv1.Rack) { r.Info.Id = nil }, invalid, []string{"rack.info.id", "required"}},
		"a rack with an empty id":        {func(r *flowv1.Rack) { r.Info.Id = &flowv1.UUID{} }, invalid, []string{"rack.info.id", "required"}},
		"a rack with a malformed id":     {func(r *flowv1.Rack) { r.Info.Id.Id = "rack-3" }, invalid, []string{"rack.info.id", "rack-3"}},
		"a rack with an id in braces":    {func(r *flowv1.Rack) { r.Info.Id.Id = "{" + r.Info.Id.Id + "}" }, invalid, []string{"rack.info.id"}},
		"a rack with the nil id":         {func(r *flowv1.Rack) { r.Info.Id.Id = "00000000-0000-0000-0000-000000000000" }, invalid, []string{"rack.info.id", "non-zero"}},
		"a rack without name":            {func(r *flowv1.Rack) { r.Info.Name = "" }, invalid, []string{"rack.info.name", "required"}},
		"a rack with a blank name":       {func(r *flowv1.Rack) { r.Info.Name = " \t" }, invalid, []string{"rack.info.name", "required"}},
		"a rack with a long name":        {func(r *flowv1.Rack) { r.Info.Name = long }, invalid, []string{"rack.info.name", "255"}},
		"a rack with a long serial":      {func(r *flowv1.Rack) { r.Info.SerialNumber = long }, invalid, []string{"rack.info.serial_number"}},
		"a rack with a long external id": {func(r *flowv1.Rack) { r.ExternalId = long }, invalid, []string{"rack.external_id"}},
		"a NUL in a name":                {func(r *flowv1.Rack) { r.Info.Name = "a\x00b" }, invalid, []string{"rack.info.name", "NUL"}},
		"a NUL in a location":            {func(r *flowv1.Rack) { r.Location = &flowv1.Location{Room: "\x00"} }, invalid, []string{"rack.location.room"}},
		"a NUL in a tray's description":  {func(r *flowv1.Rack) { tray(r).Info.Description = proto.String("\x00") }, invalid, []string{"rack.components[1].info.description"}},
		"a NUL in a health report": {func(r *flowv1.Rack) {
			r.Health = &flowv1.HealthReport{Alerts: []*flowv1.HealthProbeAlert{{Classifications: []string{"\x00"}}}}
		}, invalid, []string{"rack.health.alerts[0].classifications[0]"}},
		"a health report of the year 20000": {func(r *flowv1.Rack) {
			r.Health = &flowv1.HealthReport{ObservedAt: &timestamppb.Timestamp{Seconds: 600_000_000_000}}
		}, invalid, []string{"rack.health"}},
		"a tray's report with wrong nanos": {func(r *flowv1.Rack) {
			tray(r).Health = &flowv1.HealthReport{ObservedAt: &timestamppb.Timestamp{Nanos: -1}}
		}, invalid, []string{"rack.components[1].health"}},
		"two domains":                       {func(r *flowv1.Rack) { r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 1), testID(3, 0, 1)} }, invalid, []string{"rack.nvl_domain_ids"}},
		"an empty domain":                   {func(r *flowv1.Rack) { r.NvlDomainIds = []*flowv1.UUID{{}} }, invalid, []string{"rack.nvl_domain_ids[0]"}},
		"a malformed domain":                {func(r *flowv1.Rack) { r.NvlDomainIds = []*flowv1.UUID{{Id: "x"}} }, invalid, []string{"rack.nvl_domain_ids[0]"}},
		"an unknown domain":                 {func(r *flowv1.Rack) { r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 9)} }, connect.CodeNotFound, []string{testID(3, 0, 9).GetId()}},
		"a deleted domain":                  {func(r *flowv1.Rack) { r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 2)} }, connect.CodeNotFound, []string{testID(3, 0, 2).GetId()}},
		"an empty tray":                     {func(r *flowv1.Rack) { r.Components[1] = &flowv1.Component{} }, invalid, []string{"rack.components[1].info.id"}},
		"a tray with a malformed id":        {func(r *flowv1.Rack) { tray(r).Info.Id.Id = "x" }, invalid, []string{"rack.components[1].info.id"}},
		"a tray with the nil id":            {func(r *flowv1.Rack) { tray(r).Info.Id.Id = "00000000-0000-0000-0000-000000000000" }, invalid, []string{"rack.components[1].info.id"}},
		"a tray of unknown type":            {func(r *flowv1.Rack) { tray(r).Type = 0 }, invalid, []string{"rack.components[1].type", "COMPONENT_TYPE_UNKNOWN"}},
		"a tray of a type there is not":     {func(r *flowv1.Rack) { tray(r).Type = 99 }, invalid, []string{"rack.components[1].type", "99"}},
		"a tray with a long name":           {func(r *flowv1.Rack) { tray(r).Info.Name = long }, invalid, []string{"rack.components[1].info.name"}},
		"a tray with a long external id":    {func(r *flowv1.Rack) { tray(r).ComponentId = long }, invalid, []string{"rack.components[1].component_id"}},
		"a slot below -1":                   {func(r *flowv1.Rack) { tray(r).Position = &flowv1.RackPosition{SlotId: -2} }, invalid, []string{"rack.components[1].position.slot_id", "-2"}},
		"a tray index below -1":             {func(r *flowv1.Rack) { tray(r).Position = &flowv1.RackPosition{TrayIdx: -9} }, invalid, []string{"position.tray_idx"}},
		"a host below -1":                   {func(r *flowv1.Rack) { tray(r).Position = &flowv1.RackPosition{HostId: -9} }, invalid, []string{"position.host_id"}},
		"a BMC of unknown type":             {func(r *flowv1.Rack) { bmc(r).Type = 0 }, invalid, []string{"rack.components[1].bmcs[0].type"}},
		"a BMC of a type there is not":      {func(r *flowv1.Rack) { bmc(r).Type = 7 }, invalid, []string{"rack.components[1].bmcs[0].type", "7"}},
		"no MAC":                            {mac(""), invalid, []string{"rack.components[1].bmcs[0].mac_address"}},
		"a MAC that is none":                {mac("02:00:00:00:00:zz"), invalid, []string{"mac_address", "02:00:00:00:00:zz"}},
		"a MAC of 8 bytes":                  {mac("02:00:00:00:00:00:00:01"), invalid, []string{"mac_address"}},
		"a MAC of 5 bytes":                  {mac("02:00:00:00:01"), invalid, []string{"mac_address"}},
		"the zero MAC":                      {mac("00:00:00:00:00:00"), invalid, []string{"mac_address", "zero"}},
		"the broadcast MAC":                 {mac("ff:ff:ff:ff:ff:ff"), invalid, []string{"mac_address", "broadcast"}},
		"a multicast MAC":                   {mac("01:00:5e:00:00:01"), invalid, []string{"mac_address", "multicast"}},
		"an address that is none":           {ip("10.0.0.256"), invalid, []string{"rack.components[1].bmcs[0].ip_address", "10.0.0.256"}},
		"an empty address":                  {ip(""), invalid, []string{"ip_address"}},
		"an address with a zone":            {ip("fe80::1%eth0"), invalid, []string{"ip_address"}},
		"a network":                         {ip("10.0.0.0/8"), invalid, []string{"ip_address"}},
		"one tray id twice":                 {func(r *flowv1.Rack) { tray(r).Info.Id = r.Components[0].Info.Id }, invalid, []string{"rack.components[0]", "rack.components[1].info.id"}},
		"one serial twice":                  {func(r *flowv1.Rack) { tray(r).Info.SerialNumber = " R3C0 "; tray(r).Type = 3 }, invalid, []string{"rack.components[0]", "rack.components[1].info.serial_number"}},
		"one external id twice in one type": {func(r *flowv1.Rack) { tray(r).ComponentId = "core-3-0" }, invalid, []string{"rack.components[0]", "rack.components[1].component_id"}},
		"one MAC twice in two spellings":    {mac("0200.0000.0300"), invalid, []string{"rack.components[0].bmcs[0]", "rack.components[1].bmcs[0].mac_address"}},
		"the id of a rack":                  {func(r *flowv1.Rack) { r.Info.Id = testID(1, 1, 0) }, exists, []string{"rack.info.id", testID(1, 1, 0).GetId()}},
		"the id of a deleted rack":          {func(r *flowv1.Rack) { r.Info.Id = testID(1, 2, 0) }, exists, []string{testID(1, 2, 0).GetId(), "deleted", "purge"}},
		"the external id of a rack":         {func(r *flowv1.Rack) { r.ExternalId = "core-rack-1 " }, exists, []string{"rack.external_id", "core-rack-1", testID(1, 1, 0).GetId()}},
		"the serial of a rack":              {func(r *flowv1.Rack) { r.Info.SerialNumber = "R1" }, exists, []string{"rack.info.serial_number", "R1", testID(1, 1, 0).GetId()}},
		"the id of a tray":                  {func(r *flowv1.Rack) { tray(r).Info.Id = testID(2, 1, 1) }, exists, []string{"rack.components[1].info.id", testID(2, 1, 1).GetId()}},
		"the id of a deleted tray":          {func(r *flowv1.Rack) { tray(r).Info.Id = testID(2, 2, 0) }, exists, []string{"rack.components[1].info.id", testID(2, 2, 0).GetId(), "deleted"}},
		"the serial of a tray, in a shelf":  {func(r *flowv1.Rack) { tray(r).Info.SerialNumber = "R1C1"; tray(r).Type = 3 }, exists, []string{"rack.components[1].info.serial_number", "R1C1", testID(2, 1, 1).GetId()}},
		"the external id of a tray":         {func(r *flowv1.Rack) { tray(r).ComponentId = "core-1-0" }, exists, []string{"rack.components[1].component_id", "core-1-0", testID(2, 1, 0).GetId()}},
		"the MAC of a tray":                 {mac("02:00:00:00:01:01"), exists, []string{"rack.components[1].bmcs[0].mac_address", "02:00:00:00:01:01", testID(2, 1, 1).GetId()}},
		"a MAC of a deleted tray, and a fault": {func(r *flowv1.Rack) {
			bmc(r).MacAddress = "02:00:00:00:02:00"
			r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 9)}
		}, connect.CodeNotFound, nil},
	}
	before := s.contents()
	t.Run("each says why", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := testRack(3, 2)
				c.change(r)
				_, err := s.grpc.CreateExpectedRack(t.Context(), &flowv1.CreateExpectedRackRequest{Rack: r})
				refused(t, err, c.code, c.words...)
			})
		}
		t.Run("no rack", func(t *testing.T) {
			t.Parallel()
			_, err := s.grpc.CreateExpectedRack(t.Context(), &flowv1.CreateExpectedRackRequest{})
			refused(t, err, invalid, "rack")
		})
	})
	if s.contents() != before {
		t.Error("a refused request has left something behind")
	}
	s.create(testRack(3, 2)) // which is fine unchanged
}

func TestRacksThatLookAlikeButAreNot(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 1))
	n := 1
	for name, change := range map[string]func(*flowv1.Rack){
		"the name of another rack":         func(r *flowv1.Rack) { r.Info.Name = "rack-1" },
		"no keys at all":                   func(r *flowv1.Rack) { r.Info.Manufacturer, r.Info.SerialNumber, r.ExternalId = "", "", "" },
		"no keys at all, again":            func(r *flowv1.Rack) { r.Info.Manufacturer, r.Info.SerialNumber, r.ExternalId = "", "", " " },
		"a serial without manufacturer":    func(r *flowv1.Rack) { r.Info.Manufacturer, r.Info.SerialNumber = "", "R1" },
		"a serial of another manufacturer": func(r *flowv1.Rack) { r.Info.Manufacturer, r.Info.SerialNumber = "Other", "R1" },
		"a serial in another letter case":  func(r *flowv1.Rack) { r.Info.SerialNumber = "r1" },
		"a tray's serial in another manufacturer's": func(r *flowv1.Rack) {
			r.Components[0].Info.Manufacturer, r.Components[0].Info.SerialNumber = "O", "R1C0"
		},
		"a tray's external id in another type": func(r *flowv1.Rack) { r.Components[0].ComponentId = "core-1-0"; r.Components[0].Type = 2 },
		"trays without keys": func(r *flowv1.Rack) {
			r.Components[0] = &flowv1.Component{Type: 1, Info: &flowv1.DeviceInfo{Id: r.Components[0].Info.Id}}
		},
		"trays without keys, again": func(r *flowv1.Rack) {
			r.Components[0] = &flowv1.Component{Type: 1, Info: &flowv1.DeviceInfo{Id: r.Components[0].Info.Id}}
		},
		"a rack without trays":     func(r *flowv1.Rack) { r.Components = nil },
		"a name of 255 characters": func(r *flowv1.Rack) { r.Info.Name = strings.Repeat("ä", 255) },
		"every text at its longest": func(r *flowv1.Rack) {
			long, plate := strings.Repeat("\U0001F680", 254), strings.Repeat("\U0001F680", 63)
			r.Info.Name, r.Info.Manufacturer, r.Info.SerialNumber, r.Info.Model, r.ExternalId = long, plate, plate, &plate, long
			c := r.Components[0]
			c.Info.Name, c.Info.Manufacturer, c.Info.SerialNumber, c.Info.Model, c.ComponentId = long, plate, plate, &plate, long
		},
	} {
		n++
		r := testRack(n, 1)
		t.Run(name, func(t *testing.T) {
			change(r)
			s.create(r)
		})
	}
}

func TestTombstonesReserveNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 2))
	s.bury(testID(1, 1, 0))
	again := testRack(1, 2)
	again.Info.Id = testID(1, 2, 0)
	for i, c := range again.GetComponents() {
		c.Info.Id = testID(2, 2, i)
	}
	s.create(again)
	got := s.rack("core-rack-1")
	if got.GetInfo().GetId().GetId() != testID(1, 2, 0).GetId() {
		t.Errorf("the external id leads to %v", got.GetInfo().GetId())
	}
	for i, c := range got.GetComponents() {
		if want := fmt.Sprintf("02:00:00:00:01:%02x", i); len(c.GetBmcs()) != 1 || c.GetBmcs()[0].GetMacAddress() != want {
			t.Errorf("component %d has the BMCs %v, want %s", i, c.GetBmcs(), want)
		}
	}
}

// TestRacksRecordedAtTheSameTime holds that of many requests with a key in common one wins, whatever the key.
func TestRacksRecordedAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	const contenders = 8
	for round, share := range []func(r *flowv1.Rack){
		func(r *flowv1.Rack) { r.Info.Id = testID(1, 1, 0) },
		func(r *flowv1.Rack) { r.Info.SerialNumber = "same" },
		func(r *flowv1.Rack) { r.ExternalId = "same" },
		func(r *flowv1.Rack) { r.Components[1].Info.Id = testID(2, 1, 0) },
		func(r *flowv1.Rack) { r.Components[1].Info.SerialNumber = "same" },
		func(r *flowv1.Rack) { r.Components[1].ComponentId = "same" },
		func(r *flowv1.Rack) { r.Components[1].Bmcs[0].MacAddress = "02:00:00:00:00:01" },
	} {
		errs := make([]error, contenders)
		var wg sync.WaitGroup
		for i := range contenders {
			wg.Go(func() {
				r := testRack(100*(round+1)+i, 2)
				share(r)
				_, errs[i] = s.grpc.CreateExpectedRack(t.Context(), &flowv1.CreateExpectedRackRequest{Rack: r})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			refused(t, err, connect.CodeAlreadyExists)
		}
		if won != 1 {
			t.Errorf("round %d: %d requests won", round, won)
		}
	}
}

// TestMACsOfATombstoneTakenAtTheSameTime holds that takers of different MACs of one tombstone do not disturb each other.
func TestMACsOfATombstoneTakenAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 8))
	s.bury(testID(1, 1, 0))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := testRack(2+i, 1)
			r.Components[0].Bmcs[0].MacAddress = fmt.Sprintf("02:00:00:00:01:%02x", i)
			if _, err := s.grpc.CreateExpectedRack(t.Context(), &flowv1.CreateExpectedRackRequest{Rack: r}); err != nil {
				t.Errorf("taker %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}
