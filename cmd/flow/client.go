package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// maxMessage is the largest answer taken: a page of 1,000 racks with all components is about 14 MB.
const maxMessage = 256 << 20

// A connection over which nothing has come for pingAfter is tried, and given up when nothing comes back: a watch may be
// silent for long while its server is gone.
const (
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second
)

// client is a server to talk to. Connections are made when they are needed.
type client struct {
	flow flowv1connect.FlowClient
	ops  flowopsv1connect.FlowOpsClient

	transport *http.Transport
}

// close ends the connections: a server that stops would wait for them.
func (s *client) close() { s.transport.CloseIdleConnections() }

// dial checks the settings of the command and makes its client.
func (c *cli) dial(cmd *cobra.Command) (*client, error) {
	if err := c.settings.resolve(cmd, c.getenv); err != nil {
		return nil, err
	}
	return c.connect()
}

// connect makes the client of settings that are known to be good.
func (c *cli) connect() (*client, error) {
	transport, err := c.settings.transport()
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if transport.TLSClientConfig != nil {
		scheme = "https://"
	}
	hc := &http.Client{Transport: transport}
	opts := []connect.ClientOption{connect.WithGRPC(), connect.WithReadMaxBytes(maxMessage)}
	return &client{
		flow: flowv1connect.NewFlowClient(hc, scheme+c.address(), opts...),
		ops:  flowopsv1connect.NewFlowOpsClient(hc, scheme+c.address(), opts...),

		transport: transport,
	}, nil
}

// onServer dials and makes the calls of a command, within its deadline. Printing is not part of them.
func (c *cli) onServer(cmd *cobra.Command, fn func(ctx context.Context, s *client) error) error {
	s, err := c.dial(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(cmd.Context())
	defer cancel()
	if err := fn(ctx, s); err != nil {
		return c.callError(ctx, commandName(cmd), err)
	}
	return nil
}

// transport speaks HTTP/2 only: over mutual TLS with certificates, in plain text without.
func (s *settings) transport() (*http.Transport, error) {
	t := &http.Transport{
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if (s.certificates == certificates{}) {
		t.Protocols.SetUnencryptedHTTP2(true)
		return t, nil
	}
	t.Protocols.SetHTTP2(true)
	anchors, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, fmt.Errorf("authorities to trust: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(anchors) {
		return nil, fmt.Errorf("authorities to trust: %s holds no certificate", s.ca)
	}
	own, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("own certificate %s and key %s: %w", s.cert, s.key, err)
	}
	t.TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    pool,
		ServerName: s.serverName,
		// Always the one certificate there is, whatever authorities the server names.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
	}
	return t, nil
}
