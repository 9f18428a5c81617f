// Command shared runs a command, usually go test, with one server for all test
// processes in it, so that not every package starts its own:
//
//	go run ./store/storetest/shared go test -race ./...
//
// A server that FLOW_TEST_DATABASE_URL names already is left as it is. The exit
// code is the command's (go run makes 1 of any failure); 2 when it could not be run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"rackflow.dev/flow/store/storetest"
)

func main() {
	code, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "shared:", err)
		code = 2
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string) (code int, err error) {
	if len(args) == 0 {
		return 0, errors.New("name a command to run")
	}
	// A terminal interrupts the command too, and we go when it has gone; a
	// signal to us alone is passed on.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if os.Getenv(storetest.URLEnv) == "" {
		url, stop, startErr := storetest.Start(ctx)
		if startErr != nil {
			return 0, startErr
		}
		defer func() { err = errors.Join(err, stop(ctx)) }()
		cmd.Env = append(os.Environ(), storetest.URLEnv+"="+url)
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	err = cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // -1: killed by a signal
	}
	return 0, err
}
