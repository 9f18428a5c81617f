package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

func TestRackCreateSendsTheDocument(t *testing.T) {
	t.Parallel()
	const doc = `{"info": {"id": "` + rackOne + `", "name": "rack-1"},
		"components": [{"type": "cdu", "bmcs": [{"mac": "02:00:00:00:00:01", "password": "hunter2"}]}]}`
	path := filepath.Join(t.TempDir(), "rack.json")
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		path:             {"-f", path},
		"standard input": {"--file", "-"},
		"--json":         {"-j", doc},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			got := flow(t.Context(), f.env(t), doc, append([]string{"rack", "create"}, args...)...)
			if got.code != exitOK || got.out != `{"id":"`+rackOne+"\"}\n" {
				t.Errorf("%+v", got)
			}
			const dropped = "components[0].bmcs[0].password is not sent: Flow keeps no BMC credentials in its inventory"
			if want := "Warning: " + name + ": " + dropped + "\n"; got.err != want {
				t.Errorf("standard error is %q", got.err)
			}
			sent := f.asked()[0].(*flowv1.CreateExpectedRackRequest)
			if sent.GetRack().GetInfo().GetName() != "rack-1" || !isUUID(sent.GetRack().GetComponents()[0].GetInfo().GetId().GetId()) ||
				strings.Contains(sent.String(), "hunter2") {
				t.Errorf("sent %s", sent)
			}
		})
	}
}

func TestRackCreateRefusesBeforeAnyCall(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.json")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nothing": {nil, "rack create: give exactly one of --file and --json"},
		"both":    {[]string{"-f", "x", "-j", "{}"}, "rack create: give exactly one of --file and --json"},
		"no file": {[]string{"-f", missing}, "rack create: open " + missing + ": no such file or directory"},
		"a bad key": {
			[]string{"-j", `{"inof": 1}`},
			"rack create: --json: inof: unknown key: must be one of info, location, nvl_domain_ids, components",
		},
		"an empty file": {[]string{"-f", "-"}, "rack create: standard input: the document is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			got := against(t, f, append([]string{"rack", "create"}, test.args...)...)
			if first, _, _ := strings.Cut(got.err, "\n"); got.code != exitError || first != "Error: "+test.want || len(f.asked()) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// stocked is a fake with two racks.
func stocked() *fake {
	model := "NVL72"
	return &fake{racks: []*flowv1.Rack{
		{
			Info: &flowv1.DeviceInfo{
				Id: &flowv1.UUID{Id: rackOne}, Name: "rack-1", Manufacturer: "NVIDIA", Model: &model, SerialNumber: "S1",
			},
			Location:        &flowv1.Location{Region: "west", Room: "hall-1"},
			OperationStatus: flowv1.Phase_PHASE_READY,
			TaskStats:       &flowv1.TaskStats{RunningTaskCount: 1, WaitingTaskCount: 2},
			Components: []*flowv1.Component{
				{
					Type: flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH, Info: &flowv1.DeviceInfo{Id: &flowv1.UUID{Id: taskTwo}, Name: "sw"},
					Position: &flowv1.RackPosition{SlotId: -1},
				},
				{
					Type:     flowv1.ComponentType_COMPONENT_TYPE_COMPUTE,
					Info:     &flowv1.DeviceInfo{Id: &flowv1.UUID{Id: taskOne}, Name: "ct\x1b[2J", SerialNumber: "C1"},
					Position: &flowv1.RackPosition{SlotId: 4}, PowerState: "on", FirmwareVersion: "1.2",
					Bmcs: []*flowv1.BMCInfo{{MacAddress: "02:00:00:00:00:01", IpAddress: proto.String("10.0.0.1")}, {MacAddress: "02:00:00:00:00:02"}},
				},
			},
		},
		{Info: &flowv1.DeviceInfo{Id: &flowv1.UUID{Id: rackTwo}, Name: "rack-2", SerialNumber: "S2"}},
	}}
}

func TestRackGet(t *testing.T) {
	t.Parallel()
	want := picture(`
Name          rack-1
ID            11111111-0000-4000-8000-000000000001
Manufacturer  NVIDIA
Model         NVL72
Serial        S1
Location      west / hall-1
Status        ready
Tasks         1 running, 0 pending, 2 waiting

TYPE      NAME    SLOT  POWER  FIRMWARE  SERIAL  BMC                                            ID
Compute   ct?[2J  4     on     1.2       C1      02:00:00:00:00:01 10.0.0.1, 02:00:00:00:00:02  22222222-0000-4000-8000-000000000001
NVSwitch  sw      -     -      -         -       -                                              22222222-0000-4000-8000-000000000002
`) + "\n"
	for _, args := range [][]string{{rackOne}, {"rack-1"}, {"--serial", "S1"}, {"--serial", "S1", "--manufacturer", "NVIDIA"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			got := against(t, stocked(), append([]string{"rack", "get"}, args...)...)
			if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK {
				t.Error(diff, got.err)
			}
		})
	}
}

func TestRackGetRefuses(t *testing.T) {
	t.Parallel()
	twins := stocked()
	twins.racks[1].Info.Name = "rack-1"
	for name, test := range map[string]struct {
		fake *fake
		args []string
		want string
	}{
		"nothing":           {stocked(), nil, "rack get: give exactly one of RACK and --serial"},
		"both":              {stocked(), []string{"a", "--serial", "b"}, "rack get: give exactly one of RACK and --serial"},
		"two racks":         {stocked(), []string{"a", "b"}, `rack get: unexpected argument "b"`},
		"no serial":         {stocked(), []string{"a", "--manufacturer", "b"}, "rack get: --manufacturer goes with --serial"},
		"an unknown name":   {stocked(), []string{"rack-3"}, `rack get: no rack has the id or name "rack-3"`},
		"an unknown id":     {stocked(), []string{taskOne}, "rack get: rack " + taskOne + " not found (not_found)"},
		"a name of several": {twins, []string{"rack-1"}, `rack get: 2 racks are named "rack-1": give the id of one`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := against(t, test.fake, append([]string{"rack", "get"}, test.args...)...)
			if first, _, _ := strings.Cut(got.err, "\n"); got.code != exitError || first != "Error: "+test.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestRackList(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fake *fake
		args []string
		want string
	}{
		"a table": {stocked(), nil, `
NAME    ID                                    STATUS   COMPONENTS  ACTIVE TASKS
rack-1  11111111-0000-4000-8000-000000000001  ready    -           3
rack-2  11111111-0000-4000-8000-000000000002  unknown  -           0`},
		"with components": {stocked(), []string{"--with-components"}, `
NAME    ID                                    STATUS   COMPONENTS  ACTIVE TASKS
rack-1  11111111-0000-4000-8000-000000000001  ready    2           3
rack-2  11111111-0000-4000-8000-000000000002  unknown  0           0`},
		"nothing": {&fake{}, nil, "No racks"},
		"YAML": {&fake{}, []string{"-o", "yaml"}, `
racks: []
total: 0`},
		"JSON": {&fake{}, []string{"-o", "json"}, `
{
  "racks": [],
  "total": 0
}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := against(t, test.fake, append([]string{"rack", "list"}, test.args...)...)
			if diff := cmp.Diff(picture(test.want)+"\n", got.out); diff != "" || got.code != exitOK {
				t.Error(diff, got.err)
			}
		})
	}
}

func TestRackListAsksForWhatItsFlagsSay(t *testing.T) {
	t.Parallel()
	field := func(f flowv1.RackOrderByField, direction string) *flowv1.OrderBy {
		return &flowv1.OrderBy{Field: &flowv1.OrderBy_RackField{RackField: f}, Direction: direction}
	}
	all := &flowv1.Pagination{Limit: 100}
	for line, want := range map[string]*flowv1.GetListOfRacksRequest{
		"":                     {Pagination: all},
		"--limit 5 --offset 7": {Pagination: &flowv1.Pagination{Limit: 5, Offset: 7}},
		"--name a,b%": {Pagination: all, Filters: []*flowv1.Filter{
			rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_NAME, &flowv1.StringQueryInfo{
				Patterns: []string{"a", "b%"}, IsWildcard: true, UseOr: true,
			}),
		}},
		"--manufacturer a --model b": {Pagination: all, Filters: []*flowv1.Filter{
			rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_MANUFACTURER, contains(listValue{"a"})),
			rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_MODEL, contains(listValue{"b"})),
		}},
		"--with-external-id": {Pagination: all, WithExternalIdOnly: true},
		"--order-by Model":   {Pagination: all, OrderBy: field(flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_MODEL, "ASC")},
		"--desc":             {Pagination: all, OrderBy: field(flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_NAME, "DESC")},
		"--with-components":  {Pagination: all, WithComponents: true},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := stocked()
			if got := against(t, f, append([]string{"rack", "list"}, strings.Fields(line)...)...); got.code != exitOK {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	for line, want := range map[string]string{
		"--limit 0":         "rack list: --limit must be greater than 0, got 0",
		"--offset -1":       "rack list: --offset must not be negative, got -1",
		"--order-by serial": `rack list: unknown order "serial": must be one of name, manufacturer, model`,
		"x":                 `rack list: unexpected argument "x"`,
	} {
		got := against(t, &fake{}, append([]string{"rack", "list"}, strings.Fields(line)...)...)
		if first, _, _ := strings.Cut(got.err, "\n"); got.code != exitError || first != "Error: "+want {
			t.Errorf("%+v", got)
		}
	}
}
