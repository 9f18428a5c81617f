package inventory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

// TestAComponentIsNotTakenFromATaskThatCameFirst plays others that hold the racks while a patch or a purge waits for
// them: what those have done by then counts, not what the component looked like before.
func TestAComponentIsNotTakenFromATaskThatCameFirst(t *testing.T) {
	t.Parallel()
	one, two, tray := key(1, 1), key(1, 2), key(2, 1)
	for name, c := range map[string]struct {
		deleted   bool   // the component is a tombstone
		meanwhile string // by whoever holds the racks
		call      func(ctx context.Context, s *store.Store) error
	}{
		"moved to another rack and named there": {
			meanwhile: "UPDATE component SET rack_id = '" + two.String() + "'",
			call: func(ctx context.Context, s *store.Store) error {
				_, err := PatchComponent(ctx, s.API, ComponentPatch{ID: tray, RackID: &one})
				return err
			},
		},
		"named where it is": {
			meanwhile: "SELECT",
			call: func(ctx context.Context, s *store.Store) error {
				_, err := PatchComponent(ctx, s.API, ComponentPatch{ID: tray, RackID: &two})
				return err
			},
		},
		"named by a submission that saw it live": {
			deleted:   true,
			meanwhile: "SELECT",
			call:      func(ctx context.Context, s *store.Store) error { return PurgeComponent(ctx, s.API, tray) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 2, APIConns: 2})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			for i, id := range []uuid.UUID{one, two} {
				r := NewRack{ID: id, Plate: Plate{Name: "rack"}}
				if i == 0 {
					r.Components = []NewComponent{{ID: tray, Type: "Compute", Slot: -1, Tray: -1, Host: -1}}
				}
				if err := CreateRack(t.Context(), s.API, r); err != nil {
					t.Fatal(err)
				}
			}
			if c.deleted {
				if err := DeleteComponent(t.Context(), s.API, tray); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, 1)
			err = store.InTx(t.Context(), s.Engine, func(tx pgx.Tx) error {
				if _, err := db.New(tx).RackLockMany(t.Context(), db.RackLockManyParams{Ids: []uuid.UUID{one, two}}); err != nil {
					return err
				}
				go func() { done <- c.call(t.Context(), s) }()
				if err := blocked(t.Context(), s); err != nil {
					return err
				}
				_, err := tx.Exec(t.Context(), c.meanwhile+`;
					INSERT INTO task (id, rack_id, operation_type, operation_code, state, message)
						SELECT gen_random_uuid(), rack_id, 'power_control', 'power_on', 'pending', '' FROM component;
					INSERT INTO task_plan (task_id, request, plan, component_types, component_ids)
						SELECT task.id, '{}', '{}', '{Compute}', ARRAY[component.id] FROM task, component`)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-done; fault.KindOf(err) != fault.KindPrecondition {
				t.Errorf("%v, want a refusal because of the task", err)
			}
		})
	}
}

// blocked returns once a statement of this database waits for a lock.
func blocked(ctx context.Context, s *store.Store) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		var waiting bool
		err := s.Engine.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
		if err != nil || waiting {
			return errors.Join(err, ctx.Err())
		}
	}
}
