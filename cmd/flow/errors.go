package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

// usageError is a command line that can't be understood; the usage of the command is printed after it.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// text is the short usage: the command's own flags, and where the rest is explained.
func (e *usageError) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", e.cmd.UseLine())
	if e.cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", e.cmd.LocalFlags().FlagUsages())
	}
	fmt.Fprintf(&b, "\nSee %s --help for examples and all flags.\n", e.cmd.CommandPath())
	return b.String()
}

// outcomeError ends a command that did what it was asked to, but whose result is not a success. It is printed as it is.
type outcomeError struct {
	code int
	text string
}

func (e *outcomeError) Error() string { return e.text }

// interrupted is what a command that was interrupted while it waited ends with.
func interrupted(text string) error { return &outcomeError{code: exitInterrupted, text: text} }

// callError says what a call failed with. Doing is the command or what it was about to do.
func (c *cli) callError(ctx context.Context, doing string, err error) error {
	if ctx.Err() == context.Canceled {
		return interrupted("Interrupted: " + doing)
	}
	return fmt.Errorf("%s: %w", doing, c.cause(err))
}

// cause puts the error of a call into the operator's words: what to do about it where we know.
func (c *cli) cause(err error) error {
	var call *connect.Error
	if !errors.As(err, &call) {
		return err
	}
	var dial *net.OpError
	var system *os.SyscallError
	var unknownHost *net.DNSError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	switch {
	case errors.As(err, &unknownHost):
		return fmt.Errorf("host %s is not known: see --host", c.host)
	case errors.As(err, &authority), errors.As(err, &hostname):
		return fmt.Errorf("server at %s is not trusted: %s", c.address(), call.Message())
	case errors.As(err, &dial) && dial.Op == "dial" && errors.As(err, &system):
		return fmt.Errorf("no server at %s: %w", c.address(), system.Err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("server at %s does not speak TLS", c.address())
	case call.Code() == connect.CodeDeadlineExceeded:
		return fmt.Errorf("no answer from %s in time: see --timeout", c.address())
	case !connect.IsWireError(err) && (c.certificates == certificates{}):
		// It was reached and answered nothing: in which of many ways that shows is chance.
		return fmt.Errorf("server at %s hung up: it may want certificates, or have stopped", c.address())
	case len(violations(call)) > 1:
		return fmt.Errorf("the request has several faults (%s)\n  %s", call.Code(), strings.Join(violations(call), "\n  "))
	case connect.IsWireError(err):
		return fmt.Errorf("%s (%s)", cmp.Or(call.Message(), "the server gave no reason"), call.Code())
	}
	return fmt.Errorf("%s: %s", c.address(), cmp.Or(call.Message(), call.Code().String()))
}

// violations are the faults of a request that its answer names, as "field: reason". A single one is all that the message
// says, too.
func violations(call *connect.Error) []string {
	var list []string
	for _, d := range call.Details() {
		m, err := d.Value()
		bad, ok := m.(*errdetails.BadRequest)
		if err != nil || !ok {
			continue
		}
		for _, v := range bad.GetFieldViolations() {
			text := v.GetDescription()
			if v.GetField() != "" {
				text = v.GetField() + ": " + text
			}
			list = append(list, line(text))
		}
	}
	return list
}
