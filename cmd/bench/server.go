package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = time.Minute
	stopLimit  = 40 * time.Second // the server gives running calls 30 s
	readyEvery = 5 * time.Millisecond
)

// server is the server that is measured.
type server struct {
	addr    string
	pid     int    // 0: not known
	dataDir string // "": not known
	source  string // of PostgreSQL's programs

	exited chan error // nil: not started here
	log    string
}

// startServer starts the binary and waits until it is ready. took counts from the moment before the process is made.
func startServer(ctx context.Context, flow, dataDir string, flags ...string) (s *server, took time.Duration, err error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, 0, err
	}
	s = &server{addr: addr, dataDir: dataDir, exited: make(chan error, 1), log: dataDir + ".log"}
	log, err := os.OpenFile(s.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close()
	cmd := exec.Command(flow, append([]string{"serve", "--data-dir", dataDir, "--listen", addr, "--sim", "--sim-latency", "0"}, flags...)...)
	cmd.Env = environment(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	// Ctrl-C is for the benchmark, which stops the server in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("%w (make build makes it)", err)
	}
	s.pid = cmd.Process.Pid
	go func() { s.exited <- cmd.Wait() }()
	if err := s.awaitReady(ctx); err != nil {
		return nil, 0, errors.Join(err, s.stop())
	}
	took = time.Since(began)
	s.source = s.postgresSource()
	return s, took, nil
}

// environment is the environment without what would lead the server to another database.
func environment(all []string) []string {
	var kept []string
	for _, e := range all {
		if !strings.HasPrefix(e, "FLOW_DATABASE_URL=") && !strings.HasPrefix(e, "DB_") {
			kept = append(kept, e)
		}
	}
	return kept
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	probe := &http.Client{Timeout: 2 * time.Second}
	defer probe.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/readyz", nil)
		if err != nil {
			return err
		}
		if res, err := probe.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", context.Cause(ctx))
		case err := <-s.exited:
			s.exited <- err
			return fmt.Errorf("the server ended (%v) and said: %s", err, lastLine(s.log))
		case <-time.After(readyEvery):
		}
	}
}

// stop ends a server that was started here, and its PostgreSQL with it.
func (s *server) stop() error {
	if s == nil || s.exited == nil {
		return nil
	}
	if err := syscall.Kill(s.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	select {
	case err := <-s.exited:
		s.exited <- err
		return nil
	case <-time.After(stopLimit):
		postmaster, _ := s.postmaster()
		_ = syscall.Kill(s.pid, syscall.SIGKILL)
		if postmaster != 0 {
			_ = syscall.Kill(postmaster, syscall.SIGQUIT)
		}
		return fmt.Errorf("the server did not stop within %s and was killed", stopLimit)
	}
}

func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// postgresSource is what the server's log says of the programs it runs.
func (s *server) postgresSource() string {
	f, err := os.Open(s.log)
	if err != nil {
		return "source unknown"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line struct {
			Source string `json:"source"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Source != "" {
			return line.Source
		}
	}
	return "source unknown"
}

// postmaster finds the server's own PostgreSQL by its pid file: process and directory of the socket.
func (s *server) postmaster() (pid int, socketDir string) {
	if s.dataDir == "" {
		return 0, ""
	}
	text, err := os.ReadFile(filepath.Join(s.dataDir, "postgres", "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	lines := strings.Split(string(text), "\n") // pid, directory, start, port, socket directory, ...
	if len(lines) < 5 {
		return 0, ""
	}
	if _, err := fmt.Sscan(lines[0], &pid); err != nil {
		return 0, ""
	}
	return pid, strings.TrimSpace(lines[4])
}
