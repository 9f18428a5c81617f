package rpc

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

func patchComponent(ctx context.Context, flow flowv1connect.FlowClient, req *flowv1.PatchComponentRequest) (*flowv1.Component, error) {
	res, err := flow.PatchComponent(ctx, req)
	return res.GetComponent(), err
}

// TestWhatAComponentPatchChanges patches the first tray of racks as seenRack makes them. What a synchronisation has seen
// of it must stay whatever is patched.
func TestWhatAComponentPatchChanges(t *testing.T) {
	t.Parallel()
	type request = flowv1.PatchComponentRequest
	place := func(slot, tray, host int32) *flowv1.RackPosition {
		return &flowv1.RackPosition{SlotId: slot, TrayIdx: tray, HostId: host}
	}
	position := func(p *flowv1.RackPosition, paths ...string) func(r *request) {
		return func(r *request) {
			r.Position = p
			if paths != nil {
				r.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
			}
		}
	}
	at := func(p *flowv1.RackPosition) func(c *flowv1.Component) {
		return func(c *flowv1.Component) { c.Position = p }
	}
	describe := func(text string) func(r *request) {
		return func(r *request) { r.Description = &text }
	}
	described := func(text string) func(c *flowv1.Component) {
		return func(c *flowv1.Component) { c.Info.Description = &text }
	}
	const owned = `"expected_description":{"a":1}`
	bmc := func(kind flowv1.BMCType, mac string, ip *string) func(r *request) {
		return func(r *request) { r.Bmcs = []*flowv1.BMCInfo{{Type: kind, MacAddress: mac, IpAddress: ip}} }
	}
	cases := map[string]struct {
		patch func(r *request)
		want  func(c *flowv1.Component) // of what was read before; nil: no change
	}{
		"nothing":                    {func(*request) {}, nil},
		"a firmware version":         {func(r *request) { r.FirmwareVersion = proto.String("2.0") }, func(c *flowv1.Component) { c.FirmwareVersion = "2.0" }},
		"the same firmware version":  {func(r *request) { r.FirmwareVersion = proto.String("1.0") }, nil},
		"no firmware version":        {func(r *request) { r.FirmwareVersion = proto.String("") }, func(c *flowv1.Component) { c.FirmwareVersion = "" }},
		"a position":                 {position(place(7, 8, 9)), at(place(7, 8, 9))},
		"a position, partly":         {position(place(7, 0, 0)), at(place(7, 0, 0))},
		"a position nobody knows":    {position(place(-1, -1, -1)), at(place(-1, -1, -1))},
		"a slot of a position":       {position(place(7, 8, 9), "position.slot_id"), at(place(7, 2, 3))},
		"a tray index of a position": {position(place(7, 8, 9), "position.tray_idx"), at(place(1, 8, 3))},
		"a host of a position":       {position(place(7, 8, 9), "position.host_id"), at(place(1, 2, 9))},
		"a host nobody knows":        {position(place(7, 8, -1), "position.host_id"), at(place(1, 2, -1))},
		"a host that is 0":           {position(place(7, 8, 0), "position.host_id"), at(place(1, 2, 0))},
		"two parts of a position":    {position(place(7, 8, 9), "position.host_id", "position.slot_id"), at(place(7, 2, 9))},
		"one part named twice":       {position(place(7, 8, 9), "position.slot_id", "position.slot_id"), at(place(7, 2, 3))},
		"what a mask does not govern": {
			func(r *request) {
				position(place(7, 8, 9), "position.slot_id")(r)
				r.FirmwareVersion = proto.String("2.0")
				bmc(0, "02:00:00:00:00:00", proto.String("10.0.0.2"))(r)
			},
			func(c *flowv1.Component) {
				c.Position, c.FirmwareVersion, c.Bmcs[0].IpAddress = place(7, 2, 3), "2.0", proto.String("10.0.0.2")
			},
		},
		"a text, next to all other keys": {
			describe("dry"), described(`{"description":"dry",` + owned + `,"note":"old","nvos_ip":"10.0.0.9"}`),
		},
		"an object, instead of all keys but the synchronisation's": {
			describe(`{"z":1,"a":2}`), described(`{"a":2,` + owned + `,"nvos_ip":"10.0.0.9","z":1}`),
		},
		"an object that has the synchronisation's keys too": {
			describe(`{"nvos_ip":"10.9.9.9","expected_description":null}`), described(`{` + owned + `,"nvos_ip":"10.0.0.9"}`),
		},
		"an empty object": {describe(`{}`), described(`{` + owned + `,"nvos_ip":"10.0.0.9"}`)},
		"an address of a BMC, in another spelling and type": {
			bmc(dpu, "0200.0000.0000", proto.String("::FFFF:10.0.0.2")), func(c *flowv1.Component) { c.Bmcs[0].IpAddress = proto.String("10.0.0.2") },
		},
		"no address of a BMC":                         {bmc(host, "02:00:00:00:00:00", nil), nil},
		"a BMC of unknown type it has already":        {bmc(0, "02:00:00:00:00:00", nil), nil},
		"a BMC of a type there is not it has already": {bmc(9, "02:00:00:00:00:00", nil), nil},
		"a BMC it has not": {
			bmc(dpu, "06-00-00-00-00-0A", proto.String("10.0.0.2")),
			func(c *flowv1.Component) {
				c.Bmcs = append(c.Bmcs, &flowv1.BMCInfo{Type: dpu, MacAddress: "06:00:00:00:00:0a", IpAddress: proto.String("10.0.0.2")})
			},
		},
		"its own rack": {func(*request) {}, nil}, // the id is filled in below
	}
	overEach(t, func(t *testing.T, s *site) {
		n := 0
		for name, c := range cases {
			n++
			t.Run(name, func(t *testing.T) {
				want := s.seenRack(n).GetComponents()[0]
				req := &request{Id: want.GetInfo().GetId()}
				c.patch(req)
				for _, b := range req.GetBmcs() {
					if b.GetMacAddress()[:2] == "02" { // stands for the one it has
						b.MacAddress = want.GetBmcs()[0].GetMacAddress()
					}
				}
				if name == "its own rack" {
					req.RackId = want.GetRackId()
					s.task(n, 0, "running", want.GetInfo().GetId())
					want.TaskStats.RunningTaskCount++
				}
				if c.want != nil {
					c.want(want)
				}
				before := s.contents()
				const unseen = `SELECT row(phase_at, last_seen_at, origin, created_at, deleted_at)::text FROM component WHERE id = $1`
				hidden := s.value(unseen, req.GetId().GetId())
				got, err := patchComponent(t.Context(), s.flow, req)
				if err != nil {
					t.Fatal(err)
				}
				if d := diff(want, got); d != "" {
					t.Errorf("answered (-want +got):\n%s", d)
				}
				if d := diff(want, s.component(want.GetInfo().GetId())); d != "" {
					t.Errorf("read (-want +got):\n%s", d)
				}
				if unchanged := s.contents() == before; unchanged != (c.want == nil) {
					t.Errorf("unchanged: %t", unchanged)
				}
				if now := s.value(unseen, req.GetId().GetId()); now != hidden {
					t.Errorf("the columns %s have become %s", hidden, now)
				}
			})
		}
	})
}

func TestAPlainDescriptionIsPatched(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 1)) // which has none
		for _, step := range []struct{ sent, want string }{
			{"by the door", "by the door"},
			{" left\n", " left\n"},
			{"[1]", "[1]"},
			{`{"a":1}`, `{"a":1}`},
			{"wet", `{"a":1,"description":"wet"}`},
			{"", `{"a":1}`},
			{`{"description":"dry"}`, `{"description":"dry"}`},
			{"", ""},
		} {
			got, err := patchComponent(t.Context(), s.flow, &flowv1.PatchComponentRequest{Id: testID(2, 1, 0), Description: &step.sent})
			if err != nil {
				t.Fatal(err)
			}
			if d := got.GetInfo().GetDescription(); d != step.want {
				t.Errorf("%q makes it %q, want %q", step.sent, d, step.want)
			}
		}
	})
}

// TestAMACIsTheSameInEverySpelling adds a BMC in one spelling and finds it again in each.
func TestAMACIsTheSameInEverySpelling(t *testing.T) {
	t.Parallel()
	spellings := []string{"06:00:00:00:ab:0f", "06:00:00:00:AB:0F", "06-00-00-00-Ab-0F", "0600.0000.AB0f", "06000000aB0f"}
	overEach(t, func(t *testing.T, s *site) {
		for _, sent := range spellings {
			t.Run(sent, func(t *testing.T) {
				s.clear()
				s.create(testRack(1, 1))
				c := added(1, 9, "new")
				c.Bmcs = []*flowv1.BMCInfo{{Type: host, MacAddress: sent}}
				got, err := addComponent(t.Context(), s.flow, c)
				for _, spelling := range spellings {
					if err != nil {
						t.Fatal(err)
					}
					if len(got.GetBmcs()) != 1 || got.GetBmcs()[0].GetMacAddress() != spellings[0] {
						t.Errorf("reads %v, want %s", got.GetBmcs(), spellings[0])
					}
					got, err = patchComponent(t.Context(), s.flow, &flowv1.PatchComponentRequest{
						Id: testID(2, 1, 9), Bmcs: []*flowv1.BMCInfo{{Type: host, MacAddress: spelling, IpAddress: proto.String("10.0.0.1")}},
					})
				}
			})
		}
	})
}
