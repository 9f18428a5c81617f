package task

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

// noJobs are jobs that nobody does.
type noJobs struct{}

func (noJobs) InsertStarts(_ context.Context, _ pgx.Tx, tasks []uuid.UUID) ([]int64, error) {
	return make([]int64, len(tasks)), nil
}
func (noJobs) InsertExpiries(context.Context, pgx.Tx, []uuid.UUID, time.Time) error { return nil }
func (noJobs) InsertRelease(context.Context, pgx.Tx, uuid.UUID, time.Time) error    { return nil }
func (noJobs) Cancel(context.Context, pgx.Tx, []int64) error                        { return nil }
func (noJobs) Interrupt(uuid.UUID)                                                  {}

// TestWhatChangesBeforeItsTaskIsAdmittedRefusesTheTask has racks a and b of two trays each, 1 and 2 in a, 3 and 4 in b,
// plans tasks for tray 1 and for both of b, changes something, and asks for admission.
func TestWhatChangesBeforeItsTaskIsAdmittedRefusesTheTask(t *testing.T) {
	t.Parallel()
	a, b := id(0xa), id(0xb)
	for name, c := range map[string]struct {
		change string
		kind   fault.Kind // why a's task is refused; KindUnknown: it is admitted
		word   string
	}{
		"nothing changes":                         {"SELECT", fault.KindUnknown, ""},
		"the component is deleted":                {"UPDATE component SET deleted_at = now() WHERE name = 'tray 1'", fault.KindPrecondition, id(1).String()},
		"the component is moved":                  {"UPDATE component SET rack_id = (SELECT id FROM rack WHERE name = 'b') WHERE name = 'tray 1'", fault.KindPrecondition, id(1).String()},
		"the component is in no rack any more":    {"UPDATE component SET rack_id = NULL WHERE name = 'tray 1'", fault.KindPrecondition, id(1).String()},
		"the component is purged":                 {"DELETE FROM component WHERE name = 'tray 1'", fault.KindPrecondition, id(1).String()},
		"the rack is deleted":                     {"UPDATE rack SET deleted_at = now() WHERE name = 'a'", fault.KindNotFound, a.String()},
		"a component that was not meant goes":     {"UPDATE component SET deleted_at = now() WHERE name = 'tray 2'", fault.KindUnknown, ""},
		"a component that was not meant is moved": {"UPDATE component SET rack_id = (SELECT id FROM rack WHERE name = 'b') WHERE name = 'tray 2'", fault.KindUnknown, ""},
		"the component is renamed":                {"UPDATE component SET name = 'other' WHERE name = 'tray 1'", fault.KindUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 1, APIConns: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(st.Close)
			hw, err := sim.Open(sim.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = hw.Close() })
			exec := func(sql string, args ...any) {
				t.Helper()
				if _, err := st.API.Exec(t.Context(), sql, args...); err != nil {
					t.Fatal(err)
				}
			}
			exec("INSERT INTO rack (id, name) VALUES ($1, 'a'), ($2, 'b')", a, b)
			exec(`INSERT INTO component (id, type, name, external_id, rack_id)
				SELECT tray, 'Compute', 'tray ' || n, 'core-' || n, rack FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS c (tray, rack, n)`,
				[]uuid.UUID{id(1), id(2), id(3), id(4)}, []uuid.UUID{a, a, b, b})
			log := slog.New(slog.DiscardHandler)
			s := &Service{Store: st, Managers: hw.Managers(), Jobs: noJobs{}, Watch: NewHub(st, log), Log: log, Now: time.Now}
			req := Request{
				Operation: rules.Operation{Type: rules.TaskPowerControl, Code: string(hardware.PowerOn)},
				Scope:     inventory.Scope{Components: []inventory.ComponentRef{{ID: id(1)}, {ID: id(3)}, {ID: id(4)}}},
			}

			drafts, err := s.drafts(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			exec(c.change)
			admitted, refusals, err := s.admit(t.Context(), order{operation: req.Operation}, drafts)
			if err != nil {
				t.Fatal(err)
			}

			want := []uuid.UUID{a, b}
			if c.kind != fault.KindUnknown {
				want = []uuid.UUID{b} // is not concerned
				if len(refusals) != 1 || refusals[0].RackID != a || fault.KindOf(refusals[0].Err) != c.kind || !strings.Contains(refusals[0].Err.Error(), c.word) {
					t.Errorf("refusals %v, want one of kind %s that names %s", refusals, c.kind, c.word)
				}
			} else if len(refusals) > 0 {
				t.Errorf("refusals %v", refusals)
			}
			rows, err := st.API.Query(t.Context(), "SELECT rack_id FROM task JOIN task_plan ON task_id = id ORDER BY rack_id")
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" || len(admitted) != len(want) {
				t.Errorf("%d tasks admitted (-want +got):\n%s", len(admitted), d)
			}
		})
	}
}
