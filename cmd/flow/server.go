package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"rackflow.dev/flow/api/rpc"
	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/embedded"
)

// runningServer is a server in this process. The parts are stopped in the reverse of the order they are in.
type runningServer struct {
	addr     string
	lock     *os.File
	postgres *embedded.Server // nil: another PostgreSQL
	store    *store.Store
	site     *sim.Site // nil: no simulated hardware
	engine   *engine.Engine
	http     *http.Server
	failed   chan error // the listener has broken down
	stopping atomic.Bool
}

// startServer brings a server up in order: address, data directory, database, schema, hardware, engine, requests. When
// a step fails, what was up is taken down again.
func startServer(ctx context.Context, o serveOptions) (_ *runningServer, err error) {
	began := time.Now()
	s := &runningServer{failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.shutdownTimeout)
			defer cancel()
			err = errors.Join(err, s.Stop(stop))
		}
	}()
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.listen, errors.Unwrap(err))
	}
	defer func() {
		if err != nil {
			_ = listener.Close()
		}
	}()
	if s.lock, err = lockDataDir(o.dataDir); err != nil {
		return nil, err
	}
	id, err := nodeID(o.dataDir)
	if err != nil {
		return nil, err
	}
	databaseURL := o.databaseURL
	if databaseURL == "" {
		if s.postgres, err = embedded.Start(ctx, embedded.Config{Dir: o.dataDir, BinDir: o.postgresBin, Logger: o.log}); err != nil {
			return nil, err
		}
		databaseURL = s.postgres.URL()
	}
	applied, err := store.Migrate(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	o.pools.URL = databaseURL
	if s.store, err = store.Open(ctx, o.pools); err != nil {
		return nil, err
	}
	managers := hardware.Managers{}
	if o.sim {
		if s.site, err = openSite(o, s.store); err != nil {
			return nil, err
		}
		managers = s.site.Managers()
	} else {
		o.log.Warn("no hardware is configured: operations will be refused; --sim runs a simulated site")
	}
	host, _ := os.Hostname() // only for people; an empty one is no harm
	if s.engine, err = engine.New(engine.Config{
		Store: s.store, Managers: managers, Log: o.log, NodeID: id, Host: host, Version: buildInfo().GetVersion(),
		Workers: o.workers, Speed: o.simSpeed, NoWork: o.noWorkers, Tasks: o.tasks,
	}); err != nil {
		return nil, err
	}
	if err := s.engine.Start(ctx); err != nil {
		return nil, err
	}
	s.addr = listener.Addr().String()
	s.http = rpc.Server(s.addr, s.handler(o), o.log)
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	o.log.Info("ready", "addr", s.addr, "data_dir", o.dataDir, "migrations", len(applied), "sim", o.sim, "took", time.Since(began).String())
	return s, nil
}

func (s *runningServer) handler(o serveOptions) http.Handler {
	b := buildInfo()
	return rpc.Handler(rpc.Config{
		Store: s.store, Tasks: s.engine.Tasks, Watch: s.engine.Watch, Logger: o.log,
		Build: rpc.Build{Version: b.GetVersion(), BuildTime: b.GetBuildTime(), GitCommit: b.GetGitCommit()},
		Ready: s.ready,
	})
}

// ready says why requests would fail now.
func (s *runningServer) ready(ctx context.Context) error {
	if s.stopping.Load() {
		return errors.New("the server is stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.store.API.Ping(ctx); err != nil {
		return errors.New("the database does not answer")
	}
	return nil
}

// Addr is the address the server answers on.
func (s *runningServer) Addr() string { return s.addr }

// Stop ends the server in order; what is not up is left out. When ctx ends first, running calls are cut off and their
// steps go on when a server is up again.
func (s *runningServer) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	var errs []error
	if s.http != nil {
		s.engine.Watch.Close() // streams would last for ever
		drain, cancel := context.WithTimeout(ctx, 2*time.Second)
		if err := s.http.Shutdown(drain); err != nil {
			errs = append(errs, s.http.Close())
		}
		cancel()
	}
	if s.engine != nil {
		errs = append(errs, s.engine.Stop(ctx))
	}
	if s.site != nil {
		errs = append(errs, s.site.Close())
	}
	if s.store != nil {
		s.store.Close()
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Stop(ctx))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// openSite makes the simulated site. It outlives the process: its journal lies beside the database it belongs to.
func openSite(o serveOptions, st *store.Store) (*sim.Site, error) {
	power := hardware.PowerStateOn
	if o.simOff {
		power = hardware.PowerStateOff
	}
	return sim.Open(sim.Config{
		Latency: o.simLatency, Speed: o.simSpeed, InitialPower: power, Logger: o.log,
		Journal: filepath.Join(o.dataDir, "sim.journal"),
		Inventory: func(ctx context.Context, racks []uuid.UUID) ([]hardware.Component, error) {
			rows, err := db.New(st.API).ComponentTargets(ctx, db.ComponentTargetsParams{RackIds: racks, Ids: []uuid.UUID{}})
			if err != nil {
				return nil, err
			}
			list := make([]hardware.Component, len(rows))
			for i, r := range rows {
				list[i] = hardware.Component{ID: r.ID, RackID: *r.RackID, Type: hardware.ComponentType(r.Type), Name: r.Name}
			}
			return list, nil
		},
	})
}

// lockDataDir makes the data directory and holds it for this process alone, until the file is closed.
func lockDataDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "flow.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("data directory %s is in use by another flow", dir)
	}
	return f, nil
}

// nodeID is this installation's id in the database: the same over restarts, so that a new life takes its own work back.
func nodeID(dir string) (uuid.UUID, error) {
	path := filepath.Join(dir, "node-id")
	text, err := os.ReadFile(path)
	if err == nil {
		id, err := uuid.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return uuid.Nil, fmt.Errorf("%s holds no node id: remove it to get a new one", path)
		}
		return id, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return uuid.Nil, fmt.Errorf("node id: %w", err)
	}
	id := uuid.New()
	if err := os.WriteFile(path, []byte(id.String()+"\n"), 0o600); err != nil {
		return uuid.Nil, fmt.Errorf("node id: %w", err)
	}
	return id, nil
}
