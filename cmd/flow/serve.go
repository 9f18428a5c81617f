package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/store"
)

const serveExample = `  # A server with its own PostgreSQL and a simulated site, for this machine only
  flow serve --sim

  # The same, ten times faster, with its data somewhere else
  flow serve --sim --sim-speed 10 --data-dir /tmp/flow --listen 127.0.0.1:50055

  # On a PostgreSQL that exists
  FLOW_DATABASE_URL=postgres://flow@db.example/flow flow serve --sim`

// serveOptions are what the server needs to know, from flags and environment.
type serveOptions struct {
	listen          string // host:port
	insecure        bool   // plain text on an address that others can reach
	dataDir         string
	databaseURL     string // empty: our own PostgreSQL in dataDir
	postgresBin     string // directory of the programs of our own PostgreSQL; empty: bundled or installed
	sim             bool
	simSpeed        float64
	simLatency      time.Duration
	simOff          bool // the simulated site is found powered off
	noWorkers       bool
	workers         int
	tasks           task.Settings
	pools           store.Config // sizes only
	shutdownTimeout time.Duration
	log             *slog.Logger
}

func (c *cli) serveCommand() *cobra.Command {
	o := serveOptions{}
	var port int
	var devMode bool
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the server",
		Long:    "Run the server until it is interrupted. Without a database URL it runs its own PostgreSQL in the data directory.",
		Example: serveExample,
		Args:    arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("listen-port") {
				if cmd.Flags().Changed("listen") {
					return &usageError{cmd: cmd, err: errors.New("--listen and --listen-port exclude each other")}
				}
				o.listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			}
			o.insecure = o.insecure || c.getenv("ALLOW_INSECURE_GRPC") == "true"
			if err := errors.Join(o.complete(c.getenv), o.completeTasks()); err != nil {
				return err
			}
			level := slog.LevelInfo
			if devMode {
				level = slog.LevelDebug
			}
			o.log = slog.New(slog.NewJSONHandler(c.err, &slog.HandlerOptions{Level: level}))
			return serveUntilDone(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:50051", "address to serve on")
	f.IntVarP(&port, "listen-port", "p", 50051, "port to serve on, on the loopback address")
	f.BoolVar(&o.insecure, "insecure", false, "serve plain text also on an address that others can reach (ALLOW_INSECURE_GRPC=true)")
	f.StringVar(&o.dataDir, "data-dir", "", "directory of this server's own files (default "+defaultDataDir(c.getenv)+")")
	f.StringVar(&o.databaseURL, "database-url", "",
		"PostgreSQL to use instead of our own (FLOW_DATABASE_URL; or DB_HOST, DB_PORT, DB_NAME, DB_USER, DB_PASSWORD)")
	f.StringVar(&o.postgresBin, "postgres-bin", "", "directory with PostgreSQL's programs, for our own PostgreSQL (FLOW_POSTGRES_BIN)")
	f.BoolVar(&o.sim, "sim", false, "run on a simulated site instead of hardware")
	f.Float64Var(&o.simSpeed, "sim-speed", 1, "let the waits of rules and the simulated site pass this many times faster")
	f.DurationVar(&o.simLatency, "sim-latency", 3*time.Second, "how long a simulated act takes")
	f.BoolVar(&o.simOff, "sim-off", false, "find the simulated site powered off instead of on")
	f.BoolVar(&o.noWorkers, "no-workers", false, "serve requests and leave the work to other servers on the database")
	f.IntVar(&o.workers, "workers", 2000, "steps worked on at a time")
	o.registerTasks(f)
	f.Int32Var(&o.pools.RiverConns, "river-conns", 6, "database connections for the job queue")
	f.Int32Var(&o.pools.EngineConns, "engine-conns", 10, "database connections for the transitions of tasks")
	f.Int32Var(&o.pools.APIConns, "api-conns", 8, "database connections for requests")
	f.DurationVar(&o.shutdownTimeout, "shutdown-timeout", 30*time.Second, "how long running calls may take to end when the server stops")
	f.BoolVar(&devMode, "dev-mode", false, "debug log")
	return cmd
}

// registerTasks adds the flags that say how tasks are treated on this site.
func (o *serveOptions) registerTasks(f *pflag.FlagSet) {
	f.IntVar(&o.tasks.QueueLimit, "queue-limit", 5, "tasks that may wait for one rack")
	f.DurationVar(&o.tasks.Retention, "task-retention", 0, "how long tasks are kept after their end, at least 24h; 0 for ever")
	f.BoolVar(&o.tasks.ReportComponents, "report-components", false, "tell in reports what became of each component")
	f.StringVar((*string)(&o.tasks.Readiness.Missing), "readiness-missing", "",
		"what becomes of an action when the status of a component is not known: allow (with a warning), block, ignore "+
			"(default allow, and ignore with --sim)")
	f.DurationVar(&o.tasks.Readiness.MaxAge, "readiness-max-age", 5*time.Minute, "how old the status of a component may be")
	f.BoolVar(&o.tasks.ReferenceConflicts, "reference-conflicts", false,
		"let power tasks on the same component run side by side unless it is a compute tray, an NVSwitch or a power shelf")
	f.BoolVar(&o.tasks.AllowOvertaking, "allow-overtaking", false, "let a new task pass waiting ones that it conflicts with")
	f.BoolVar(&o.tasks.AllowOverlap, "allow-overlap", false, "start the next task while a call of a cancelled one still runs")
}

// completeTasks checks what registerTasks has taken in.
func (o *serveOptions) completeTasks() error {
	if o.tasks.Readiness.Missing == "" && o.sim {
		o.tasks.Readiness.Missing = task.MissingIgnore // nobody reports a status
	}
	policies := []task.Missing{"", task.MissingAllow, task.MissingBlock, task.MissingIgnore}
	switch {
	case o.tasks.QueueLimit < 1:
		return fmt.Errorf("--queue-limit must be at least 1, got %d", o.tasks.QueueLimit)
	case o.tasks.Retention != 0 && o.tasks.Retention < task.MinRetention:
		return fmt.Errorf("--task-retention must be 0 or at least %s, got %s", task.MinRetention, o.tasks.Retention)
	case o.tasks.Readiness.MaxAge <= 0:
		return fmt.Errorf("--readiness-max-age must be positive, got %s", o.tasks.Readiness.MaxAge)
	case !slices.Contains(policies, o.tasks.Readiness.Missing):
		return fmt.Errorf("--readiness-missing %q is none of allow, block, ignore", o.tasks.Readiness.Missing)
	}
	return nil
}

// complete fills in what flags left open and refuses what can't be.
func (o *serveOptions) complete(getenv getenvFunc) error {
	if o.databaseURL == "" {
		o.databaseURL = getenv("FLOW_DATABASE_URL")
	}
	if o.databaseURL == "" && getenv("DB_HOST") != "" {
		url, err := databaseURLOf(getenv)
		if err != nil {
			return err
		}
		o.databaseURL = url
	}
	if o.postgresBin == "" {
		o.postgresBin = getenv("FLOW_POSTGRES_BIN")
	}
	if o.dataDir == "" {
		o.dataDir = defaultDataDir(getenv)
	}
	if o.shutdownTimeout == 0 {
		o.shutdownTimeout = 30 * time.Second
	}
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen %q: %w", o.listen, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("--listen %q: port %q is not a number from 0 to 65535", o.listen, port)
	}
	if !isLoopback(host) && !o.insecure {
		return fmt.Errorf("--listen %s would serve plain text to others: use a loopback address, or --insecure", o.listen)
	}
	switch {
	case !(o.simSpeed > 0):
		return fmt.Errorf("--sim-speed must be positive, got %v", o.simSpeed)
	case o.simLatency < 0:
		return fmt.Errorf("--sim-latency must not be negative, got %s", o.simLatency)
	case !o.sim && o.simSpeed != 1:
		return errors.New("--sim-speed only goes with --sim: real hardware has its own pace")
	case o.pools.RiverConns < 0 || o.pools.EngineConns < 0 || o.pools.APIConns < 0:
		return errors.New("--river-conns, --engine-conns and --api-conns must not be negative")
	case o.workers < 1 || o.workers > 10_000:
		return fmt.Errorf("--workers must be from 1 to 10000, got %d", o.workers)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// defaultDataDir is the system's place for root and the user's state directory for everybody else.
func defaultDataDir(getenv getenvFunc) string {
	if os.Geteuid() == 0 {
		return "/var/lib/flow"
	}
	if dir := getenv("XDG_STATE_HOME"); dir != "" {
		return dir + "/flow"
	}
	return getenv("HOME") + "/.local/state/flow"
}

// serveUntilDone runs a server until ctx ends, then stops it in order.
func serveUntilDone(ctx context.Context, o serveOptions) error {
	s, err := startServer(ctx, o)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-s.failed:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.shutdownTimeout)
	defer cancel()
	if err := errors.Join(failed, s.Stop(stop)); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
