package task

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

// TestTasksAreRemovedWhenTheyHaveBeenKeptLongEnough has tasks of every state that were created three days ago and ended, if
// they have, some hours ago.
func TestTasksAreRemovedWhenTheyHaveBeenKeptLongEnough(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 1, APIConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := st.API.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO rack (id, name) VALUES ($1, 'r')", id(1))
	for _, state := range []string{"waiting", "pending", "running", "completed", "failed", "terminated"} {
		for _, hours := range []int{47, 49} {
			exec(`WITH t AS (
					INSERT INTO task (id, rack_id, operation_type, operation_code, description, state, message, queue_expires_at, started_at, finished_at, created_at, updated_at)
					SELECT gen_random_uuid(), $1, 'power_control', 'power_on', s || ' ' || $3::integer, s, '', CASE s WHEN 'waiting' THEN now() END, now(),
						CASE WHEN s IN ('completed', 'failed', 'terminated') THEN now() - $3::integer * interval '1 hour' END, now() - interval '72 hours', now() - interval '72 hours'
					FROM (SELECT $2::task_state AS s) AS given RETURNING id
				), p AS (INSERT INTO task_plan (task_id, request, plan, component_types, component_ids) SELECT id, '{}', '{}', '{}', '{}' FROM t
				), s AS (INSERT INTO task_step (task_id, stage, step, total, deadline_at) SELECT id, 0, 0, 1, now() FROM t)
				INSERT INTO event (kind, task_id, rack_id, state) SELECT 'task_created', id, $1, $2::task_state FROM t`, id(1), state, hours)
		}
	}
	exec(`UPDATE task SET retry_of = (SELECT id FROM task WHERE description = 'failed 49') WHERE description = 'completed 47'`)
	list := func(sql string) []string {
		t.Helper()
		rows, err := st.API.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	const tasks = "SELECT description FROM task ORDER BY 1"
	all := list(tasks)

	log := slog.New(slog.DiscardHandler)
	s := &Service{Store: st, Jobs: noJobs{}, Watch: NewHub(st, log), Log: log, Now: time.Now}
	if err := s.RemoveOld(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(all, list(tasks)); d != "" || len(all) != 12 {
		t.Errorf("%d tasks; kept for ever (-before +after):\n%s", len(all), d)
	}
	s.Settings.Retention = 48 * time.Hour
	for range 2 { // again there is nothing left to do
		if err := s.RemoveOld(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"completed 47", "failed 47", "pending 47", "pending 49", "running 47", "running 49", "terminated 47", "waiting 47", "waiting 49"}
	for what, sql := range map[string]string{
		"tasks":  tasks,
		"plans":  "SELECT coalesce(description, '?') FROM task_plan LEFT JOIN task ON task.id = task_id ORDER BY 1",
		"steps":  "SELECT coalesce(description, '?') FROM task_step LEFT JOIN task ON task.id = task_id ORDER BY 1",
		"events": "SELECT coalesce(description, '?') FROM event LEFT JOIN task ON task.id = task_id ORDER BY 1",
	} {
		if d := cmp.Diff(want, list(sql)); d != "" {
			t.Errorf("%s that are left (-want +got):\n%s", what, d)
		}
	}
	if left := list("SELECT coalesce(retry_of::text, 'none') FROM task WHERE description = 'completed 47'"); fmt.Sprint(left) != "[none]" {
		t.Errorf("the retry of a task that was removed is that of %v", left)
	}

	// More than one statement removes.
	exec(`INSERT INTO task (id, rack_id, operation_type, operation_code, description, state, message, started_at, finished_at, created_at)
		SELECT gen_random_uuid(), $1, 'power_control', 'power_on', 'many', 'completed', '', now(), now() - interval '72 hours', now() - interval '96 hours'
		FROM generate_series(1, 1100)`, id(1))
	if err := s.RemoveOld(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, list(tasks)); d != "" {
		t.Errorf("tasks that are left (-want +got):\n%s", d)
	}
}
