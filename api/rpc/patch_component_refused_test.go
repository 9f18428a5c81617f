package rpc

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// TestComponentPatchesThatAreRefused holds one site with rack 1, whose first tray is patched, a rack 2 with other keys, a
// rack 3 that is deleted, and three trays that each have a task. A request that has several faults is refused for the
// first in the order of the checks.
func TestComponentPatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 5))
	for n := 2; n <= 3; n++ {
		s.create(testRack(n, 1))
	}
	s.bury(testID(1, 3, 0))
	for i, state := range active {
		s.task(1, i, state, testID(2, 1, 1), testID(2, 1, 2+i))
	}

	type request = flowv1.PatchComponentRequest
	const invalid, notFound, exists = connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists
	const noPosition = "position is required when update_mask contains position fields"
	const badPath, noPaths = "unsupported PatchComponent update_mask path", "update_mask paths are required"
	all := func(changes ...func(*request)) func(*request) {
		return func(r *request) {
			for _, change := range changes {
				change(r)
			}
		}
	}
	mask := func(paths ...string) func(*request) {
		return func(r *request) { r.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths} }
	}
	position := func(r *request) { r.Position = &flowv1.RackPosition{SlotId: 1} }
	without := func(r *request) { r.Position = nil }
	id := func(id *flowv1.UUID) func(*request) { return func(r *request) { r.Id = id } }
	rack := func(id *flowv1.UUID) func(*request) { return func(r *request) { r.RackId = id } }
	named := func(s string) *flowv1.UUID { return &flowv1.UUID{Id: s} }
	bmc := func(kind flowv1.BMCType, mac string) func(*request) {
		return func(r *request) { r.Bmcs = append(r.Bmcs, &flowv1.BMCInfo{Type: kind, MacAddress: mac}) }
	}
	deadTray, deadRack := testID(2, 3, 0), testID(1, 3, 0)
	cases := map[string]struct {
		change func(*request)
		code   connect.Code
		words  []string
	}{
		"no id":                               {id(nil), invalid, []string{"id"}},
		"an empty id":                         {id(named("")), invalid, []string{"id"}},
		"a malformed id":                      {id(named("core-1-0")), invalid, []string{"id", "core-1-0"}},
		"the nil id":                          {id(named(uuid.Nil.String())), invalid, []string{"id"}},
		"no id, and no position for a mask":   {all(id(nil), without, mask("position.slot_id")), invalid, []string{"id: is required"}},
		"no position for a mask":              {all(without, mask("position.slot_id")), invalid, []string{noPosition}},
		"no position for a path there is not": {all(without, mask("firmware_version")), invalid, []string{noPosition}},
		"no position for an empty mask":       {all(without, mask()), invalid, []string{noPosition}},
		"no position and no rack":             {all(without, mask("position.slot_id"), rack(named("x"))), invalid, []string{noPosition}},
		"a path of another field":             {all(position, mask("firmware_version")), invalid, []string{badPath, "firmware_version"}},
		"a path to all of the position":       {all(position, mask("position")), invalid, []string{badPath, "position"}},
		"a path without its parent":           {all(position, mask("slot_id")), invalid, []string{badPath, "slot_id"}},
		"a path there is not, after one":      {all(position, mask("position.host_id", "position.row")), invalid, []string{badPath, "position.row"}},
		"a path there is not, and no rack":    {all(position, mask("position.row"), rack(named("x"))), invalid, []string{badPath}},
		"an empty mask":                       {all(position, mask()), invalid, []string{noPaths}},
		"an empty mask, and no rack":          {all(position, mask(), rack(named("x"))), invalid, []string{noPaths}},
		"a rack with an empty id":             {rack(named("")), invalid, []string{"rack_id"}},
		"a rack with a malformed id":          {rack(named("core-rack-2")), invalid, []string{"rack_id", "core-rack-2"}},
		"a rack with the nil id":              {rack(named(uuid.Nil.String())), invalid, []string{"rack_id", "non-zero"}},
		"a malformed rack, no component":      {all(rack(named("x")), id(deadTray)), invalid, []string{"rack_id"}},
		"an unknown component":                {id(testID(2, 9, 9)), notFound, []string{testID(2, 9, 9).GetId()}},
		"a deleted component":                 {id(deadTray), notFound, []string{deadTray.GetId()}},
		"a deleted component, a deleted rack": {all(id(deadTray), rack(deadRack)), notFound, []string{deadTray.GetId()}},
		"an unknown rack":                     {rack(testID(1, 9, 0)), notFound, []string{testID(1, 9, 0).GetId()}},
		"a deleted rack":                      {rack(deadRack), notFound, []string{deadRack.GetId()}},
		"a deleted rack, with a taken MAC":    {all(rack(deadRack), bmc(host, "02:00:00:00:02:00")), notFound, []string{deadRack.GetId()}},
		"a slot below -1":                     {func(r *request) { r.Position = &flowv1.RackPosition{SlotId: -2} }, invalid, []string{"position.slot_id", "-2"}},
		"a tray index below -1":               {func(r *request) { r.Position = &flowv1.RackPosition{TrayIdx: -2} }, invalid, []string{"position.tray_idx", "-2"}},
		"a host below -1": {
			all(func(r *request) { r.Position = &flowv1.RackPosition{HostId: -2} }, mask("position.host_id")), invalid, []string{"position.host_id", "-2"},
		},
		"a NUL in a description":          {func(r *request) { r.Description = proto.String("\x00") }, invalid, []string{"description"}},
		"a NUL in a firmware version":     {func(r *request) { r.FirmwareVersion = proto.String("\x00") }, invalid, []string{"firmware_version"}},
		"a new BMC of unknown type":       {bmc(0, "06:00:00:00:00:02"), invalid, []string{"bmcs[1].type"}},
		"a new BMC of a type there isn't": {bmc(7, "06:00:00:00:00:02"), invalid, []string{"bmcs[1].type"}},
		"no MAC":                          {bmc(host, ""), invalid, []string{"bmcs[1].mac_address"}},
		"a MAC that is none":              {bmc(host, "02:00:00:00:00:zz"), invalid, []string{"bmcs[1].mac_address", "02:00:00:00:00:zz"}},
		"a multicast MAC":                 {bmc(host, "01:00:5e:00:00:01"), invalid, []string{"bmcs[1].mac_address", "multicast"}},
		"one MAC twice":                   {bmc(dpu, "0600.0000.0001"), invalid, []string{"bmcs[0]", "bmcs[1].mac_address"}},
		"an address that is none":         {func(r *request) { r.Bmcs[0].IpAddress = proto.String("10.0.0.256") }, invalid, []string{"bmcs[0].ip_address", "10.0.0.256"}},
		"a MAC of a component elsewhere": {
			bmc(host, "02-00-00-00-02-00"), exists, []string{"bmcs[1].mac_address", "02:00:00:00:02:00", testID(2, 2, 0).GetId()},
		},
		"a MAC of its own sibling":          {bmc(dpu, "02:00:00:00:01:01"), exists, []string{"bmcs[1].mac_address", testID(2, 1, 1).GetId()}},
		"a MAC of a tombstone, and a fault": {all(bmc(host, "02:00:00:00:03:00"), bmc(host, "02:00:00:00:02:00")), exists, nil},
	}
	for i, state := range active {
		cases["a move of what a "+state+" task names"] = struct {
			change func(*request)
			code   connect.Code
			words  []string
		}{
			all(id(testID(2, 1, 2+i)), rack(testID(1, 2, 0))), connect.CodeFailedPrecondition,
			[]string{testID(2, 1, 2+i).GetId(), testID(4, 1, i).GetId()},
		}
	}
	whole := func() *request {
		return &request{
			Id: testID(2, 1, 0), FirmwareVersion: proto.String("2.0"), Description: proto.String("new"), Position: &flowv1.RackPosition{SlotId: 9},
			Bmcs: []*flowv1.BMCInfo{{Type: host, MacAddress: "06:00:00:00:00:01"}},
		}
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				r := whole()
				c.change(r)
				s.refuses(t, func() error { _, err := patchComponent(t.Context(), flow, r); return err }, c.code, c.words...)
			})
		}
	})
	if _, err := patchComponent(t.Context(), s.grpc, whole()); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestAComponentMovesToAnotherRack(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'domain', 'group-1')", testID(3, 0, 1).GetId())
		for n := 1; n <= 2; n++ {
			s.seenRack(n)
		}
		s.exec("UPDATE rack SET nvl_domain_id = $1 WHERE id = $2", testID(3, 0, 1).GetId(), testID(1, 2, 0).GetId())
		id := testID(2, 1, 0)
		s.task(1, 0, "completed", id)
		s.task(1, 1, "failed", id)
		s.task(1, 2, "terminated", id)
		s.task(1, 3, "running", testID(2, 1, 1)) // a task of its rack that does not name it
		s.task(2, 0, "running", testID(2, 2, 0))
		want := s.component(id)
		move := func(rack *flowv1.UUID, firmware string) {
			t.Helper()
			got, err := patchComponent(t.Context(), s.flow, &flowv1.PatchComponentRequest{Id: id, RackId: rack, FirmwareVersion: &firmware})
			if err != nil {
				t.Fatal(err)
			}
			want.RackId, want.FirmwareVersion = rack, firmware
			if d := diff(want, got); d != "" {
				t.Errorf("answered (-want +got):\n%s", d)
			}
			if d := diff(want, s.component(id)); d != "" {
				t.Errorf("read (-want +got):\n%s", d)
			}
		}
		want.RackExternalId, want.NvlDomainId, want.NvlDomainExternalId = "core-rack-2", testID(3, 0, 1), proto.String("group-1")
		move(testID(1, 2, 0), "2.0")
		if from, to := len(s.rack("core-rack-1").GetComponents()), len(s.rack("core-rack-2").GetComponents()); from != 1 || to != 3 {
			t.Errorf("%d components are left and %d are there, want 1 and 3", from, to)
		}
		s.exec("UPDATE component SET rack_id = NULL WHERE id = $1", id.GetId())
		want.RackExternalId, want.NvlDomainId, want.NvlDomainExternalId = "core-rack-1", nil, nil
		move(testID(1, 1, 0), "3.0")
	})
}
