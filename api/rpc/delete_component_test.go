package rpc

import (
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
)

func TestAComponentIsDeletedPurgedAndAddedAgain(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		want := s.seenRack(1)
		s.bind(1)
		id := testID(2, 1, 0)
		var tasks []*flowv1.UUID
		for i, state := range active {
			tasks = append(tasks, s.task(1, i, state, id, testID(2, 1, 1)))
		}
		stats := &flowv1.TaskStats{WaitingTaskCount: 1, PendingTaskCount: 1, RunningTaskCount: 1}

		if err := s.deleteComponent(id); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{id.GetId(), "core-1-0", "02:00:00:00:01:00"} {
			_, err := s.flow.GetComponentInfoByID(t.Context(), &flowv1.GetComponentInfoByIDRequest{Id: &flowv1.UUID{Id: name}})
			refused(t, err, connect.CodeNotFound, name)
		}
		want.Components = want.Components[1:]
		want.TaskStats, want.Components[0].TaskStats = stats, stats
		if d := diff(want, s.rack("core-rack-1")); d != "" {
			t.Errorf("the rest of the rack (-want +got):\n%s", d)
		}
		if n := s.drifts(); n != 1 {
			t.Errorf("%d differences are shown, want that of the other component", n)
		}
		s.endedWith(t, testID(1, 1, 0), nil, tasks)
		s.holds(t, "1 racks, 2 components, 2 BMCs, 2 drifts, 1 rules, 3 tasks")

		s.refuses(t, func() error { return s.deleteComponent(id) }, connect.CodeNotFound, id.GetId())
		s.refuses(t, func() error { return s.purgeComponent(id) }, connect.CodeFailedPrecondition, id.GetId())
		s.endTasks(testID(1, 1, 0))
		s.task(1, 9, "running", testID(2, 1, 1)) // which does not name it
		if err := s.purgeComponent(id); err != nil {
			t.Fatal(err)
		}
		s.holds(t, "1 racks, 1 components, 1 BMCs, 1 drifts, 1 rules, 4 tasks")
		s.refuses(t, func() error { return s.purgeComponent(id) }, connect.CodeNotFound, id.GetId())
		s.refuses(t, func() error { return s.deleteComponent(id) }, connect.CodeNotFound, id.GetId())
		again := testRack(1, 1).GetComponents()[0]
		if _, err := s.flow.AddComponent(t.Context(), &flowv1.AddComponentRequest{Component: again}); err != nil {
			t.Error(err)
		}
	})
}

// TestAMACOfATombstoneIsTakenOver has every call that records BMCs take the first of two MACs of a deleted component.
func TestAMACOfATombstoneIsTakenOver(t *testing.T) {
	t.Parallel()
	bmc := []*flowv1.BMCInfo{{Type: dpu, MacAddress: "06:00:00:00:00:01"}}
	takers := map[string]func(s *site) error{
		"by a rack": func(s *site) error {
			r := testRack(2, 1)
			r.Components[0].Bmcs = bmc
			_, err := s.flow.CreateExpectedRack(s.t.Context(), &flowv1.CreateExpectedRackRequest{Rack: r})
			return err
		},
		"by a component": func(s *site) error {
			c := added(1, 9, "new")
			c.Bmcs = bmc
			_, err := s.flow.AddComponent(s.t.Context(), &flowv1.AddComponentRequest{Component: c})
			return err
		},
		"by a component's patch": func(s *site) error {
			_, err := s.flow.PatchComponent(s.t.Context(), &flowv1.PatchComponentRequest{Id: testID(2, 1, 1), Bmcs: bmc})
			return err
		},
		"by a rack's patch": func(s *site) error {
			_, err := patchRack(s.t.Context(), s.flow, &flowv1.Rack{
				Info: &flowv1.DeviceInfo{Id: testID(1, 1, 0)}, Components: []*flowv1.Component{{Info: &flowv1.DeviceInfo{Id: testID(2, 1, 1)}, Bmcs: bmc}},
			})
			return err
		},
		"by a new component of a rack's patch": func(s *site) error {
			c := added(1, 9, "new")
			c.Bmcs = bmc
			_, err := patchRack(s.t.Context(), s.flow, &flowv1.Rack{Info: &flowv1.DeviceInfo{Id: testID(1, 1, 0)}, Components: []*flowv1.Component{c}})
			return err
		},
	}
	overEach(t, func(t *testing.T, s *site) {
		for name, take := range takers {
			t.Run(name, func(t *testing.T) {
				s.clear()
				r := testRack(1, 2)
				r.Components[0].Bmcs = []*flowv1.BMCInfo{{Type: host, MacAddress: "06:00:00:00:00:01"}, {Type: host, MacAddress: "06:00:00:00:00:02"}}
				s.create(r)
				if err := take(s); connect.CodeOf(err) != connect.CodeAlreadyExists {
					t.Fatalf("while it is live: %v", err)
				}
				if err := s.deleteComponent(testID(2, 1, 0)); err != nil {
					t.Fatal(err)
				}
				if err := take(s); err != nil {
					t.Fatal(err)
				}
				left := s.value("SELECT string_agg(mac::text, ' ') FROM bmc WHERE component_id = $1", testID(2, 1, 0).GetId())
				if left != "06:00:00:00:00:02" {
					t.Errorf("the tombstone is left with %s", left)
				}
				res, err := s.flow.GetComponentInfoByID(t.Context(), &flowv1.GetComponentInfoByIDRequest{Id: &flowv1.UUID{Id: "06:00:00:00:00:01"}})
				if err != nil || res.GetComponent().GetInfo().GetId().GetId() == testID(2, 1, 0).GetId() {
					t.Errorf("the MAC leads to %v, %v", res.GetComponent(), err)
				}
			})
		}
	})
}
