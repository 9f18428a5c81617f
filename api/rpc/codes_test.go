package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

func TestEveryKindOfFaultHasACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[connect.Code]fault.Kind{}
	for _, k := range fault.Kinds {
		code := errorCode(t.Context(), &fault.Error{Kind: k})
		if (code == connect.CodeInternal) != (k == fault.KindUnknown) {
			t.Errorf("%v has the code %v", k, code)
		}
		if other, ok := seen[code]; ok {
			t.Errorf("%v and %v share the code %v", k, other, code)
		}
		seen[code] = k
	}
}

func TestToConnect(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		code connect.Code
		text string
	}{
		"a fault keeps its text": {
			t.Context(), fault.NotFound("rack 7 not found"), connect.CodeNotFound, "rack 7 not found",
		},
		"a fault keeps what wraps it": {
			t.Context(), fmt.Errorf("rack 7: %w", fault.Precondition("is busy")), connect.CodeFailedPrecondition, "rack 7: is busy",
		},
		"a fault does not show its cause": {
			t.Context(), fault.Exists("id taken").Because(io.EOF), connect.CodeAlreadyExists, "id taken",
		},
		"a fault found after the end of the call stays one": {
			ended, fault.Invalid("a", "b"), connect.CodeInvalidArgument, "a: b",
		},
		"no rows without a text is a fault of ours": {
			t.Context(), store.ErrNotFound, connect.CodeInternal, "internal error",
		},
		"a constraint nobody thought of is a fault of ours": {
			t.Context(), &pgconn.PgError{Code: "23514", ConstraintName: "x"}, connect.CodeInternal, "internal error",
		},
		"a database that shuts down is unavailable": {
			t.Context(), &pgconn.PgError{Code: "57P01"}, connect.CodeUnavailable, errUnavailable.Error(),
		},
		"a connection that breaks is unavailable": {
			t.Context(), &net.OpError{Op: "read", Err: io.EOF}, connect.CodeUnavailable, errUnavailable.Error(),
		},
		"whatever breaks after a cancel is the cancel": {
			ended, io.ErrClosedPipe, connect.CodeCanceled, "context canceled",
		},
		"whatever breaks after the deadline is the deadline": {
			late, io.EOF, connect.CodeDeadlineExceeded, "context deadline exceeded",
		},
		"a deadline that is not the call's is unavailable": {
			t.Context(), fmt.Errorf("connect: %w", context.DeadlineExceeded), connect.CodeUnavailable, errUnavailable.Error(),
		},
		"connect's own errors pass": {
			t.Context(), connect.NewError(connect.CodeUnimplemented, errors.New("later")), connect.CodeUnimplemented, "later",
		},
		"an error another server has sent does not": {
			t.Context(), connect.NewWireError(connect.CodeNotFound, errors.New("secret")), connect.CodeInternal, "internal error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := toConnect(c.ctx, c.err)
			if got.Code() != c.code || got.Message() != c.text {
				t.Errorf("%v %q, want %v %q", got.Code(), got.Message(), c.code, c.text)
			}
		})
	}
}

// TestDatabaseAway cuts the connections to the database and then mends them.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(storetest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		conn, err := dial(ctx, network, addr)
		return &cutConn{conn, &away}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := serveAlone(t, func(c *Config) { c.Store = &store.Store{API: pool} })
	list := func() error {
		_, err := s.grpc.GetListOfRacks(t.Context(), &flowv1.GetListOfRacksRequest{})
		return err
	}
	if err := list(); err != nil {
		t.Fatal(err)
	}
	away.Store(true)
	for range 3 { // a broken connection first, then none
		refused(t, list(), connect.CodeUnavailable, "database")
	}
	_, err = s.grpc.CreateExpectedRack(t.Context(), &flowv1.CreateExpectedRackRequest{Rack: testRack(1, 1)})
	refused(t, err, connect.CodeUnavailable, "database")
	away.Store(false)
	if err := list(); err != nil {
		t.Error(err)
	}
}

// cutConn is a connection that breaks while the flag is set.
type cutConn struct {
	net.Conn
	away *atomic.Bool
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.away.Load() {
		return 0, &net.OpError{Op: "read", Err: errors.New("connection reset")}
	}
	return c.Conn.Read(p)
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.away.Load() {
		return 0, &net.OpError{Op: "write", Err: errors.New("broken pipe")}
	}
	return c.Conn.Write(p)
}
