package rpc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestAnswersAreCompressedWhereItPays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer, accept string
		size         int
		want         string
	}{
		"a long one over the wire":          {"192.0.2.1:1", "gzip", 5000, "gzip"},
		"a long one over IPv6":              {"[2001:db8::1]:1", "br, gzip", 5000, "gzip"},
		"a short one is not":                {"192.0.2.1:1", "gzip", 500, ""},
		"none the client cannot read":       {"192.0.2.1:1", "", 5000, ""},
		"none on the same machine":          {"127.0.0.1:1", "gzip", 5000, ""},
		"none on the same machine, by IPv6": {"[::1]:1", "gzip", 5000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := connect.NewUnaryHandlerSimple("/a", func(context.Context, *emptypb.Empty) (*wrapperspb.StringValue, error) {
				return wrapperspb.String(strings.Repeat("x", c.size)), nil
			}, compression())
			req := httptest.NewRequest(http.MethodPost, "/a", strings.NewReader("{}"))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept-Encoding", c.accept)
			req.RemoteAddr = c.peer
			res := httptest.NewRecorder()
			plainLoopback(h).ServeHTTP(res, req)
			if got := res.Header().Get("Content-Encoding"); res.Code != http.StatusOK || got != c.want {
				t.Errorf("%d, encoding %q, want %q", res.Code, got, c.want)
			}
		})
	}
}
