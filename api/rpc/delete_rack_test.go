package rpc

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// holds compares how much is recorded of rack 1 and what is bound to it, tombstones too.
func (s *site) holds(t *testing.T, want string) {
	t.Helper()
	got := s.value(`SELECT (SELECT count(*) FROM rack WHERE id = $1) || ' racks, ' ||
		(SELECT count(*) FROM component WHERE rack_id = $1) || ' components, ' ||
		(SELECT count(*) FROM bmc WHERE rack_id = $1) || ' BMCs, ' ||
		(SELECT count(*) FROM drift JOIN component ON component.id = component_id WHERE rack_id = $1) || ' drifts, ' ||
		(SELECT count(*) FROM rack_rule WHERE rack_id = $1) || ' rules, ' ||
		(SELECT count(*) FROM task WHERE rack_id = $1) || ' tasks'`, testID(1, 1, 0).GetId())
	if got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
}

func (s *site) deleteRack(id *flowv1.UUID) error {
	_, err := s.flow.DeleteRack(s.t.Context(), &flowv1.DeleteRackRequest{Id: id})
	return err
}

func (s *site) purgeRack(id *flowv1.UUID) error {
	_, err := s.flow.PurgeRack(s.t.Context(), &flowv1.PurgeRackRequest{Id: id})
	return err
}

func (s *site) restoreRack(id *flowv1.UUID) (*flowv1.Rack, error) {
	res, err := s.ops.RestoreRack(s.t.Context(), &flowopsv1.RestoreRackRequest{Id: id})
	return res.GetRack(), err
}

func (s *site) deleteComponent(id *flowv1.UUID) error {
	_, err := s.flow.DeleteComponent(s.t.Context(), &flowv1.DeleteComponentRequest{Id: id})
	return err
}

func (s *site) purgeComponent(id *flowv1.UUID) error {
	_, err := s.flow.PurgeComponent(s.t.Context(), &flowv1.PurgeComponentRequest{Id: id})
	return err
}

// bind gives rack n, which has two components, drift of both and a rule of its own.
func (s *site) bind(n int) {
	s.t.Helper()
	s.exec(`INSERT INTO drift (kind, component_id, type) VALUES ('missing_in_actual', $1, 'Compute'), ('mismatch', $2, 'Compute')`,
		testID(2, n, 0).GetId(), testID(2, n, 1).GetId())
	s.exec(`WITH r AS (INSERT INTO operation_rule (id, name, operation_type, operation_code, definition)
			VALUES (gen_random_uuid(), 'mine', 'power_control', 'power_on', '{}') RETURNING *)
		INSERT INTO rack_rule (rack_id, operation_type, operation_code, rule_id) SELECT $1, operation_type, operation_code, id FROM r`, testID(1, n, 0).GetId())
}

// drifts is how many differences clients are shown.
func (s *site) drifts() int32 {
	s.t.Helper()
	res, err := s.flow.ValidateComponents(s.t.Context(), &flowv1.ValidateComponentsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(res.GetDiffs()) != int(res.GetTotalDiffs()) {
		s.t.Errorf("%d differences of %d", len(res.GetDiffs()), res.GetTotalDiffs())
	}
	return res.GetTotalDiffs()
}

// endTasks ends the tasks of a rack, by hand.
func (s *site) endTasks(rack *flowv1.UUID) {
	s.t.Helper()
	s.exec("UPDATE task SET state = 'terminated', finished_at = now(), queue_expires_at = NULL WHERE rack_id = $1 AND finished_at IS NULL", rack.GetId())
}

func TestARackIsDeletedPurgedAndRecordedAgain(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		for n := 1; n <= 2; n++ {
			s.seenRack(n)
			s.bind(n)
		}
		id, tray := testID(1, 1, 0), testID(2, 1, 0)
		var tasks []*flowv1.UUID
		for i, state := range []string{"waiting", "waiting", "pending", "running", "completed"} {
			tasks = append(tasks, s.task(1, i, state, tray))
		}
		s.task(2, 0, "waiting", testID(2, 2, 0))
		other := s.rack("core-rack-2")

		if err := s.deleteRack(id); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"core-rack-1", id.GetId()} {
			_, err := s.flow.GetRackInfoByID(t.Context(), &flowv1.GetRackInfoByIDRequest{Id: &flowv1.UUID{Id: id}})
			refused(t, err, connect.CodeNotFound, id)
		}
		_, err := s.flow.GetComponentInfoByID(t.Context(), &flowv1.GetComponentInfoByIDRequest{Id: tray})
		refused(t, err, connect.CodeNotFound, tray.GetId())
		if list, err := s.flow.GetListOfRacks(t.Context(), &flowv1.GetListOfRacksRequest{}); err != nil || list.GetTotal() != 1 {
			t.Errorf("%d racks, %v", list.GetTotal(), err)
		}
		if list, err := s.flow.GetComponents(t.Context(), &flowv1.GetComponentsRequest{}); err != nil || list.GetTotal() != 2 {
			t.Errorf("%d components, %v", list.GetTotal(), err)
		}
		if n := s.drifts(); n != 2 {
			t.Errorf("%d differences are shown, want the 2 of the other rack", n)
		}
		if d := diff(other, s.rack("core-rack-2")); d != "" {
			t.Errorf("the other rack has changed (-before +after):\n%s", d)
		}
		moments := s.value(`SELECT count(DISTINCT d) || ' of ' || count(d) FROM (SELECT deleted_at AS d FROM rack WHERE id = $1
			UNION ALL SELECT deleted_at FROM component WHERE rack_id = $1) AS all_of_it`, id.GetId())
		if moments != "1 of 3" {
			t.Errorf("deleted at %s moments", moments)
		}
		s.holds(t, "1 racks, 2 components, 2 BMCs, 2 drifts, 1 rules, 5 tasks")
		s.endedWith(t, id, tasks[:2], tasks[2:])

		s.refuses(t, func() error { return s.deleteRack(id) }, connect.CodeNotFound, id.GetId())
		s.refuses(t, func() error { return s.purgeRack(id) }, connect.CodeFailedPrecondition, id.GetId())
		s.endTasks(id)
		if err := s.purgeRack(id); err != nil {
			t.Fatal(err)
		}
		s.holds(t, "0 racks, 0 components, 0 BMCs, 0 drifts, 0 rules, 5 tasks")
		if d := diff(other, s.rack("core-rack-2")); d != "" {
			t.Errorf("the other rack has changed (-before +after):\n%s", d)
		}
		if left := s.value("SELECT (SELECT count(*) FROM drift) || ' ' || (SELECT count(*) FROM rack_rule)"); left != "2 1" {
			t.Errorf("the other rack has %s drifts and rules, want 2 1", left)
		}
		if res, err := s.flow.GetTasksByIDs(t.Context(), &flowv1.GetTasksByIDsRequest{TaskIds: tasks}); err != nil || len(res.GetTasks()) != 5 {
			t.Errorf("%d tasks are history, %v", len(res.GetTasks()), err)
		}
		s.refuses(t, func() error { return s.purgeRack(id) }, connect.CodeNotFound, id.GetId())
		s.refuses(t, func() error { return s.deleteRack(id) }, connect.CodeNotFound, id.GetId())
		s.refuses(t, func() error { _, err := s.restoreRack(id); return err }, connect.CodeNotFound, id.GetId())
		s.create(testRack(1, 2))
	})
}

// endedWith holds that a deletion has ended some tasks and left others, as clients and watchers are told.
func (s *site) endedWith(t *testing.T, rack *flowv1.UUID, ended, left []*flowv1.UUID) {
	t.Helper()
	res, err := s.flow.GetTasksByIDs(t.Context(), &flowv1.GetTasksByIDsRequest{TaskIds: append(ended, left...)})
	if err != nil {
		t.Fatal(err)
	}
	for i, task := range res.GetTasks() {
		terminated := task.GetStatus() == flowv1.TaskStatus_TASK_STATUS_TERMINATED
		named := strings.Contains(task.GetMessage(), "deleted") && strings.Contains(task.GetMessage(), rack.GetId())
		switch wanted := i < len(ended); {
		case terminated != wanted, named != wanted, wanted && task.GetFinishedAt() == nil, !wanted && task.GetMessage() != "as recorded":
			t.Errorf("task %d is %v at %v: %q", i, task.GetStatus(), task.GetFinishedAt(), task.GetMessage())
		}
		want := ""
		if i < len(ended) {
			want = fmt.Sprintf("task_finished terminated %s %s", rack.GetId(), task.GetMessage())
		}
		events := s.value("SELECT coalesce(string_agg(kind || ' ' || state || ' ' || rack_id || ' ' || message, ', '), '') FROM event WHERE task_id = $1", task.GetId().GetId())
		if d := cmp.Diff(want, events); d != "" {
			t.Errorf("events of task %d: %s", i, d)
		}
	}
}

// TestDeletionsThatAreRefused holds one site with rack 1, a rack 2 that is deleted, racks 3 to 5 that are deleted while a
// task works on them, and a rack 6 that is deleted but has a live component.
func TestDeletionsThatAreRefused(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		for n := 1; n <= 6; n++ {
			s.create(testRack(n, 2))
			if n > 1 {
				s.bury(testID(1, n, 0))
			}
		}
		for i, state := range active {
			s.task(3+i, 0, state, testID(2, 3+i, 0))
		}
		s.exec("UPDATE component SET deleted_at = NULL WHERE id = $1", testID(2, 6, 1).GetId())
		restore := func(id *flowv1.UUID) error { _, err := s.restoreRack(id); return err }
		calls := map[string]struct {
			call  func(*flowv1.UUID) error
			wrong *flowv1.UUID // in the wrong stage of its life
			code  connect.Code
			words []string
		}{
			"delete a rack":  {call: s.deleteRack, wrong: testID(1, 2, 0), code: connect.CodeNotFound},
			"purge a rack":   {call: s.purgeRack, wrong: testID(1, 1, 0), code: connect.CodeFailedPrecondition, words: []string{"is not soft-deleted; call DeleteRack first"}},
			"restore a rack": {call: restore, wrong: testID(1, 1, 0), code: connect.CodeFailedPrecondition},
			"purge a rack with a live component": {
				call: s.purgeRack, wrong: testID(1, 6, 0), code: connect.CodeFailedPrecondition, words: []string{testID(2, 6, 1).GetId()},
			},
			"purge a rack with a waiting task": {
				call: s.purgeRack, wrong: testID(1, 3, 0), code: connect.CodeFailedPrecondition, words: []string{testID(4, 3, 0).GetId()},
			},
			"purge a rack with a pending task": {
				call: s.purgeRack, wrong: testID(1, 4, 0), code: connect.CodeFailedPrecondition, words: []string{testID(4, 4, 0).GetId()},
			},
			"purge a rack with a running task": {
				call: s.purgeRack, wrong: testID(1, 5, 0), code: connect.CodeFailedPrecondition, words: []string{testID(4, 5, 0).GetId()},
			},
			"delete a component": {call: s.deleteComponent, wrong: testID(2, 2, 0), code: connect.CodeNotFound},
			"purge a component": {
				call: s.purgeComponent, wrong: testID(2, 1, 0), code: connect.CodeFailedPrecondition, words: []string{"is not soft-deleted; call DeleteComponent first"},
			},
			"purge a component a waiting task names": {
				call: s.purgeComponent, wrong: testID(2, 3, 0), code: connect.CodeFailedPrecondition, words: []string{testID(4, 3, 0).GetId()},
			},
			"purge a component a pending task names": {
				call: s.purgeComponent, wrong: testID(2, 4, 0), code: connect.CodeFailedPrecondition, words: []string{testID(4, 4, 0).GetId()},
			},
			"purge a component a running task names": {
				call: s.purgeComponent, wrong: testID(2, 5, 0), code: connect.CodeFailedPrecondition, words: []string{testID(4, 5, 0).GetId()},
			},
		}
		for name, c := range calls {
			for why, id := range map[string]*flowv1.UUID{
				"without id": nil, "with an empty id": {}, "with a malformed id": {Id: "x"}, "with the nil id": {Id: uuid.Nil.String()}, "by external id": {Id: "core-rack-1"},
			} {
				t.Run(name+" "+why, func(t *testing.T) {
					s.refuses(t, func() error { return c.call(id) }, connect.CodeInvalidArgument, "id")
				})
			}
			t.Run(name+" that there is not", func(t *testing.T) {
				s.refuses(t, func() error { return c.call(testID(1, 99, 0)) }, connect.CodeNotFound, testID(1, 99, 0).GetId())
			})
			t.Run(name, func(t *testing.T) {
				s.refuses(t, func() error { return c.call(c.wrong) }, c.code, append(c.words, c.wrong.GetId())...)
			})
		}
	})
}
