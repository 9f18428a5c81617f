package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

// localServer is a server in this process.
type localServer interface {
	Addr() string
	Stop(context.Context) error
}

// startFunc starts a server and returns when it answers.
type startFunc func(ctx context.Context, o serveOptions) (localServer, error)

// startDemo is the startFunc of the binary.
func startDemo(ctx context.Context, o serveOptions) (localServer, error) {
	s, err := startServer(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// demoOptions are the flags of the demo.
type demoOptions struct {
	dataDir string
	listen  string
	keep    bool
	verbose bool
	speed   float64
	latency time.Duration
}

func (c *cli) demoCommand(start startFunc) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Power a simulated rack on, in this process, and show it",
		Long: `Start a server with its own PostgreSQL and simulated hardware in this process, take a GB200 NVL72 rack of 18 compute
trays, 9 NVSwitches and 8 power shelves into inventory, and power it on while showing what happens. Nothing outside of
a temporary directory is touched, and that is removed at the end.

With --keep the server goes on until it is interrupted, to be tried with the other commands. With --data-dir its data
stays, and the next demo goes on with the racks that are there.`,
		Example: `  flow demo
  flow demo --keep
  flow demo --sim-speed 1 --keep --data-dir ./demo`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.demo(cmd, o, start); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dataDir, "data-dir", "", "directory for the server's data (default a temporary one)")
	f.StringVar(&o.listen, "listen", "", "address to serve on (default 127.0.0.1:50051, or a free port when that is taken)")
	f.BoolVar(&o.keep, "keep", false, "go on serving after the rack is on")
	f.BoolVar(&o.verbose, "verbose", false, "show the server's log")
	f.Float64Var(&o.speed, "sim-speed", 5, "how many times faster than in life the rack is")
	f.DurationVar(&o.latency, "sim-latency", 3*time.Second, "how long a simulated act takes, in life")
	must(cmd.MarkFlagDirname("data-dir"))
	return cmd
}

// demo tells the whole story. The server is stopped and temporary data removed however it ends.
func (c *cli) demo(cmd *cobra.Command, o demoOptions, start startFunc) (err error) {
	ctx := cmd.Context()
	if o.dataDir == "" {
		dir, err := os.MkdirTemp("", "flow-demo-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.dataDir = dir
	}
	if o.listen == "" {
		if o.listen, err = freeAddress(); err != nil {
			return err
		}
	}
	c.say("Starting Flow with its own PostgreSQL and simulated hardware ...")
	began := c.now()
	s, err := c.demoServer(ctx, o, start)
	if err != nil {
		return err
	}
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		return s.Stop(ctx)
	}
	defer func() { err = errors.Join(err, stop()) }()
	c.say("Flow answers on %s after %s.\n", s.Addr(), clock(c.now().Sub(began)))
	if err := c.pointTo(s.Addr()); err != nil {
		return err
	}
	if err := c.demoRack(cmd); err != nil {
		return err
	}
	c.say("%s", c.whereNext(s.Addr(), o.keep))
	if o.keep {
		<-ctx.Done()
		c.say("\nStopping ...")
	}
	return nil
}

// demoServer starts the server with its log where it does not disturb the picture.
func (c *cli) demoServer(ctx context.Context, o demoOptions, start startFunc) (localServer, error) {
	var log io.Writer = io.Discard
	if o.verbose {
		log = c.err
	}
	so := serveOptions{
		listen: o.listen, dataDir: o.dataDir, sim: true, simOff: true, simSpeed: o.speed, simLatency: o.latency, workers: 100,
		tasks: task.Settings{Readiness: task.Readiness{Missing: task.MissingIgnore}}, log: slog.New(slog.NewJSONHandler(log, nil)),
	}
	if err := so.complete(c.getenv); err != nil {
		return nil, err
	}
	return start(ctx, so)
}

// demoRack takes the rack into inventory, unless an earlier demo has, and powers it on.
func (c *cli) demoRack(cmd *cobra.Command) error {
	ctx, cancel := c.deadline(cmd.Context())
	defer cancel()
	s, err := c.connect()
	if err != nil {
		return err
	}
	defer s.close()
	rack, problems := stampRack(0).message(asNew)
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	name, id := rack.GetInfo().GetName(), rack.GetInfo().GetId()
	if _, err := s.findRack(ctx, id.GetId(), false); err == nil {
		c.say("Rack %s is in the inventory already.", name)
	} else {
		if _, err := s.flow.CreateExpectedRack(ctx, &flowv1.CreateExpectedRackRequest{Rack: rack}); err != nil {
			return c.callError(ctx, "create rack", err)
		}
		c.say("Rack %s is in the inventory: %d compute trays, %d NVSwitches, %d power shelves.", name, rackTrays, rackSwitches, rackShelves)
	}
	c.say("Powering it on: power shelves, then NVSwitches, then compute trays.\n")
	resp, err := s.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{
		TargetSpec: &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: &flowv1.RackTargets{
			Targets: []*flowv1.RackTarget{{Identifier: &flowv1.RackTarget_Id{Id: id}}},
		}}},
		Description: "flow demo",
	})
	if err != nil {
		return c.callError(ctx, "power on", err)
	}
	p := newProgress()
	w := &watch{s: s, progress: p, ids: idTexts(resp.GetTaskIds()), renderer: c.renderer(c.out, p, false)}
	return c.outcome(cmd, p, w.ids, w.run(cmd.Context()))
}

// whereNext says what to try now.
func (c *cli) whereNext(addr string, serving bool) string {
	_, port, _ := net.SplitHostPort(addr)
	flag := ""
	if port != strconv.Itoa(defaultPort) {
		flag = " -P " + port
	}
	rack := stampRack(0).Info.Name
	text := fmt.Sprintf(`
The rack is on. Try, from another terminal:

  %[4]s%[1]s rack get %[2]s
  %[4]s%[1]s task list
  %[4]s%[1]s power off %[2]s --wait
  curl -H 'Content-Type: application/json' -d '{}' http://%[3]s/v1.Flow/GetListOfRacks
`, flag, rack, addr, cmp.Or(c.name, "flow"))
	if serving {
		return text + "\nServing until interrupted (Ctrl-C)."
	}
	return text + fmt.Sprintf("\nThe server of this demo stops now; \"%s demo --keep\" keeps it running.", cmp.Or(c.name, "flow"))
}

// pointTo makes this process's own client talk to an address of this machine.
func (c *cli) pointTo(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	c.settings = settings{host: host, timeout: defaultTimeout, output: formatTable}
	c.port, err = strconv.Atoi(port)
	return err
}

// freeAddress is the usual address, or one with a free port when that is taken.
func freeAddress() (string, error) {
	usual := net.JoinHostPort("127.0.0.1", strconv.Itoa(defaultPort))
	l, err := net.Listen("tcp", usual)
	if err != nil {
		return "127.0.0.1:0", nil
	}
	return usual, l.Close()
}

func (c *cli) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }
