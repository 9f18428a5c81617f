package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

// update rewrites golden files: go test ./cmd/flow -update.
var update = flag.Bool("update", false, "rewrite golden files")

func TestParseRackTakesEveryField(t *testing.T) {
	t.Parallel()
	got, warnings, err := parseRack([]byte(`{
		"info": {
			"id": "11111111-0000-4000-8000-000000000001", "name": "rack-1", "manufacturer": "NVIDIA", "model": "NVL72",
			"serial_number": "S1", "description": "d"
		},
		"location": {"region": "r", "datacenter": "d", "room": "m", "position": "p"},
		"nvl_domain_ids": ["33333333-0000-4000-8000-000000000001"],
		"components": [{
			"type": "NVL-Switch",
			"info": {"id": "22222222-0000-4000-8000-000000000001", "name": "sw"},
			"firmware_version": "1.2", "component_id": "ext-1",
			"position": {"slot_id": 3, "tray_index": -1},
			"bmcs": [
				{"mac": "02AABBCCDDEE", "ip": "10.0.0.1"},
				{"type": "DPU", "mac": "02-aa-bb-cc-dd-ef"}
			]
		}]
	}`), asNew)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	text := func(s string) *string { return &s }
	want := &flowv1.Rack{
		Info: &flowv1.DeviceInfo{
			Id: &flowv1.UUID{Id: rackOne}, Name: "rack-1", Manufacturer: "NVIDIA", Model: text("NVL72"), SerialNumber: "S1", Description: text("d"),
		},
		Location:     &flowv1.Location{Region: "r", Datacenter: "d", Room: "m", Position: "p"},
		NvlDomainIds: []*flowv1.UUID{{Id: ruleOne}},
		Components: []*flowv1.Component{{
			Type:            flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH,
			Info:            &flowv1.DeviceInfo{Id: &flowv1.UUID{Id: taskOne}, Name: "sw"},
			FirmwareVersion: "1.2",
			ComponentId:     "ext-1",
			Position:        &flowv1.RackPosition{SlotId: 3, TrayIdx: -1},
			Bmcs: []*flowv1.BMCInfo{
				{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: "02:aa:bb:cc:dd:ee", IpAddress: text("10.0.0.1")},
				{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "02:aa:bb:cc:dd:ef"},
			},
		}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestParseRackMakesMissingIDs(t *testing.T) {
	t.Parallel()
	rack, _, err := parseRack([]byte(`{"info": {"name": "r"}, "components": [{"type": "cdu", "info": {}}, {"type": "cdu"}]}`), asNew)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	parts := rack.GetComponents()
	for _, id := range []*flowv1.UUID{rack.GetInfo().GetId(), parts[0].GetInfo().GetId(), parts[1].GetInfo().GetId()} {
		if !isUUID(id.GetId()) || seen[id.GetId()] {
			t.Errorf("id %q is not a new UUID", id.GetId())
		}
		seen[id.GetId()] = true
	}
}

func TestParseRackRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		doc  string
		want string
	}{
		"nothing":          {"", "the document is empty"},
		"blanks":           {" \n\t", "the document is empty"},
		"a list":           {"[]", "document: must be an object, got a list"},
		"null":             {"null", "document: must be an object, got null"},
		"half a document":  {"{\n \"info\":", "line 2, column 8: the document ends too early"},
		"a syntax error":   {"{\n \"info\": x}", "line 2, column 10: invalid character 'x' looking for beginning of value"},
		"two documents":    {"{} {}", "line 1, column 4: more text after the document"},
		"an unknown key":   {`{"inof": {}}`, "inof: unknown key: must be one of info, location, nvl_domain_ids, components"},
		"another case":     {`{"Info": {}}`, "Info: unknown key: must be one of info, location, nvl_domain_ids, components"},
		"a number as text": {`{"info": {"name": 7}}`, "info.name: must be text, got the number 7"},
		"an object for a list": {
			`{"components": {}}`, "components: must be a list, got an object",
		},
		"a null in a list": {`{"components": [null]}`, "components[0]: must not be null"},
		"text for a number": {
			`{"components": [{"type": "cdu", "position": {"slot_id": "1"}}]}`,
			"components[0].position.slot_id: must be a number, got text",
		},
		"half a slot": {
			`{"components": [{"type": "cdu", "position": {"slot_id": 1.5}}]}`,
			"components[0].position.slot_id: must be a whole number of 32 bits, got 1.5",
		},
		"too large a number": {
			`{"components": [{"type": "cdu", "position": {"slot_id": 3000000000}}]}`,
			"components[0].position.slot_id: must be a whole number of 32 bits, got 3000000000",
		},
		"an unknown component": {
			`{"components": [{"type": "fan"}]}`,
			`components[0].type: unknown component type "fan": must be one of compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu`,
		},
		"a bad id": {`{"info": {"id": "x"}}`, `info.id: id "x" is not a valid UUID`},
		"the nil id": {
			`{"info": {"id": "00000000-0000-0000-0000-000000000000"}}`,
			`info.id: id "00000000-0000-0000-0000-000000000000" is not a valid UUID`,
		},
		"a bad BMC": {
			`{"components": [{"type": "cdu", "bmcs": [{"type": "gpu", "mac": "xyz", "ip": "300.1.1.1"}]}]}`,
			`components[0].bmcs[0].type: unknown BMC type "gpu": must be one of host, dpu
components[0].bmcs[0].mac: "xyz" is not a MAC address
components[0].bmcs[0].ip: "300.1.1.1" is not an IP address`,
		},
		"every problem at once": {
			`{"x": 1, "info": {"name": [], "y": 2}, "location": 3}`,
			`info.name: must be text, got a list
info.y: unknown key: must be one of id, name, manufacturer, model, serial_number, description
location: must be an object, got the number 3
x: unknown key: must be one of info, location, nvl_domain_ids, components`,
		},
		"values beside what is no value": {
			`{"document": 1, "info": {"id": "x", "name": 7}, "components": [null, {"type": 1, "bmcs": [{"mac": 2, "ip": "y"}]},
			{"Type": "cdu", "info": {"id": "z"}}]}`,
			`components[0]: must not be null
components[1].bmcs[0].mac: must be text, got the number 2
components[1].type: must be text, got the number 1
components[2].Type: unknown key: must be one of type, info, firmware_version, component_id, position, bmcs
document: unknown key: must be one of info, location, nvl_domain_ids, components
info.name: must be text, got the number 7
info.id: id "x" is not a valid UUID
components[1].bmcs[0].ip: "y" is not an IP address
components[2].info.id: id "z" is not a valid UUID
components[2].type: unknown component type "": must be one of compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parseRack([]byte(test.doc), asNew)
			if err == nil {
				t.Fatal("taken")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryProblemSaysWhichDocumentItIsIn(t *testing.T) {
	t.Parallel()
	const rack = `{"components": [{"type": "cdu", "bmcs": [{"mac": "x", "ip": "y"}]}]}`
	const part = `{"type": "cdu", "bmcs": [{"mac": "x", "ip": "y"}]}`
	const mac, ip = `mac: "x" is not a MAC address`, `ip: "y" is not an IP address`
	for line, test := range map[string]struct{ doc, at string }{
		"rack create -f -":            {rack, "standard input: components[0].bmcs[0]."},
		"rack patch rack-1 -f -":      {rack, "standard input: components[0].bmcs[0]."},
		"component add --file -":      {part, "standard input: bmcs[0]."},
		"component update m1 --bmcs=": {`[{"mac": "x", "ip": "y"}]`, "--bmcs: [0]."},
	} {
		args := strings.Fields(line)
		doing := strings.Join(args[:2], " ")
		if last := len(args) - 1; args[last] != "-" {
			args[last] += test.doc
		}
		got := flow(t.Context(), nil, test.doc, args...)
		want := "Error: " + doing + ": " + test.at + mac + "\n" + test.at + ip + "\n"
		if diff := cmp.Diff(want, got.err); diff != "" || got.code != exitError {
			t.Error(line, diff)
		}
	}
}

func TestParseRackDropsCredentials(t *testing.T) {
	t.Parallel()
	rack, warnings, err := parseRack([]byte(`{"components": [
		{"type": "cdu", "bmcs": [{"mac": "02:00:00:00:00:01", "user": "root", "password": "hunter2"}]}
	]}`), asNew)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"components[0].bmcs[0].password is not sent: Flow keeps no BMC credentials in its inventory",
		"components[0].bmcs[0].user is not sent: Flow keeps no BMC credentials in its inventory",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	if text := rack.String() + strings.Join(warnings, ""); strings.Contains(text, "hunter2") {
		t.Error("the password is still there: ", text)
	}
}

func FuzzParseRack(f *testing.F) {
	f.Add([]byte(`{"info": {"name": "r"}, "components": [{"type": "compute", "bmcs": [{"mac": "02:00:00:00:00:01", "user": 1}]}]}`))
	f.Add([]byte(`{"components": [null, {"position": {"slot_id": 1e2}}]}`))
	f.Add([]byte("{\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		rack, _, err := parseRack(doc, asNew)
		if err == nil && !isUUID(rack.GetInfo().GetId().GetId()) {
			t.Errorf("a rack without id from %q", doc)
		}
		if _, _, patchErr := parseRack(doc, asPatch); err == nil && patchErr != nil {
			t.Errorf("a rack, but no patch of one, from %q: %v", doc, patchErr)
		}
	})
}

func TestRackExampleIsTheStampedRack(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "testdata", "racks", "gb200-nvl72.json")
	want, err := json.MarshalIndent(stampRack(0), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not what stampRack makes; go test ./cmd/flow -update rewrites it", path)
	}
	rack, warnings, err := parseRack(got, asNew)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	count := map[flowv1.ComponentType]int{}
	for _, c := range rack.GetComponents() {
		count[c.GetType()]++
	}
	if diff := cmp.Diff(map[flowv1.ComponentType]int{
		flowv1.ComponentType_COMPONENT_TYPE_COMPUTE:    18,
		flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH:   9,
		flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF: 8,
	}, count); diff != "" {
		t.Error(diff)
	}
}

func TestStampedRacksShareNothing(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	take := func(what, value, owner string) {
		if other, taken := seen[what+value]; taken {
			t.Errorf("%s %s of %s is also of %s", what, value, owner, other)
		}
		seen[what+value] = owner
	}
	for _, n := range []int{0, 1, 39, 40, 255, 256, 257, 9_999, 65_535} {
		doc := stampRack(n)
		rack, problems := doc.message(asNew)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		take("id", rack.GetInfo().GetId().GetId(), rack.GetInfo().GetName())
		take("serial", rack.GetInfo().GetSerialNumber(), rack.GetInfo().GetName())
		slots := map[int32]bool{}
		for _, c := range rack.GetComponents() {
			name := c.GetInfo().GetName()
			take("name", name, name)
			take("id", c.GetInfo().GetId().GetId(), name)
			take("serial", c.GetInfo().GetSerialNumber(), name)
			take("external", c.GetComponentId(), name)
			for _, b := range c.GetBmcs() {
				take("mac", b.GetMacAddress(), name)
				take("ip", b.GetIpAddress(), name)
			}
			if slot := c.GetPosition().GetSlotId(); slots[slot] || slot < 1 || slot > 35 {
				t.Errorf("%s: slot %d is taken or not there", name, slot)
			}
			slots[c.GetPosition().GetSlotId()] = true
		}
	}
}
