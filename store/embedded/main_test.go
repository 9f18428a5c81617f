package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childEnv makes the test program a small Flow: it starts the server that the
// variable describes, reports on standard output and stops when its input ends.
const childEnv = "FLOW_EMBEDDED_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(beFlow(text))
	}
	code := m.Run()
	if shared != "" {
		_ = os.RemoveAll(shared)
	}
	os.Exit(code)
}

// shared is a directory for what the tests make once, for TestMain to remove.
var shared string

// sharedBin returns programs for the tests that are not about finding them:
// the bundle, unpacked once, else "", which finds what is installed.
var sharedBin = sync.OnceValue(func() string {
	var err error
	if shared, err = os.MkdirTemp("", "flow-test-shared-*"); err == nil {
		err = os.Chmod(shared, 0o755)
	}
	name, bin := bundleName(bundleFS), ""
	if name != "" && err == nil {
		bin, err = unpackBundle(bundleFS, name, Config{Dir: shared, NoFsync: true})
	}
	if err != nil {
		panic(err)
	}
	return bin
})

// sharedCluster returns a cluster to copy for the tests that are not about
// making one, which takes a second.
var sharedCluster = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(shared, "flow")
	s, err := Start(context.Background(), quick(dir))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "postgres"), s.Stop(context.Background())
})

// report is what a child says about its server.
type report struct {
	URL  string
	Info Info
	Err  string
}

func beFlow(text string) int {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		panic(err)
	}
	ctx := context.Background()
	s, err := Start(ctx, cfg)
	if err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(report{Err: err.Error()})
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(report{URL: s.URL(), Info: s.Info()})
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Stop(ctx); err != nil {
		return 1
	}
	return 0
}

// child is a running small Flow.
type child struct {
	report
	cmd *exec.Cmd
	in  io.Closer
}

// startChild runs a small Flow, as account uid when that is not 0.
func startChild(t *testing.T, cfg Config, uid int) *child {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if uid != 0 {
		// The directory of the test program is closed to others.
		program = copyFile(t, program, filepath.Join(tempDir(t), "flow"))
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(program)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Dir = "/"
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{}
	if uid != 0 {
		c.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	c.in, _ = c.cmd.StdinPipe()
	out, _ := c.cmd.StdoutPipe()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.kill(t) })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the child said nothing: %v", err)
	}
	if err := json.Unmarshal(line, &c.report); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
	_ = c.cmd.Wait()
}

func (c *child) stop(t *testing.T) {
	t.Helper()
	_ = c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// start starts a server that the end of the test stops.
func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// quick is a configuration for tests whose subject is not durability.
func quick(dir string) Config {
	return Config{Dir: dir, BinDir: sharedBin(), NoFsync: true, Settings: map[string]string{"shared_buffers": "16MB"}}
}

// prepared is quick with a cluster in place.
func prepared(t *testing.T, dir string) Config {
	t.Helper()
	cfg := quick(dir)
	cluster, err := sharedCluster()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", cluster, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return cfg
}

// tempDir is like t.TempDir but open to the account that runs the server.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flow-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(t *testing.T, from, to string) string {
	t.Helper()
	// A child forked while the copy is open for writing would keep it so, and a busy program can't be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, string(data), 0o755)
	return to
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// value runs a statement and returns its one value as text, as psql would.
func value(t *testing.T, url, sql string) string {
	t.Helper()
	v, err := tryValue(t.Context(), url, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func tryValue(ctx context.Context, url, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// eventually waits for ok, which something that reports nothing will make true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q doesn't say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
}

func alive(pid int) bool { return len(commandLine(pid)) > 0 }

// asRoot marks a test that is about root giving up its rights.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root changes accounts")
	}
}

// nobody is an account that owns nothing.
const nobody = 65534
