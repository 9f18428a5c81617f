package task

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

const (
	// hubPoll is how often the event table is looked at when no wake-up arrives: one may be lost with a connection.
	hubPoll = time.Second
	// hubSettle is how soon it is looked at again while an open transaction may still bring an earlier event; twice as long
	// each time, up to hubPatience: somebody's long transaction must not keep the hub busy.
	hubSettle   = 5 * time.Millisecond
	hubPatience = 100 * time.Millisecond
	// hubMarks bounds the readings that wait.
	hubMarks = 64
	// hubPause is the least time between two looks, and between two notifications: many commits share one.
	hubPause = 10 * time.Millisecond
	// watchPage is how many events a watcher that is behind reads at a time.
	watchPage = 500
	// hubMemory is how many of the newest events are kept for the watchers that are not behind: a burst of a busy server.
	hubMemory = 4096
)

// Hub tells watchers how far the event table can be read without missing anything, and wakes them when it grows.
//
// Event ids are taken before commit, so a later one can become visible first. The hub reads the newest id handed out, M,
// and after it takes a transaction id, X. An event up to M belongs to a transaction older than X: ids are taken by
// transactions that have their transaction id already (next_event_id in the schema). Once no transaction older than X is
// open, every event up to M that will ever exist is visible, and M becomes the horizon: watchers read up to it.
type Hub struct {
	store *store.Store
	log   *slog.Logger

	wake   chan struct{} // capacity 1: there may be something new
	notify chan struct{} // capacity 1: other nodes must hear of it

	closed chan struct{}
	marks  []mark // of Run alone: readings that wait for transactions to end, oldest first

	mu       sync.Mutex
	horizon  int64         // written by Run alone
	recent   []db.Event    // every event after forgot up to the horizon
	forgot   int64         // id
	moved    chan struct{} // closed and replaced when the horizon moves
	watchers int
}

// mark is a reading of the newest event id, settled when no transaction older than xid is open.
type mark struct{ id, xid int64 }

// NewHub makes a hub; it does nothing until Run.
func NewHub(st *store.Store, log *slog.Logger) *Hub {
	return &Hub{
		store: st, log: log,
		wake: make(chan struct{}, 1), notify: make(chan struct{}, 1), moved: make(chan struct{}), closed: make(chan struct{}),
	}
}

// Close ends all watching, with an error that says that the server stops. It is called once.
func (h *Hub) Close() { close(h.closed) }

// Poke says that this process has committed events.
func (h *Hub) Poke() {
	h.Wake()
	poke(h.notify)
}

// Wake says that some process has committed events.
func (h *Hub) Wake() { poke(h.wake) }

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // one is due already
	}
}

// Run follows the event table until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { h.notifyPeers(ctx) })
	defer group.Wait()
	again, settle := hubPoll, hubSettle
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-time.After(again):
		}
		again = hubPoll
		if h.idle() {
			continue
		}
		settled, err := h.look(ctx)
		if err != nil && ctx.Err() == nil {
			h.log.Warn("event table cannot be read", "err", err)
		}
		settle = min(2*settle, hubPatience)
		if settled {
			settle = hubSettle
		}
		if err == nil && !settled {
			again = settle
		}
		pause(ctx, max(hubPause, settle/2))
	}
}

// notifyPeers passes pokes on to the other nodes, many commits in one notification. It is not part of the committing
// transaction: PostgreSQL lets only one notifying transaction commit at a time.
func (h *Hub) notifyPeers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.notify:
		}
		// A lost notification costs the other nodes' watchers one hubPoll.
		_ = db.New(h.store.Engine).EventNotify(ctx)
		pause(ctx, 5*hubPause)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (h *Hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watchers == 0
}

// look reads the newest id and the open transactions, and moves the horizon as far as is safe. It reports whether
// everything handed out is settled. Each reading is a statement of its own: the order is what counts.
func (h *Hub) look(ctx context.Context) (bool, error) {
	q := db.New(h.store.API)
	id, err := q.EventHorizon(ctx)
	if err != nil {
		return false, err
	}
	// marks is this goroutine's alone.
	newest := h.horizon
	if n := len(h.marks); n > 0 {
		newest = h.marks[n-1].id
	}
	if id > newest && len(h.marks) < hubMarks {
		xid, err := q.EventMark(ctx)
		if err != nil {
			return false, err
		}
		h.marks = append(h.marks, mark{id: id, xid: xid})
	}
	if len(h.marks) == 0 {
		return true, nil
	}
	oldest, err := q.EventOldestOpen(ctx)
	if err != nil {
		return false, err
	}
	settled := h.horizon
	for len(h.marks) > 0 && h.marks[0].xid <= oldest {
		settled = h.marks[0].id
		h.marks = h.marks[1:]
	}
	if settled > h.horizon {
		// One read for all watchers. More than is worth keeping is left for each to read on its own.
		fresh, err := q.EventList(ctx, db.EventListParams{AfterID: h.horizon, UpToID: settled, Max: hubMemory})
		if err != nil {
			return false, err
		}
		h.advance(settled, fresh)
	}
	return len(h.marks) == 0, nil
}

func (h *Hub) advance(horizon int64, fresh []db.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(fresh) == hubMemory {
		h.recent, h.forgot = nil, horizon
	} else {
		h.recent = append(h.recent, fresh...)
		if extra := len(h.recent) - hubMemory; extra > 0 {
			h.forgot = h.recent[extra-1].ID
			h.recent = slices.Clone(h.recent[extra:])
		}
	}
	h.horizon = horizon
	close(h.moved)
	h.moved = make(chan struct{})
}

// remembered returns the events after an id up to the horizon, if all of them are still in memory.
func (h *Hub) remembered(after int64) ([]db.Event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after < h.forgot {
		return nil, false
	}
	i := sort.Search(len(h.recent), func(i int) bool { return h.recent[i].ID > after })
	return h.recent[i:len(h.recent):len(h.recent)], true
}

// position gives the horizon and a channel that is closed when it moves.
func (h *Hub) position() (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.horizon, h.moved
}

// WatchFilter says whose events are wanted: those of the tasks and of the racks; both empty is all.
type WatchFilter struct {
	Tasks []uuid.UUID
	Racks []uuid.UUID
	After int64 // id of the last event already seen
}

// Newest is the id of the newest event: whoever follows after it sees what is committed from now on. An event that an open
// transaction has taken an id for counts as one to come, so it waits for those.
func (h *Hub) Newest(ctx context.Context) (int64, error) {
	defer h.attend()()
	id, err := db.New(h.store.API).EventHorizon(ctx)
	if err != nil {
		return 0, fmt.Errorf("newest event: %w", err)
	}
	for {
		horizon, moved := h.position()
		if horizon >= id {
			return id, nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-moved:
		}
	}
}

// attend makes the hub look at events until the function it returns is called.
func (h *Hub) attend() func() {
	h.mu.Lock()
	h.watchers++
	h.mu.Unlock()
	h.Wake()
	return func() {
		h.mu.Lock()
		h.watchers--
		h.mu.Unlock()
	}
}

// matcher is the filter as a function.
func (f WatchFilter) matcher() func(db.Event) bool {
	named := make(map[uuid.UUID]bool, len(f.Tasks)+len(f.Racks))
	for _, id := range f.Tasks {
		named[id] = true
	}
	for _, id := range f.Racks {
		named[id] = true
	}
	return func(e db.Event) bool { return len(named) == 0 || named[e.TaskID] || named[e.RackID] }
}

// Follow calls emit for every event of the filter in ascending order of ids, without gaps, until ctx ends or emit fails.
func (h *Hub) Follow(ctx context.Context, f WatchFilter, emit func(db.Event) error) error {
	defer h.attend()()
	cursor := f.After
	wanted := f.matcher()
	for {
		horizon, moved := h.position()
		if events, ok := h.remembered(cursor); ok {
			for _, e := range events {
				if wanted(e) {
					if err := emit(e); err != nil {
						return err
					}
				}
				cursor = e.ID
			}
			cursor = max(cursor, horizon)
		}
		for cursor < horizon {
			events, err := h.read(ctx, f, cursor, horizon)
			if err != nil {
				return fmt.Errorf("watch: %w", err)
			}
			for _, e := range events {
				if err := emit(e); err != nil {
					return err
				}
				cursor = e.ID
			}
			if len(events) < watchPage {
				cursor = horizon
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.closed:
			return fmt.Errorf("watch: the server stops: %w", context.Canceled)
		case <-moved:
		}
	}
}

// read returns the first page of a filter's events in (after, upTo].
func (h *Hub) read(ctx context.Context, f WatchFilter, after, upTo int64) ([]db.Event, error) {
	q := db.New(h.store.API)
	if len(f.Tasks) == 0 && len(f.Racks) == 0 {
		return q.EventList(ctx, db.EventListParams{AfterID: after, UpToID: upTo, Max: watchPage})
	}
	var events []db.Event
	if len(f.Tasks) > 0 {
		rows, err := q.EventListByTasks(ctx, db.EventListByTasksParams{TaskIds: f.Tasks, AfterID: after, UpToID: upTo, Max: watchPage})
		if err != nil {
			return nil, err
		}
		events = rows
	}
	if len(f.Racks) > 0 {
		rows, err := q.EventListByRacks(ctx, db.EventListByRacksParams{RackIds: f.Racks, AfterID: after, UpToID: upTo, Max: watchPage})
		if err != nil {
			return nil, err
		}
		events = append(events, rows...)
		slices.SortFunc(events, func(a, b db.Event) int { return int(a.ID - b.ID) })
		events = slices.CompactFunc(events, func(a, b db.Event) bool { return a.ID == b.ID })
		events = events[:min(len(events), watchPage)]
	}
	return events, nil
}
