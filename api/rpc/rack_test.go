package rpc

import (
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
)

// testID makes the ids of tests: of a kind (1 racks, 2 components, 3 domains), the rack's number, and one within it.
func testID(kind, rack, n int) *flowv1.UUID {
	return &flowv1.UUID{Id: fmt.Sprintf("%08x-0000-4000-8000-%04x%08x", kind, rack, n)}
}

// testRack makes a rack with trays, no key of which occurs in another.
func testRack(rack, trays int) *flowv1.Rack {
	r := &flowv1.Rack{
		Info: &flowv1.DeviceInfo{
			Id:           testID(1, rack, 0),
			Name:         fmt.Sprintf("rack-%d", rack),
			Manufacturer: "NVIDIA",
			SerialNumber: fmt.Sprintf("R%d", rack),
		},
		ExternalId: fmt.Sprintf("core-rack-%d", rack),
	}
	for n := range trays {
		r.Components = append(r.Components, &flowv1.Component{
			Type: flowv1.ComponentType_COMPONENT_TYPE_COMPUTE,
			Info: &flowv1.DeviceInfo{
				Id:           testID(2, rack, n),
				Name:         fmt.Sprintf("tray-%02d", n),
				Manufacturer: "NVIDIA",
				SerialNumber: fmt.Sprintf("R%dC%d", rack, n),
			},
			ComponentId: fmt.Sprintf("core-%d-%d", rack, n),
			Bmcs: []*flowv1.BMCInfo{{
				Type:       flowv1.BMCType_BMC_TYPE_HOST,
				MacAddress: fmt.Sprintf("02:00:00:%02x:%02x:%02x", rack>>8, rack&0xff, n),
			}},
		})
	}
	return r
}

func (s *site) create(r *flowv1.Rack) {
	s.t.Helper()
	res, err := s.grpc.CreateExpectedRack(s.t.Context(), &flowv1.CreateExpectedRackRequest{Rack: r})
	if err != nil {
		s.t.Fatal(err)
	}
	if res.GetId().GetId() != r.GetInfo().GetId().GetId() {
		s.t.Errorf("created %v, answered %v", r.GetInfo().GetId(), res.GetId())
	}
}

func (s *site) rack(id string) *flowv1.Rack {
	s.t.Helper()
	res, err := s.grpc.GetRackInfoByID(s.t.Context(), &flowv1.GetRackInfoByIDRequest{Id: &flowv1.UUID{Id: id}, WithComponents: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.GetRack()
}

func diff(want, got proto.Message) string { return cmp.Diff(want, got, protocmp.Transform()) }

func TestARackIsReadAsItWasRecorded(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	domain := testID(3, 0, 1)
	s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'domain', 'group-1')", domain.GetId())
	health := &flowv1.HealthReport{
		Source:      "core",
		TriggeredBy: proto.String("poll"),
		ObservedAt:  timestamppb.New(time.Unix(1_700_000_000, 5)),
		Successes:   []*flowv1.HealthProbeSuccess{{Id: "fan"}},
		Alerts:      []*flowv1.HealthProbeAlert{{Id: "leak", Target: proto.String("tray"), Message: "wet", Classifications: []string{"a", "b"}}},
	}
	sent := &flowv1.Rack{
		Info: &flowv1.DeviceInfo{
			Id: testID(1, 1, 0), Name: " rack one\t", Manufacturer: " NVIDIA ", Model: proto.String("GB200"), SerialNumber: "S1 ",
			Description: proto.String("by the door"),
		},
		Location:     &flowv1.Location{Region: "eu", Datacenter: "fra1", Room: "r1", Position: "p1"},
		NvlDomainIds: []*flowv1.UUID{domain},
		ExternalId:   " core-1 ",
		Health:       health,
		// All of this is ignored.
		TaskStats: &flowv1.TaskStats{RunningTaskCount: 7}, OperationStatus: flowv1.Phase_PHASE_ERROR,
		RackProfileId: proto.String("profile"), NvlDomainExternalIds: []string{"other"},
		Components: []*flowv1.Component{
			{
				Type: flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF,
				Info: &flowv1.DeviceInfo{Id: testID(2, 1, 1), Name: "b"},
				// So is this.
				RackId: testID(1, 2, 0), PowerState: "on", LeakStatus: flowv1.LeakStatus_LEAK_STATUS_DETECTED,
				LeakHandlingStatus: flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_DOWN, RackExternalId: "x",
				NvlDomainId: testID(3, 0, 2), NvlDomainExternalId: proto.String("x"), TaskStats: &flowv1.TaskStats{WaitingTaskCount: 1},
				Status: &flowv1.ComponentOperationStatus{Phase: flowv1.Phase_PHASE_READY},
			},
			{
				Type: flowv1.ComponentType_COMPONENT_TYPE_COMPUTE,
				Info: &flowv1.DeviceInfo{
					Id: testID(2, 1, 0), Name: " a", Manufacturer: "Wiwynn", Model: proto.String("tray"), SerialNumber: "\tT1",
					Description: proto.String(`{"z": 1.50, "a": {"c": [1, "<"], "b": null}}`),
				},
				FirmwareVersion: "1.2.3",
				Position:        &flowv1.RackPosition{SlotId: 3, TrayIdx: -1},
				ComponentId:     "core-t1",
				Health:          health,
				Bmcs: []*flowv1.BMCInfo{
					{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "020000000003"},
					{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02-00-00-00-00-0B", IpAddress: proto.String("FE80:0::1")},
					{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "0200.0000.000A", IpAddress: proto.String("10.0.0.1")},
				},
			},
		},
	}
	s.create(sent)
	want := &flowv1.Rack{
		Info: &flowv1.DeviceInfo{
			Id: testID(1, 1, 0), Name: "rack one", Manufacturer: "NVIDIA", Model: proto.String("GB200"), SerialNumber: "S1",
			Description: proto.String("by the door"),
		},
		Location:             &flowv1.Location{Region: "eu", Datacenter: "fra1", Room: "r1", Position: "p1"},
		NvlDomainIds:         []*flowv1.UUID{domain},
		NvlDomainExternalIds: []string{"group-1"},
		ExternalId:           "core-1",
		Health:               health,
		TaskStats:            &flowv1.TaskStats{},
		OperationStatus:      flowv1.Phase_PHASE_UNKNOWN,
		Components: []*flowv1.Component{
			{
				Type: flowv1.ComponentType_COMPONENT_TYPE_COMPUTE,
				Info: &flowv1.DeviceInfo{
					Id: testID(2, 1, 0), Name: "a", Manufacturer: "Wiwynn", Model: proto.String("tray"), SerialNumber: "T1",
					Description: proto.String(`{"a":{"b":null,"c":[1,"<"]},"z":1.50}`),
				},
				FirmwareVersion: "1.2.3",
				Position:        &flowv1.RackPosition{SlotId: 3, TrayIdx: -1},
				ComponentId:     "core-t1",
				Health:          health,
				Bmcs: []*flowv1.BMCInfo{
					{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02:00:00:00:00:0a", IpAddress: proto.String("10.0.0.1")},
					{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02:00:00:00:00:0b", IpAddress: proto.String("fe80::1")},
					{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "02:00:00:00:00:03"},
				},
				RackId: testID(1, 1, 0), RackExternalId: "core-1", NvlDomainId: domain, NvlDomainExternalId: proto.String("group-1"),
				TaskStats: &flowv1.TaskStats{}, LeakHandlingStatus: flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_NONE,
			},
			{
				Type:     flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF,
				Info:     &flowv1.DeviceInfo{Id: testID(2, 1, 1), Name: "b"},
				Position: &flowv1.RackPosition{SlotId: -1, TrayIdx: -1, HostId: -1},
				RackId:   testID(1, 1, 0), RackExternalId: "core-1", NvlDomainId: domain, NvlDomainExternalId: proto.String("group-1"),
				TaskStats: &flowv1.TaskStats{}, LeakHandlingStatus: flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_NONE,
			},
		},
	}
	if d := diff(want, s.rack(testID(1, 1, 0).GetId())); d != "" {
		t.Errorf("by Flow id (-want +got):\n%s", d)
	}
	if d := diff(want, s.rack(" core-1 ")); d != "" {
		t.Errorf("by external id (-want +got):\n%s", d)
	}
	bySerial, err := s.flow.GetRackInfoBySerial(t.Context(), &flowv1.GetRackInfoBySerialRequest{
		SerialInfo:     &flowv1.DeviceSerialInfo{Manufacturer: "NVIDIA", SerialNumber: "S1"},
		WithComponents: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(want, bySerial.GetRack()); d != "" {
		t.Errorf("by serial number (-want +got):\n%s", d)
	}
	list, err := s.flow.GetListOfRacks(t.Context(), &flowv1.GetListOfRacksRequest{WithComponents: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(&flowv1.GetListOfRacksResponse{Racks: []*flowv1.Rack{want}, Total: 1}, list); d != "" {
		t.Errorf("in a list (-want +got):\n%s", d)
	}
	want.Components = nil
	short, err := s.grpc.GetRackInfoByID(t.Context(), &flowv1.GetRackInfoByIDRequest{Id: testID(1, 1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(want, short.GetRack()); d != "" {
		t.Errorf("without components (-want +got):\n%s", d)
	}
	var origins string
	if err := s.store.API.QueryRow(t.Context(), "SELECT string_agg(DISTINCT origin, ' ') FROM (SELECT origin FROM rack UNION ALL SELECT origin FROM component) o").Scan(&origins); err != nil || origins != "api" {
		t.Errorf("origins %q, %v", origins, err)
	}
}

func TestDescriptionsAreReadAsTheyWereSent(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	n := 0
	for name, c := range map[string]struct{ sent, component, rack string }{
		"plain text":                         {"left of the door", "left of the door", "left of the door"},
		"plain text keeps its spaces":        {" a\nb ", " a\nb ", " a\nb "},
		"an object has its keys sorted":      {`{"b":1,"a":2}`, `{"a":2,"b":1}`, `{"a":2,"b":1}`},
		"an object that wraps a text":        {`{"text":"x"}`, `{"text":"x"}`, "x"},
		"an object that wraps a description": {`{"description":"x"}`, `{"description":"x"}`, "x"},
		"an object that wraps a number":      {`{"text":1}`, `{"text":1}`, `{"text":1}`},
		"an object with a NUL in it":         {`{"text":"\u0000"}`, `{"text":"\u0000"}`, `{"text":"\u0000"}`},
		"a number keeps its digits":          {`{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10}`},
		"an array is a text":                 {`[2,1]`, `[2,1]`, `[2,1]`},
		"two objects are a text":             {`{"b":1}{"a":1}`, `{"b":1}{"a":1}`, `{"b":1}{"a":1}`},
		"half an object is a text":           {`{"b":1`, `{"b":1`, `{"b":1`},
		"an empty object":                    {`{}`, `{}`, ""},
		"nothing":                            {"", "", ""},
	} {
		n++
		rack := testRack(n, 1)
		t.Run(name, func(t *testing.T) {
			rack.Info.Description = proto.String(c.sent)
			rack.Components[0].Info.Description = proto.String(c.sent)
			s.create(rack)
			got := s.rack(rack.GetInfo().GetId().GetId())
			if d := got.GetInfo().Description; c.rack != got.GetInfo().GetDescription() || (c.rack == "") != (d == nil) {
				t.Errorf("rack: %q, want %q", got.GetInfo().GetDescription(), c.rack)
			}
			if d := got.GetComponents()[0].GetInfo(); c.component != d.GetDescription() || (c.component == "") != (d.Description == nil) {
				t.Errorf("component: %q, want %q", d.GetDescription(), c.component)
			}
		})
	}
}

func TestReadingRacks(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for i := 1; i <= 4; i++ {
		s.create(testRack(i, 1))
	}
	twin := testRack(5, 0)
	twin.Info.Manufacturer, twin.Info.SerialNumber = "Other", "R1" // as rack 1, of another maker
	s.create(twin)
	named := testRack(6, 0)
	named.ExternalId = testID(1, 2, 0).GetId() // the Flow id of rack 2
	s.create(named)
	bare := testRack(7, 0)
	bare.Info.Manufacturer, bare.ExternalId = "", ""
	s.create(bare)
	s.exec("UPDATE rack SET deleted_at = now() WHERE id = $1", testID(1, 4, 0).GetId())

	byID := func(id string) (*flowv1.GetRackInfoResponse, error) {
		return s.grpc.GetRackInfoByID(t.Context(), &flowv1.GetRackInfoByIDRequest{Id: &flowv1.UUID{Id: id}})
	}
	bySerial := func(manufacturer, serial string) (*flowv1.GetRackInfoResponse, error) {
		return s.grpc.GetRackInfoBySerial(t.Context(), &flowv1.GetRackInfoBySerialRequest{
			SerialInfo: &flowv1.DeviceSerialInfo{Manufacturer: manufacturer, SerialNumber: serial},
		})
	}
	for name, c := range map[string]struct {
		read func() (*flowv1.GetRackInfoResponse, error)
		rack int          // 0: refused
		code connect.Code // then
		word string
	}{
		"no id":               {func() (*flowv1.GetRackInfoResponse, error) { return byID("") }, 0, connect.CodeInvalidArgument, "rack identifier is required"},
		"a blank id":          {func() (*flowv1.GetRackInfoResponse, error) { return byID(" ") }, 0, connect.CodeInvalidArgument, "rack identifier is required"},
		"an external id":      {func() (*flowv1.GetRackInfoResponse, error) { return byID("core-rack-1") }, 1, 0, ""},
		"another letter case": {func() (*flowv1.GetRackInfoResponse, error) { return byID("Core-rack-1") }, 0, connect.CodeNotFound, "Core-rack-1"},
		"a Flow id":           {func() (*flowv1.GetRackInfoResponse, error) { return byID(testID(1, 1, 0).GetId()) }, 1, 0, ""},
		"an external id before a Flow id": {
			func() (*flowv1.GetRackInfoResponse, error) { return byID(testID(1, 2, 0).GetId()) }, 6, 0, "",
		},
		"an unknown Flow id":      {func() (*flowv1.GetRackInfoResponse, error) { return byID(testID(1, 99, 0).GetId()) }, 0, connect.CodeNotFound, testID(1, 99, 0).GetId()},
		"the nil id":              {func() (*flowv1.GetRackInfoResponse, error) { return byID("00000000-0000-0000-0000-000000000000") }, 0, connect.CodeNotFound, "00000000"},
		"a deleted rack":          {func() (*flowv1.GetRackInfoResponse, error) { return byID(testID(1, 4, 0).GetId()) }, 0, connect.CodeNotFound, testID(1, 4, 0).GetId()},
		"a deleted external id":   {func() (*flowv1.GetRackInfoResponse, error) { return byID("core-rack-4") }, 0, connect.CodeNotFound, "core-rack-4"},
		"a NUL":                   {func() (*flowv1.GetRackInfoResponse, error) { return byID("a\x00") }, 0, connect.CodeInvalidArgument, "id.id"},
		"no serial":               {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("NVIDIA", "") }, 0, connect.CodeInvalidArgument, "serial number is not specified"},
		"both":                    {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("Other", "R1") }, 5, 0, ""},
		"a serial that is unique": {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("", "R2") }, 2, 0, ""},
		"a serial that is not":    {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("", "R1") }, 0, connect.CodeFailedPrecondition, "ambiguous"},
		"a serial without maker":  {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("", "R7") }, 7, 0, ""},
		"the wrong maker":         {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("Other", "R2") }, 0, connect.CodeNotFound, "R2"},
		"an unknown serial":       {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("", "R99") }, 0, connect.CodeNotFound, "R99"},
		"a deleted serial":        {func() (*flowv1.GetRackInfoResponse, error) { return bySerial("NVIDIA", "R4") }, 0, connect.CodeNotFound, "R4"},
		"nothing at all by serial": {
			func() (*flowv1.GetRackInfoResponse, error) {
				return s.grpc.GetRackInfoBySerial(t.Context(), &flowv1.GetRackInfoBySerialRequest{})
			}, 0, connect.CodeInvalidArgument, "serial number is not specified",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := c.read()
			if c.rack == 0 {
				refused(t, err, c.code, c.word)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := res.GetRack().GetInfo().GetName(); got != fmt.Sprintf("rack-%d", c.rack) {
				t.Errorf("got %s, want rack-%d", got, c.rack)
			}
		})
	}
}
