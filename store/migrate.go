package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"rackflow.dev/flow/sql"
)

// migrateLock is the advisory lock that lets several servers start at once: "flow" in ASCII.
const migrateLock = 0x666c6f77

// Migration is one step of the schema.
type Migration struct {
	Set       string     `json:"set"` // "flow" or "river"
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at,omitempty"` // nil: still to be applied, or (for River) not recorded
	Pending   bool       `json:"pending"`
}

// Migrate brings the schema up to date: ours, then River's, under one lock. It returns what it applied.
func Migrate(ctx context.Context, url string) ([]Migration, error) {
	var applied []Migration
	err := migrating(ctx, url, func(ours *goose.Provider, rivers *rivermigrate.Migrator[pgx.Tx]) error {
		results, err := ours.Up(ctx)
		if err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		for _, r := range results {
			applied = append(applied, Migration{Set: "flow", Version: r.Source.Version, Name: r.Source.Path})
		}
		res, err := rivers.Migrate(ctx, rivermigrate.DirectionUp, nil)
		if err != nil {
			return fmt.Errorf("migrate river: %w", err)
		}
		for _, v := range res.Versions {
			applied = append(applied, Migration{Set: "river", Version: int64(v.Version), Name: v.Name})
		}
		return nil
	})
	return applied, err
}

// Migrations lists all steps and which of them are pending.
func Migrations(ctx context.Context, url string) ([]Migration, error) {
	var all []Migration
	err := migrating(ctx, url, func(ours *goose.Provider, rivers *rivermigrate.Migrator[pgx.Tx]) error {
		status, err := ours.Status(ctx)
		if err != nil {
			return fmt.Errorf("schema status: %w", err)
		}
		for _, s := range status {
			m := Migration{Set: "flow", Version: s.Source.Version, Name: s.Source.Path, Pending: s.State == goose.StatePending}
			if !m.Pending {
				m.AppliedAt = &s.AppliedAt
			}
			all = append(all, m)
		}
		done := map[int]bool{}
		existing, err := rivers.ExistingVersions(ctx)
		if err != nil {
			return fmt.Errorf("river schema status: %w", err)
		}
		for _, v := range existing {
			done[v.Version] = true
		}
		for _, v := range rivers.AllVersions() {
			all = append(all, Migration{Set: "river", Version: int64(v.Version), Name: v.Name, Pending: !done[v.Version]})
		}
		return nil
	})
	return all, err
}

func migrating(ctx context.Context, url string, fn func(*goose.Provider, *rivermigrate.Migrator[pgx.Tx]) error) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("database URL: %w", redact(err))
	}
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	cfg.MaxConns = 3 // the lock, goose, River
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer pool.Close()

	lock, err := pool.Acquire(ctx)
	if err != nil {
		return connectError(err)
	}
	defer lock.Release()
	if _, err := lock.Exec(ctx, "SELECT pg_advisory_lock($1)", migrateLock); err != nil {
		return fmt.Errorf("migration lock: %w", err)
	}
	// The session ends with the pool, and the lock with the session, also when unlocking fails.
	defer func() { _, _ = lock.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrateLock) }()

	files, err := fs.Sub(sql.Migrations, "migrations")
	if err != nil {
		return err
	}
	conn := stdlib.OpenDBFromPool(pool)
	defer conn.Close()
	ours, err := goose.NewProvider(goose.DialectPostgres, conn, files, goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	rivers, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return errors.Join(errors.New("river migrations"), err)
	}
	return fn(ours, rivers)
}
