package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultHost    = "localhost"
	defaultPort    = 50051
	defaultTimeout = 30 * time.Second
	certDirectory  = "/var/run/secrets/spiffe.io" // where the server looks last, too
)

// settings are the global flags: where the server is, how to talk to it, and how to print what it says.
type settings struct {
	host       string
	port       int
	serverName string
	insecure   bool
	certificates
	timeout time.Duration // of the calls of one command, not of waiting for tasks; 0: none
	output  format
}

// certificates are the paths of the three PEM files of mutual TLS: all set or none.
type certificates struct {
	ca, cert, key string
}

// clientFlags are the global flags, by name.
var clientFlags = []string{"host", "port", "ca-cert", "tls-cert", "tls-key", "server-name", "insecure", "timeout", "output"}

// environment has the variable of each flag that has one; the flag wins.
var environment = []struct{ variable, flag string }{
	{"FLOW_HOST", "host"},
	{"FLOW_PORT", "port"},
	{"FLOW_CA_CERT", "ca-cert"},
	{"FLOW_TLS_CERT", "tls-cert"},
	{"FLOW_TLS_KEY", "tls-key"},
	{"FLOW_SERVER_NAME", "server-name"},
}

func (s *settings) register(root *cobra.Command) {
	f := root.PersistentFlags()
	s.output = formatTable
	f.StringVarP(&s.host, "host", "H", defaultHost, "server host (FLOW_HOST)")
	f.IntVarP(&s.port, "port", "P", defaultPort, "server port (FLOW_PORT)")
	f.StringVar(&s.ca, "ca-cert", "", "PEM file with the authorities to trust (FLOW_CA_CERT)")
	f.StringVar(&s.cert, "tls-cert", "", "PEM file with the own certificate (FLOW_TLS_CERT)")
	f.StringVar(&s.key, "tls-key", "", "PEM file with the own private key (FLOW_TLS_KEY)")
	f.StringVar(&s.serverName, "server-name", "", "name to check in the server's certificate (FLOW_SERVER_NAME; default the host)")
	f.BoolVar(&s.insecure, "insecure", false, "talk plain text to a server on another machine")
	f.DurationVar(&s.timeout, "timeout", defaultTimeout, "longest time for the calls of a command, waiting for tasks not counted; 0 for none")
	f.VarP(&s.output, "output", "o", "how to print results: "+accepted(formatWords))
	must(root.RegisterFlagCompletionFunc("output", completeWords(formatWords)))
	must(root.MarkPersistentFlagFilename("ca-cert"))
	must(root.MarkPersistentFlagFilename("tls-cert"))
	must(root.MarkPersistentFlagFilename("tls-key"))
}

// resolve fills in the environment and checks the result. No call is made before.
func (s *settings) resolve(cmd *cobra.Command, getenv getenvFunc) error {
	for _, e := range environment {
		v := getenv(e.variable)
		if f := cmd.Flags().Lookup(e.flag); v != "" && !f.Changed {
			if err := f.Value.Set(v); err != nil {
				return fmt.Errorf("%s: %q is not a valid --%s: %w", e.variable, v, e.flag, err)
			}
		}
	}
	switch {
	case s.host == "":
		return &usageError{cmd: cmd, err: fmt.Errorf("--host must not be empty")}
	case s.port < 1 || s.port > 65535:
		return &usageError{cmd: cmd, err: fmt.Errorf("--port must be from 1 to 65535, got %d", s.port)}
	case s.timeout < 0:
		return &usageError{cmd: cmd, err: fmt.Errorf("--timeout must not be negative, got %s", s.timeout)}
	}
	if err := s.certificates.complete(); err != nil {
		return &usageError{cmd: cmd, err: err}
	}
	switch {
	case s.insecure && s.certificates != certificates{}:
		return &usageError{cmd: cmd, err: fmt.Errorf("--insecure and certificates can't be used together")}
	case s.insecure:
		return nil
	}
	if (s.certificates == certificates{}) {
		s.certificates = find(getenv)
	}
	if (s.certificates == certificates{}) && !isLoopback(strings.Trim(strings.ToLower(s.host), "[]")) {
		return fmt.Errorf("%s is not this machine: give --ca-cert, --tls-cert and --tls-key, or --insecure to talk plain text", s.host)
	}
	return nil
}

// complete refuses some of the three files without the others.
func (c certificates) complete() error {
	var given, missing []string
	for _, f := range []struct{ flag, path string }{{"--ca-cert", c.ca}, {"--tls-cert", c.cert}, {"--tls-key", c.key}} {
		if f.path == "" {
			missing = append(missing, f.flag)
		} else {
			given = append(given, f.flag)
		}
	}
	if len(given) > 0 && len(missing) > 0 {
		return fmt.Errorf("%s needs %s as well", strings.Join(given, " and "), strings.Join(missing, " and "))
	}
	return nil
}

// find looks for certificates where the server does; none when there is no such directory. One that was named must be
// complete, which shows when its files are read.
func find(getenv getenvFunc) certificates {
	dir := getenv("CERTDIR")
	if dir == "" {
		if _, err := os.Stat(filepath.Join(certDirectory, "tls.crt")); err != nil {
			return certificates{}
		}
		dir = certDirectory
	}
	return certificates{
		ca:   filepath.Join(dir, "ca.crt"),
		cert: filepath.Join(dir, "tls.crt"),
		key:  filepath.Join(dir, "tls.key"),
	}
}

// address is host and port, as dialled and as shown.
func (s *settings) address() string {
	return net.JoinHostPort(strings.Trim(s.host, "[]"), strconv.Itoa(s.port))
}

// deadline bounds the calls of a command.
func (s *settings) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.timeout)
}

// must panics on an error that only a mistake in the command tree can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
