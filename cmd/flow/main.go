// Command flow is Flow: the server, and the tool to talk to one.
//
// The package owns flags, environment, wiring and what a person sees; it decides nothing about racks or tasks. Every
// command lives in the file named after it. Results go to standard output, everything else to standard error. A command
// that fails prints one line and exits with 1; one that waited for tasks exits with 2 when a task did not complete, one
// that was asked whether there are differences with 3 when there are, and one that was interrupted with 130.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// The exit codes.
const (
	exitOK          = 0
	exitError       = 1
	exitTaskFailed  = 2
	exitDiffers     = 3
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
)

// process is what a command gets from the operating system.
type process struct {
	name     string // as it was called, for commands to type; empty: flow
	in       io.Reader
	out, err io.Writer
	getenv   getenvFunc
	now      func() time.Time
	size     sizeFunc
}

// getenvFunc reads one variable of the environment; empty and absent are the same.
type getenvFunc func(name string) string

// sizeFunc gives the width and height of the terminal behind a stream; not ok when it is none.
type sizeFunc func(w io.Writer) (width, height int, ok bool)

func main() {
	os.Exit(runProcess())
}

// runProcess runs the command of this process. The first interrupt ends the context, the second one the process.
func runProcess() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	p := process{name: os.Args[0], in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now, size: terminalSize}
	return run(ctx, p, os.Args[1:])
}

// run runs one command line and gives the exit code.
func run(ctx context.Context, p process, args []string) int {
	root := newRootCommand(p)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var outcome *outcomeError
	if errors.As(err, &outcome) {
		fmt.Fprintln(p.err, outcome.Error())
		return outcome.code
	}
	fmt.Fprintf(p.err, "Error: %s\n", clean(err.Error()))
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(p.err, "\n%s", usage.text())
	}
	return exitError
}

// terminalSize is the sizeFunc of real streams.
func terminalSize(w io.Writer) (width, height int, ok bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return width, height, err == nil && width > 0 && height > 0
}
