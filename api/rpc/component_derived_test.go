package rpc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// handled is a component by what its tasks are and what readers are told of them.
type handled struct {
	why   string
	tasks []handling
	leak  flowv1.LeakHandlingStatus
	stats *flowv1.TaskStats
}

// handling is a task that names a component.
type handling struct {
	state string
	leak  bool
	age   int // in hours
}

// handlings are the trays of rack 1, in this order.
var handlings = []handled{
	{"no task", nil, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_NONE, &flowv1.TaskStats{}},
	{
		"tasks that answer no leak", []handling{{"waiting", false, 0}, {"pending", false, 0}, {"running", false, 0}, {"running", false, 1}, {"completed", false, 0}, {"failed", false, 0}, {"terminated", false, 0}},
		flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_NONE, &flowv1.TaskStats{WaitingTaskCount: 1, PendingTaskCount: 1, RunningTaskCount: 2},
	},
	{"a waiting answer", []handling{{"waiting", true, 0}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_SHUTTING_DOWN, &flowv1.TaskStats{WaitingTaskCount: 1}},
	{"a pending answer", []handling{{"pending", true, 0}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_SHUTTING_DOWN, &flowv1.TaskStats{PendingTaskCount: 1}},
	{"a running answer", []handling{{"running", true, 0}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_SHUTTING_DOWN, &flowv1.TaskStats{RunningTaskCount: 1}},
	{"a completed answer", []handling{{"completed", true, 0}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_DOWN, &flowv1.TaskStats{}},
	{"a failed answer", []handling{{"failed", true, 0}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_FAILED, &flowv1.TaskStats{}},
	{"a terminated answer", []handling{{"terminated", true, 0}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_FAILED, &flowv1.TaskStats{}},
	{"a newer answer completed", []handling{{"failed", true, 2}, {"completed", true, 1}, {"terminated", true, 3}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_DOWN, &flowv1.TaskStats{}},
	{"a newer answer failed", []handling{{"failed", true, 1}, {"running", true, 2}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_FAILED, &flowv1.TaskStats{RunningTaskCount: 1}},
	{"of the same age, the greater id", []handling{{"completed", true, 1}, {"failed", true, 1}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_FAILED, &flowv1.TaskStats{}},
	{"a newer task that answers no leak", []handling{{"completed", true, 1}, {"failed", false, 0}}, flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_DOWN, &flowv1.TaskStats{}},
}

// handle records the tasks of handlings, all of which name a neighbour in another rack as well, and returns what there
// is to read of each tray and of the rack.
func (s *site) handle() (map[string]handled, *flowv1.TaskStats) {
	s.t.Helper()
	want, all := map[string]handled{}, &flowv1.TaskStats{}
	n := 0
	for i, h := range handlings {
		id := testID(2, 1, i)
		want[id.GetId()] = h
		for _, task := range h.tasks {
			n++
			made := s.task(1, n, task.state, id, testID(2, 2, 9)).GetId()
			s.exec("UPDATE task SET created_at = '2026-01-01'::timestamptz - $2 * interval '1 hour' WHERE id = $1", made, task.age)
			s.exec("UPDATE task_plan SET answers_leak = $2 WHERE task_id = $1", made, task.leak)
		}
		all.WaitingTaskCount += h.stats.GetWaitingTaskCount()
		all.PendingTaskCount += h.stats.GetPendingTaskCount()
		all.RunningTaskCount += h.stats.GetRunningTaskCount()
	}
	return want, all
}

// derivedReads are the calls that answer with rack 1, its components in it. A rack without id stands for components that
// come without one.
func derivedReads(ctx context.Context, flow flowv1connect.FlowClient) map[string]func() ([]*flowv1.Rack, error) {
	bare := func(list []*flowv1.Component) []*flowv1.Rack { return []*flowv1.Rack{{Components: list}} }
	trayByTray := func(read func(n int) (*flowv1.Rack, *flowv1.Component, error)) ([]*flowv1.Rack, error) {
		var list []*flowv1.Rack
		for n := range handlings {
			r, c, err := read(n)
			if err != nil {
				return nil, err
			}
			list = append(list, &flowv1.Rack{Info: r.GetInfo(), TaskStats: r.GetTaskStats(), Components: []*flowv1.Component{c}})
		}
		return list, nil
	}
	return map[string]func() ([]*flowv1.Rack, error){
		"GetRackInfoByID": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetRackInfoByID(ctx, &flowv1.GetRackInfoByIDRequest{Id: testID(1, 1, 0), WithComponents: true})
			return []*flowv1.Rack{res.GetRack()}, err
		},
		"GetRackInfoBySerial": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetRackInfoBySerial(ctx, &flowv1.GetRackInfoBySerialRequest{
				SerialInfo: &flowv1.DeviceSerialInfo{SerialNumber: "R1"}, WithComponents: true,
			})
			return []*flowv1.Rack{res.GetRack()}, err
		},
		"GetListOfRacks": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{WithComponents: true})
			return res.GetRacks(), err
		},
		"GetRacksForNVLDomain": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetRacksForNVLDomain(ctx, &flowv1.GetRacksForNVLDomainRequest{NvlDomainIdentifier: &flowv1.Identifier{Name: "domain-1"}})
			return res.GetRacks(), err
		},
		"GetComponents": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetComponents(ctx, &flowv1.GetComponentsRequest{})
			return bare(res.GetComponents()), err
		},
		"GetComponents of a target": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetComponents(ctx, &flowv1.GetComponentsRequest{TargetSpec: racks(byID(testID(1, 1, 0)))})
			return bare(res.GetComponents()), err
		},
		"GetNVLinkDomain": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetNVLinkDomain(ctx, &flowv1.GetNVLinkDomainRequest{Id: "group-1", WithComponents: true})
			return bare(res.GetDomain().GetComponents()), err
		},
		"GetListOfNVLinkDomains": func() ([]*flowv1.Rack, error) {
			res, err := flow.GetListOfNVLinkDomains(ctx, &flowv1.GetListOfNVLinkDomainsRequest{WithComponents: true})
			return each(res.GetDomains(), func(d *flowv1.NVLinkDomain) *flowv1.Rack { return &flowv1.Rack{Components: d.GetComponents()} }), err
		},
		"ValidateComponents": func() ([]*flowv1.Rack, error) {
			res, err := flow.ValidateComponents(ctx, &flowv1.ValidateComponentsRequest{})
			return bare(each(res.GetDiffs(), (*flowv1.ComponentDiff).GetExpected)), err
		},
		"GetComponentInfoByID": func() ([]*flowv1.Rack, error) {
			return trayByTray(func(n int) (*flowv1.Rack, *flowv1.Component, error) {
				res, err := flow.GetComponentInfoByID(ctx, &flowv1.GetComponentInfoByIDRequest{Id: testID(2, 1, n), WithRack: true})
				return res.GetRack(), res.GetComponent(), err
			})
		},
		"GetComponentInfoBySerial": func() ([]*flowv1.Rack, error) {
			return trayByTray(func(n int) (*flowv1.Rack, *flowv1.Component, error) {
				res, err := flow.GetComponentInfoBySerial(ctx, &flowv1.GetComponentInfoBySerialRequest{
					SerialInfo: &flowv1.DeviceSerialInfo{SerialNumber: fmt.Sprintf("R1C%d", n)}, WithRack: true,
				})
				return res.GetRack(), res.GetComponent(), err
			})
		},
		"PatchComponent": func() ([]*flowv1.Rack, error) {
			return trayByTray(func(n int) (*flowv1.Rack, *flowv1.Component, error) {
				c, err := patchComponent(ctx, flow, &flowv1.PatchComponentRequest{Id: testID(2, 1, n)})
				return nil, c, err
			})
		},
	}
}

func TestTasksAndLeaksAreToldByEveryRead(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'domain-1', 'group-1')", testID(3, 0, 1).GetId())
	for n := 1; n <= 2; n++ {
		r := testRack(n, len(handlings))
		r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 1)}
		s.create(r)
	}
	s.exec("INSERT INTO drift (kind, component_id, type) SELECT 'mismatch', id, type FROM component")
	want, all := s.handle()
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for name, read := range derivedReads(t.Context(), flow) {
			t.Run(name, func(t *testing.T) {
				answer, err := read()
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for _, r := range answer {
					if r.GetInfo().GetId().GetId() == testID(1, 1, 0).GetId() {
						if d := diff(all, r.GetTaskStats()); d != "" {
							t.Errorf("the rack (-want +got):\n%s", d)
						}
					}
					for _, c := range r.GetComponents() {
						seen[c.GetInfo().GetId().GetId()] = true
						h, ok := want[c.GetInfo().GetId().GetId()]
						if !ok {
							continue
						}
						if d := diff(h.stats, c.GetTaskStats()); d != "" {
							t.Errorf("%s (-want +got):\n%s", h.why, d)
						}
						if c.GetLeakHandlingStatus() != h.leak {
							t.Errorf("%s: %v, want %v", h.why, c.GetLeakHandlingStatus(), h.leak)
						}
					}
				}
				for id, h := range want {
					if !seen[id] {
						t.Errorf("the component with %s was not read", h.why)
					}
				}
			})
		}
	})
}

// TestAReadFailsRatherThanForgetTasks takes the tasks away.
func TestAReadFailsRatherThanForgetTasks(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'domain-1', 'group-1')", testID(3, 0, 1).GetId())
	r := testRack(1, len(handlings))
	r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 1)}
	s.create(r)
	s.exec("INSERT INTO drift (kind, component_id, type) SELECT 'mismatch', id, type FROM component")
	s.exec("ALTER TABLE task RENAME TO elsewhere")
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for name, read := range derivedReads(t.Context(), flow) {
			t.Run(name, func(t *testing.T) {
				_, err := read()
				refused(t, err, connect.CodeInternal)
				if strings.Contains(err.Error(), "task") {
					t.Errorf("%q tells of what is inside", err)
				}
			})
		}
	})
}

// TestTasksAndLeaksAreToldOfAddedComponents adds components that tasks name already.
func TestTasksAndLeaksAreToldOfAddedComponents(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 0))
		s.handle()
		for n, h := range handlings {
			want := added(1, n, "new")
			want.TaskStats, want.LeakHandlingStatus = h.stats, h.leak
			got, err := addComponent(t.Context(), s.flow, want)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", h.why, d)
			}
		}
	})
}

// TestATaskThatNamesAComponentTwiceIsOneTask holds it of a component in a rack, and that one without rack has none.
func TestATaskThatNamesAComponentTwiceIsOneTask(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 2))
	s.task(1, 0, "running", testID(2, 1, 0), testID(2, 1, 0), testID(2, 1, 1))
	s.exec("UPDATE component SET rack_id = NULL WHERE id = $1", testID(2, 1, 1).GetId())
	for n, want := range []uint32{1, 0} {
		if d := diff(&flowv1.TaskStats{RunningTaskCount: want}, s.component(testID(2, 1, n)).GetTaskStats()); d != "" {
			t.Errorf("component %d (-want +got):\n%s", n, d)
		}
	}
}
