package rpc

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// TestComponentsThatARackPatchAdds patches racks as seenRack makes them, by a request that has one component.
func TestComponentsThatARackPatchAdds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		sent func(n int) *flowv1.Component
		want func(n int) *flowv1.Component // sorts behind the trays there are
	}{
		"with the id it was given": {
			func(n int) *flowv1.Component {
				return &flowv1.Component{Type: compute, Info: &flowv1.DeviceInfo{Id: testID(2, n, 9), Name: " z "}}
			},
			func(n int) *flowv1.Component { return added(n, 9, "z") },
		},
		"with an id of the server's": {
			func(int) *flowv1.Component {
				return &flowv1.Component{Type: compute, Info: &flowv1.DeviceInfo{Name: "z", SerialNumber: " Z1 "}}
			},
			func(n int) *flowv1.Component {
				c := added(n, 9, "z")
				c.Info.Id, c.Info.SerialNumber = nil, "Z1"
				return c
			},
		},
		"with all it has, whoever's rack it says it is in": {
			func(n int) *flowv1.Component {
				return &flowv1.Component{
					Type: shelf, ComponentId: " z-1", FirmwareVersion: "3.0", RackId: testID(1, 99, 0), PowerState: "on",
					Info: &flowv1.DeviceInfo{
						Id: testID(2, n, 9), Name: "z", Manufacturer: " Delta", SerialNumber: "Z2", Model: proto.String("m"), Description: proto.String(`{"b":1,"a":2}`),
					},
					Position: &flowv1.RackPosition{SlotId: 1, TrayIdx: -1, HostId: 2},
					Health:   &flowv1.HealthReport{Source: "core"},
					Bmcs: []*flowv1.BMCInfo{
						{Type: dpu, MacAddress: "06:00:00:00:00:01", IpAddress: proto.String("10.0.0.2")},
						{Type: host, MacAddress: "06-00-00-00-00-0F"},
					},
				}
			},
			func(n int) *flowv1.Component {
				c := added(n, 9, "z")
				c.Type, c.ComponentId, c.FirmwareVersion = shelf, "z-1", "3.0"
				c.Info.Manufacturer, c.Info.SerialNumber = "Delta", "Z2"
				c.Info.Model, c.Info.Description = proto.String("m"), proto.String(`{"a":2,"b":1}`)
				c.Position = &flowv1.RackPosition{SlotId: 1, TrayIdx: -1, HostId: 2}
				c.Health = &flowv1.HealthReport{Source: "core"}
				c.Bmcs = []*flowv1.BMCInfo{
					{Type: host, MacAddress: "06:00:00:00:00:0f"}, {Type: dpu, MacAddress: "06:00:00:00:00:01", IpAddress: proto.String("10.0.0.2")},
				}
				return c
			},
		},
		"without its BMCs of unknown type": {
			func(n int) *flowv1.Component {
				return &flowv1.Component{
					Type: compute, Info: &flowv1.DeviceInfo{Id: testID(2, n, 9), Name: "z"}, Bmcs: []*flowv1.BMCInfo{{MacAddress: "06:00:00:00:00:02"}},
				}
			},
			func(n int) *flowv1.Component { return added(n, 9, "z") },
		},
		"with what a tombstone of the rack had": {
			func(n int) *flowv1.Component {
				return &flowv1.Component{
					Type: compute, ComponentId: "core-tombstone", Info: &flowv1.DeviceInfo{Id: testID(2, n, 9), Name: "z", Manufacturer: "T", SerialNumber: "T1"},
					Bmcs: []*flowv1.BMCInfo{{Type: host, MacAddress: "06:00:00:00:00:03"}},
				}
			},
			func(n int) *flowv1.Component {
				c := added(n, 9, "z")
				c.ComponentId, c.Info.Manufacturer, c.Info.SerialNumber = "core-tombstone", "T", "T1"
				c.Bmcs = []*flowv1.BMCInfo{{Type: host, MacAddress: "06:00:00:00:00:03"}}
				return c
			},
		},
	}
	overEach(t, func(t *testing.T, s *site) {
		n := 0
		for name, c := range cases {
			n++
			t.Run(name, func(t *testing.T) {
				want := s.seenRack(n)
				if strings.Contains(name, "tombstone") {
					s.exec(`INSERT INTO component (id, type, name, manufacturer, serial, external_id, rack_id, deleted_at)
						VALUES ($1, 'Compute', 'dead', 'T', 'T1', 'core-tombstone', $2, now())`, testID(2, n, 8).GetId(), testID(1, n, 0).GetId())
					s.exec("INSERT INTO bmc (mac, type, component_id) VALUES ('06:00:00:00:00:03', 'DPU', $1)", testID(2, n, 8).GetId())
				}
				want.Components = append(want.Components, c.want(n))
				req := &flowv1.Rack{Info: &flowv1.DeviceInfo{Id: testID(1, n, 0)}, Components: []*flowv1.Component{c.sent(n)}}
				report, err := patchRack(t.Context(), s.flow, req)
				if err != nil {
					t.Fatal(err)
				}
				got := s.rack(testID(1, n, 0).GetId())
				if c := got.GetComponents()[2]; want.GetComponents()[2].GetInfo().GetId() == nil {
					if id, err := uuid.Parse(c.GetInfo().GetId().GetId()); err != nil || id == uuid.Nil || !strings.Contains(report, id.String()) {
						t.Errorf("id %v, report %s", c.GetInfo().GetId(), report)
					}
					c.Info.Id = nil
				}
				if d := diff(want, got); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
		if n := s.value("SELECT count(*)::text FROM component WHERE origin <> 'api'"); n != "0" {
			t.Errorf("%s components are not marked as made by the API", n)
		}
	})
}

// TestRackPatchesThatAreRefused holds one site with rack 1 and its three trays, two of which have one serial number of two
// makers, a rack 2 that has other keys, a rack 3 that is deleted, and a rack 4 whose serial number is that of rack 1, of
// another maker. Each case changes a request that patches rack 1 and its first tray and adds a new one.
func TestRackPatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for n := 1; n <= 3; n++ {
		r := testRack(n, 3)
		r.Components[2].Info.Manufacturer, r.Components[2].Info.SerialNumber = "Other", r.Components[1].Info.SerialNumber
		s.create(r)
	}
	s.bury(testID(1, 3, 0))
	twin := testRack(4, 0)
	twin.Info.Manufacturer, twin.Info.SerialNumber = "Other", "R1"
	s.create(twin)
	s.exec("UPDATE component SET rack_id = NULL WHERE id = $1", testID(2, 2, 1).GetId()) // in no rack

	const invalid, notFound, exists = connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists
	type rack = flowv1.Rack
	tray := func(r *rack) *flowv1.Component { return r.GetComponents()[0] }
	fresh := func(r *rack) *flowv1.Component { return r.GetComponents()[1] }
	mac := func(of func(*rack) *flowv1.Component, mac string) func(*rack) {
		return func(r *rack) { of(r).Bmcs = []*flowv1.BMCInfo{{Type: host, MacAddress: mac}} }
	}
	serial := func(manufacturer, serial string) func(*rack) {
		return func(r *rack) { r.Info.Id, r.Info.Manufacturer, r.Info.SerialNumber = nil, manufacturer, serial }
	}
	const none = "rack or components have no IDs and serial information"
	cases := map[string]struct {
		change func(*rack)
		code   connect.Code
		words  []string
	}{
		"a rack without type plate":           {func(r *rack) { r.Info = nil }, invalid, []string{"rack.info", none}},
		"a rack without id and serial":        {serial("NVIDIA", ""), invalid, []string{"rack.info", none}},
		"a rack with a blank serial":          {serial("NVIDIA", " \t"), invalid, []string{"rack.info", none}},
		"a rack with an empty id":             {func(r *rack) { r.Info.Id.Id = "" }, invalid, []string{"rack.info.id"}},
		"a rack with a malformed id":          {func(r *rack) { r.Info.Id.Id = "core-rack-1" }, invalid, []string{"rack.info.id", "core-rack-1"}},
		"a rack with the nil id":              {func(r *rack) { r.Info.Id.Id = uuid.Nil.String() }, invalid, []string{"rack.info.id", "non-zero"}},
		"a rack with a long name":             {func(r *rack) { r.Info.Name = strings.Repeat("ä", 256) }, invalid, []string{"rack.info.name", "255"}},
		"an unknown rack":                     {func(r *rack) { r.Info.Id = testID(1, 9, 0) }, notFound, []string{testID(1, 9, 0).GetId()}},
		"an unknown rack, of a known serial":  {func(r *rack) { serial("NVIDIA", "R1")(r); r.Info.Id = testID(1, 9, 0) }, notFound, []string{testID(1, 9, 0).GetId()}},
		"a deleted rack":                      {func(r *rack) { r.Info.Id = testID(1, 3, 0) }, notFound, []string{testID(1, 3, 0).GetId()}},
		"an unknown serial":                   {serial("NVIDIA", "R9"), notFound, []string{"R9"}},
		"a serial of another maker":           {serial("Other", "R2"), notFound, []string{"R2", "Other"}},
		"a deleted serial":                    {serial("NVIDIA", "R3"), notFound, []string{"R3"}},
		"a serial of two racks":               {serial("", "R1"), connect.CodeFailedPrecondition, []string{"ambiguous", "R1"}},
		"a tray without id and serial":        {func(r *rack) { tray(r).Info = nil }, invalid, []string{"rack.components[0].info", none}},
		"a new tray without id and serial":    {func(r *rack) { fresh(r).Info = &flowv1.DeviceInfo{Name: "x", Manufacturer: "NVIDIA"} }, invalid, []string{"rack.components[1].info", none}},
		"a tray with an empty id":             {func(r *rack) { tray(r).Info.Id.Id = "" }, invalid, []string{"rack.components[0].info.id"}},
		"a tray with a malformed id":          {func(r *rack) { tray(r).Info.Id.Id = "x" }, invalid, []string{"rack.components[0].info.id", "x"}},
		"a tray with the nil id":              {func(r *rack) { tray(r).Info.Id.Id = uuid.Nil.String() }, invalid, []string{"rack.components[0].info.id", "non-zero"}},
		"a slot below -1":                     {func(r *rack) { tray(r).Position = &flowv1.RackPosition{SlotId: -2} }, invalid, []string{"rack.components[0].position.slot_id", "-2"}},
		"a new tray of unknown type":          {func(r *rack) { fresh(r).Type = 0 }, invalid, []string{"rack.components[1].type"}},
		"a new tray of a type there is not":   {func(r *rack) { fresh(r).Type = 99 }, invalid, []string{"rack.components[1].type"}},
		"a new tray with a long name":         {func(r *rack) { fresh(r).Info.Name = strings.Repeat("ä", 256) }, invalid, []string{"rack.components[1].info.name", "255"}},
		"a NUL in a description":              {func(r *rack) { tray(r).Info.Description = proto.String("\x00") }, invalid, []string{"rack.components[0].info.description"}},
		"a MAC that is none":                  {mac(tray, "02:00:00:00:00:zz"), invalid, []string{"rack.components[0].bmcs[0].mac_address", "02:00:00:00:00:zz"}},
		"a multicast MAC":                     {mac(fresh, "01:00:5e:00:00:01"), invalid, []string{"rack.components[1].bmcs[0].mac_address", "multicast"}},
		"an address that is none":             {func(r *rack) { tray(r).Bmcs[0].IpAddress = proto.String("10.0.0.256") }, invalid, []string{"rack.components[0].bmcs[0].ip_address", "10.0.0.256"}},
		"one MAC twice":                       {mac(fresh, "0200.0000.0100"), invalid, []string{"rack.components[0].bmcs[0]", "rack.components[1].bmcs[0].mac_address"}},
		"one id twice":                        {func(r *rack) { fresh(r).Info.Id = testID(2, 1, 0) }, invalid, []string{"rack.components[0]", "rack.components[1].info.id"}},
		"one external id twice in one type":   {func(r *rack) { tray(r).Type, tray(r).ComponentId, fresh(r).ComponentId = compute, "same", "same" }, invalid, []string{"rack.components[0]", "rack.components[1].component_id"}},
		"the id of a tray elsewhere":          {func(r *rack) { fresh(r).Info.Id = testID(2, 2, 0) }, exists, []string{"rack.components[1].info.id", testID(2, 2, 0).GetId()}},
		"the id of a tray in no rack":         {func(r *rack) { fresh(r).Info.Id = testID(2, 2, 1) }, exists, []string{"rack.components[1].info.id", testID(2, 2, 1).GetId()}},
		"the id of a deleted tray":            {func(r *rack) { fresh(r).Info.Id = testID(2, 3, 0) }, exists, []string{"rack.components[1].info.id", testID(2, 3, 0).GetId(), "deleted"}},
		"a tray elsewhere, by serial":         {func(r *rack) { fresh(r).Info = &flowv1.DeviceInfo{Manufacturer: "NVIDIA", SerialNumber: "R2C0"} }, exists, []string{"rack.components[1].info.serial_number", "R2C0", testID(2, 2, 0).GetId()}},
		"the external id of a tray elsewhere": {func(r *rack) { fresh(r).ComponentId = "core-2-0" }, exists, []string{"rack.components[1].component_id", "core-2-0", testID(2, 2, 0).GetId()}},
		"the external id of its own sibling":  {func(r *rack) { fresh(r).ComponentId = "core-1-1" }, exists, []string{"rack.components[1].component_id", "core-1-1", testID(2, 1, 1).GetId()}},
		"one serial twice": {func(r *rack) {
			tray(r).Info.Manufacturer, tray(r).Info.SerialNumber = "NVIDIA", "same"
			fresh(r).Info.Manufacturer, fresh(r).Info.SerialNumber = " NVIDIA", "same "
		}, invalid, []string{"rack.components[0]", "rack.components[1].info.serial_number"}},
		"one tray twice, by id and by serial": {
			func(r *rack) { fresh(r).Info = &flowv1.DeviceInfo{Manufacturer: "NVIDIA", SerialNumber: "R1C0"} }, invalid, []string{"rack.components[0]", "rack.components[1]"},
		},
		"a serial of two trays of the rack": {
			func(r *rack) { tray(r).Info = &flowv1.DeviceInfo{SerialNumber: "R1C1"} }, connect.CodeFailedPrecondition, []string{"rack.components[0].info.serial_number", "ambiguous", "R1C1"},
		},
		"the serial of its own sibling": {
			func(r *rack) { fresh(r).Info.Manufacturer, fresh(r).Info.SerialNumber = "NVIDIA", "R1C1" }, exists, []string{"rack.components[1].info.serial_number", testID(2, 1, 1).GetId()},
		},
		"a MAC from elsewhere, for a new tray": {
			mac(fresh, "02:00:00:00:02:00"), exists, []string{"rack.components[1].bmcs[0].mac_address", "02:00:00:00:02:00", testID(2, 2, 0).GetId()},
		},
		"a MAC from elsewhere, for a tray there is": {
			mac(tray, "02:00:00:00:02:01"), exists, []string{"rack.components[0].bmcs[0].mac_address", "02:00:00:00:02:01", testID(2, 2, 1).GetId()},
		},
		"a MAC of its own sibling": {
			mac(tray, "02:00:00:00:01:01"), exists, []string{"rack.components[0].bmcs[0].mac_address", "02:00:00:00:01:01", testID(2, 1, 1).GetId()},
		},
		"a MAC of a tombstone, and a fault": {func(r *rack) {
			mac(tray, "02:00:00:00:03:00")(r)
			fresh(r).Info.Id = testID(2, 2, 0)
		}, exists, nil},
	}
	request := func() *rack {
		return &rack{
			Info: &flowv1.DeviceInfo{Id: testID(1, 1, 0), Name: "new"},
			Components: []*flowv1.Component{
				{
					Info: &flowv1.DeviceInfo{Id: testID(2, 1, 0)}, FirmwareVersion: "2.0",
					Bmcs: []*flowv1.BMCInfo{{Type: host, MacAddress: "02:00:00:00:01:00", IpAddress: proto.String("10.0.0.1")}},
				},
				{
					Type: compute, Info: &flowv1.DeviceInfo{Id: testID(2, 1, 9), Name: "fresh"},
					Bmcs: []*flowv1.BMCInfo{{Type: host, MacAddress: "06:00:00:00:00:01"}},
				},
			},
		}
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				r := request()
				c.change(r)
				s.refuses(t, func() error { _, err := patchRack(t.Context(), flow, r); return err }, c.code, c.words...)
			})
		}
		t.Run("no rack", func(t *testing.T) {
			s.refuses(t, func() error { _, err := patchRack(t.Context(), flow, nil); return err }, invalid, "rack")
		})
	})
	if _, err := patchRack(t.Context(), s.grpc, request()); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

// TestANullComponentIsRefused holds what only JSON can say.
func TestANullComponentIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 1))
	before := s.contents()
	for method, n := range map[string]int{"CreateExpectedRack": 2, "PatchRack": 1} {
		res, body := s.post("/v1.Flow/"+method, "application/json", fmt.Sprintf(
			`{"rack": {"info": {"id": {"id": %q}, "name": "new"}, "components": [null]}}`, testID(1, n, 0).GetId()))
		if code := answeredCode(res, body); code != connect.CodeInvalidArgument {
			t.Errorf("%s: %v: %s", method, code, body)
		}
	}
	if s.contents() != before {
		t.Error("a refused request has left something behind")
	}
}
