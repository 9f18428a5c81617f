package task

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

func TestTheNewestEventIsKnownOnceNoEarlierOneCanCome(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 2, APIConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	// Nobody follows this hub: who asks for the newest event makes it look.
	w := &watched{t: t, st: st, hub: NewHub(st, slog.New(slog.DiscardHandler)), seen: make(chan int64, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.hub.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })

	open, later := w.begin(), w.begin()
	taken := w.insert(open)
	newest := w.insert(later)
	w.commit(later)
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if id, err := w.hub.Newest(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %d, %v while event %d may still come", id, err, taken)
	}
	type answer struct {
		id  int64
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		id, err := w.hub.Newest(ctx)
		answers <- answer{id, err}
	}()
	w.commit(open)
	select {
	case got := <-answers:
		if got.err != nil || got.id != newest {
			t.Errorf("got %d, %v, want %d", got.id, got.err, newest)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no answer, though every transaction has ended")
	}
	// Whoever follows from there sees what comes, and nothing before.
	follower := &watched{t: t, st: st, hub: w.hub, seen: make(chan int64, 100)}
	followed := make(chan struct{})
	go func() { follower.follow(ctx, newest, follower.seen); close(followed) }()
	t.Cleanup(func() { cancel(); <-followed })
	next := w.begin()
	id := w.insert(next)
	w.commit(next)
	follower.want(id)
}
