package task

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

// TestQueriesOfTasksUseTheirIndexes explains what is sent for lists and watchers, and in sweeps, against 5,000 tasks.
func TestQueriesOfTasksUseTheirIndexes(t *testing.T) {
	t.Parallel()
	plans := &storetest.Plans{}
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), Tracer: plans, RiverConns: 1, EngineConns: 1, APIConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	var task, rack, component uuid.UUID
	err = st.API.QueryRow(t.Context(), `
		WITH t AS (
			INSERT INTO task (id, rack_id, operation_type, operation_code, state, message, started_at, finished_at, created_at, job_id)
			SELECT gen_random_uuid(), ('00000000-0000-0000-0000-' || lpad((i % 500)::text, 12, '0'))::uuid, 'power_control', 'power_on',
				CASE WHEN i % 50 = 0 THEN 'running' ELSE 'completed' END::task_state, '', now(),
				CASE WHEN i % 50 = 0 THEN NULL ELSE now() END, now() - i * interval '1 second', i
			FROM generate_series(1, 5000) AS i RETURNING *
		), p AS (
			INSERT INTO task_plan (task_id, request, plan, component_types, component_ids)
			SELECT id, '{}', '{"version": 1}', '{Compute}', ARRAY[gen_random_uuid(), gen_random_uuid()] FROM t RETURNING *
		), s AS (
			INSERT INTO task_step (task_id, stage, step, state, total, deadline_at, finished_at)
			SELECT id, i, 0, CASE WHEN t.state = 'running' AND i = 2 THEN 'running' ELSE 'completed' END::step_state, 1, now(),
				CASE WHEN t.state = 'running' AND i = 2 THEN NULL ELSE now() END
			FROM t, generate_series(0, 2) AS i
		), e AS (
			INSERT INTO event (kind, task_id, rack_id, state) SELECT 'task_message', id, rack_id, 'running' FROM t, generate_series(1, 3)
		)
		SELECT t.id, t.rack_id, p.component_ids[1] FROM t JOIN p ON p.task_id = t.id LIMIT 1`).Scan(&task, &rack, &component)
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.API.Exec(t.Context(), `
		INSERT INTO river_job (id, args, kind, max_attempts, state, finalized_at) SELECT i, '{}', 'task_start', 25, 'completed', now()
			FROM generate_series(1, 5000) AS i;
		ANALYZE`)
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Store: st, Log: slog.New(slog.DiscardHandler)}
	q := db.New(st.API)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(f ListFilter) {
		t.Helper()
		f.Limit = 100
		_, _, err := s.List(t.Context(), f)
		must(err)
	}

	list(ListFilter{})
	plans.Check(t, st.API, "TaskList", "task_created_idx", "task_plan_pkey")
	list(ListFilter{RackID: &rack})
	plans.Check(t, st.API, "TaskList", "task_rack_idx")
	list(ListFilter{ComponentID: &component})
	plans.Check(t, st.API, "TaskList", "task_plan_component_idx")
	list(ListFilter{ActiveOnly: true})
	plans.Check(t, st.API, "TaskCount", "task_active_idx")
	list(ListFilter{WithReport: true})
	plans.Check(t, st.API, "StepListByTasks", "task_step_pkey")
	plans.Check(t, st.API, "TaskPlans", "task_plan_pkey")

	_, err = q.TaskActiveByRacks(t.Context(), db.TaskActiveByRacksParams{RackIds: []uuid.UUID{rack}})
	must(err)
	plans.Check(t, st.API, "TaskActiveByRacks", "task_active_idx")

	_, err = q.EventList(t.Context(), db.EventListParams{AfterID: 9000, UpToID: 10000, Max: 100})
	must(err)
	plans.Check(t, st.API, "EventList", "event_pkey")
	_, err = q.EventListByTasks(t.Context(), db.EventListByTasksParams{TaskIds: []uuid.UUID{task}, UpToID: 60000, Max: 100})
	must(err)
	plans.Check(t, st.API, "EventListByTasks", "event_task_idx")
	_, err = q.EventListByRacks(t.Context(), db.EventListByRacksParams{RackIds: []uuid.UUID{rack}, UpToID: 60000, Max: 100})
	must(err)
	plans.Check(t, st.API, "EventListByRacks", "event_rack_idx")

	// The sweep goes by what is active, however many tasks have ended.
	_, err = q.StepListLost(t.Context(), db.StepListLostParams{Grace: time.Minute, Dead: []string{"x"}})
	must(err)
	plans.Check(t, st.API, "StepListLost", "task_active_idx", "task_step_pkey")
	_, err = q.TaskListUnstarted(t.Context(), db.TaskListUnstartedParams{Grace: time.Minute, Dead: []string{"x"}})
	must(err)
	plans.Check(t, st.API, "TaskListUnstarted", "task_active_idx", "river_job_pkey")
	_, err = q.StepListOwn(t.Context(), db.StepListOwnParams{Node: &task})
	must(err)
	plans.Check(t, st.API, "StepListOwn", "task_step_node_idx")
}
