package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/go-chi/chi/v5/middleware"
	"google.golang.org/protobuf/proto"
)

// requestIDHeader carries the id by which a caller and our log speak of the same call.
const requestIDHeader = "X-Request-Id"

// maxRequestID is the longest id taken over from a caller, in bytes.
const maxRequestID = 128

// call is what is learned about a call on its way, for its one line in the log.
type call struct {
	code  connect.Code // 0: none; see ended
	ended bool         // the interceptor saw the end, so code says how it ended
	err   error        // with the causes that are kept from the caller
	stack []byte       // of a panic
}

type callKey struct{}

// observe gives every request an id, recovers from panics outside of handlers, and logs each request when it has ended.
func observe(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			id := r.Header.Get(requestIDHeader)
			if !saneRequestID(id) {
				id = rand.Text()
			}
			w.Header().Set(requestIDHeader, id)
			c := &call{}
			ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
			defer func() {
				p := recover()
				if p != nil && p != http.ErrAbortHandler { // compared as net/http does
					c.panicked(p)
					if ww.Status() == 0 {
						http.Error(ww, errInternal.Error(), http.StatusInternalServerError)
					}
				}
				c.log(log, ww, r, id, time.Since(start))
				if p == http.ErrAbortHandler {
					panic(p)
				}
			}()
			next.ServeHTTP(ww, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
		})
	}
}

func (c *call) panicked(p any) {
	c.code, c.ended, c.err, c.stack = connect.CodeInternal, true, fmt.Errorf("panic: %v", p), debug.Stack()
}

func (c *call) log(log *slog.Logger, w middleware.WrapResponseWriter, r *http.Request, id string, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case isProbe(r.URL.Path) && c.stack == nil:
		level = slog.LevelDebug // also "not ready": it is asked for every few seconds
	case serverFault(c.code) || w.Status() >= 500:
		level = slog.LevelWarn
	}
	if !log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.URL.Path),
		slog.String("code", c.outcome(w)),
		slog.Duration("took", took),
		slog.String("peer", r.RemoteAddr),
		slog.String("request", id),
	}
	if c.err != nil {
		attrs = append(attrs, slog.String("err", c.err.Error()))
	}
	if c.stack != nil {
		attrs = append(attrs, slog.String("stack", string(c.stack)))
	}
	log.LogAttrs(r.Context(), level, "call", attrs...)
}

// outcome says how the call ended: by code when an RPC got as far as the interceptor, else as far as HTTP tells.
func (c *call) outcome(w middleware.WrapResponseWriter) string {
	switch {
	case c.ended && c.code == 0:
		return "ok"
	case c.ended:
		return c.code.String()
	}
	for _, key := range []string{http.TrailerPrefix + "Grpc-Status", "Grpc-Status"} {
		if n, err := strconv.ParseUint(w.Header().Get(key), 10, 32); err == nil {
			return connect.Code(n).String()
		}
	}
	if code, ok := connectStatus[w.Status()]; ok {
		return code.String()
	}
	return fmt.Sprintf("http %d", max(w.Status(), http.StatusOK))
}

// connectStatus is what connect answers when it could not read a request.
var connectStatus = map[int]connect.Code{
	http.StatusBadRequest:      connect.CodeInvalidArgument,
	http.StatusTooManyRequests: connect.CodeResourceExhausted,
	http.StatusNotImplemented:  connect.CodeUnimplemented,
}

func isProbe(path string) bool {
	return path == "/healthz" || path == "/livez" || path == "/readyz" || strings.HasPrefix(path, "/grpc.health.v1.Health/")
}

// saneRequestID keeps ids that would make a log unreadable out of it.
func saneRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	return !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// interceptor stands around every RPC: it refuses text that cannot be stored, recovers from panics, and gives errors
// their code.
type interceptor struct{}

// WrapUnary implements connect.Interceptor.
func (interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		defer func() { err = end(ctx, recover(), err) }()
		if m, ok := req.Any().(proto.Message); ok {
			if err := checkText(m.ProtoReflect(), ""); err != nil {
				return nil, err
			}
		}
		return next(ctx, req)
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		defer func() { err = end(ctx, recover(), err) }()
		return next(ctx, conn)
	}
}

// WrapStreamingClient implements connect.Interceptor; there are no clients here.
func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// end notes how a call ended and returns the error that leaves.
func end(ctx context.Context, p any, err error) error {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		c = &call{} // a handler without observe around it
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	if p != nil {
		c.panicked(p)
		return connect.NewError(connect.CodeInternal, errInternal)
	}
	c.ended, c.err = true, err
	if err == nil {
		return nil
	}
	leaves := toConnect(ctx, err)
	c.code = leaves.Code()
	if errors.Is(err, leaves) {
		c.err = errors.New(leaves.Message())
	}
	return leaves
}
