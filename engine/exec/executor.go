package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
)

const (
	// defaultInlineWait is the longest wait a job sits through; a longer one is stored and the job ends.
	defaultInlineWait = 10 * time.Second
	// maxSegment is how long a job goes on before it hands its step over at the next wait.
	maxSegment = 5 * time.Minute
	// jobTimeout ends a job whatever it does. It is longer than any call a rule may ask for (168 h): the limits of calls
	// and steps end work, not this.
	jobTimeout = 170 * time.Hour
	// startsAtOnce is how many tasks are started at a time: enough to keep the database busy, and few enough that a burst of
	// submissions does not hold up the stages of tasks that run.
	startsAtOnce = 4
	// maintWorkers is how many queues of racks are looked after at a time.
	maintWorkers = 4
	// maxSnooze is how long a job is put off that must be there on time: one put off for less than 5 s needs no look of
	// River's to fall due.
	maxSnooze = 4 * time.Second
	// busyWait is how soon a start looks again whether the rack's cancelled driver has stopped.
	busyWait = 500 * time.Millisecond
	// fetchCooldown and fetchPoll: a job that River was not told of in time starts within a poll, and one that comes
	// within the cool-down of a fetch waits for the next.
	fetchCooldown = 5 * time.Millisecond
	fetchPoll     = 50 * time.Millisecond
)

// Config is what an executor needs.
type Config struct {
	Store    *store.Store
	Managers hardware.Managers
	Tasks    *task.Service // its queues are released when tasks end
	Watch    *task.Hub
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now
	NodeID   uuid.UUID        // the same over restarts of one installation
	Host     string
	Version  string
	Workers  int     // steps driven at a time; 0: 2000. A driven step is a goroutine and holds no connection while it waits.
	Speed    float64 // waits of rules pass that many times faster; 0: 1. Only for simulated hardware.
	NoWork   bool    // insert jobs, never run them

	// InlineWait is the longest wait a job sits through; 0: 10 s. Tests have it short, to see steps parked.
	InlineWait time.Duration
}

// Executor runs the jobs of tasks on this node.
type Executor struct {
	store    *store.Store
	managers hardware.Managers
	tasks    *task.Service
	watch    *task.Hub
	log      *slog.Logger
	now      func() time.Time
	speed    float64
	node     node
	river    *river.Client[pgx.Tx]
	clock    clock
	keeper   keeper
	inline   time.Duration
	segment  time.Duration
	idle     bool          // inserts jobs only
	starts   chan struct{} // holds a token for each task that is being started
	draining chan struct{} // closed when the node stops: steps are handed over at the next wait

	mu     sync.Mutex
	drives map[*drive]context.CancelCauseFunc
}

// New makes an executor. Start runs it.
func New(cfg Config) (*Executor, error) {
	x := &Executor{
		store: cfg.Store, managers: cfg.Managers, tasks: cfg.Tasks, watch: cfg.Watch, log: cfg.Log, now: cfg.Now,
		speed:    cmp.Or(cfg.Speed, 1),
		node:     node{incarnation: uuid.New(), id: cfg.NodeID, host: cfg.Host, version: cfg.Version},
		inline:   cmp.Or(cfg.InlineWait, defaultInlineWait),
		idle:     cfg.NoWork,
		starts:   make(chan struct{}, startsAtOnce),
		draining: make(chan struct{}),
		drives:   map[*drive]context.CancelCauseFunc{},
	}
	if x.now == nil {
		x.now = time.Now
	}
	x.clock, x.keeper, x.segment = worldClock{x.now}, stored{}, maxSegment
	rc := &river.Config{
		ID:                          x.node.incarnation.String(),
		Logger:                      slog.New(quiet{cfg.Log.Handler(), &sync.Map{}}),
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        jobTimeout + time.Minute,
		CompletedJobRetentionPeriod: time.Hour,
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           fetchPoll,
	}
	if !cfg.NoWork {
		workers := river.NewWorkers()
		if err := errors.Join(
			river.AddWorkerSafely(workers, &startWorker{x: x}), river.AddWorkerSafely(workers, &stepWorker{x: x}),
			river.AddWorkerSafely(workers, &expireWorker{x: x}), river.AddWorkerSafely(workers, &releaseWorker{x: x}),
		); err != nil {
			return nil, fmt.Errorf("workers: %w", err)
		}
		rc.Workers = workers
		rc.Queues = map[string]river.QueueConfig{
			queueOps: {MaxWorkers: cmp.Or(cfg.Workers, 2000)}, queueMaint: {MaxWorkers: maintWorkers},
		}
	}
	var err error
	if x.river, err = river.NewClient(riverpgxv5.New(cfg.Store.River), rc); err != nil {
		return nil, fmt.Errorf("job client: %w", err)
	}
	return x, nil
}

// Start registers the node, takes its earlier lives' work back and begins to work.
func (x *Executor) Start(ctx context.Context) error {
	if err := x.register(ctx); err != nil {
		return err
	}
	if err := x.sweep(ctx, never, x.node.id); err != nil {
		return fmt.Errorf("take back work: %w", err)
	}
	if x.idle {
		return nil
	}
	// The client's own life must not end with the context of the start.
	if err := x.river.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("job client: %w", err)
	}
	return nil
}

// Stop lets running calls finish and hands their steps over; when ctx ends first, calls are abandoned.
func (x *Executor) Stop(ctx context.Context) error {
	close(x.draining)
	var err error
	if !x.idle {
		err = x.river.Stop(ctx)
		if ctx.Err() != nil {
			hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			err = x.river.StopAndCancel(hard)
		}
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if uerr := x.unregister(leave); uerr != nil {
		x.log.Warn("node row stays behind", "err", uerr)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("job client: %w", err)
	}
	return nil
}

// Interrupt stops the drives of a task that has ended.
func (x *Executor) Interrupt(id uuid.UUID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for d, cancel := range x.drives {
		if d.task == id {
			cancel(errTaskEnded)
		}
	}
}

// stopping reports whether steps are to be handed over.
func (x *Executor) stopping() bool {
	select {
	case <-x.draining:
		return true
	default:
		return false
	}
}

// enter registers a drive so that it can be interrupted; leave undoes it.
func (x *Executor) enter(ctx context.Context, d *drive) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	x.mu.Lock()
	x.drives[d] = cancel
	x.mu.Unlock()
	return ctx, func() {
		x.mu.Lock()
		delete(x.drives, d)
		x.mu.Unlock()
		cancel(nil)
	}
}

// scaled is how long a declared duration takes here: simulated hardware may run faster.
func (x *Executor) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / x.speed) }

// within bounds a call to the hardware.
func (x *Executor) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return x.clock.withDeadline(ctx, x.now().Add(limit), context.DeadlineExceeded)
}

func isNotFound(err error) bool { return errors.Is(err, rivertype.ErrNotFound) }

// quiet keeps River's routine lines below warnings out of the log: they say nothing of racks. Without a database it has the
// same complaint many times a second, of which one in ten seconds is kept.
type quiet struct {
	slog.Handler
	said *sync.Map // message -> time.Time
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if last, ok := q.said.Load(r.Message); ok && r.Time.Sub(last.(time.Time)) < 10*time.Second {
		return nil
	}
	q.said.Store(r.Message, r.Time)
	return q.Handler.Handle(ctx, r)
}

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.said}
}

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name), q.said} }
