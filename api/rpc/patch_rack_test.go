package rpc

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

const (
	host = flowv1.BMCType_BMC_TYPE_HOST
	dpu  = flowv1.BMCType_BMC_TYPE_DPU
)

// patchRack patches a rack and returns the report.
func patchRack(ctx context.Context, flow flowv1connect.FlowClient, r *flowv1.Rack) (string, error) {
	res, err := flow.PatchRack(ctx, &flowv1.PatchRackRequest{Rack: r})
	return res.GetReport(), err
}

func TestTheReportOfARackPatch(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/patch_rack_report.json")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(golden))
	again := strings.NewReplacer(`"Patched"`, `"NoChange"`, `"Added"`, `"NoChange"`).Replace(want)
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 3))
		info := func(n int) *flowv1.DeviceInfo { return &flowv1.DeviceInfo{Id: testID(2, 1, n)} }
		req := &flowv1.Rack{
			// The id finds the rack; the serial number is not looked at, and not in the report.
			Info: &flowv1.DeviceInfo{Id: testID(1, 1, 0), Manufacturer: "Other", SerialNumber: "R99", Name: "new"},
			Components: []*flowv1.Component{
				{
					Info: &flowv1.DeviceInfo{Manufacturer: "NVIDIA", SerialNumber: "R1C2"}, FirmwareVersion: "2.0",
					Bmcs: []*flowv1.BMCInfo{
						{Type: host, MacAddress: "02-00-00-00-01-02", IpAddress: proto.String("10.0.0.1")},
						{Type: dpu, MacAddress: "060000000001"},
					},
				},
				{
					Type: shelf, Info: &flowv1.DeviceInfo{Id: testID(2, 1, 9), Manufacturer: "Delta", SerialNumber: "S9 "},
					Bmcs: []*flowv1.BMCInfo{
						{Type: host, MacAddress: "0600.0000.0002"}, {MacAddress: "06:00:00:00:00:03"}, {Type: 9, MacAddress: "06:00:00:00:00:04"},
					},
				},
				{
					Info: info(0),
					Bmcs: []*flowv1.BMCInfo{{Type: dpu, MacAddress: "02:00:00:00:01:00"}, {MacAddress: "06:00:00:00:00:05"}},
				},
				{Info: info(1), Position: &flowv1.RackPosition{SlotId: 4, TrayIdx: -1, HostId: -1}},
			},
		}
		for _, want := range []string{want, again} {
			got, err := patchRack(t.Context(), s.flow, req)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		}
		bySerial := &flowv1.Rack{Info: &flowv1.DeviceInfo{Manufacturer: " NVIDIA", SerialNumber: "R1 ", Name: "new"}, Components: req.GetComponents()}
		got, err := patchRack(t.Context(), s.flow, bySerial)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(again, got); d != "" {
			t.Errorf("by serial number (-want +got):\n%s", d)
		}
	})
}

func TestTheReportOnARackWithoutSerial(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(&flowv1.Rack{Info: &flowv1.DeviceInfo{Id: testID(1, 1, 0), Name: "a"}})
		got, err := patchRack(t.Context(), s.flow, &flowv1.Rack{Info: &flowv1.DeviceInfo{Id: testID(1, 1, 0), Name: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		want := `{
  "rack_id": "00000001-0000-4000-8000-000100000000",
  "rack_serial_info": "-",
  "rack_report": "NoChange",
  "components": []
}`
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	})
}

// TestWhatARackPatchChanges patches racks as seenRack makes them, by a request that names the rack and its first tray.
func TestWhatARackPatchChanges(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 255)
	owned := `"expected_description":{"a":1},`
	cases := map[string]struct {
		patch func(r *flowv1.Rack, tray *flowv1.Component)
		want  func(r *flowv1.Rack, tray *flowv1.Component) // of what was read before; nil: no change
	}{
		"nothing":        {func(*flowv1.Rack, *flowv1.Component) {}, nil},
		"a name":         {func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Name = " new\t" }, func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Name = "new" }},
		"a long name":    {func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Name = long }, func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Name = long }},
		"a blank name":   {func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Name = " \t" }, nil},
		"an empty place": {func(r *flowv1.Rack, _ *flowv1.Component) { r.Location = &flowv1.Location{} }, nil},
		"a place, as a whole": {
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Location = &flowv1.Location{Room: "r2"} },
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Location = &flowv1.Location{Room: "r2"} },
		},
		"a description, not the model": {
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Description = proto.String(`{"b":1,"a":2}`) },
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Description = proto.String(`{"a":2,"b":1}`) },
		},
		"a model, not the description": {
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Model = proto.String("GB300") },
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Model = proto.String("GB300") },
		},
		"an empty description": {
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Description = proto.String("") },
			func(r *flowv1.Rack, _ *flowv1.Component) { r.Info.Description = nil },
		},
		"what a rack keeps or nobody may write": {func(r *flowv1.Rack, _ *flowv1.Component) {
			r.ExternalId, r.Info.Manufacturer, r.Info.SerialNumber = "other", "Other", "other"
			r.NvlDomainIds, r.NvlDomainExternalIds = []*flowv1.UUID{testID(3, 0, 1)}, []string{"other"}
			r.RackProfileId, r.Health = proto.String("other"), &flowv1.HealthReport{Source: "other"}
			r.TaskStats, r.OperationStatus = &flowv1.TaskStats{RunningTaskCount: 7}, flowv1.Phase_PHASE_READY
		}, nil},
		"a firmware version": {
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.FirmwareVersion = "2.0" },
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.FirmwareVersion = "2.0" },
		},
		"a tray's object, not the synchronisation's keys": {
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Info.Description = proto.String(`{"z":1,"nvos_ip":"10.9.9.9"}`)
			},
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Info.Description = proto.String(`{` + owned + `"nvos_ip":"10.0.0.9","z":1}`)
			},
		},
		"a tray's text, not the synchronisation's keys": {
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.Info.Description = proto.String("dry") },
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Info.Description = proto.String(`{"description":"dry",` + owned + `"nvos_ip":"10.0.0.9"}`)
			},
		},
		"a slot": {
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Position = &flowv1.RackPosition{SlotId: 7, TrayIdx: -1, HostId: -1}
			},
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.Position.SlotId = 7 },
		},
		"a tray index": {
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Position = &flowv1.RackPosition{SlotId: -1, TrayIdx: 7, HostId: -1}
			},
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.Position.TrayIdx = 7 },
		},
		"a host, and zeros": {
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.Position = &flowv1.RackPosition{HostId: 7} },
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.Position = &flowv1.RackPosition{HostId: 7} },
		},
		"what a tray keeps or nobody may write": {func(_ *flowv1.Rack, tray *flowv1.Component) {
			tray.Type, tray.Info.Name, tray.Info.Manufacturer, tray.Info.SerialNumber = cdu, "other", "Other", "other"
			tray.Info.Model, tray.ComponentId, tray.RackId = proto.String("other"), "other", testID(1, 99, 0)
			tray.PowerState, tray.LeakStatus, tray.Health = "off", flowv1.LeakStatus_LEAK_STATUS_NOT_DETECTED, &flowv1.HealthReport{Source: "other"}
			tray.Status, tray.RackExternalId = &flowv1.ComponentOperationStatus{Phase: flowv1.Phase_PHASE_READY}, "other"
			tray.LeakHandlingStatus, tray.TaskStats = flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_DOWN, &flowv1.TaskStats{RunningTaskCount: 7}
		}, nil},
		"an address of a BMC, not its type": {
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Bmcs = []*flowv1.BMCInfo{{Type: dpu, IpAddress: proto.String("FE80:0::1")}}
			},
			func(_ *flowv1.Rack, tray *flowv1.Component) { tray.Bmcs[0].IpAddress = proto.String("fe80::1") },
		},
		"no address": {func(_ *flowv1.Rack, tray *flowv1.Component) { tray.Bmcs = []*flowv1.BMCInfo{{}} }, nil},
		"a BMC, next to the one there is": {
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Bmcs = []*flowv1.BMCInfo{{Type: dpu, MacAddress: "06-00-00-00-00-0A", IpAddress: proto.String("10.0.0.2")}}
			},
			func(_ *flowv1.Rack, tray *flowv1.Component) {
				tray.Bmcs = append(tray.Bmcs, &flowv1.BMCInfo{Type: dpu, MacAddress: "06:00:00:00:00:0a", IpAddress: proto.String("10.0.0.2")})
			},
		},
		"a BMC of unknown type": {func(_ *flowv1.Rack, tray *flowv1.Component) {
			tray.Bmcs = []*flowv1.BMCInfo{{MacAddress: "06:00:00:00:00:0b"}}
		}, nil},
		"another's BMC of unknown type": {func(_ *flowv1.Rack, tray *flowv1.Component) {
			tray.Bmcs = []*flowv1.BMCInfo{{MacAddress: "02:00:00:00:63:00"}}
		}, nil},
	}
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(0x63, 1))
		n := 0
		for name, c := range cases {
			n++
			t.Run(name, func(t *testing.T) {
				want := s.seenRack(n)
				tray := want.GetComponents()[0]
				req := &flowv1.Rack{
					Info:       &flowv1.DeviceInfo{Id: want.GetInfo().GetId()},
					Components: []*flowv1.Component{{Info: &flowv1.DeviceInfo{Id: tray.GetInfo().GetId()}}},
				}
				c.patch(req, req.GetComponents()[0])
				for _, b := range req.GetComponents()[0].GetBmcs() {
					if b.GetMacAddress() == "" {
						b.MacAddress = tray.GetBmcs()[0].GetMacAddress()
					}
				}
				if c.want != nil {
					c.want(want, tray)
				}
				before := s.contents()
				if _, err := patchRack(t.Context(), s.flow, req); err != nil {
					t.Fatal(err)
				}
				if d := diff(want, s.rack(want.GetInfo().GetId().GetId())); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
				if unchanged := s.contents() == before; unchanged != (c.want == nil) {
					t.Errorf("unchanged: %t", unchanged)
				}
			})
		}
	})
}
