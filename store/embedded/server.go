package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// errStopped is the cause of cancelling what Stop interrupts.
var errStopped = errors.New("postgres is being stopped")

// Server is a running PostgreSQL of Flow's own. Its methods may be called from
// several goroutines.
type Server struct {
	cfg     Config
	log     *slog.Logger
	bin     binaries
	acct    account
	dataDir string
	sockDir string
	said    *serverLog
	lock    *os.File

	halt context.CancelCauseFunc // ends supervision
	done chan struct{}           // closed when supervision has ended

	mu       sync.Mutex
	now      *postmaster // nil while a dead server has not been replaced
	adopted  bool
	restarts int

	stopOnce sync.Once
	stopErr  error
}

// Info is what an operator would ask about a Server.
type Info struct {
	Version  string // of PostgreSQL, e.g. "18.4"
	Source   string // where its programs come from, one of the Source constants
	BinDir   string
	DataDir  string
	LogFile  string
	Account  string // that the server runs as
	PID      int    // 0 while it is down and being restarted
	Adopted  bool   // the process was started by an earlier Flow
	Restarts int    // after deaths since Start
}

// Start makes sure that the PostgreSQL in cfg.Dir runs and answers, making the
// cluster first when there is none, and keeps it running until Stop. ctx bounds
// the start only. Recovery after a crash takes as long as it takes: give ctx a
// deadline to give up earlier. Errors are whole sentences for the operator.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	lock, err := claim(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:     cfg,
		log:     cfg.Logger,
		dataDir: filepath.Join(cfg.Dir, "postgres"),
		lock:    lock,
		done:    make(chan struct{}),
	}
	if err := s.start(ctx); err != nil {
		s.release()
		return nil, err
	}
	sctx, halt := context.WithCancelCause(context.Background())
	s.halt = halt
	go s.supervise(sctx, s.now)
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	began := time.Now()
	var err error
	if s.acct, err = pickAccount(s.dataDir, s.cfg.Account); err != nil {
		return err
	}
	cluster, err := clusterVersion(s.dataDir)
	if err != nil {
		return err
	}
	if err := s.acct.admit(s.cfg.Dir); err != nil {
		return fmt.Errorf("data directory %s can't be opened to account %s: %w", s.cfg.Dir, s.acct.name, cause(err))
	}
	if s.bin, err = findBinaries(ctx, s.cfg, s.acct, cluster); err != nil {
		return err
	}
	if err := s.bin.checkReach(ctx, s.acct, s.cfg.Dir); err != nil {
		return err
	}
	if s.said, err = openLog(s.dataDir+".log", s.acct); err != nil {
		return fmt.Errorf("the log %s.log can't be written: %w", s.dataDir, cause(err))
	}
	if s.sockDir, err = pickSocketDir(s.acct, s.dataDir); err != nil {
		return err
	}
	if cluster == 0 {
		err = makeCluster(ctx, s.cfg, s.bin, s.acct, s.dataDir)
	} else {
		err = configure(s.cfg, s.acct, s.dataDir)
	}
	if err != nil {
		return err
	}
	if err := s.bringUp(ctx); err != nil {
		return err
	}
	forgetBundles(s.cfg.Dir, s.bin)
	s.log.Info("postgres is ready", "version", s.bin.version, "source", s.bin.source, "bin", s.bin.dir, "dir", s.dataDir,
		"account", s.acct.name, "pid", s.now.pid, "adopted", s.adopted, "new", cluster == 0, "took", time.Since(began))
	return nil
}

// URL is the connection string of the database flow, for user flow, over the
// socket. It stays the same for as long as the Server lives.
func (s *Server) URL() string { return socketURL(s.sockDir, superuser) }

// Info describes the server as it is now.
func (s *Server) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := Info{
		Version: s.bin.version, Source: s.bin.source, BinDir: s.bin.dir, DataDir: s.dataDir, LogFile: s.said.file.Name(),
		Account: s.acct.name, Adopted: s.adopted, Restarts: s.restarts,
	}
	if s.now != nil {
		i.PID = s.now.pid
	}
	return i
}

// Stop ends the server cleanly, and within 30 s or when ctx is done without
// ceremony, which costs the next start a recovery and no data. Sessions still
// open are ended. Further calls return what the first returned.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		began := time.Now()
		s.halt(errStopped)
		<-s.done
		if s.now != nil {
			s.stopErr = s.now.stop(ctx, s.cfg.limits.fast, s.cfg.limits.immediate)
		}
		s.log.Info("postgres is stopped", "took", time.Since(began), "err", s.stopErr)
		s.release()
	})
	return s.stopErr
}

func (s *Server) release() {
	if s.sockDir != "" && s.sockDir != s.dataDir {
		_ = os.Remove(s.sockDir) // stays when a server still has its socket there
	}
	if s.said != nil {
		_ = s.said.close()
	}
	_ = s.lock.Close()
}

// supervise replaces a server that dies, for as long as it takes, and keeps
// the log bounded.
func (s *Server) supervise(ctx context.Context, p *postmaster) {
	defer close(s.done)
	trim := time.NewTicker(time.Minute)
	defer trim.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-trim.C:
			if err := s.said.trim(); err != nil {
				s.log.Warn("postgres log can't be cut", "file", s.said.file.Name(), "err", err)
			}
			continue
		case <-p.exited:
		}
		s.log.Error("postgres died", "pid", p.pid, "how", p.ended, "log", s.said.file.Name())
		s.mu.Lock()
		s.now = nil
		s.mu.Unlock()
		if p = s.replace(ctx); p == nil {
			return
		}
	}
}

// replace brings a server up again; nil means that Stop came first.
func (s *Server) replace(ctx context.Context) *postmaster {
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := s.bringUp(ctx)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.restarts++
			s.log.Info("postgres is back", "pid", s.now.pid, "took", time.Since(began))
			return s.now
		}
		if ctx.Err() == nil {
			s.log.Error("postgres can't be restarted", "err", err, "again_in", pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// bringUp leaves a server running that answers: the one that runs already when
// it is as we want it, else a new one.
func (s *Server) bringUp(ctx context.Context) error {
	p, err := s.takeOver(ctx)
	adopted := p != nil
	if p == nil && err == nil {
		p, err = s.launch(ctx)
	}
	if err != nil {
		// A Flow that was killed a moment ago may have launched a server that
		// wrote its pid file only now: then ours gave way to it.
		if f := readPidFile(s.dataDir); ctx.Err() != nil || f == nil || !isPostmaster(f.pid, s.dataDir) {
			return err
		}
		if p, err = s.takeOver(ctx); err != nil || p == nil {
			return errors.Join(err, errors.New("postgres was stopped while it started"))
		}
		adopted = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.adopted = p, adopted
	return nil
}

// takeOver adopts the server that runs in the data directory or stops it. It
// returns nil when none runs any more and a new one can start.
func (s *Server) takeOver(ctx context.Context) (*postmaster, error) {
	if f := readPidFile(s.dataDir); f != nil && isPostmaster(f.pid, s.dataDir) {
		p := watchStranger(f.pid, s.dataDir)
		reason, fast := s.unfit(f), s.cfg.limits.fast
		if reason == "" {
			version, err := s.awaitReady(ctx, p)
			switch {
			case ctx.Err() != nil:
				return nil, err
			case err != nil:
				reason, fast = err.Error(), s.cfg.limits.hung
			case version != s.bin.version:
				reason = "it has version " + version
			default:
				return p, nil
			}
		}
		s.log.Info("stopping a postgres left by an earlier flow", "pid", p.pid, "reason", reason)
		if err := p.stop(ctx, fast, s.cfg.limits.immediate); err != nil {
			return nil, err
		}
	}
	if err := s.awaitOrphans(ctx); err != nil {
		return nil, err
	}
	if err := dropStaleLocks(s.dataDir, s.sockDir); err != nil {
		return nil, fmt.Errorf("a stale pid file in %s can't be removed: %w", s.dataDir, cause(err))
	}
	return nil, nil
}

// unfit says why a running server is not one that we would have started.
func (s *Server) unfit(f *pidFile) string {
	if f.status == "stopping" {
		return "it is stopping"
	}
	if !sameStart(s.dataDir, s.bin.dir, s.arguments()) {
		return "it was started by another program or with other arguments"
	}
	// Written at its start, and more exact than the whole seconds in the pid file.
	started, err := os.Stat(filepath.Join(s.dataDir, "postmaster.opts"))
	if err != nil {
		return err.Error()
	}
	for _, name := range []string{"flow.conf", "pg_hba.conf", "postgresql.conf"} {
		if st, err := os.Stat(filepath.Join(s.dataDir, name)); err != nil || st.ModTime().After(started.ModTime()) {
			return name + " is newer than it"
		}
	}
	return ""
}

func (s *Server) awaitOrphans(ctx context.Context) error {
	limit := time.NewTimer(s.cfg.limits.orphans)
	defer limit.Stop()
	for {
		pids := orphans(s.dataDir)
		if len(pids) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("processes of a dead server still use %s: end them (pids %s)", s.dataDir, strings.Trim(fmt.Sprint(pids), "[]"))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// launch starts a server and waits until it answers. It leaves none behind
// that doesn't.
func (s *Server) launch(ctx context.Context) (*postmaster, error) {
	if err := s.said.trim(); err != nil {
		return nil, fmt.Errorf("the log %s can't be cut: %w", s.said.file.Name(), cause(err))
	}
	from := s.said.size()
	cmd := s.acct.command(s.bin.program("postgres"), s.arguments()...)
	cmd.Stdout, cmd.Stderr = s.said.file, s.said.file
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s can't be run: %w", cmd.Path, cause(err))
	}
	p := watchChild(cmd)
	_, err := s.awaitReady(ctx, p)
	if err == nil {
		return p, nil
	}
	_ = p.stop(context.WithoutCancel(ctx), s.cfg.limits.hung, s.cfg.limits.immediate) // the reason for stopping is the error to report
	if text := s.said.complaint(from); text != "" && ctx.Err() == nil {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return nil, fmt.Errorf("%w (more in %s)", err, s.said.file.Name())
}

// arguments are what only the command line can make certain.
func (s *Server) arguments() []string {
	return []string{
		"-D", s.dataDir,
		"-c", "listen_addresses=",
		"-c", "port=5432",
		"-c", "unix_socket_directories=" + quoteList(s.sockDir),
		"-c", "unix_socket_permissions=0700",
	}
}

// quoteList makes a value one element of a list setting: a path may hold commas.
func quoteList(v string) string {
	return `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
}
