package rpc

import (
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
)

func TestARackIsRestoredWithWhatWasDeletedWithIt(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.seenRack(1)
		s.bind(1)
		s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'domain', 'group-1')", testID(3, 0, 1).GetId())
		s.exec("UPDATE rack SET nvl_domain_id = $1", testID(3, 0, 1).GetId())
		id := testID(1, 1, 0)
		alone := added(1, 9, "alone")
		if _, err := s.flow.AddComponent(t.Context(), &flowv1.AddComponentRequest{Component: alone}); err != nil {
			t.Fatal(err)
		}
		if err := s.deleteComponent(testID(2, 1, 9)); err != nil {
			t.Fatal(err)
		}
		want := s.rack(id.GetId())
		waiting := s.task(1, 0, "waiting", testID(2, 1, 0))
		if err := s.deleteRack(id); err != nil {
			t.Fatal(err)
		}
		members, err := s.flow.GetRacksForNVLDomain(t.Context(), &flowv1.GetRacksForNVLDomainRequest{NvlDomainIdentifier: &flowv1.Identifier{Name: "domain"}})
		if err != nil || len(members.GetRacks()) != 0 {
			t.Errorf("a deleted rack is a member of its domain: %v, %v", members.GetRacks(), err)
		}
		// A tray that replaces the second one has the same controller.
		spare := testRack(2, 1)
		spare.Components[0].Bmcs = want.GetComponents()[1].GetBmcs()
		s.create(spare)
		want.Components[1].Bmcs = nil

		got, err := s.restoreRack(id)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(want, got); d != "" {
			t.Errorf("answered (-want +got):\n%s", d)
		}
		if d := diff(want, s.rack("core-rack-1")); d != "" {
			t.Errorf("read (-want +got):\n%s", d)
		}
		if d := diff(spare.GetComponents()[0].GetBmcs()[0], s.component(testID(2, 2, 0)).GetBmcs()[0]); d != "" {
			t.Errorf("the controller has left its new owner: %s", d)
		}
		if n := s.drifts(); n != 2 {
			t.Errorf("%d differences are shown, want 2", n)
		}
		s.endedWith(t, id, []*flowv1.UUID{waiting}, nil)
		s.refuses(t, func() error { _, err := s.restoreRack(id); return err }, connect.CodeFailedPrecondition, id.GetId())
		// The tray that was deleted alone is a tombstone still.
		if err := s.purgeComponent(testID(2, 1, 9)); err != nil {
			t.Error(err)
		}
	})
}

// TestRestoresThatAreRefused deletes racks, has another rack take over one key of each, and wants the old one back.
func TestRestoresThatAreRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		take   func(old, r *flowv1.Rack)
		key    func(old *flowv1.Rack) string
		holder func(r *flowv1.Rack) *flowv1.UUID
	}{
		"an external id": {
			func(old, r *flowv1.Rack) { r.ExternalId = old.GetExternalId() },
			(*flowv1.Rack).GetExternalId,
			func(r *flowv1.Rack) *flowv1.UUID { return r.GetInfo().GetId() },
		},
		"a serial number": {
			func(old, r *flowv1.Rack) { r.Info.SerialNumber = old.GetInfo().GetSerialNumber() },
			func(old *flowv1.Rack) string { return old.GetInfo().GetSerialNumber() },
			func(r *flowv1.Rack) *flowv1.UUID { return r.GetInfo().GetId() },
		},
		"a component's external id": {
			func(old, r *flowv1.Rack) { r.Components[0].ComponentId = old.GetComponents()[1].GetComponentId() },
			func(old *flowv1.Rack) string { return old.GetComponents()[1].GetComponentId() },
			func(r *flowv1.Rack) *flowv1.UUID { return r.GetComponents()[0].GetInfo().GetId() },
		},
		"a component's serial number, in another type": {
			func(old, r *flowv1.Rack) {
				r.Components[0].Type, r.Components[0].Info.SerialNumber = shelf, old.GetComponents()[1].GetInfo().GetSerialNumber()
			},
			func(old *flowv1.Rack) string { return old.GetComponents()[1].GetInfo().GetSerialNumber() },
			func(r *flowv1.Rack) *flowv1.UUID { return r.GetComponents()[0].GetInfo().GetId() },
		},
	}
	overEach(t, func(t *testing.T, s *site) {
		n := 0
		for name, c := range cases {
			n += 2
			t.Run(name, func(t *testing.T) {
				old, taker := testRack(n, 2), testRack(n+1, 1)
				s.create(old)
				id := old.GetInfo().GetId()
				if err := s.deleteRack(id); err != nil {
					t.Fatal(err)
				}
				c.take(old, taker)
				s.create(taker)
				s.refuses(t, func() error { _, err := s.restoreRack(id); return err }, connect.CodeAlreadyExists,
					c.key(old), c.holder(taker).GetId())
			})
		}
	})
}
