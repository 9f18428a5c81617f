package rpc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"rackflow.dev/flow/api/gen/flowv1"
)

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, nil)
	for name, c := range map[string]struct {
		sent string
		kept bool
	}{
		"one that is sane is kept":         {"4bf92f35-77b3:ticket/17", true},
		"one is made when there is none":   {"", false},
		"one is made for white space":      {"a b", false},
		"one is made for more than 128":    {strings.Repeat("x", 129), false},
		"one is made for letters of Rome":  {"straße", false},
		"one of 128 characters is kept":    {strings.Repeat("x", 128), true},
		"one is made instead of a tabbed":  {"a\tb", false},
		"one with quotes is kept, as text": {`"x"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if c.sent != "" {
				headers = []string{requestIDHeader, c.sent}
			}
			res, _ := s.post("/v1.Flow/Version", "application/json", "{}", headers...)
			got := res.Header.Get(requestIDHeader)
			if got == "" || (got == c.sent) != c.kept {
				t.Errorf("sent %q, answered %q", c.sent, got)
			}
		})
	}
}

func TestEveryCallIsOneLineInTheLog(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, func(c *Config) {
		c.ReadMaxBytes = 1000
		c.Ready = func(context.Context) error { return errors.New("no database") }
	})
	grpc := func(call func(context.Context) error) func() {
		return func() { _ = call(t.Context()) }
	}
	for name, c := range map[string]struct {
		call func()
		want []string
	}{
		"a good call": {
			grpc(func(ctx context.Context) error { _, err := s.grpc.Version(ctx, &flowv1.VersionRequest{}); return err }),
			[]string{"level=INFO", "msg=call", "method=/v1.Flow/Version", "code=ok", "took=", "peer=127.0.0.1:", "request="},
		},
		"a refused call": {
			grpc(func(ctx context.Context) error {
				_, err := s.grpc.GetRackInfoByID(ctx, &flowv1.GetRackInfoByIDRequest{})
				return err
			}),
			[]string{"level=INFO", "method=/v1.Flow/GetRackInfoByID", "code=invalid_argument", `err="id: rack identifier is required"`},
		},
		"a call that is not built": {
			grpc(func(ctx context.Context) error {
				_, err := s.grpc.CreateOperationRun(ctx, &flowv1.CreateOperationRunRequest{})
				return err
			}),
			[]string{"level=INFO", "method=/v1.Flow/CreateOperationRun", "code=unimplemented"},
		},
		"a call that could not be read, in JSON": {
			func() { s.post("/v1.Flow/GetListOfRacks", "application/json", "{") },
			[]string{"level=INFO", "method=/v1.Flow/GetListOfRacks", "code=invalid_argument"},
		},
		"a call that could not be read, in gRPC": {
			grpc(func(ctx context.Context) error {
				_, err := s.grpc.CreateExpectedRack(ctx, &flowv1.CreateExpectedRackRequest{
					Rack: &flowv1.Rack{ExternalId: strings.Repeat("x", 2000)},
				})
				return err
			}),
			[]string{"level=INFO", "method=/v1.Flow/CreateExpectedRack", "code=resource_exhausted"},
		},
		"a page that is not there": {func() { s.get("/nothing") }, []string{"level=INFO", "method=/nothing", `code="http 404"`}},
		"a probe":                  {func() { s.get("/livez") }, []string{"level=DEBUG", "method=/livez", `code="http 200"`}},
		"a probe by gRPC": {
			func() { s.post("/grpc.health.v1.Health/Check", "application/json", "{}") },
			[]string{"level=DEBUG", "method=/grpc.health.v1.Health/Check", "code=ok"},
		},
		"a failing probe": {func() { s.get("/readyz") }, []string{"level=DEBUG", "method=/readyz", `code="http 503"`}},
	} {
		t.Run(name, func(t *testing.T) {
			c.call()
			// The line is written after the answer.
			method := c.want[1]
			if strings.HasPrefix(method, "msg=") {
				method = c.want[2]
			}
			s.log.wait(t, method)
			if got := s.log.lines(method); len(got) != 1 || len(s.log.lines(c.want...)) != 1 {
				t.Errorf("got %q, want one line with %q", got, c.want)
			}
		})
	}
}

// misbehaving is a handler of one RPC around which the whole chain stands.
func misbehaving(t *testing.T, handle func(context.Context) error) (*site, func(context.Context) error) {
	t.Helper()
	s := serveAlone(t, nil)
	const path = "/test.Service/Do"
	h := connect.NewUnaryHandlerSimple(path, func(ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
		return &emptypb.Empty{}, handle(ctx)
	}, connect.WithInterceptors(interceptor{}))
	s.serveHandler(observe(s.logger())(h))
	client := connect.NewClient[emptypb.Empty, emptypb.Empty](s.http, s.url+path, connect.WithGRPC())
	return s, func(ctx context.Context) error {
		_, err := client.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
		return err
	}
}

func TestAPanicEndsOneCall(t *testing.T) {
	t.Parallel()
	calls := 0
	s, call := misbehaving(t, func(context.Context) error {
		if calls++; calls == 1 {
			panic("the rack is on fire")
		}
		return nil
	})
	err := call(t.Context())
	refused(t, err, connect.CodeInternal, "internal error")
	if strings.Contains(err.Error(), "fire") {
		t.Errorf("%q tells of the inside", err)
	}
	s.log.wait(t, "msg=call")
	if len(s.log.lines("level=WARN", "code=internal", "the rack is on fire", "stack=", "call_test.go")) != 1 {
		t.Errorf("the log does not tell where: %q", s.log.lines())
	}
	if err := call(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestAPanicOutsideOfCalls(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, func(c *Config) { c.Ready = func(context.Context) error { panic("no ready") } })
	res, body := s.get("/readyz")
	if res.StatusCode != http.StatusInternalServerError || strings.Contains(body, "no ready") {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	s.log.wait(t, "method=/readyz")
	if len(s.log.lines("level=WARN", "no ready", "stack=")) != 1 {
		t.Errorf("the log does not tell: %q", s.log.lines())
	}
	if res, _ := s.get("/livez"); res.StatusCode != http.StatusOK {
		t.Errorf("then: %d", res.StatusCode)
	}
}

func TestInnerTextStaysInside(t *testing.T) {
	t.Parallel()
	s, call := misbehaving(t, func(context.Context) error {
		return errors.New(`column "secret" does not exist`)
	})
	err := call(t.Context())
	refused(t, err, connect.CodeInternal, "internal error")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q tells of the inside", err)
	}
	s.log.wait(t, "msg=call")
	if len(s.log.lines("level=WARN", "code=internal", "secret")) != 1 {
		t.Errorf("the log does not tell the cause: %q", s.log.lines())
	}
}

func TestTheEndOfACallPassesThrough(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 1)
	s, call := misbehaving(t, func(ctx context.Context) error {
		started <- struct{}{}
		<-ctx.Done()
		return errors.New("conn busy")
	})
	res, body := s.post("/test.Service/Do", "application/json", "{}", "Connect-Timeout-Ms", "20")
	if got := answeredCode(res, body); got != connect.CodeDeadlineExceeded {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	refused(t, call(ctx), connect.CodeCanceled)
	s.log.wait(t, "code=canceled")
}
