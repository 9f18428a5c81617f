package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"
)

// ErrNotFound is pgx's no-rows under our name.
var ErrNotFound = pgx.ErrNoRows

// Config sizes the pools. Zero values are the defaults.
type Config struct {
	URL         string // PostgreSQL connection string
	RiverConns  int32  // jobs: fetching, completing, listening; default 6
	EngineConns int32  // transitions of tasks; default 10
	APIConns    int32  // requests; default 8

	Tracer pgx.QueryTracer // sees every statement of every pool; nil: nobody does
}

// Store is the database as three pools, so that a burst in one place can't starve the others.
type Store struct {
	River  *pgxpool.Pool
	Engine *pgxpool.Pool
	API    *pgxpool.Pool
}

// Open makes the pools and checks that the server answers.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	var s Store
	for _, p := range []struct {
		pool  **pgxpool.Pool
		name  string
		conns int32
		plans string
		// Counting 350,000 components is worth a second process, starting one for a transition of a task never is.
		helpers string
	}{
		// auto: every statement is the same on every call.
		{&s.River, "flow river", or(cfg.RiverConns, 6), "auto", "0"},
		{&s.Engine, "flow engine", or(cfg.EngineConns, 10), "auto", "0"},
		// Lists have optional filters; a plan made without knowing which are set would not use their indexes.
		{&s.API, "flow api", or(cfg.APIConns, 8), "force_custom_plan", "1"},
	} {
		pc, err := pgxpool.ParseConfig(cfg.URL)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("database URL: %w", redact(err))
		}
		pc.MaxConns = p.conns
		pc.MinIdleConns = 1
		pc.ConnConfig.ConnectTimeout = 5 * time.Second
		pc.ConnConfig.Tracer = cfg.Tracer
		pc.ConnConfig.RuntimeParams["application_name"] = p.name
		pc.ConnConfig.RuntimeParams["plan_cache_mode"] = p.plans
		pc.ConnConfig.RuntimeParams["max_parallel_workers_per_gather"] = p.helpers
		// A client that freezes in the middle of a transaction must not keep its locks, and nobody waits for one that does.
		pc.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "5s"
		pc.ConnConfig.RuntimeParams["lock_timeout"] = "4s"
		// A standby that is still read-only is not the server we lost.
		pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		pc.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
			registerTypes(conn.TypeMap())
			return nil
		}
		*p.pool, err = pgxpool.NewWithConfig(ctx, pc)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("database: %w", err)
		}
	}
	if err := s.API.Ping(ctx); err != nil {
		s.Close()
		return nil, connectError(err)
	}
	return &s, nil
}

// connectError says in one line why there is no connection: pgx has a line for every attempt.
func connectError(err error) error {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return fmt.Errorf("database: %s%w", strings.TrimSpace(lines[len(lines)-1]), silent{err})
}

// silent keeps a cause for errors.Is and errors.As and out of the text.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// Close closes the pools; it waits for connections in use.
func (s *Store) Close() {
	for _, p := range []*pgxpool.Pool{s.River, s.Engine, s.API} {
		if p != nil {
			p.Close()
		}
	}
}

// InTx runs fn in a transaction on the pool and commits when it returns nil.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	committing := false
	defer func() {
		if committing {
			return
		}
		// Also when fn panics. The caller's context may be the reason; the connection must still be given back clean.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx) // the connection is closed when even this fails
	}()
	if err := fn(tx); err != nil {
		return err
	}
	committing = true
	return tx.Commit(ctx)
}

// Violates reports whether err is the refusal of the named constraint or unique index.
func Violates(err error, constraint string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.ConstraintName == constraint
}

// Deadlock reports whether the database ended the transaction because others waited for it as it did for them.
func Deadlock(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "40P01"
}

// Constraint returns the name of the constraint that refused a write, or "".
func Constraint(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.ConstraintName
	}
	return ""
}

// Unavailable reports whether the database could not be asked, so that the same call may succeed later.
func Unavailable(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || errors.Is(err, puddle.ErrClosedPool) {
		return true
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code[:2] {
		case "08", "53", "57", "58": // connection, resources, operator intervention (shutdown), system error
			return pg.Code != "57014" // a cancelled statement is the caller's own
		}
		switch pg.Code {
		case "25006", // a write reached a server that has become read-only
			"25P03", "55P03", // a limit on idle transactions and on waiting for locks
			"40001", "40P01": // asks to be tried again
			return true
		}
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}

// redact keeps a malformed URL's password out of messages: pgx quotes the string it could not read.
func redact(err error) error {
	if pe, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		if cause := errors.Unwrap(pe); cause != nil {
			return errors.New("cannot be parsed")
		}
	}
	return err
}

func or(n, fallback int32) int32 {
	if n > 0 {
		return n
	}
	return fallback
}
