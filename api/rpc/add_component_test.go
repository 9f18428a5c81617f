package rpc

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

func addComponent(ctx context.Context, flow flowv1connect.FlowClient, c *flowv1.Component) (*flowv1.Component, error) {
	res, err := flow.AddComponent(ctx, &flowv1.AddComponentRequest{Component: c})
	return res.GetComponent(), err
}

// TestAComponentIsReadAsItWasAdded compares with added(1, 9, "new"), in a rack of a domain.
func TestAComponentIsReadAsItWasAdded(t *testing.T) {
	t.Parallel()
	domain := testID(3, 0, 1)
	cases := map[string]struct {
		sent func(c *flowv1.Component)
		want func(c *flowv1.Component)
	}{
		"with little": {func(*flowv1.Component) {}, func(*flowv1.Component) {}},
		"with all there is": {
			func(c *flowv1.Component) {
				c.Type, c.FirmwareVersion, c.ComponentId = shelf, "1.2.3", " core-9\t"
				c.Info.Name, c.Info.Manufacturer, c.Info.SerialNumber = " new ", " Delta", "S9 "
				c.Info.Model, c.Info.Description = proto.String("m "), proto.String(`{"b":1,"a":2}`)
				c.Position = &flowv1.RackPosition{SlotId: 3, TrayIdx: -1}
				c.Health = &flowv1.HealthReport{Source: "core"}
				c.Bmcs = []*flowv1.BMCInfo{
					{Type: dpu, MacAddress: "06-00-00-00-00-0A", IpAddress: proto.String("::ffff:10.0.0.2")},
					{Type: host, MacAddress: "0600.0000.000F", IpAddress: proto.String("FE80:0::1")},
					{Type: host, MacAddress: "06000000000e"},
				}
			},
			func(c *flowv1.Component) {
				c.Type, c.FirmwareVersion, c.ComponentId = shelf, "1.2.3", "core-9"
				c.Info.Manufacturer, c.Info.SerialNumber = "Delta", "S9"
				c.Info.Model, c.Info.Description = proto.String("m"), proto.String(`{"a":2,"b":1}`)
				c.Position = &flowv1.RackPosition{SlotId: 3, TrayIdx: -1}
				c.Health = &flowv1.HealthReport{Source: "core"}
				c.Bmcs = []*flowv1.BMCInfo{
					{Type: host, MacAddress: "06:00:00:00:00:0e"},
					{Type: host, MacAddress: "06:00:00:00:00:0f", IpAddress: proto.String("fe80::1")},
					{Type: dpu, MacAddress: "06:00:00:00:00:0a", IpAddress: proto.String("10.0.0.2")},
				}
			},
		},
		"without what nobody may write": {
			func(c *flowv1.Component) {
				c.PowerState, c.LeakStatus, c.RackExternalId = "on", flowv1.LeakStatus_LEAK_STATUS_DETECTED, "other"
				c.Status = &flowv1.ComponentOperationStatus{Phase: flowv1.Phase_PHASE_READY}
				c.LeakHandlingStatus, c.TaskStats = flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_DOWN, &flowv1.TaskStats{RunningTaskCount: 7}
				c.NvlDomainId, c.NvlDomainExternalId = testID(3, 0, 2), proto.String("other")
			},
			func(*flowv1.Component) {},
		},
		"with an id of the server's": {func(c *flowv1.Component) { c.Info.Id = nil }, func(c *flowv1.Component) { c.Info.Id = nil }},
		// All of it stands in one entry of an index, which has a limit of its own.
		"with everything as long as it may be": {longest, longest},
		"in no rack": {
			func(c *flowv1.Component) { c.RackId = nil },
			func(c *flowv1.Component) {
				c.RackId, c.RackExternalId, c.NvlDomainId, c.NvlDomainExternalId = nil, "", nil, nil
			},
		},
		"with the keys of a tombstone": {
			func(c *flowv1.Component) {
				c.ComponentId, c.Info.Manufacturer, c.Info.SerialNumber = "core-2-0", "NVIDIA", "R2C0"
			},
			func(c *flowv1.Component) {
				c.ComponentId, c.Info.Manufacturer, c.Info.SerialNumber = "core-2-0", "NVIDIA", "R2C0"
			},
		},
		"with a serial that is another's of another maker": {
			func(c *flowv1.Component) { c.Info.Manufacturer, c.Info.SerialNumber = "Other", "R1C0" },
			func(c *flowv1.Component) { c.Info.Manufacturer, c.Info.SerialNumber = "Other", "R1C0" },
		},
		"with an external id that is another's of another type": {
			func(c *flowv1.Component) { c.Type, c.ComponentId = shelf, "core-1-0" },
			func(c *flowv1.Component) { c.Type, c.ComponentId = shelf, "core-1-0" },
		},
	}
	for number := range flowv1.ComponentType_name {
		if kind := flowv1.ComponentType(number); kind != flowv1.ComponentType_COMPONENT_TYPE_UNKNOWN {
			set := func(c *flowv1.Component) { c.Type = kind }
			cases["as a "+kind.String()] = struct{ sent, want func(c *flowv1.Component) }{set, set}
		}
	}
	overEach(t, func(t *testing.T, s *site) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				s.clear()
				s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'domain', 'group-1')", domain.GetId())
				for n := 1; n <= 2; n++ {
					r := testRack(n, 1)
					r.NvlDomainIds = []*flowv1.UUID{domain}
					s.create(r)
				}
				s.bury(testID(1, 2, 0))
				want := added(1, 9, "new")
				want.NvlDomainId, want.NvlDomainExternalId = domain, proto.String("group-1")
				sent := &flowv1.Component{Type: want.GetType(), RackId: want.GetRackId(), Info: proto.CloneOf(want.GetInfo())}
				c.sent(sent)
				c.want(want)
				got, err := addComponent(t.Context(), s.flow, sent)
				if err != nil {
					t.Fatal(err)
				}
				if want.Info.Id == nil {
					want.Info.Id = got.GetInfo().GetId()
				}
				if id, err := uuid.Parse(want.GetInfo().GetId().GetId()); err != nil || id == uuid.Nil {
					t.Errorf("id %v", want.GetInfo().GetId())
				}
				if d := diff(want, got); d != "" {
					t.Errorf("answered (-want +got):\n%s", d)
				}
				if d := diff(want, s.component(want.GetInfo().GetId())); d != "" {
					t.Errorf("read (-want +got):\n%s", d)
				}
				if origin := s.value("SELECT origin FROM component WHERE id = $1", want.GetInfo().GetId().GetId()); origin != "api" {
					t.Errorf("origin %s", origin)
				}
			})
		}
	})
}

// longest gives a component the longest texts it may have, none of which PostgreSQL can compress.
func longest(c *flowv1.Component) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func(n int, first, last rune) string {
		var b strings.Builder
		for range n {
			b.WriteRune(first + random.Int32N(last-first))
		}
		return b.String()
	}
	c.Info.Name, c.ComponentId = text(255, 0x20000, 0x2a6d0), text(255, 0x20000, 0x2a6d0)
	c.Info.Manufacturer, c.Info.SerialNumber, c.Info.Model = text(255, 'A', 'z'), text(255, 'A', 'z'), proto.String(text(255, 'A', 'z'))
}

// TestComponentsThatAreRefused holds one site with rack 1, and a rack 2 that is deleted.
func TestComponentsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 1))
	s.create(testRack(2, 1))
	s.bury(testID(1, 2, 0))
	type component = flowv1.Component
	const invalid, notFound, exists = connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists
	const field = "component.bmcs[1]."
	long := strings.Repeat("ä", 256)
	taken := testID(2, 1, 0).GetId()
	mac := func(mac string) func(*component) { return func(c *component) { c.Bmcs[1].MacAddress = mac } }
	cases := map[string]struct {
		change func(*component)
		code   connect.Code
		words  []string
	}{
		"nothing in it":                {func(c *component) { proto.Reset(c) }, invalid, []string{"component.type"}},
		"an empty id":                  {func(c *component) { c.Info.Id = &flowv1.UUID{} }, invalid, []string{"component.info.id"}},
		"a malformed id":               {func(c *component) { c.Info.Id.Id = "x" }, invalid, []string{"component.info.id", "x"}},
		"the nil id":                   {func(c *component) { c.Info.Id.Id = uuid.Nil.String() }, invalid, []string{"component.info.id", "non-zero"}},
		"a rack with an empty id":      {func(c *component) { c.RackId = &flowv1.UUID{} }, invalid, []string{"component.rack_id"}},
		"a rack with a malformed id":   {func(c *component) { c.RackId.Id = "core-rack-1" }, invalid, []string{"component.rack_id", "core-rack-1"}},
		"a rack with the nil id":       {func(c *component) { c.RackId.Id = uuid.Nil.String() }, invalid, []string{"component.rack_id", "non-zero"}},
		"an unknown rack":              {func(c *component) { c.RackId = testID(1, 9, 0) }, notFound, []string{"rack", testID(1, 9, 0).GetId(), "not found"}},
		"a deleted rack":               {func(c *component) { c.RackId = testID(1, 2, 0) }, notFound, []string{"rack", testID(1, 2, 0).GetId(), "not found"}},
		"an unknown type":              {func(c *component) { c.Type = 0 }, invalid, []string{"component.type"}},
		"a type there is not":          {func(c *component) { c.Type = 99 }, invalid, []string{"component.type", "99"}},
		"a long name":                  {func(c *component) { c.Info.Name = long }, invalid, []string{"component.info.name", "255"}},
		"a long external id":           {func(c *component) { c.ComponentId = long }, invalid, []string{"component.component_id"}},
		"a slot below -1":              {func(c *component) { c.Position = &flowv1.RackPosition{SlotId: -2} }, invalid, []string{"component.position.slot_id", "-2"}},
		"a tray index below -1":        {func(c *component) { c.Position = &flowv1.RackPosition{TrayIdx: -2} }, invalid, []string{"component.position.tray_idx", "-2"}},
		"a host below -1":              {func(c *component) { c.Position = &flowv1.RackPosition{HostId: -2} }, invalid, []string{"component.position.host_id", "-2"}},
		"a BMC of unknown type":        {func(c *component) { c.Bmcs[1].Type = 0 }, invalid, []string{field + "type"}},
		"a BMC of a type there is not": {func(c *component) { c.Bmcs[1].Type = 7 }, invalid, []string{field + "type", "7"}},
		"no MAC":                       {mac(""), invalid, []string{field + "mac_address"}},
		"a MAC of 8 bytes":             {mac("02:00:00:00:00:00:00:01"), invalid, []string{field + "mac_address", "02:00:00:00:00:00:00:01"}},
		"a MAC of 20 bytes":            {mac("02" + strings.Repeat(":00", 19)), invalid, []string{field + "mac_address"}},
		"16 bare digits":               {mac("0200000000000001"), invalid, []string{field + "mac_address"}},
		"the zero MAC":                 {mac("000000000000"), invalid, []string{field + "mac_address", "zero"}},
		"the broadcast MAC":            {mac("FFFF.FFFF.FFFF"), invalid, []string{field + "mac_address", "broadcast"}},
		"a multicast MAC":              {mac("01-00-5e-00-00-01"), invalid, []string{field + "mac_address", "multicast"}},
		"an address that is none":      {func(c *component) { c.Bmcs[1].IpAddress = proto.String("10.0.0.256") }, invalid, []string{field + "ip_address", "10.0.0.256"}},
		"an empty address":             {func(c *component) { c.Bmcs[1].IpAddress = proto.String("") }, invalid, []string{field + "ip_address"}},
		"one MAC twice":                {mac("0600.0000.0001"), invalid, []string{"component.bmcs[0]", field + "mac_address"}},
		"a NUL":                        {func(c *component) { c.FirmwareVersion = "\x00" }, invalid, []string{"component.firmware_version"}},
		"a taken id":                   {func(c *component) { c.Info.Id.Id = taken }, exists, []string{"component.info.id", taken}},
		"the id of a tombstone":        {func(c *component) { c.Info.Id = testID(2, 2, 0) }, exists, []string{"component.info.id", testID(2, 2, 0).GetId(), "deleted", "purge"}},
		"a taken serial":               {func(c *component) { c.Info.Manufacturer, c.Info.SerialNumber = " NVIDIA", "R1C0 " }, exists, []string{"component.info.serial_number", "R1C0", taken}},
		"a taken serial of another type": {
			func(c *component) { c.Type, c.Info.Manufacturer, c.Info.SerialNumber = shelf, "NVIDIA", "R1C0" }, exists, []string{"component.info.serial_number", taken},
		},
		"a taken external id": {func(c *component) { c.ComponentId = " core-1-0" }, exists, []string{"component.component_id", "core-1-0", taken}},
		"a taken MAC":         {mac("02-00-00-00-01-00"), exists, []string{field + "mac_address", "02:00:00:00:01:00", taken}},
		"a MAC of a tombstone, and a fault": {
			func(c *component) { mac("02:00:00:00:02:00")(c); c.Info.Id.Id = taken }, exists, nil,
		},
	}
	request := func() *component {
		c := &component{Type: compute, RackId: testID(1, 1, 0), Info: &flowv1.DeviceInfo{Id: testID(2, 1, 9), Name: "new"}}
		c.Bmcs = []*flowv1.BMCInfo{{Type: host, MacAddress: "06:00:00:00:00:01"}, {Type: dpu, MacAddress: "06:00:00:00:00:02"}}
		return c
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				r := request()
				c.change(r)
				s.refuses(t, func() error { _, err := addComponent(t.Context(), flow, r); return err }, c.code, c.words...)
			})
		}
		t.Run("no component", func(t *testing.T) {
			s.refuses(t, func() error { _, err := addComponent(t.Context(), flow, nil); return err }, invalid, "component")
		})
	})
	if _, err := addComponent(t.Context(), s.grpc, request()); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}
