package task

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

// watched is a running hub and the ids that one watcher of everything has been shown.
type watched struct {
	t    *testing.T
	st   *store.Store
	hub  *Hub
	seen chan int64
}

func watchAll(t *testing.T) *watched {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 2, APIConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	w := &watched{t: t, st: st, hub: NewHub(st, slog.New(slog.DiscardHandler)), seen: make(chan int64, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.hub.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	go w.follow(ctx, 0, w.seen)
	return w
}

func (w *watched) follow(ctx context.Context, after int64, seen chan<- int64) {
	err := w.hub.Follow(ctx, WatchFilter{After: after}, func(e db.Event) error { seen <- e.ID; return nil })
	if !errors.Is(err, context.Canceled) {
		w.t.Errorf("follow: %v", err)
	}
}

// begin opens a transaction on a connection of its own.
func (w *watched) begin() pgx.Tx {
	w.t.Helper()
	tx, err := w.st.Engine.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func (w *watched) insert(tx pgx.Tx) int64 {
	w.t.Helper()
	var id int64
	err := tx.QueryRow(w.t.Context(), `INSERT INTO event (kind, task_id, rack_id, state) VALUES ('task_message', $1, $1, 'running') RETURNING id`,
		uuid.New()).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *watched) commit(tx pgx.Tx) {
	w.t.Helper()
	if err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.hub.Poke()
}

// looks waits until the hub has looked often enough to have shown what it is going to show.
func (w *watched) looks() {
	w.t.Helper()
	for range 5 {
		w.hub.Wake()
		time.Sleep(hubPause)
	}
}

func (w *watched) want(ids ...int64) {
	w.t.Helper()
	for _, id := range ids {
		select {
		case got := <-w.seen:
			if got != id {
				w.t.Fatalf("shown event %d, want %d", got, id)
			}
		case <-time.After(10 * time.Second):
			w.t.Fatalf("event %d is not shown", id)
		}
	}
}

func (w *watched) wantNothing() {
	w.t.Helper()
	w.looks()
	select {
	case got := <-w.seen:
		w.t.Fatalf("shown event %d while an earlier one may still come", got)
	default:
	}
}

func TestALaterEventWaitsForAnEarlierOneThatIsNotCommitted(t *testing.T) {
	t.Parallel()
	w := watchAll(t)
	slow, fast := w.begin(), w.begin()
	first, second := w.insert(slow), w.insert(fast)
	w.commit(fast)
	w.wantNothing()
	w.commit(slow)
	w.want(first, second)
}

func TestTheOlderTransactionMayTakeTheLaterEvent(t *testing.T) {
	t.Parallel()
	w := watchAll(t)
	older, younger := w.begin(), w.begin()
	// The older one has its transaction id before the younger one, and takes its event id after it.
	if _, err := older.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	first, second := w.insert(younger), w.insert(older)
	w.commit(older)
	w.wantNothing()
	w.commit(younger)
	w.want(first, second)
}

func TestAnOpenTransactionAboveTheLastCompletedOneCounts(t *testing.T) {
	t.Parallel()
	w := watchAll(t)
	// Nothing completes after this one begins, so a snapshot's upper end does not reach it.
	open := w.begin()
	id := w.insert(open)
	w.wantNothing()
	w.commit(open)
	w.want(id)
}

func TestARolledBackEventLeavesNoHole(t *testing.T) {
	t.Parallel()
	w := watchAll(t)
	gone, kept := w.begin(), w.begin()
	w.insert(gone)
	id := w.insert(kept)
	w.commit(kept)
	w.wantNothing()
	if err := gone.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hub.Poke()
	w.want(id)
}

func TestAWatcherResumesAfterAnyID(t *testing.T) {
	t.Parallel()
	w := watchAll(t)
	var ids []int64
	for range 4 {
		tx := w.begin()
		ids = append(ids, w.insert(tx))
		w.commit(tx)
	}
	w.want(ids...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	again := &watched{t: t, st: w.st, hub: w.hub, seen: make(chan int64, 10)}
	done := make(chan struct{})
	go func() { again.follow(ctx, ids[1], again.seen); close(done) }()
	again.want(ids[2:]...)
	cancel()
	<-done
}
