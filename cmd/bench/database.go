package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// syncedWrites is how many blocks are written to learn what one costs.
const syncedWrites = 100

var errNoDatabase = errors.New("the server's PostgreSQL is not known: its data directory is needed")

// database is what a reader must know of PostgreSQL to believe a number.
type database struct {
	Version           string `json:"version"`
	Source            string `json:"source"`
	Fsync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronous_commit"`
	// What a block costs that is written and synced as a commit is, p50. Where that is next to nothing, as on many
	// virtual disks, a commit waits for nothing.
	WriteMS float64 `json:"write_ms"`
}

func (s *server) database(ctx context.Context) (database, error) {
	conn, err := s.connect(ctx)
	if errors.Is(err, errNoDatabase) {
		return database{Version: "unknown", Source: s.source, Fsync: "unknown", SynchronousCommit: "unknown"}, nil
	}
	if err != nil {
		return database{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	d := database{Source: s.source}
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')`).
		Scan(&d.Version, &d.Fsync, &d.SynchronousCommit)
	if err != nil {
		return database{}, err
	}
	d.WriteMS, err = syncedWrite(s.dataDir)
	return d, err
}

// connect opens a connection to the server's own PostgreSQL.
func (s *server) connect(ctx context.Context) (*pgx.Conn, error) {
	_, socketDir := s.postmaster()
	if socketDir == "" {
		return nil, errNoDatabase
	}
	return pgx.Connect(ctx, fmt.Sprintf("host='%s' port=5432 user=flow dbname=flow sslmode=disable", socketDir))
}

// syncedWrite is how long a block takes to the disk that dir is on, in ms.
func syncedWrite(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "bench-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var took []float64
	for i := range syncedWrites {
		began := time.Now()
		// The same few blocks again and again: a write-ahead log is written over, too.
		if _, err := f.WriteAt(make([]byte, 8192), int64(i%16)*8192); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took = append(took, milliseconds(time.Since(began)))
	}
	return percentile(took, 50), nil
}
