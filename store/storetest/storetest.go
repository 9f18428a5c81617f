package storetest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// URLEnv names a server to test on.
const URLEnv = "FLOW_TEST_DATABASE_URL"

// limit bounds everything that is done to the server for one test. A container's
// image may have to be pulled first.
const limit = 2 * time.Minute

// process is the server of this test process. It is a package variable because
// TestMain can't hand anything to the tests.
var process struct {
	sync.Mutex
	main   bool // Main is there to close the server
	server *server
	err    error // why there is none; not tried again
}

// Main runs the tests of a package and then removes what they used. It is to be
// all that TestMain does: m carries the exit code.
func Main(m *testing.M) {
	process.main = true
	m.Run()
	process.Lock()
	defer process.Unlock()
	if process.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := process.server.close(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "storetest: the server can't be removed: %v\n", err)
		os.Exit(1)
	}
}

// New returns the URL of a database of the test's own that has Flow's schema
// and nothing else. It is dropped when the test ends, whoever is still connected.
func New(t testing.TB) string {
	t.Helper()
	return create(t, (*server).clone)
}

// Empty is like New for a database without a schema.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, (*server).empty)
}

func create(t testing.TB, make func(*server, context.Context) (*database, error)) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s, err := running(ctx)
	if err != nil {
		t.Fatalf("storetest: there is no database to test on: %v", err)
	}
	d, err := make(s, ctx)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := d.drop(ctx); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
	return d.url
}

// running returns the server of this process, started when it is not.
func running(ctx context.Context) (*server, error) {
	process.Lock()
	defer process.Unlock()
	if !process.main {
		return nil, fmt.Errorf("TestMain doesn't call storetest.Main")
	}
	if process.server == nil && process.err == nil {
		process.server, process.err = open(ctx)
	}
	return process.server, process.err
}
