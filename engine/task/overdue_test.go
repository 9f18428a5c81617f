package task

import (
	"log/slog"
	"testing"
	"time"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

// Every node looks for overdue tasks with each heartbeat, however many racks and tasks there are.
func TestOverdueTasksAreFoundByTheQueuesAlone(t *testing.T) {
	t.Parallel()
	plans := &storetest.Plans{}
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 1, APIConns: 1, Tracer: plans})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	_, err = st.API.Exec(t.Context(), `
		INSERT INTO rack (id, name) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, 'rack' FROM generate_series(1, 5000) AS i;
		INSERT INTO task (id, rack_id, operation_type, operation_code, state, message, started_at, finished_at, queue_expires_at)
			SELECT gen_random_uuid(), ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, 'power_control', 'power_on', s.state, '', now(),
				CASE WHEN s.state = 'completed' THEN now() END, CASE WHEN s.state = 'waiting' THEN now() + interval '1 hour' END
			FROM generate_series(1, 5000) AS i, (VALUES ('completed'::task_state), ('running'), ('waiting')) AS s (state)
			WHERE s.state = 'completed' OR i % 25 = 0 AND s.state = 'running' OR i % 100 = 0;
		ANALYZE`)
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Store: st, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	if err := s.SweepOverdue(t.Context()); err != nil {
		t.Fatal(err)
	}
	plans.Check(t, st.Engine, "RackListOverdue", "rack_waiting_idx", "task_active_idx")
}
