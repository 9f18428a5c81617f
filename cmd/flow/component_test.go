package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"rackflow.dev/flow/api/gen/flowv1"
)

// furnished is a stocked fake with components.
func furnished() *fake {
	f := stocked()
	f.components = []*flowv1.Component{
		{
			Type: flowv1.ComponentType_COMPONENT_TYPE_COMPUTE, ComponentId: "m1", RackId: &flowv1.UUID{Id: rackOne},
			Info: &flowv1.DeviceInfo{
				Id: &flowv1.UUID{Id: partOne}, Name: "ct01", Manufacturer: "NVIDIA", SerialNumber: "C1", Description: proto.String("a tray"),
			},
			FirmwareVersion: "1.2", PowerState: "on",
			Position: &flowv1.RackPosition{SlotId: 4, TrayIdx: 3, HostId: -1},
			Status: &flowv1.ComponentOperationStatus{
				Phase: flowv1.Phase_PHASE_IN_USE, Reason: "Assigned/Ready",
				BlockedOperations: []flowv1.OperationType{
					flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL,
				},
			},
			LeakStatus:         flowv1.LeakStatus_LEAK_STATUS_NOT_DETECTED,
			LeakHandlingStatus: flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_SHUTTING_DOWN,
			TaskStats:          &flowv1.TaskStats{RunningTaskCount: 1},
			Bmcs: []*flowv1.BMCInfo{
				{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02:00:00:00:00:01", IpAddress: proto.String("10.0.0.1")},
				{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "02:00:00:00:00:02"},
			},
		},
		{Type: flowv1.ComponentType_COMPONENT_TYPE_CDU, Info: &flowv1.DeviceInfo{Id: &flowv1.UUID{Id: partTwo}, Name: "cdu"}},
	}
	return f
}

func TestComponentGet(t *testing.T) {
	t.Parallel()
	want := picture(`
Name           ct01
ID             44444444-0000-4000-8000-000000000001
External ID    m1
Type           Compute
Manufacturer   NVIDIA
Serial         C1
Description    a tray
Firmware       1.2
Rack           rack-1 (11111111-0000-4000-8000-000000000001)
Position       slot 4, tray 3
Power          on
Status         in_use
Reason         Assigned/Ready
Blocked        power control, firmware control
Leak           not detected
Leak handling  shutting down
Tasks          1 running, 0 pending, 0 waiting

BMC   MAC                IP
HOST  02:00:00:00:00:01  10.0.0.1
DPU   02:00:00:00:00:02  -
`) + "\n"
	for _, args := range [][]string{
		{"m1"}, {partOne}, {"02:00:00:00:00:02"}, {"--serial", "C1"}, {"--serial", "C1", "--manufacturer", "NVIDIA"},
	} {
		got := against(t, furnished(), append([]string{"component", "get"}, args...)...)
		if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK {
			t.Error(args, diff, got.err)
		}
	}
	got := against(t, furnished(), "component", "get", "m1", "--with-rack")
	if rest, ok := strings.CutPrefix(got.out, want); !ok || !strings.HasPrefix(rest, "\nName          rack-1\n") {
		t.Errorf("%+v", got)
	}
	for flags, keys := range map[string][]string{"-o json": {"component_id", "leak_status"}, "-o json --with-rack": {"component", "rack"}} {
		var doc map[string]any
		got := against(t, furnished(), append([]string{"component", "get", "m1"}, strings.Fields(flags)...)...)
		if err := json.Unmarshal([]byte(got.out), &doc); err != nil {
			t.Fatal(err, got)
		}
		for _, key := range keys {
			if _, ok := doc[key]; !ok {
				t.Errorf("%s: no %s in %s", flags, key, got.out)
			}
		}
	}
}

func TestComponentList(t *testing.T) {
	t.Parallel()
	got := against(t, furnished(), "component", "list")
	want := picture(`
TYPE     NAME  RACK    SLOT  POWER  STATUS  FIRMWARE  ACTIVE TASKS  EXTERNAL ID  ID
Compute  ct01  rack-1  4     on     in_use  1.2       1             m1           44444444-0000-4000-8000-000000000001
CDU      cdu   -       0     -      -       -         0             -            44444444-0000-4000-8000-000000000002
`) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK {
		t.Error(diff, got.err)
	}
	if got := against(t, &fake{}, "component", "list"); got.out != "No components\n" {
		t.Errorf("%+v", got)
	}
}

func TestComponentListAsksForWhatItsFlagsSay(t *testing.T) {
	t.Parallel()
	compute := []flowv1.ComponentType{flowv1.ComponentType_COMPONENT_TYPE_COMPUTE}
	const anyType = flowv1.ComponentType_COMPONENT_TYPE_UNKNOWN
	all := &flowv1.Pagination{Limit: 100}
	field := flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_NAME
	order := &flowv1.OrderBy{
		Field:     &flowv1.OrderBy_ComponentField{ComponentField: flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_TYPE},
		Direction: "DESC",
	}
	for line, want := range map[string]*flowv1.GetComponentsRequest{
		"":                           {Pagination: all},
		"--limit 5 --offset 7":       {Pagination: &flowv1.Pagination{Limit: 5, Offset: 7}},
		"rack-1 -t compute":          {Pagination: all, TargetSpec: racks(compute, byName("rack-1"))},
		"--domain nvl-1":             {Pagination: all, TargetSpec: domains(nil, domainByName("nvl-1"))},
		"--component-ids m1":         {Pagination: all, TargetSpec: components(external(anyType, "m1"))},
		"--component-ids m1 -t cdu":  {Pagination: all, TargetSpec: components(external(flowv1.ComponentType_COMPONENT_TYPE_CDU, "m1"))},
		"--order-by type --desc":     {Pagination: all, OrderBy: order},
		"--name a,b%":                {Pagination: all, Filters: []*flowv1.Filter{componentFilter(field, contains(listValue{"a", "b%"}))}},
		"--type compute,power-shelf": {Pagination: all, Filters: []*flowv1.Filter{typed("Compute", "PowerShelf")}},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			if got := against(t, f, append([]string{"component", "list"}, strings.Fields(line)...)...); got.code != exitOK {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func typed(names ...string) *flowv1.Filter {
	return componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_TYPE, &flowv1.StringQueryInfo{Patterns: names})
}

func TestComponentAddSendsWhatIsSaid(t *testing.T) {
	t.Parallel()
	const least = "--name ct19 --type COMPUTE --manufacturer NVIDIA --serial-number C19"
	part := func(change func(*flowv1.Component)) *flowv1.Component {
		m := &flowv1.Component{
			Type: flowv1.ComponentType_COMPONENT_TYPE_COMPUTE,
			Info: &flowv1.DeviceInfo{Name: "ct19", Manufacturer: "NVIDIA", SerialNumber: "C19"},
		}
		change(m)
		return m
	}
	doc := `{"type":"compute","info":{"name":"ct19","manufacturer":"NVIDIA","serial_number":"C19"},"component_id":"m19"}`
	for line, want := range map[string]*flowv1.Component{
		least: part(func(*flowv1.Component) {}),
		least + " --id " + partOne + " --component-id m19 --model M --firmware-version 1 --description D --slot-id 0" +
			" --rack-id " + rackTwo: part(func(m *flowv1.Component) {
			m.ComponentId, m.FirmwareVersion = "m19", "1"
			m.Info.Id, m.Info.Model, m.Info.Description = &flowv1.UUID{Id: partOne}, proto.String("M"), proto.String("D")
			m.Position, m.RackId = &flowv1.RackPosition{SlotId: 0, TrayIdx: -1, HostId: -1}, &flowv1.UUID{Id: rackTwo}
		}),
		least + " --rack rack-1 --bmc-mac 02-00-00-00-00-19 --bmc-ip 10.0.0.19": part(func(m *flowv1.Component) {
			m.RackId = &flowv1.UUID{Id: rackOne}
			m.Bmcs = []*flowv1.BMCInfo{{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02:00:00:00:00:19", IpAddress: proto.String("10.0.0.19")}}
		}),
		"--rack rack-1 -j " + doc: part(func(m *flowv1.Component) { m.ComponentId, m.RackId = "m19", &flowv1.UUID{Id: rackOne} }),
		"-f -":                    part(func(m *flowv1.Component) { m.ComponentId = "m19" }),
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := stocked()
			got := flow(t.Context(), f.env(t), doc, append([]string{"component", "add"}, strings.Fields(line)...)...)
			if got.code != exitOK || !strings.HasPrefix(got.out, "{\n  \"type\": \"COMPONENT_TYPE_COMPUTE\",\n") || got.err != "" {
				t.Errorf("%+v", got)
			}
			asked := f.asked()
			if diff := cmp.Diff(proto.Message(&flowv1.AddComponentRequest{Component: want}), asked[len(asked)-1], protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	got := against(t, &fake{}, append([]string{"component", "add", "-o", "table"}, strings.Fields(least)...)...)
	if got.code != exitOK || !strings.HasPrefix(got.out, "Name           ct19\n") {
		t.Errorf("%+v", got)
	}
}

func TestComponentUpdateSendsWhatIsSaid(t *testing.T) {
	t.Parallel()
	id := &flowv1.UUID{Id: partOne}
	for name, test := range map[string]struct {
		args []string
		want *flowv1.PatchComponentRequest
	}{
		"firmware, by id": {
			[]string{"--id", partOne, "--firmware-version", ""},
			&flowv1.PatchComponentRequest{Id: id, FirmwareVersion: proto.String("")},
		},
		"description":      {[]string{"m1", "--description", "d"}, &flowv1.PatchComponentRequest{Id: id, Description: proto.String("d")}},
		"another rack":     {[]string{partOne, "--rack", "rack-2"}, &flowv1.PatchComponentRequest{Id: id, RackId: &flowv1.UUID{Id: rackTwo}}},
		"a rack by its id": {[]string{"m1", "--rack-id", rackTwo}, &flowv1.PatchComponentRequest{Id: id, RackId: &flowv1.UUID{Id: rackTwo}}},
		"a slot of 0":      {[]string{"m1", "--slot-id", "0"}, position3(id, 0, -1, -1, "position.slot_id")},
		"an unknown number": {
			[]string{"m1", "--tray-index=-1", "--host-id", "5"}, position3(id, -1, -1, 5, "position.tray_idx", "position.host_id"),
		},
		"BMCs": {
			[]string{"m1", "--bmcs", `[{"type": "DPU", "mac": "020000000009"}, {"mac": "02:00:00:00:00:01", "ip": "::1"}]`},
			&flowv1.PatchComponentRequest{Id: id, Bmcs: []*flowv1.BMCInfo{
				{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "02:00:00:00:00:09"},
				{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02:00:00:00:00:01", IpAddress: proto.String("::1")},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := furnished()
			got := against(t, f, append([]string{"component", "update"}, test.args...)...)
			if got.code != exitOK || !json.Valid([]byte(got.out)) || got.err != "" {
				t.Errorf("%+v", got)
			}
			asked := f.asked()
			if diff := cmp.Diff(proto.Message(test.want), asked[len(asked)-1], protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func position3(id *flowv1.UUID, slot, tray, host int32, paths ...string) *flowv1.PatchComponentRequest {
	return &flowv1.PatchComponentRequest{
		Id:         id,
		Position:   &flowv1.RackPosition{SlotId: slot, TrayIdx: tray, HostId: host},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: paths},
	}
}

func TestComponentCommandsRefuseBeforeAnyCall(t *testing.T) {
	t.Parallel()
	const types = "compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu"
	const ways = "name racks in exactly one way: as arguments, by --rack-ids, --rack-names, --domain, --domain-ids, " +
		"--domain-names or --component-ids"
	const least = "component add --name a --type cdu --manufacturer b --serial-number c"
	for line, want := range map[string]struct {
		text  string
		usage bool
	}{
		"component get":                     {"component get: give exactly one of COMPONENT and --serial", true},
		"component get m1 --serial x":       {"component get: give exactly one of COMPONENT and --serial", true},
		"component get m1 --manufacturer x": {"component get: --manufacturer goes with --serial", true},
		"component get m1 m2":               {`component get: unexpected argument "m2"`, true},
		"component list a --domain b":       {"component list: " + ways, true},
		"component list --rack-ids x":       {`component list: --rack-ids "x" is not a valid UUID`, false},
		"component list -t fan":             {`component list: unknown component type "fan": must be one of ` + types, false},
		"component list --limit 0":          {"component list: --limit must be greater than 0, got 0", true},
		"component list --order-by slot": {
			`component list: unknown order "slot": must be one of name, manufacturer, model, type`, false,
		},
		"component add": {
			"component add: --name, --type, --manufacturer, --serial-number are required", true,
		},
		"component add --name a -t cdu --manufacturer b": {"component add: --serial-number is required", true},
		"component add x":                 {`component add: unexpected argument "x"`, true},
		"component add -f a -j b":         {"component add: give only one of --file and --json", true},
		"component add -j {} --name a":    {"component add: --name does not go with a document", true},
		"component add -j {} --slot-id 1": {"component add: --slot-id does not go with a document", true},
		`component add -j {"typ":1}`: {
			"component add: --json: typ: unknown key: must be one of type, info, firmware_version, component_id, position, bmcs",
			false,
		},
		"component add -j {}": {
			`component add: --json: type: unknown component type "": must be one of ` + types, false,
		},
		least + " --bmc-ip 10.0.0.1":                        {"component add: --bmc-ip and --bmc-type go with --bmc-mac", true},
		least + " --bmc-mac x":                              {`component add: --bmc-mac: "x" is not a MAC address`, false},
		least + " --bmc-mac 02:00:00:00:00:01 --bmc-ip x":   {`component add: --bmc-ip: "x" is not an IP address`, false},
		least + " --bmc-mac 02:00:00:00:00:01 --bmc-type x": {`component add: --bmc-type: unknown BMC type "x": must be one of host, dpu`, false},
		least + " --id x":                                   {`component add: --id "x" is not a valid UUID`, false},
		least + " --rack-id x":                              {`component add: --rack-id "x" is not a valid UUID`, false},
		least + " --rack a --rack-id b":                     {"component add: give only one of --rack and --rack-id", true},
		"component update m1":                               {"component update: needs a flag that says what to change", true},
		"component update --slot-id 1": {
			"component update: give the component in exactly one way: as an argument or by --id", true,
		},
		"component update --id x --slot-id 1": {`component update: --id "x" is not a valid UUID`, false},
		"component update m1 --rack-id=": {
			"component update: a component can be moved to another rack, but not to none", false,
		},
		"component update m1 --bmcs {}":   {"component update: --bmcs: document: must be a list, got an object", false},
		"component update m1 --bmcs null": {"component update: --bmcs: document: must be a list, got null", false},
		`component update m1 --bmcs [{"mca":"x"}]`: {
			"component update: --bmcs: [0].mca: unknown key: must be one of type, mac, ip", false,
		},
		`component update m1 --bmcs [{"mac":"x"}]`:   {`component update: --bmcs: [0].mac: "x" is not a MAC address`, false},
		"component expected -t compute":              {"component expected: " + ways, true},
		"component expected a":                       {"component expected: --type is required with racks: " + types, true},
		"component expected a --rack-names b -t cdu": {"component expected: " + ways, true},
		"component diff a --component-ids b":         {"component diff: " + ways, true},
		"component diff --rack-ids x":                {`component diff: --rack-ids "x" is not a valid UUID`, false},
		"component diff --type cdu": {
			`component diff: unknown component type "cdu": must be one of compute, nvswitch, nvl-switch, power-shelf`, false,
		},
		"component expected a -t compute --output xml": {
			`invalid argument "xml" for "-o, --output" flag: unknown output format "xml": must be one of table, json, yaml, protojson`,
			true,
		},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := furnished()
			got := against(t, f, strings.Fields(line)...)
			first, rest, _ := strings.Cut(got.err, "\n")
			if got.code != exitError || got.out != "" || first != "Error: "+want.text || strings.Contains(rest, "Usage:") != want.usage {
				t.Errorf("%+v", got)
			}
			if len(f.asked()) != 0 {
				t.Errorf("%d calls were made", len(f.asked()))
			}
		})
	}
}

func TestComponentExpectedReadsEveryPage(t *testing.T) {
	t.Parallel()
	f := &fake{}
	for i := range 2*pageSize + 1 {
		f.components = append(f.components, &flowv1.Component{ComponentId: fmt.Sprintf("m%d", i)})
	}
	got := against(t, f, "component", "expected", "rack-1", "-t", "compute")
	var doc struct {
		Total      int `json:"total"`
		Components []struct {
			ID string `json:"component_id"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || doc.Total != 2*pageSize+1 || len(doc.Components) != doc.Total {
		t.Errorf("%v: total %d, %d components", err, doc.Total, len(doc.Components))
	}
	if doc.Components[2*pageSize].ID != "m2000" || len(f.asked()) != 3 {
		t.Errorf("%d calls were made", len(f.asked()))
	}
	f = furnished()
	got = against(t, f, "component", "expected", "--component-ids", "m1", "-o", "table")
	want := picture(`
Total: 2 components

ID                                       TYPE            NAME                           MACHINE_ID
44444444-0000-4000-8000-000000000001     Compute         ct01                           m1
44444444-0000-4000-8000-000000000002     CDU             cdu                            -
`) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" {
		t.Error(diff)
	}
}

func TestExternalIDsAreLookedUpInAnyType(t *testing.T) {
	t.Parallel()
	page := &flowv1.Pagination{Limit: pageSize}
	target := func(kind flowv1.ComponentType) *flowv1.OperationTargetSpec { return components(external(kind, "m1")) }
	const anyType, shelf = flowv1.ComponentType_COMPONENT_TYPE_UNKNOWN, flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF
	for line, want := range map[string]proto.Message{
		"expected":                &flowv1.GetComponentsRequest{TargetSpec: target(anyType), Pagination: page},
		"expected -t power-shelf": &flowv1.GetComponentsRequest{TargetSpec: target(shelf), Pagination: page},
		"diff":                    &flowv1.ValidateComponentsRequest{TargetSpec: target(anyType), Pagination: page},
		"diff -t power-shelf":     &flowv1.ValidateComponentsRequest{TargetSpec: target(shelf), Pagination: page},
	} {
		f := furnished()
		got := against(t, f, append(append([]string{"component"}, strings.Fields(line)...), "--component-ids", "m1")...)
		if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" || got.code != exitOK {
			t.Errorf("%s: %s%s", line, diff, got.err)
		}
	}
}

func drifted() *fake {
	f := furnished()
	f.checkedAt = epoch().Add(-2 * time.Minute).Format(time.RFC3339)
	f.diffs = []*flowv1.ComponentDiff{
		{Type: flowv1.DiffType_DIFF_TYPE_MISSING, Expected: f.components[0], ComponentMacAddress: "02:00:00:00:00:01"},
		{Type: flowv1.DiffType_DIFF_TYPE_UNEXPECTED, ComponentId: "m9"},
		{
			Type: flowv1.DiffType_DIFF_TYPE_MISMATCH, Id: &flowv1.UUID{Id: partTwo}, ComponentId: "m2", Expected: f.components[1],
			FieldDiffs: []*flowv1.FieldDiff{
				{FieldName: "slot_id", ExpectedValue: "4", ActualValue: "5"},
				{FieldName: "host_id", ExpectedValue: "1", ActualValue: "<missing>"},
			},
		},
	}
	return f
}

func TestComponentDiff(t *testing.T) {
	t.Parallel()
	got := against(t, drifted(), "component", "diff", "-o", "table", "--exit-code")
	want := picture(`
Differences  3 (compared 3m ago)
Missing      1
Unexpected   1
Mismatch     1
Match        7

TYPE            UUID                                   COMPONENT_ID                   DETAILS
Missing         44444444-0000-4000-8000-000000000001   -                              Compute ct01; BMC 02:00:00:00:00:01
Unexpected      -                                      m9                             -
Mismatch        44444444-0000-4000-8000-000000000002   m2                             CDU cdu; slot_id: expected 4, actual 5; host_id: expected 1, actual <missing>
`) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitDiffers || got.err != "3 differences\n" {
		t.Errorf("%d, %s, %s", got.code, diff, got.err)
	}
	got = against(t, &fake{}, "component", "diff", "-o", "table", "--exit-code")
	want = picture(`
Differences  0 (never compared)
Missing      0
Unexpected   0
Mismatch     0
Match        7

No differences found.
`) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK {
		t.Error(diff, got.err)
	}
	got = against(t, &fake{}, "component", "diff", "rack-1")
	want = `{
  "diffs": [],
  "total_diffs": 0,
  "missing_count": 0,
  "unexpected_count": 0,
  "mismatch_count": 0,
  "match_count": 7
}
`
	const warning = "Warning: the inventory was never compared with Core\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK || got.err != warning {
		t.Error(diff, got.err)
	}
}

func TestComponentDiffReadsEveryPageOfItsScope(t *testing.T) {
	t.Parallel()
	f := drifted()
	for range pageSize {
		f.diffs = append(f.diffs, f.diffs[1])
	}
	got := against(t, f, "component", "diff", "-t", "compute")
	var doc struct {
		Diffs []any `json:"diffs"`
		Total int   `json:"total_diffs"`
	}
	err := json.Unmarshal([]byte(got.out), &doc)
	if err != nil || doc.Total != pageSize+3 || len(doc.Diffs) != doc.Total || got.code != exitOK {
		t.Errorf("%v: %d of %d, %s", err, len(doc.Diffs), doc.Total, got.err)
	}
	want := []proto.Message{
		&flowv1.ValidateComponentsRequest{Filters: []*flowv1.Filter{typed("Compute")}, Pagination: &flowv1.Pagination{Limit: pageSize}},
		&flowv1.ValidateComponentsRequest{
			Filters: []*flowv1.Filter{typed("Compute")}, Pagination: &flowv1.Pagination{Limit: pageSize, Offset: pageSize},
		},
	}
	if diff := cmp.Diff(want, f.asked(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 119 * time.Minute: "1h", 47 * time.Hour: "47h", 50 * time.Hour: "2d",
	} {
		if got := ago(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}
