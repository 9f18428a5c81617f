package task

import (
	"context"
	"log/slog"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
)

// Jobs is how tasks get and lose their wake-ups; package exec has it.
type Jobs interface {
	// InsertStarts adds one job a task that will start it, and returns the numbers of the jobs in order.
	InsertStarts(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID) ([]int64, error)
	// Cancel takes a task's jobs back.
	Cancel(ctx context.Context, tx pgx.Tx, jobs []int64) error
	// Interrupt stops what this process is doing for a task that has ended. It does not wait.
	Interrupt(task uuid.UUID)
}

// Service submits, lists and cancels tasks. All fields are set once, by New in package engine.
type Service struct {
	Store    *store.Store
	Managers hardware.Managers
	Jobs     Jobs
	Watch    *Hub
	Log      *slog.Logger
}
