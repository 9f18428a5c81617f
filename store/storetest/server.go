package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/store"
)

const (
	// prefix starts the name of every database made here; the eight hex digits
	// after it are the process's.
	prefix = "flow_test_"

	// dead lists the databases of processes that no longer live: no session has
	// their name. Only those that we may drop; of others we see no sessions.
	dead = `SELECT d.datname FROM pg_database d
WHERE d.datname ~ '^flow_test_[0-9a-f]{8}_' AND pg_has_role(d.datdba, 'USAGE')
AND NOT EXISTS (SELECT FROM pg_stat_activity s WHERE s.application_name = left(d.datname, 18))`
)

// server is a PostgreSQL, and what this process has on it.
type server struct {
	base     *url.URL
	admin    *pgxpool.Pool
	alive    *pgxpool.Conn // its session shows other processes that this one lives
	id       string        // this process, eight hex digits
	count    atomic.Int64
	strategy string // of CREATE DATABASE, with its keyword
	shared   bool   // it lives on after us
	stop     func(context.Context) error

	template    sync.Once
	templateErr error
}

// open finds a server and makes it ready for databases.
func open(ctx context.Context) (*server, error) {
	s := &server{shared: os.Getenv(URLEnv) != "", stop: func(context.Context) error { return nil }}
	text := os.Getenv(URLEnv)
	if !s.shared {
		var err error
		if text, s.stop, err = Start(ctx); err != nil {
			return nil, err
		}
	}
	err := s.prepare(ctx, text)
	if err != nil {
		if s.shared {
			err = fmt.Errorf("%s: %w", URLEnv, err)
		}
		return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *server) prepare(ctx context.Context, text string) error {
	var err error
	if s.base, err = url.Parse(text); err != nil || s.base.Host == "" && s.base.Query().Get("host") == "" {
		return errors.New("it is not of the form postgres://user@host/database")
	}
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		return err
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	s.id = hex.EncodeToString(random)
	cfg.MaxConns = 4 // one only shows that we live
	cfg.ConnConfig.RuntimeParams["application_name"] = prefix + s.id
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	if s.admin, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	if s.alive, err = s.admin.Acquire(ctx); err != nil {
		return err
	}
	var version int
	var fsync string
	if err := s.alive.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('fsync')").Scan(&version, &fsync); err != nil {
		return err
	}
	// Copying files takes 20 ms and two checkpoints, which are free only where
	// nothing is synced; through the log it is 50 ms anywhere.
	switch {
	case version < 150000: // has only the first
	case fsync == "off":
		s.strategy = " STRATEGY FILE_COPY"
	default:
		s.strategy = " STRATEGY WAL_LOG"
	}
	if s.shared {
		return s.removeDead(ctx)
	}
	return nil
}

// removeDead drops the databases of processes that no longer live.
func (s *server) removeDead(ctx context.Context) error {
	rows, err := s.alive.Query(ctx, dead)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		// Another process may be at the same; what neither drops, the next will.
		_, _ = s.alive.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	}
	return nil
}

// database is one that was made for a test.
type database struct {
	server *server
	name   string
	url    string
}

// empty makes a database without a schema.
func (s *server) empty(ctx context.Context) (*database, error) {
	return s.create(ctx, strconv.FormatInt(s.count.Add(1), 10), "template0")
}

// clone makes a database with the schema, by copying one that has it.
func (s *server) clone(ctx context.Context) (*database, error) {
	s.template.Do(func() {
		d, err := s.create(ctx, "template", "template0")
		if err == nil {
			_, err = store.Migrate(ctx, d.url)
		}
		s.templateErr = err
	})
	if s.templateErr != nil {
		return nil, fmt.Errorf("the schema can't be made: %w", s.templateErr)
	}
	return s.create(ctx, strconv.FormatInt(s.count.Add(1), 10), s.name("template"))
}

func (s *server) create(ctx context.Context, name, template string) (*database, error) {
	d := &database{server: s, name: s.name(name)}
	u := *s.base
	u.Path = "/" + d.name
	d.url = u.String()
	_, err := s.admin.Exec(ctx, "CREATE DATABASE "+d.name+" TEMPLATE "+template+s.strategy)
	if err != nil {
		return nil, fmt.Errorf("database %s can't be made: %w", d.name, err)
	}
	return d, nil
}

func (s *server) name(what string) string { return prefix + s.id + "_" + what }

func (d *database) drop(ctx context.Context) error {
	if _, err := d.server.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("database %s can't be dropped: %w", d.name, err)
	}
	return nil
}

// close removes what this process has on the server, and the server if it is ours.
func (s *server) close(ctx context.Context) error {
	var err error
	if s.alive != nil {
		if s.shared {
			_, err = s.alive.Exec(ctx, "DROP DATABASE IF EXISTS "+s.name("template")+" WITH (FORCE)")
		}
		s.alive.Release()
	}
	if s.admin != nil {
		s.admin.Close()
	}
	return errors.Join(err, s.stop(ctx))
}
