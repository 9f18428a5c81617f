package rule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// writers is how many requests come at the same time.
const writers = 50

func open(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return st
}

func create(t *testing.T, st *store.Store, d Draft) uuid.UUID {
	t.Helper()
	d.Definition = one
	id, err := Create(t.Context(), st, d)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newRack(t *testing.T, st *store.Store) uuid.UUID {
	t.Helper()
	id := uuid.New()
	if err := db.New(st.API).RackInsert(t.Context(), db.RackInsertParams{ID: id, Name: "rack"}); err != nil {
		t.Fatal(err)
	}
	return id
}

// value is what a query answers in its only row.
func value(t *testing.T, st *store.Store, sql string, args ...any) string {
	t.Helper()
	var v string
	if err := st.API.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// defaults are the names of all default rules.
func defaults(t *testing.T, st *store.Store) string {
	t.Helper()
	return value(t, st, "SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM operation_rule WHERE is_default")
}

// together makes all calls begin at the same time and returns how they ended.
func together(calls ...func() error) []error {
	var done sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, len(calls))
	for i, call := range calls {
		done.Go(func() {
			<-begin
			errs[i] = call()
		})
	}
	close(begin)
	done.Wait()
	return errs
}

// TestOneOfManyDefaultsIsLeft has 50 requests make one of seven rules the default while others try to create a default.
func TestOneOfManyDefaultsIsLeft(t *testing.T) {
	t.Parallel()
	st := open(t)
	var all []uuid.UUID
	for i := range 7 {
		all = append(all, create(t, st, Draft{Name: fmt.Sprintf("rule-%d", i), Operation: powerOn, IsDefault: i == 3}))
	}
	create(t, st, Draft{Name: "untouched", Operation: powerOff, IsDefault: true})
	var calls []func() error
	for i := range writers {
		calls = append(calls, func() error { return SetDefault(t.Context(), st, all[i%len(all)]) })
		if i%10 == 0 {
			calls = append(calls, func() error {
				_, err := Create(t.Context(), st, Draft{Name: "late", Operation: powerOn, Definition: one, IsDefault: true})
				if fault.KindOf(err) == fault.KindExists {
					return nil
				}
				return fmt.Errorf("a default next to the default: %w", err)
			})
		}
	}
	for _, err := range together(calls...) {
		if err != nil {
			t.Error(err)
		}
	}
	left := strings.Fields(defaults(t, st))
	if len(left) != 2 || !strings.HasPrefix(left[0], "rule-") || left[1] != "untouched" {
		t.Errorf("defaults %q", left)
	}
}

// TestTheLastAssociationWins has 50 requests bind rules to one rack.
func TestTheLastAssociationWins(t *testing.T) {
	t.Parallel()
	st := open(t)
	rack := newRack(t, st)
	var calls []func() error
	for i := range writers {
		id := create(t, st, Draft{Name: fmt.Sprint(i), Operation: powerOn})
		calls = append(calls, func() error { return Associate(t.Context(), st, rack, id) })
	}
	for _, err := range together(calls...) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := value(t, st, "SELECT count(*)::text FROM rack_rule JOIN operation_rule ON operation_rule.id = rule_id WHERE rack_id = $1", rack); n != "1" {
		t.Errorf("%s associations are left", n)
	}
	if err := calls[17](); err != nil {
		t.Fatal(err)
	}
	if name := value(t, st, "SELECT name FROM rack_rule JOIN operation_rule ON operation_rule.id = rule_id"); name != "17" {
		t.Errorf("rule %s is associated, want the last one, 17", name)
	}
}

// TestBatchesDoNotDeadlock sends batches of the same rules in opposite orders, next to requests for single ones.
func TestBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	st := open(t)
	var batch []Draft
	for _, code := range rules.TaskPowerControl.Codes() {
		op := rules.Operation{Type: rules.TaskPowerControl, Code: code}
		batch = append(batch, Draft{Name: "default", Operation: op, Definition: one, IsDefault: true}, Draft{Name: "other", Operation: op, Definition: one})
	}
	var calls []func() error
	for i := range writers {
		mine := slices.Clone(batch)
		if i%2 > 0 {
			slices.Reverse(mine)
		}
		calls = append(calls, func() error {
			_, err := Replace(t.Context(), st, mine, i%3 > 0)
			return err
		})
		op := batch[i%len(batch)].Operation
		calls = append(calls, func() error {
			id, err := Create(t.Context(), st, Draft{Name: "single", Operation: op, Definition: one, IsDefault: true})
			switch {
			case fault.KindOf(err) == fault.KindExists:
				return nil
			case err != nil:
				return err
			}
			return Update(t.Context(), st, id, Change{Definition: new(`{}`)})
		})
	}
	for _, err := range together(calls...) {
		if err != nil {
			t.Error(err)
		}
	}
	count := value(t, st, `SELECT count(*) FILTER (WHERE is_default) || ' defaults, ' || count(*) FILTER (WHERE NOT is_default) || ' others' FROM operation_rule`)
	if want := "8 defaults, 8 others"; count != want {
		t.Errorf("%s are stored, want %s", count, want)
	}
}

// TestWhoComesSecondSeesWhatTheFirstHasDone plays somebody who is in the middle of a write while a call waits for them.
func TestWhoComesSecondSeesWhatTheFirstHasDone(t *testing.T) {
	t.Parallel()
	const insert = `INSERT INTO operation_rule (id, name, operation_type, operation_code, definition, is_default)
		VALUES (gen_random_uuid(), 'first', 'power_control', 'power_on', '{}', true)`
	const drop = "DELETE FROM operation_rule WHERE name = 'stored'"
	createSecond := func(ctx context.Context, st *store.Store, _, _ uuid.UUID) error {
		_, err := Create(ctx, st, Draft{Name: "second", Operation: powerOn, Definition: one, IsDefault: true})
		return err
	}
	setDefault := func(ctx context.Context, st *store.Store, rule, _ uuid.UUID) error { return SetDefault(ctx, st, rule) }
	associate := func(ctx context.Context, st *store.Store, rule, rack uuid.UUID) error {
		return Associate(ctx, st, rack, rule)
	}
	for name, c := range map[string]struct {
		first string
		call  func(ctx context.Context, st *store.Store, rule, rack uuid.UUID) error
		kind  fault.Kind // unknown: the call succeeds
		want  string     // the default rule that is left
	}{
		"a default that is created is replaced":                      {insert, setDefault, fault.KindUnknown, "stored"},
		"a default that is created keeps another from being created": {insert, createSecond, fault.KindExists, "first"},
		"a default that is created is overwritten by a batch": {
			insert,
			func(ctx context.Context, st *store.Store, _, _ uuid.UUID) error {
				done, err := Replace(ctx, st, []Draft{{Name: "second", Operation: powerOn, Definition: one, IsDefault: true}}, true)
				if err == nil && done[0].Outcome != Overwritten {
					return fmt.Errorf("outcome %d", done[0].Outcome)
				}
				return err
			},
			fault.KindUnknown, "second",
		},
		"a batch keeps a default from being created": {
			"LOCK TABLE operation_rule IN SHARE ROW EXCLUSIVE MODE; " + insert, createSecond, fault.KindExists, "first",
		},
		"a rule that is deleted cannot become the default": {drop, setDefault, fault.KindNotFound, ""},
		"a rule that is deleted is not updated": {
			drop,
			func(ctx context.Context, st *store.Store, rule, _ uuid.UUID) error {
				return Update(ctx, st, rule, Change{Name: new("renamed")})
			},
			fault.KindNotFound, "",
		},
		"a rule that is deleted is not associated": {drop, associate, fault.KindNotFound, ""},
		"nor is one with a rack that is deleted": {
			"SELECT FROM rack FOR UPDATE; UPDATE rack SET deleted_at = now()", associate, fault.KindNotFound, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := open(t)
			rule, rack := create(t, st, Draft{Name: "stored", Operation: powerOn}), newRack(t, st)
			done := make(chan error, 1)
			err := store.InTx(t.Context(), st.Engine, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), c.first); err != nil {
					return err
				}
				go func() { done <- c.call(t.Context(), st, rule, rack) }()
				return blocked(t.Context(), st)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-done; fault.KindOf(err) != c.kind || (err == nil) != (c.kind == fault.KindUnknown) {
				t.Errorf("ended with %v", err)
			}
			if got := defaults(t, st); got != c.want {
				t.Errorf("default %q, want %q", got, c.want)
			}
		})
	}
}

// blocked returns once a statement of this database waits for a lock.
func blocked(ctx context.Context, st *store.Store) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		var waiting bool
		err := st.Engine.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
		if err != nil || waiting {
			return errors.Join(err, ctx.Err())
		}
	}
}
