package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postmaster is a running server process: our child, or adopted.
type postmaster struct {
	pid     int
	exited  chan struct{} // closed when the process is gone
	ended   string        // how, as far as known; to be read after that
	signal  func(syscall.Signal) error
	running func() bool // for adopted ones, whose end nobody reports
}

// watchChild takes over a started command.
func watchChild(cmd *exec.Cmd) *postmaster {
	p := &postmaster{
		pid:     cmd.Process.Pid,
		exited:  make(chan struct{}),
		signal:  func(s syscall.Signal) error { return cmd.Process.Signal(s) },
		running: func() bool { return true },
	}
	go func() {
		_ = cmd.Wait() // its state says more
		p.ended = cmd.ProcessState.String()
		close(p.exited)
	}()
	return p
}

// watchStranger takes over a server that an earlier Flow started. It is no
// child of ours, so somebody has to look; every look proves anew that the pid
// is this cluster's server and not a process that got the number later.
func watchStranger(pid int, dataDir string) *postmaster {
	p := &postmaster{pid: pid, exited: make(chan struct{}), ended: "unknown, it was no child"}
	p.running = func() bool { return isPostmaster(pid, dataDir) }
	p.signal = func(s syscall.Signal) error {
		if !p.running() {
			return nil
		}
		return syscall.Kill(pid, s)
	}
	go func() {
		t := time.NewTicker(200 * time.Millisecond) // two small reads from /proc
		defer t.Stop()
		for p.running() {
			<-t.C
		}
		close(p.exited)
	}()
	return p
}

// stop ends the server: fast, which is clean, for as long as ctx and the first
// limit allow; then immediate, which the next start recovers from; then by force.
func (p *postmaster) stop(ctx context.Context, fast, immediate time.Duration) error {
	for _, step := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{
		{syscall.SIGINT, fast},
		{syscall.SIGQUIT, immediate},
		{syscall.SIGKILL, immediate},
	} {
		if err := p.signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("postgres (pid %d) can't be stopped: %w", p.pid, err)
		}
		if p.wait(ctx, step.limit) {
			return nil
		}
		ctx = context.WithoutCancel(ctx)
	}
	return fmt.Errorf("postgres (pid %d) survived every signal", p.pid)
}

// wait reports whether the process has ended within limit.
func (p *postmaster) wait(ctx context.Context, limit time.Duration) bool {
	end := time.NewTimer(limit)
	defer end.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-p.exited:
			return true
		case <-look.C:
			if !p.running() {
				return true
			}
		case <-ctx.Done():
			return false
		case <-end.C:
			return false
		}
	}
}

// pidFile is what postmaster.pid says. PostgreSQL writes it for pg_ctl.
type pidFile struct {
	pid    int
	status string // starting, ready, stopping, standby
}

// readPidFile returns nil when there is no readable pid file.
func readPidFile(dataDir string) *pidFile {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return nil
	}
	lines := strings.Split(string(text), "\n") // pid, directory, start, port, socket, address, memory, status
	for len(lines) < 8 {
		lines = append(lines, "")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return nil
	}
	return &pidFile{pid: pid, status: strings.TrimSpace(lines[7])}
}

// isPostmaster reports whether pid is a server of the cluster in dataDir. Only
// then may it be signalled.
func isPostmaster(pid int, dataDir string) bool {
	args := commandLine(pid)
	if len(args) == 0 {
		return false
	}
	if base := filepath.Base(args[0]); base != "postgres" && base != "postmaster" {
		return false
	}
	for i, arg := range args[1:] {
		if arg == "-D" && i+2 < len(args) && sameDir(args[i+2], dataDir) {
			return true
		}
	}
	return worksIn(pid, dataDir) // started by hand, in other words
}

func sameDir(a, b string) bool {
	sa, err := os.Stat(a)
	if err != nil {
		return false
	}
	sb, err := os.Stat(b)
	return err == nil && os.SameFile(sa, sb)
}

// dropStaleLocks removes pid files whose number belongs to a foreign process:
// after a crash of the machine, or in a new container, numbers come round again
// and PostgreSQL would take the stranger for its predecessor. A number that is
// free is left to PostgreSQL, which also looks for shared memory in use.
func dropStaleLocks(dataDir, sockDir string) error {
	for _, path := range []string{filepath.Join(dataDir, "postmaster.pid"), filepath.Join(sockDir, socketName+".lock")} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), "\n")
		pid, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil || pid <= 0 { // half written, or a repair in single user mode: PostgreSQL will say
			continue
		}
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || isPostmaster(pid, dataDir) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sameStart reports whether the server in dataDir was started from the programs
// in binDir with args.
func sameStart(dataDir, binDir string, args []string) bool {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.opts"))
	if err != nil {
		return false
	}
	var want strings.Builder
	for _, arg := range args {
		fmt.Fprintf(&want, ` "%s"`, arg) // as PostgreSQL writes it, without quoting
	}
	program, ok := strings.CutSuffix(strings.TrimSuffix(string(text), "\n"), want.String())
	return ok && sameDir(filepath.Dir(program), binDir)
}
