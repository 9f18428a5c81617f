// Command bench measures a running Flow over its API, the way a client sees it, and the server's processes from
// outside: how many tasks a second, what one costs, how long a single one takes, how soon a stage follows the one
// before, memory, how fast the server starts, and how long calls take on a full inventory. It prints what it found
// beside what was promised; it judges nothing by its exit status, since numbers of a busy machine prove nothing.
//
// It starts a server of its own with its own PostgreSQL and a simulated site without latency, so that what is measured
// is Flow and the disk. Hardware is not part of any number. Linux only: processes are read from /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// options are the flags.
type options struct {
	flow      string
	addr      string
	dataDir   string
	pid       int
	runs      int
	large     bool
	inventory bool
	format    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		stop()
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(progress)
	f.StringVar(&o.flow, "flow", "bin/flow", "binary to start and measure")
	f.StringVar(&o.addr, "addr", "", "measure the server on this host:port instead of starting one; it must have been started with --sim --sim-latency 0")
	f.StringVar(&o.dataDir, "data-dir", "", "with --addr: data directory of that server; without it neither PostgreSQL nor stage gaps are measured")
	f.IntVar(&o.pid, "pid", 0, "with --addr: process of that server; without it neither CPU nor memory is measured")
	f.IntVar(&o.runs, "runs", 3, "how often everything is repeated")
	f.BoolVar(&o.large, "large", false, "also measure memory with 5,000 racks and 1,000 running tasks; takes minutes")
	f.BoolVar(&o.inventory, "inventory", false, "measure calls on an inventory of 10,000 racks instead of tasks; the database is filled directly")
	f.StringVar(&o.format, "o", "table", "output format: table or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.runs < 1:
		return fmt.Errorf("-runs must be at least 1, got %d", o.runs)
	case o.large && o.inventory:
		return errors.New("-large and -inventory are two executions")
	case o.format != "table" && o.format != "json":
		return fmt.Errorf("-o must be table or json, got %q", o.format)
	case o.inventory && o.addr != "" && o.dataDir == "":
		return errors.New("-inventory with -addr needs -data-dir, to fill the database there")
	case o.addr == "" && (o.dataDir != "" || o.pid != 0):
		return errors.New("-data-dir and -pid only go with -addr")
	}
	b := &bench{options: o, progress: progress, report: &report{Runs: o.runs}}
	if err := b.measure(ctx); err != nil {
		return err
	}
	if o.format == "json" {
		return b.report.json(out)
	}
	return b.report.table(out)
}
