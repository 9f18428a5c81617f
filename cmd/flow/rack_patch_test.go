package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

// report is what a server says of a patch.
const report = `{
  "rack_id": "` + rackOne + `",
  "rack_serial_info": "NVIDIA-S1",
  "rack_report": "Patched",
  "components": [
    {"component_id": "` + partOne + `", "component_serial_info": "NVIDIA-C1", "component_report": "NoChange",
     "bmc_reports": {"02:00:00:00:00:02": "Added", "02:00:00:00:00:01": "NoChange"}},
    {"component_id": "` + partTwo + `", "component_serial_info": "-", "component_report": "Added"}
  ]
}`

func TestRackPatchSendsWhatIsSaid(t *testing.T) {
	t.Parallel()
	id := &flowv1.UUID{Id: rackOne}
	for name, test := range map[string]struct {
		args []string
		want *flowv1.Rack
	}{
		"a name": {[]string{"rack-1", "--name", "rack-01"}, &flowv1.Rack{Info: &flowv1.DeviceInfo{Id: id, Name: "rack-01"}}},
		"an empty description, and a model": {[]string{"rack-1", "--description", "", "--model", "NVL36"}, &flowv1.Rack{
			Info: &flowv1.DeviceInfo{Id: id, Description: proto.String(""), Model: proto.String("NVL36")},
		}},
		"a part of the location, by id": {[]string{rackOne, "--room", "hall-2"}, &flowv1.Rack{
			Info: &flowv1.DeviceInfo{Id: id}, Location: &flowv1.Location{Region: "west", Room: "hall-2"},
		}},
		"all of the location": {[]string{"rack-1", "--region", "a", "--datacenter", "b", "--room", "", "--position", "d"}, &flowv1.Rack{
			Info: &flowv1.DeviceInfo{Id: id}, Location: &flowv1.Location{Region: "a", Datacenter: "b", Position: "d"},
		}},
		"a document for a rack": {[]string{"rack-1", "-j", `{"components": [
			{"info": {"manufacturer": "NVIDIA", "serial_number": "C1"}, "firmware_version": "2"},
			{"info": {"id": "` + partOne + `"}, "position": {"slot_id": 0}, "bmcs": [{"mac": "02:00:00:00:00:01", "ip": "10.0.0.1"}]}
		]}`}, &flowv1.Rack{
			Info: &flowv1.DeviceInfo{Id: id},
			Components: []*flowv1.Component{
				{Info: &flowv1.DeviceInfo{Manufacturer: "NVIDIA", SerialNumber: "C1"}, FirmwareVersion: "2"},
				{
					Info:     &flowv1.DeviceInfo{Id: &flowv1.UUID{Id: partOne}},
					Position: &flowv1.RackPosition{SlotId: 0, TrayIdx: -1, HostId: -1},
					Bmcs: []*flowv1.BMCInfo{{
						Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02:00:00:00:00:01", IpAddress: proto.String("10.0.0.1"),
					}},
				},
			},
		}},
		"a document that names its rack": {[]string{"-j", `{"info": {"id": "` + rackOne + `", "name": "n"}}`}, &flowv1.Rack{
			Info: &flowv1.DeviceInfo{Id: id, Name: "n"},
		}},
		"a document with a serial number": {[]string{"-f", "-"}, &flowv1.Rack{
			Info: &flowv1.DeviceInfo{Manufacturer: "NVIDIA", SerialNumber: "S1"}, Location: &flowv1.Location{Room: "r"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := stocked()
			f.report = report
			got := flow(t.Context(), f.env(t), `{"info": {"manufacturer": "NVIDIA", "serial_number": "S1"}, "location": {"room": "r"}}`,
				append([]string{"rack", "patch"}, test.args...)...)
			want := picture(`
WHAT       ID                                    SERIAL     RESULT
rack       11111111-0000-4000-8000-000000000001  NVIDIA-S1  Patched
BMC        02:00:00:00:00:02                     NVIDIA-C1  Added
component  44444444-0000-4000-8000-000000000002  -          Added
`) + "\n"
			if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK || got.err != "" {
				t.Errorf("%+v\n%s", got, diff)
			}
			asked := f.asked()
			sent := asked[len(asked)-1]
			if diff := cmp.Diff(proto.Message(&flowv1.PatchRackRequest{Rack: test.want}), sent, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRackPatchPrintsTheReportAsItIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ report, format, want string }{
		{`{"rack_id": "x", "components": []}`, "json", "{\n  \"rack_id\": \"x\",\n  \"components\": []\n}\n"},
		{`{"rack_id": "x", "components": []}`, "yaml", "rack_id: x\ncomponents: []\n"},
		{"not a report", "table", "not a report\n"},
	} {
		f := stocked()
		f.report = test.report
		got := against(t, f, "rack", "patch", "rack-1", "--name", "x", "-o", test.format)
		if got.code != exitOK || got.out != test.want {
			t.Errorf("%+v", got)
		}
	}
}

func TestRackPatchRefuses(t *testing.T) {
	t.Parallel()
	const either = "rack patch: give either a document, by --file or --json, or flags that say what to change"
	for name, test := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"nothing":            {nil, either, true},
		"a rack alone":       {[]string{"rack-1"}, either, true},
		"document and flags": {[]string{"rack-1", "-j", "{}", "--name", "x"}, either, true},
		"two documents":      {[]string{"rack-1", "-j", "{}", "-f", "x"}, "rack patch: give only one of --file and --json", true},
		"flags alone":        {[]string{"--name", "x"}, "rack patch: needs a rack", true},
		"no name":            {[]string{"rack-1", "--name", ""}, "rack patch: --name must not be empty", true},
		"two racks":          {[]string{"a", "b", "--name", "x"}, `rack patch: unexpected argument "b"`, true},
		"a bad document": {
			[]string{"rack-1", "-j", `{"inof": 1}`},
			"rack patch: --json: inof: unknown key: must be one of info, location, nvl_domain_ids, components",
			false,
		},
		"a bad type": {
			[]string{"rack-1", "-j", `{"components": [{"type": "fan"}]}`},
			`rack patch: --json: components[0].type: unknown component type "fan": ` +
				"must be one of compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu",
			false,
		},
		"another rack": {
			[]string{"rack-1", "-j", `{"info": {"id": "` + rackTwo + `"}}`},
			`rack patch: info.id is ` + rackTwo + `, but the rack "rack-1" is ` + rackOne,
			false,
		},
		"an unknown rack": {[]string{"rack-3", "--name", "x"}, `rack patch: no rack has the id or name "rack-3"`, false},
		"no location left": {
			[]string{"rack-1", "--region", "", "--room", ""},
			"rack patch: a location can't be emptied: one part of it must stay",
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := stocked()
			got := against(t, f, append([]string{"rack", "patch"}, test.args...)...)
			first, rest, _ := strings.Cut(got.err, "\n")
			if got.code != exitError || got.out != "" || first != "Error: "+test.want || strings.Contains(rest, "Usage:") != test.usage {
				t.Errorf("%+v", got)
			}
			for _, m := range f.asked() {
				if _, ok := m.(*flowv1.PatchRackRequest); ok {
					t.Error("the rack was patched")
				}
			}
		})
	}
}
