package rpc

import (
	"log/slog"
	"net/http"
	"time"
)

// Server is an http.Server for Handler on addr, speaking HTTP/1.1 and HTTP/2, the latter without TLS too.
//
// Bodies and answers have no time limit, because streams last as long as their readers; a peer that is gone is found
// out by pings. The caller closes it with Shutdown.
func Server(addr string, handler http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // noise of port scans and broken peers
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000, // a watcher takes one for as long as it watches
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
		},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}
