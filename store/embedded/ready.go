package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// stillEvery is how often a long start, which is a recovery, is logged.
	stillEvery = 10 * time.Second

	noSuchDatabase = "3D000" // invalid_catalog_name
)

// awaitReady waits until the server answers on the database flow, and returns
// its version. It goes on for as long as the server is starting up.
func (s *Server) awaitReady(ctx context.Context, p *postmaster) (version string, err error) {
	still := time.NewTicker(stillEvery)
	defer still.Stop()
	var silent time.Time // since when it is ready and doesn't answer
	for pause := 2 * time.Millisecond; ; pause = min(pause*3/2, 50*time.Millisecond) {
		// The status saves connections that would be refused, and a line in
		// the log for each; the proof is the answer.
		if f := readPidFile(s.dataDir); f != nil && f.pid == p.pid && f.status == "ready" {
			if version, err = s.ask(ctx); err == nil {
				return version, nil
			}
			if silent.IsZero() {
				silent = time.Now()
			}
			if time.Since(silent) > s.cfg.limits.answer {
				return "", fmt.Errorf("postgres (pid %d) runs but doesn't answer: %w", p.pid, err)
			}
		}
		select {
		case <-p.exited:
			return "", errors.New("postgres gave up at its start")
		case <-ctx.Done():
			return "", fmt.Errorf("postgres did not get ready: %w", context.Cause(ctx))
		case <-still.C:
			s.log.Info("postgres is still starting", "pid", p.pid)
		case <-time.After(pause):
		}
	}
}

// ask connects to the database flow, making it when it is missing, and returns
// the server's version.
func (s *Server) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.limits.answer/2)
	defer cancel()
	conn, err := pgconn.Connect(ctx, s.URL())
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == noSuchDatabase {
		if err := s.makeDatabase(ctx); err != nil {
			return "", err
		}
		conn, err = pgconn.Connect(ctx, s.URL())
	}
	if err != nil {
		return "", err
	}
	version := conn.ParameterStatus("server_version")
	return version, conn.Close(ctx)
}

func (s *Server) makeDatabase(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, socketURL(s.sockDir, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.Exec(ctx, "CREATE DATABASE "+superuser).Close()
}
