package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// syncedWrites is how many blocks are written to learn what one costs.
const syncedWrites = 100

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
	_, socketDir := s.postmaster()
	if socketDir == "" {
		return database{Version: "unknown", Source: s.source, Fsync: "unknown", SynchronousCommit: "unknown"}, nil
	}
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host='%s' port=5432 user=flow dbname=flow sslmode=disable", socketDir))
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
