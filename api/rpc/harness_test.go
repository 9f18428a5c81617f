package rpc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// site is a served API with a database of its own.
type site struct {
	t     *testing.T
	url   string
	http  *http.Client // HTTP/2 without TLS
	flow  flowv1connect.FlowClient
	grpc  flowv1connect.FlowClient
	json  flowv1connect.FlowClient
	ops   flowopsv1connect.FlowOpsClient
	store *store.Store
	log   *logBuffer
	sql   *counter
}

// serve serves the API on a port of its own until the test ends. change may adjust the configuration.
func serve(t *testing.T, change func(*Config)) *site {
	t.Helper()
	s := &site{t: t, log: &logBuffer{}, sql: &counter{}}
	var err error
	s.store, err = store.Open(t.Context(), store.Config{URL: storetest.New(t), Tracer: s.sql})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.store.Close)
	s.serve(change)
	return s
}

// serveAlone is serve without a database.
func serveAlone(t *testing.T, change func(*Config)) *site {
	t.Helper()
	s := &site{t: t, log: &logBuffer{}, store: &store.Store{}}
	s.serve(change)
	return s
}

func (s *site) serve(change func(*Config)) {
	s.t.Helper()
	hub := task.NewHub(s.store, s.logger())
	cfg := Config{
		Store:  s.store,
		Tasks:  &task.Service{Store: s.store, Watch: hub, Log: s.logger(), Now: time.Now},
		Watch:  hub,
		Logger: s.logger(),
		Build:  Build{Version: "1.2.3", BuildTime: "2026-01-02T03:04:05Z", GitCommit: "abc"},
	}
	if change != nil {
		change(&cfg)
	}
	s.serveHandler(Handler(cfg))
}

func (s *site) serveHandler(h http.Handler) {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server := Server("", h, s.logger())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // always an error, that of closing
	}()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	s.t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	s.url = "http://" + l.Addr().String()
	s.http = &http.Client{Transport: transport}
	s.flow = flowv1connect.NewFlowClient(s.http, s.url)
	s.grpc = flowv1connect.NewFlowClient(s.http, s.url, connect.WithGRPC())
	s.json = flowv1connect.NewFlowClient(s.http, s.url, connect.WithProtoJSON())
	s.ops = flowopsv1connect.NewFlowOpsClient(s.http, s.url, connect.WithGRPC())
}

func (s *site) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// post sends a body as curl would and returns what comes back.
func (s *site) post(path, contentType, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.do(http.DefaultClient, req) // HTTP/1.1
}

func (s *site) get(path string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.do(http.DefaultClient, req)
}

func (s *site) do(client *http.Client, req *http.Request) (*http.Response, string) {
	s.t.Helper()
	res, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(b)
}

// exec writes to the database behind the API's back.
func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.store.API.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// contents is everything recorded, to compare.
func (s *site) contents() string {
	s.t.Helper()
	var all string
	err := s.store.API.QueryRow(s.t.Context(), `
		SELECT coalesce((SELECT json_agg(r ORDER BY id) FROM rack r)::text, '') ||
			coalesce((SELECT json_agg(c ORDER BY id) FROM component c)::text, '') ||
			coalesce((SELECT json_agg(b ORDER BY mac) FROM bmc b)::text, '') ||
			coalesce((SELECT json_agg(d ORDER BY id) FROM nvl_domain d)::text, '') ||
			coalesce((SELECT json_agg(d ORDER BY id) FROM drift d)::text, '') ||
			coalesce((SELECT json_agg(r ORDER BY id) FROM operation_rule r)::text, '') ||
			coalesce((SELECT json_agg(r ORDER BY rack_id, operation_type, operation_code) FROM rack_rule r)::text, '') ||
			coalesce((SELECT json_agg(t ORDER BY id) FROM task t)::text, '') ||
			coalesce((SELECT json_agg(e ORDER BY id) FROM event e)::text, '')`).Scan(&all)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// overBoth runs a test with a client that speaks gRPC and with one that speaks JSON. The two share the database: a test
// that records things uses keys of its own for each.
func (s *site) overBoth(t *testing.T, test func(t *testing.T, flow flowv1connect.FlowClient)) {
	t.Helper()
	for name, flow := range map[string]flowv1connect.FlowClient{"gRPC": s.grpc, "JSON": s.json} {
		t.Run(name, func(t *testing.T) { test(t, flow) })
	}
}

// refused fails the test unless err has the code and its text holds every word.
func refused(t *testing.T, err error, code connect.Code, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("not refused, want %v", code)
	}
	if connect.CodeOf(err) != code {
		t.Fatalf("refused with %v, want %v", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not name %q", err, w)
		}
	}
}

// logBuffer collects a log.
type logBuffer struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{} // closed by the next line
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrote != nil {
		close(b.wrote)
		b.wrote = nil
	}
	return b.buf.Write(p)
}

// lines returns the lines written so far that hold every word.
func (b *logBuffer) lines(words ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.linesLocked(words)
}

func (b *logBuffer) linesLocked(words []string) []string {
	var found []string
	for line := range strings.Lines(b.buf.String()) {
		missing := func(word string) bool { return !strings.Contains(line, word) }
		if !slices.ContainsFunc(words, missing) {
			found = append(found, line)
		}
	}
	return found
}

// wait returns once there is a line that holds every word.
func (b *logBuffer) wait(t *testing.T, words ...string) {
	t.Helper()
	for {
		b.mu.Lock()
		if len(b.linesLocked(words)) > 0 {
			b.mu.Unlock()
			return
		}
		if b.wrote == nil {
			b.wrote = make(chan struct{})
		}
		wrote := b.wrote
		b.mu.Unlock()
		select {
		case <-wrote:
		case <-time.After(10 * time.Second):
			t.Fatalf("no line with %q in the log: %q", words, b.lines())
		}
	}
}

// counter counts statements.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// during returns how many statements fn makes.
func (c *counter) during(fn func()) int {
	c.mu.Lock()
	before := c.n
	c.mu.Unlock()
	fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n - before
}
