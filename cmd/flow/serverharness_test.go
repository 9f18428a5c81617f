package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/store/storetest"
)

// flowEnv makes the test program flow itself: the same code, with the race detector where the tests have it, without a
// build of its own.
const flowEnv = "FLOW_TEST_IS_FLOW"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "flow" { // a script runs it, by the link that TestScripts makes
		os.Exit(runProcess())
	}
	if filepath.Base(os.Args[0]) == "curl" {
		os.Exit(standInForCurl(os.Args[1:]))
	}
	if os.Getenv(flowEnv) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(exitError) // the test process is gone, however it went
		}()
		os.Exit(runProcess())
	}
	storetest.Main(m)
}

// server is a flow process that can be killed and started again with the same flags.
type server struct {
	t    *testing.T
	dir  string // its data directory
	url  string
	args []string
	log  *os.File // of all its lives
	flow flowv1connect.FlowClient
	ops  flowopsv1connect.FlowOpsClient

	complains bool // it has reason to log errors

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// newServer prepares a server; start starts it. It is gone at the end of the test.
func newServer(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{t: t, dir: filepath.Join(dataRoot(t), "data")}
	addr := freeAddr(t)
	s.url = "http://" + addr
	s.args = append([]string{"serve", "--data-dir", s.dir, "--listen", addr, "--sim"}, flags...)
	var err error
	if s.log, err = os.Create(filepath.Join(filepath.Dir(s.dir), "flow.log")); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: transport}
	s.flow = flowv1connect.NewFlowClient(client, s.url, connect.WithGRPC())
	s.ops = flowopsv1connect.NewFlowOpsClient(client, s.url, connect.WithGRPC())
	t.Cleanup(func() {
		s.kill()
		transport.CloseIdleConnections()
		s.readLog()
		_ = s.log.Close()
	})
	return s
}

// launch starts the process and returns at once.
func (s *server) launch() {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(program, s.args...)
	// The race detector would hold up every exit by a second.
	s.cmd.Env = append(os.Environ(), flowEnv+"=1", "FLOW_DATABASE_URL=", "DB_HOST=", "GORACE=atexit_sleep_ms=10")
	s.cmd.Stderr = s.log
	if _, err := s.cmd.StdinPipe(); err != nil { // held open for as long as the process lives
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(done)
	}(s.cmd, s.done)
}

// start starts the process and returns when it is ready, with the time it took.
func (s *server) start() time.Duration {
	s.t.Helper()
	began := time.Now()
	s.launch()
	s.awaitReady()
	return time.Since(began)
}

func (s *server) awaitReady() {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); s.readyz() != http.StatusOK; pause(5 * time.Millisecond) {
		select {
		case <-s.done:
			s.t.Fatalf("the server ended instead of getting ready: %v", s.cmd.ProcessState)
		default:
		}
		if time.Now().After(end) {
			s.t.Fatal("the server is not ready after a minute")
		}
	}
}

// probe makes a connection for every request: what is asked for is what a newcomer would be told.
var probe = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}

// readyz is the status of the readiness probe; 0 when there is no answer.
func (s *server) readyz() int {
	res, err := probe.Get(s.url + "/readyz")
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// kill ends the process as kill -9 does; its PostgreSQL lives on.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.done
}

// stop asks the process to end, as an init system does, and returns the exit code and the time it took.
func (s *server) stop() (code int, took time.Duration) {
	s.t.Helper()
	began := time.Now()
	s.terminate()
	return s.wait(time.Minute), time.Since(began)
}

// terminate asks the process to end.
func (s *server) terminate() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits for the process to end by itself and returns its exit code.
func (s *server) wait(limit time.Duration) int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(limit):
		s.t.Fatalf("the server has not ended after %s", limit)
	}
	return s.cmd.ProcessState.ExitCode()
}

// database connects to the server's own PostgreSQL, past the server.
func (s *server) database() *pgx.Conn {
	s.t.Helper()
	dir, _ := s.postmaster()
	return connectTo(s.t, fmt.Sprintf("postgres://flow@/flow?host=%s&port=5432", dir))
}

// postmaster is what the server's own PostgreSQL says of itself: the directory of its socket, and its process.
func (s *server) postmaster() (socket string, pid int) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "postgres", "postmaster.pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 5 {
		s.t.Fatalf("pid file of PostgreSQL: %q", text)
	}
	if pid, err = strconv.Atoi(lines[0]); err != nil {
		s.t.Fatal(err)
	}
	return lines[4], pid
}

// readLog fails the test for what no life of the server may say, and shows the end of the log of a failed test.
func (s *server) readLog() {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.t.Error(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		if strings.Contains(line, "DATA RACE") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			s.t.Errorf("the server's log has:\n%s", strings.Join(lines[i:min(i+60, len(lines))], "\n"))
			break
		}
		if strings.Contains(line, `"level":"ERROR"`) && !s.complains {
			s.t.Errorf("the server's log has: %s", line)
		}
	}
	if s.t.Failed() {
		s.t.Logf("the end of the server's log:\n%s", strings.Join(lines[max(len(lines)-40, 0):], "\n"))
	}
}

func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// query returns the rows of a query, each of one value.
func query[T any](t *testing.T, conn *pgx.Conn, row pgx.RowToFunc[T], sql string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, row)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// freeAddr finds a port nobody listens on, below those the system gives to outgoing connections: while the server is
// down, a client that tries to connect to such a port may be connected to itself.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(15_000))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// reaper waits for the end of its input, which is the end of the test or of the test process, however it came. Then it
// ends the PostgreSQL that a killed server has left behind and removes the directory.
const reaper = `
cat >/dev/null
while pid=$(head -n 1 "$1/data/postgres/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null; do sleep 0.1; done
for again in 1 2 3 4 5; do rm -rf "$1" 2>/dev/null && exit; sleep 1; done
rm -rf "$1"
`

// dataRoot makes a directory for the data directory of a server, open to the account that runs PostgreSQL for root.
func dataRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flow-test-*")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", reaper, "reaper", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the test process
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

// pause lets time pass between two looks at something that reports nothing, or until a moment chosen at random.
func pause(d time.Duration) { <-time.After(d) }

// eventually waits for ok, which something that reports nothing will make true.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); pause(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// chaosCount and chaosTime are how much of something a test does; make chaos asks for more than make test.
func chaosCount(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", name, text)
	}
	return n
}

func chaosTime(t *testing.T, name string, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is no duration above 0", name, text)
	}
	return d
}

// chaosRand is a source of random numbers that can be had again by the seed in the log.
func chaosRand(t *testing.T) func(stream uint64) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("FLOW_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FLOW_CHAOS_SEED=%q is no seed", text)
		}
	}
	t.Logf("FLOW_CHAOS_SEED=%d", seed)
	return func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
}
