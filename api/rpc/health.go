package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
)

// readyTimeout bounds a readiness check: probes commonly give up after a second or a few.
const readyTimeout = 2 * time.Second

// probes answers whether the process lives and whether it can do its work.
type probes struct {
	ready    func(context.Context) error // nil: always
	services []string
}

// check returns why the server is not ready, in one line, or nil.
func (p probes) check(ctx context.Context) error {
	if p.ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.ready(ctx); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return errors.New(line)
	}
	return nil
}

// live serves /healthz and /livez.
func (p probes) live(w http.ResponseWriter, r *http.Request) { answerProbe(w, r, "ok", nil) }

// readyz serves /readyz.
func (p probes) readyz(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, r, "ready", p.check(r.Context()))
}

// answerProbe answers 200, or 503 with the reason, as JSON to those who ask for it.
func answerProbe(w http.ResponseWriter, r *http.Request, fine string, err error) {
	code, body := http.StatusOK, map[string]string{"status": fine}
	text := fine
	if err != nil {
		code, body = http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": err.Error()}
		text = "not ready: " + err.Error()
	}
	w.Header().Set("Cache-Control", "no-store")
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body) // to a probe that may have gone
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text)
}

// Check implements grpchealth.Checker.
func (p probes) Check(ctx context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if req.Service != "" && !slices.Contains(p.services, req.Service) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("service %q is unknown", req.Service))
	}
	if p.check(ctx) != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
