package rpc

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// overEach runs a test with a site of its own for gRPC and for JSON, which s.flow and s.ops speak: for tests that record
// things.
func overEach(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	for name, protocol := range map[string]connect.ClientOption{"gRPC": connect.WithGRPC(), "JSON": connect.WithProtoJSON()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			s.flow = flowv1connect.NewFlowClient(s.http, s.url, protocol)
			s.ops = flowopsv1connect.NewFlowOpsClient(s.http, s.url, protocol)
			test(t, s)
		})
	}
}

// refuses fails the test unless the call is refused, see refused, and has left everything as it was.
func (s *site) refuses(t *testing.T, call func() error, code connect.Code, words ...string) {
	t.Helper()
	before := s.contents()
	refused(t, call(), code, words...)
	if s.contents() != before {
		t.Error("the refused call has left something behind")
	}
}

// value is what a query answers in its only row.
func (s *site) value(sql string, args ...any) string {
	s.t.Helper()
	var v string
	if err := s.store.API.QueryRow(s.t.Context(), sql, args...).Scan(&v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *site) component(id *flowv1.UUID) *flowv1.Component {
	s.t.Helper()
	res, err := s.grpc.GetComponentInfoByID(s.t.Context(), &flowv1.GetComponentInfoByIDRequest{Id: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.GetComponent()
}

// clear forgets the whole inventory, for the next case.
func (s *site) clear() {
	s.t.Helper()
	s.exec("TRUNCATE rack, component, nvl_domain CASCADE")
}

// bury makes tombstones of a rack and its components behind the API's back.
func (s *site) bury(rack *flowv1.UUID) {
	s.t.Helper()
	s.exec("UPDATE component SET deleted_at = now() WHERE rack_id = $1", rack.GetId())
	s.exec("UPDATE rack SET deleted_at = now() WHERE id = $1", rack.GetId())
}

// task records the nth task of a rack in a state, behind the API's back, and returns its id.
func (s *site) task(rack, n int, state string, components ...*flowv1.UUID) *flowv1.UUID {
	s.t.Helper()
	id := testID(4, rack, n)
	s.exec(`WITH t AS (INSERT INTO task (id, rack_id, operation_type, operation_code, state, message, started_at, finished_at, queue_expires_at)
		SELECT $1, $2, 'power_control', 'power_on', s, 'as recorded', CASE WHEN s NOT IN ('waiting', 'pending') THEN now() END,
			CASE WHEN s IN ('completed', 'failed', 'terminated') THEN now() END, CASE WHEN s = 'waiting' THEN now() + interval '1 hour' END
		FROM (SELECT $3::task_state AS s) AS given
		RETURNING id)
		INSERT INTO task_plan (task_id, request, plan, component_types, component_ids) SELECT id, '{}', '{"version":1}', '{}', $4::uuid[] FROM t`,
		id.GetId(), testID(1, rack, 0).GetId(), state, each(components, (*flowv1.UUID).GetId))
	return id
}

// active are the states of a task that has not ended.
var active = []string{"waiting", "pending", "running"}

// seenRack records a rack of two trays that has something in every field clients may patch. Its first tray has been seen
// by a synchronisation, whose columns and description keys no patch may touch.
func (s *site) seenRack(n int) *flowv1.Rack {
	s.t.Helper()
	r := testRack(n, 2)
	r.Info.Model, r.Info.Description = proto.String("GB200"), proto.String("by the door")
	r.Location = &flowv1.Location{Region: "eu", Datacenter: "fra1", Room: "r1", Position: "p1"}
	c := r.Components[0]
	c.Info.Model = proto.String("tray")
	c.Info.Description = proto.String(`{"description":"wet","nvos_ip":"10.0.0.9","expected_description":{"a":1},"note":"old"}`)
	c.FirmwareVersion = "1.0"
	c.Position = &flowv1.RackPosition{SlotId: 1, TrayIdx: 2, HostId: 3}
	c.Health = &flowv1.HealthReport{Source: "core"}
	c.Bmcs[0].IpAddress = proto.String("10.0.0.1")
	s.create(r)
	s.exec(`UPDATE component SET power_state = 'on', phase = 'ERROR', phase_reason = 'because', phase_at = now(), leak_status = 'DETECTED',
		last_seen_at = now() WHERE id = $1`, c.GetInfo().GetId().GetId())
	return s.rack(r.GetInfo().GetId().GetId())
}

// added is a component as it reads once it has been recorded with nothing but these in a rack as seenRack and testRack
// make them.
func added(rack, n int, name string) *flowv1.Component {
	return &flowv1.Component{
		Type:               compute,
		Info:               &flowv1.DeviceInfo{Id: testID(2, rack, n), Name: name},
		Position:           &flowv1.RackPosition{SlotId: -1, TrayIdx: -1, HostId: -1},
		RackId:             testID(1, rack, 0),
		RackExternalId:     fmt.Sprintf("core-rack-%d", rack),
		TaskStats:          &flowv1.TaskStats{},
		LeakHandlingStatus: flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_NONE,
	}
}
