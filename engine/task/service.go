package task

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
)

// Jobs is how tasks get and lose their wake-ups; package exec has it.
type Jobs interface {
	// InsertStarts adds one job a task that will start it, and returns the numbers of the jobs in order.
	InsertStarts(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID) ([]int64, error)
	// InsertExpiries adds one job a task that will call Expire at the time.
	InsertExpiries(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID, at time.Time) error
	// InsertRelease adds a job that will call ReleaseRack at the time.
	InsertRelease(ctx context.Context, tx pgx.Tx, rack uuid.UUID, at time.Time) error
	// Cancel takes a task's jobs back.
	Cancel(ctx context.Context, tx pgx.Tx, jobs []int64) error
	// Interrupt stops what this process is doing for a task that has ended. It does not wait.
	Interrupt(task uuid.UUID)
}

// Settings are the choices of a site. The zero value has the defaults.
type Settings struct {
	QueueLimit       int           // tasks that may wait for one rack; 0: 5
	Retention        time.Duration // how long tasks are kept after their end; 0: for ever
	ReportComponents bool          // reports tell of single components
	Readiness        Readiness

	// Each of these takes back a promise that the reference does not make, for sites that rely on how it behaves there.
	ReferenceConflicts bool // only compute trays, NVSwitches and power shelves make power tasks conflict (D-30.10)
	AllowOvertaking    bool // a new task may pass waiting ones it conflicts with (D-30.12)
	AllowOverlap       bool // a task may start while a call of a cancelled one still runs (D-30.19)
}

// The defaults and limits of Settings.
const (
	defaultQueueLimit = 5
	MinRetention      = 24 * time.Hour
)

// Service submits, queues, lists and cancels tasks. All fields are set once, by New in package engine.
type Service struct {
	Store    *store.Store
	Managers hardware.Managers
	Jobs     Jobs
	Watch    *Hub
	Log      *slog.Logger
	Now      func() time.Time
	Settings Settings
}

func (s *Service) queueLimit() int { return cmp.Or(s.Settings.QueueLimit, defaultQueueLimit) }
