package embedded

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestFirstStartAndTheNext(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tempDir(t), "flow")
	cfg := Config{Dir: dir, Settings: map[string]string{"max_connections": "40", "cluster_name": `it's \ flow`}}
	writeFile(t, filepath.Join(dir, "postgres.new-1", "base"), "left by a killed initdb", 0o600)

	began := time.Now()
	s := start(t, cfg)
	t.Logf("first start: %v", time.Since(began))
	got := map[string]string{}
	for _, name := range []string{
		"listen_addresses", "fsync", "synchronous_commit", "full_page_writes", "data_checksums", "server_encoding",
		"max_connections", "cluster_name", "jit", "timezone", "unix_socket_permissions",
	} {
		got[name] = value(t, s.URL(), "SHOW "+name)
	}
	want := map[string]string{
		"listen_addresses": "", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on",
		"server_encoding": "UTF8", "max_connections": "40", "cluster_name": `it's \ flow`, "jit": "off", "timezone": "UTC",
		"unix_socket_permissions": "0700",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := value(t, s.URL(), "SELECT current_user || ' ' || datname || ' ' || datcollate FROM pg_database WHERE datname = current_database()"); got != "flow flow C" {
		t.Errorf("user, database, collation: %s", got)
	}
	info := s.Info()
	if st, err := os.Stat(info.DataDir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the cluster is open: %v %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Join(dir, "postgres.new-1")); err == nil {
		t.Errorf("%s is still there", st.Name())
	}
	if sid, err := unix.Getsid(info.PID); err != nil || sid != info.PID {
		t.Errorf("the server is in session %d, signals from a terminal would reach it (%v)", sid, err)
	}
	if info.Adopted || info.Restarts != 0 || info.Version != value(t, s.URL(), "SHOW server_version") {
		t.Errorf("info: %+v", info)
	}

	value(t, s.URL(), "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, s)
	if alive(info.PID) {
		t.Fatal("the server survived its stop")
	}
	began = time.Now()
	s = start(t, cfg)
	t.Logf("next start: %v", time.Since(began))
	if got := value(t, s.URL(), "SELECT n FROM kept"); got != "42" {
		t.Errorf("kept: %s", got)
	}
	if got := s.Info(); got.Adopted || got.PID == info.PID {
		t.Errorf("info: %+v", got)
	}
}

func TestServerOfAKilledFlow(t *testing.T) {
	t.Parallel()
	cfg := prepared(t, filepath.Join(tempDir(t), "flow"))
	c := startChild(t, cfg, 0)
	value(t, c.URL, "CREATE TABLE kept AS SELECT 42 AS n")

	t.Log("while the other lives, nobody else gets in")
	_, err := Start(t.Context(), cfg)
	if !errors.Is(err, ErrInUse) {
		t.Errorf("a second flow: %v", err)
	}
	wantError(t, err, cfg.Dir)

	t.Log("with the same settings it is adopted")
	c.kill(t)
	s := start(t, cfg)
	if got := s.Info(); !got.Adopted || got.PID != c.Info.PID || s.URL() != c.URL {
		t.Errorf("adopted: %+v, want pid %d", got, c.Info.PID)
	}
	value(t, s.URL(), "SELECT n FROM kept")
	stop(t, s)
	if alive(c.Info.PID) {
		t.Error("the adopted server survived its stop")
	}

	t.Log("with others it is replaced")
	c = startChild(t, cfg, 0)
	c.kill(t)
	cfg.Settings["max_connections"] = "33"
	s = start(t, cfg)
	if got := s.Info(); got.Adopted || got.PID == c.Info.PID || alive(c.Info.PID) {
		t.Errorf("not replaced: %+v", got)
	}
	if got := value(t, s.URL(), "SELECT n || ' ' || current_setting('max_connections') FROM kept"); got != "42 33" {
		t.Error(got)
	}
}

func TestAdoptedServerThatDiesIsRestarted(t *testing.T) {
	t.Parallel()
	cfg := prepared(t, filepath.Join(tempDir(t), "flow"))
	c := startChild(t, cfg, 0)
	c.kill(t)
	s := start(t, cfg)
	for n := range 2 { // the adopted one, then our own
		pid := s.Info().PID
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a restart", func() bool { return s.Info().Restarts == n+1 })
		if got := s.Info(); got.Adopted || got.PID == pid {
			t.Errorf("after death %d: %+v", n, got)
		}
		value(t, s.URL(), "SELECT 1")
	}
}

func TestHungServerIsReplaced(t *testing.T) {
	t.Parallel()
	cfg := prepared(t, filepath.Join(tempDir(t), "flow"))
	c := startChild(t, cfg, 0)
	c.kill(t)
	if err := syscall.Kill(c.Info.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	cfg.limits = usualLimits
	cfg.limits.answer, cfg.limits.hung, cfg.limits.immediate = 200*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond
	s := start(t, cfg)
	if got := s.Info(); got.Adopted || alive(c.Info.PID) {
		t.Errorf("not replaced: %+v", got)
	}
}

func TestStopWhileDeadServerCantStart(t *testing.T) {
	t.Parallel()
	cfg := prepared(t, filepath.Join(tempDir(t), "flow"))
	s := start(t, cfg)
	control := filepath.Join(s.dataDir, "global", "pg_control")
	if err := os.Rename(control, control+".away"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.Info().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return s.Info().PID == 0 })
	stop(t, s)
}

func TestProcessWithTheServersOldNumberIsLeftAlone(t *testing.T) {
	t.Parallel()
	cfg := prepared(t, filepath.Join(tempDir(t), "flow"))
	s := start(t, cfg)
	stop(t, s)

	// As after a crash of the machine: the files are back, the number is
	// somebody else's, and of the same account.
	sleeper := s.acct.command("/bin/sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	}()
	pid := strconv.Itoa(sleeper.Process.Pid)
	writeFile(t, filepath.Join(s.dataDir, "postmaster.pid"), pid+"\n"+s.dataDir+"\n1700000000\n5432\n"+s.sockDir+"\n\n  5432001 0\nready   \n", 0o600)
	writeFile(t, filepath.Join(s.sockDir, socketName+".lock"), pid+"\n", 0o600)

	s = start(t, cfg)
	if got := s.Info(); got.Adopted || got.PID == sleeper.Process.Pid {
		t.Errorf("info: %+v", got)
	}
	if !alive(sleeper.Process.Pid) {
		t.Error("the stranger was killed")
	}
}

func TestLongPathPutsTheSocketElsewhere(t *testing.T) {
	t.Parallel()
	cfg := prepared(t, filepath.Join(tempDir(t), strings.Repeat("long/", 20), "flow, 50%"))
	s := start(t, cfg)
	value(t, s.URL(), "SELECT 1")
	if s.sockDir == s.dataDir {
		t.Fatal("the path was not too long")
	}
	if st, err := os.Stat(s.sockDir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("socket directory: %v %v", st.Mode(), err)
	}
	stop(t, s)
	if _, err := os.Stat(s.sockDir); err == nil {
		t.Error("the socket directory is still there")
	}

	t.Log("a directory that somebody else made is not trusted")
	if err := os.Mkdir(s.sockDir, 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(s.sockDir)
	if err := os.Chmod(s.sockDir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), cfg)
	wantError(t, err, s.sockDir)
}

func TestCancelledStartLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	cfg := prepared(t, filepath.Join(tempDir(t), "flow"))
	s := start(t, cfg)
	dataDir := s.dataDir
	stop(t, s)
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // as soon as the server is there
		for readPidFile(dataDir) == nil {
			<-time.After(time.Millisecond)
		}
		cancel(why)
	}()
	s, err := Start(ctx, cfg)
	if err == nil { // it was faster
		stop(t, s)
		return
	}
	if !errors.Is(err, why) {
		t.Errorf("err: %v", err)
	}
	if f := readPidFile(dataDir); f != nil && alive(f.pid) {
		t.Errorf("pid %d still runs", f.pid)
	}
}

func TestRootRunsTheServerAsTheOwnerOfTheCluster(t *testing.T) {
	asRoot(t)
	t.Parallel()
	t.Log("an ordinary user")
	dir := tempDir(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cfg := quick(filepath.Join(dir, "flow"))
	c := startChild(t, cfg, nobody)
	if c.Err != "" {
		t.Fatal(c.Err)
	}
	if c.Info.Account != "nobody" {
		t.Errorf("account: %s", c.Info.Account)
	}
	c.stop(t)
	if alive(c.Info.PID) {
		t.Error("the server survived its stop")
	}

	t.Log("root, with that user's data")
	s := start(t, cfg)
	if got := s.Info().Account; got != "nobody" {
		t.Errorf("account: %s", got)
	}
	stop(t, s)

	t.Log("that user again")
	c = startChild(t, cfg, nobody)
	if c.Err != "" {
		t.Fatal(c.Err)
	}
	c.stop(t)

	t.Log("another ordinary user")
	if out, err := exec.Command("chown", "-R", "1:1", s.dataDir).CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	c = startChild(t, cfg, nobody)
	wantError(t, errors.New(c.Err), s.dataDir, "belongs to account")
}
