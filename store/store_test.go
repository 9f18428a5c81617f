package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestMigratingTwiceIsANoOp(t *testing.T) {
	t.Parallel()
	url := storetest.Empty(t)
	first, err := store.Migrate(t.Context(), url)
	if err != nil || len(first) == 0 {
		t.Fatalf("applied %d: %v", len(first), err)
	}
	again, err := store.Migrate(t.Context(), url)
	if err != nil || len(again) != 0 {
		t.Errorf("applied %v again: %v", again, err)
	}
	all, err := store.Migrations(t.Context(), url)
	if err != nil || len(all) != len(first) {
		t.Errorf("%d migrations, applied %d: %v", len(all), len(first), err)
	}
	for _, m := range all {
		if m.Pending {
			t.Errorf("%s %d is pending", m.Set, m.Version)
		}
	}
}

func TestServersThatMigrateAtOnceShareTheWork(t *testing.T) {
	t.Parallel()
	url := storetest.Empty(t)
	const n = 4
	applied := make([]int, n)
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			steps, err := store.Migrate(context.Background(), url)
			applied[i], errs[i] = len(steps), err
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	workers := 0
	for _, steps := range applied {
		if steps > 0 {
			workers++
		}
	}
	if workers != 1 {
		t.Errorf("%v steps applied, want all of them by one", applied)
	}
}

func TestAWrongDatabaseIsNamedAndItsPasswordIsNot(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"malformed":       "postgres://flow:hunter2@local host/flow",
		"not a URL":       "hunter2 is no setting",
		"nobody listens":  "postgres://flow:hunter2@127.0.0.1:1/flow?sslmode=disable",
		"an unknown host": "postgres://flow:hunter2@no-such-host.invalid/flow",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := store.Open(t.Context(), store.Config{URL: url})
			if err == nil || !strings.HasPrefix(err.Error(), "database") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("open: %v", err)
			}
			_, err = store.Migrate(t.Context(), url)
			if err == nil || !strings.HasPrefix(err.Error(), "database") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("migrate: %v", err)
			}
		})
	}
}

func open(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return st
}

func TestATransactionThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	st := open(t)
	insert := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO nvl_domain (id, name) VALUES (gen_random_uuid(), 'd')")
		return err
	}
	count := func() (n int) {
		t.Helper()
		if err := st.API.QueryRow(t.Context(), "SELECT count(*) FROM nvl_domain").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	refused := errors.New("refused")
	err := store.InTx(t.Context(), st.Engine, func(tx pgx.Tx) error { return errors.Join(insert(tx), refused) })
	if !errors.Is(err, refused) || count() != 0 {
		t.Errorf("%v, %d rows", err, count())
	}
	// Also when the reason is that the caller has gone.
	ctx, cancel := context.WithCancel(t.Context())
	err = store.InTx(ctx, st.Engine, func(tx pgx.Tx) error { cancel(); return errors.Join(ctx.Err(), insert(tx)) })
	if err == nil || count() != 0 {
		t.Errorf("%v, %d rows", err, count())
	}
	if err := store.InTx(t.Context(), st.Engine, insert); err != nil || count() != 1 {
		t.Errorf("%v, %d rows", err, count())
	}
	err = store.InTx(t.Context(), st.Engine, insert)
	if !store.Violates(err, "nvl_domain_name_key") || store.Constraint(err) != "nvl_domain_name_key" || store.Unavailable(err) {
		t.Errorf("a second domain of the name: %v", err)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	code := func(c string) error { return fmt.Errorf("query: %w", &pgconn.PgError{Code: c}) }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"shutdown":                 {code("57P01"), true},
		"starting up":              {code("57P03"), true},
		"too many connections":     {code("53300"), true},
		"a server gone read-only":  {code("25006"), true},
		"a deadlock":               {code("40P01"), true},
		"a cancelled statement":    {code("57014"), false},
		"a unique violation":       {code("23505"), false},
		"a syntax error":           {code("42601"), false},
		"the caller has gone":      {context.Canceled, false},
		"the caller's time is out": {context.DeadlineExceeded, false},
		"no such row":              {store.ErrNotFound, false},
	} {
		if got := store.Unavailable(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	st := open(t)
	st.Close()
	if err := st.API.Ping(t.Context()); !store.Unavailable(err) {
		t.Errorf("a closed pool: %v", err)
	}
}

func TestListeningGoesOnAfterALostConnection(t *testing.T) {
	t.Parallel()
	st := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		store.Listen(ctx, st.API, slog.New(slog.DiscardHandler), []string{"flow_test"}, func(_ string, payload *string) {
			if payload == nil {
				heard <- "(connected)"
			} else {
				heard <- *payload
			}
		})
	}()
	want := func(text string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != text {
				t.Fatalf("heard %q, want %q", got, text)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q is not heard", text)
		}
	}
	say := func(sql string) {
		t.Helper()
		if _, err := st.Engine.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	want("(connected)")
	say("SELECT pg_notify('flow_test', 'one')")
	want("one")
	say("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")
	want("(connected)")
	say("SELECT pg_notify('flow_test', 'two')")
	want("two")
	cancel()
	<-done
}
