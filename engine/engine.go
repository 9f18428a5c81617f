// Package engine is what happens to racks: it wires the parts that submit, carry out and watch tasks, and starts and
// stops them in order. It knows nothing of HTTP or protobuf.
package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/exec"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
)

// Config is what an engine needs. Zero values of the optional fields are the defaults.
type Config struct {
	Store    *store.Store
	Managers hardware.Managers
	Log      *slog.Logger
	NodeID   uuid.UUID // the same over restarts of one installation
	Host     string
	Version  string

	Workers int              // steps driven at a time; default 2000
	Speed   float64          // waits of rules pass that many times faster; default 1
	NoWork  bool             // serve requests, run no tasks
	Now     func() time.Time // default time.Now

	InlineWait time.Duration // longest wait that a job sits through; default 10 s

	Tasks task.Settings
}

// Engine is a running set of parts.
type Engine struct {
	Tasks *task.Service
	Watch *task.Hub

	store *store.Store
	exec  *exec.Executor
	log   *slog.Logger
	stop  context.CancelFunc
	parts sync.WaitGroup
}

// New wires an engine. Start runs it.
func New(cfg Config) (*Engine, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	hub := task.NewHub(cfg.Store, cfg.Log)
	tasks := &task.Service{
		Store: cfg.Store, Managers: cfg.Managers, Watch: hub, Log: cfg.Log, Now: cfg.Now, Settings: cfg.Tasks,
	}
	executor, err := exec.New(exec.Config{
		Store: cfg.Store, Managers: cfg.Managers, Tasks: tasks, Watch: hub, Log: cfg.Log, Now: cfg.Now,
		NodeID: cfg.NodeID, Host: cfg.Host, Version: cfg.Version,
		Workers: cfg.Workers, Speed: cfg.Speed, NoWork: cfg.NoWork, InlineWait: cfg.InlineWait,
	})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	tasks.Jobs = executor
	return &Engine{
		Tasks: tasks,
		Watch: hub,
		store: cfg.Store,
		exec:  executor,
		log:   cfg.Log,
	}, nil
}

// Start takes this node's former work back and begins.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.exec.Start(ctx); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.parts.Go(func() { e.Watch.Run(ctx) })
	e.parts.Go(func() { e.exec.Run(ctx) })
	e.parts.Go(func() {
		store.Listen(ctx, e.store.API, e.log, []string{"flow_event", "flow_task_end"}, e.heard)
	})
	return nil
}

// heard acts on what another process has committed.
func (e *Engine) heard(channel string, payload *string) {
	if channel == "flow_event" {
		e.Watch.Wake()
		return
	}
	// A lost notification only means that a driver finds out at its next checkpoint.
	if payload != nil {
		if id, err := uuid.Parse(*payload); err == nil {
			e.exec.Interrupt(id)
		}
	}
}

// Stop hands running steps over and ends. When ctx ends first, calls to the hardware are abandoned.
func (e *Engine) Stop(ctx context.Context) error {
	err := e.exec.Stop(ctx)
	if e.stop != nil {
		e.stop()
	}
	e.parts.Wait()
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}
