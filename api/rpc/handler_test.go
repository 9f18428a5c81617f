package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

func TestEveryProtocolIsServed(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, nil)
	for name, opts := range map[string][]connect.ClientOption{
		"gRPC":                     {connect.WithGRPC()},
		"gRPC with JSON":           {connect.WithGRPC(), connect.WithProtoJSON()},
		"gRPC with compression":    {connect.WithGRPC(), connect.WithSendGzip()},
		"gRPC-Web":                 {connect.WithGRPCWeb()},
		"Connect":                  {},
		"Connect with JSON":        {connect.WithProtoJSON()},
		"Connect with compression": {connect.WithSendGzip()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := flowv1connect.NewFlowClient(s.http, s.url, opts...)
			got, err := client.Version(t.Context(), &flowv1.VersionRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if got.GetVersion() != "1.2.3" || got.GetBuildTime() != "2026-01-02T03:04:05Z" || got.GetGitCommit() != "abc" {
				t.Errorf("got %v", got)
			}
			_, err = client.CreateOperationRun(t.Context(), &flowv1.CreateOperationRunRequest{})
			refused(t, err, connect.CodeUnimplemented)
		})
	}
}

func TestPlainJSON(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, func(c *Config) { c.ReadMaxBytes = 1000 })
	for name, c := range map[string]struct {
		path, contentType, body string
		status                  int
		want                    []string // in the answer
	}{
		"an empty object asks for nothing special": {
			"/v1.Flow/Version", "application/json", "{}", 200, []string{`"version":"1.2.3"`, `"gitCommit":"abc"`},
		},
		"the character set may be named": {
			"/v1.Flow/Version", "application/json; charset=utf-8", "{}", 200, []string{`"buildTime"`},
		},
		"the character set may be named in another spelling": {
			"/v1.Flow/Version", "application/json;charset=UTF-8", "{}", 200, []string{`"buildTime"`},
		},
		"an unknown field is named": {
			"/v1.Flow/GetListOfRacks", "application/json", `{"paginaton": {"limit": 5}}`, 400,
			[]string{`"code":"invalid_argument"`, "paginaton", "unknown field"},
		},
		"an unknown field is named with a character set too": {
			"/v1.Flow/GetListOfRacks", "application/json; charset=utf-8", `{"paginaton": {}}`, 400, []string{"paginaton"},
		},
		"an unknown field inside is named": {
			"/v1.Flow/GetListOfRacks", "application/json", `{"pagination": {"limits": 5}}`, 400, []string{"limits"},
		},
		"half an object is refused":                {"/v1.Flow/Version", "application/json", "{", 400, []string{"invalid_argument"}},
		"an empty body is refused":                 {"/v1.Flow/Version", "application/json", "", 400, []string{"invalid_argument", "empty"}},
		"a null among components is refused":       {"/v1.Flow/CreateExpectedRack", "application/json", `{"rack":{"components":[null]}}`, 400, []string{"invalid_argument"}},
		"a word for a number is refused":           {"/v1.Flow/GetListOfRacks", "application/json", `{"pagination":{"limit":"many"}}`, 400, []string{"invalid_argument"}},
		"a wrong enum name is refused":             {"/v1.Flow/GetListOfRacks", "application/json", `{"orderBy":{"rackField":"SIZE"}}`, 400, []string{"invalid_argument", "SIZE"}},
		"a long body is refused":                   {"/v1.Flow/Version", "application/json", `{"a":"` + strings.Repeat("x", 1000) + `"}`, 429, []string{"resource_exhausted"}},
		"an unknown method is not implemented":     {"/v1.Flow/Versions", "application/json", "{}", 501, []string{`"unimplemented"`, "/v1.Flow/Versions"}},
		"an unknown service is not implemented":    {"/v2.Flow/Version", "application/json", "{}", 501, []string{`"unimplemented"`}},
		"a method of a later part says so":         {"/v1.Flow/CreateTaskSchedule", "application/json", "{}", 501, []string{`"unimplemented"`}},
		"another type of content is not supported": {"/v1.Flow/Version", "text/plain", "{}", 415, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, body := s.post(c.path, c.contentType, c.body)
			// Where JSON has spaces is left to chance.
			body = strings.ReplaceAll(body, `": "`, `":"`)
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d: %s", res.StatusCode, c.status, body)
			}
			for _, w := range c.want {
				if !strings.Contains(body, w) {
					t.Errorf("%s does not hold %s", body, w)
				}
			}
		})
	}
}

func TestBrokenMessages(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, func(c *Config) { c.ReadMaxBytes = 1000 })
	frame := func(body string) string {
		head := make([]byte, 5)
		binary.BigEndian.PutUint32(head[1:], uint32(len(body)))
		return string(head) + body
	}
	for name, c := range map[string]struct {
		contentType, body string
		code              connect.Code
	}{
		"gRPC, no protobuf":        {"application/grpc", frame("\xff\xff\xff"), connect.CodeInvalidArgument},
		"gRPC, text that is not":   {"application/grpc", frame("\x0a\x04\x0a\x02\xc3\x28"), connect.CodeInvalidArgument},
		"gRPC, too long":           {"application/grpc", frame(strings.Repeat("x", 2000)), connect.CodeResourceExhausted},
		"gRPC, no JSON":            {"application/grpc+json", frame("{"), connect.CodeInvalidArgument},
		"gRPC, unknown JSON field": {"application/grpc+json", frame(`{"idd":{}}`), connect.CodeInvalidArgument},
		"Connect, no protobuf":     {"application/proto", "\xff\xff\xff", connect.CodeInvalidArgument},
		"Connect, too long":        {"application/proto", strings.Repeat("x", 2000), connect.CodeResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+flowv1connect.FlowGetRackInfoByIDProcedure, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", c.contentType)
			res, body := s.do(s.http, req)
			if got := answeredCode(res, body); got != c.code {
				t.Errorf("status %d, code %v, want %v: %s", res.StatusCode, got, c.code, body)
			}
		})
	}
}

// answeredCode reads the code of an answer that no client has read.
func answeredCode(res *http.Response, body string) connect.Code {
	if status := res.Trailer.Get("Grpc-Status"); status != "" {
		n, _ := strconv.Atoi(status)
		return connect.Code(n)
	}
	var e struct{ Code connect.Code }
	_ = json.Unmarshal([]byte(body), &e)
	return e.Code
}

func TestHealth(t *testing.T) {
	t.Parallel()
	why := make(chan error, 1)
	s := serveAlone(t, func(c *Config) {
		c.Ready = func(context.Context) error {
			err := <-why
			why <- err
			return err
		}
	})
	for name, c := range map[string]struct {
		ready  error
		path   string
		accept string
		status int
		body   string
	}{
		"alive":                      {nil, "/livez", "", 200, "ok\n"},
		"healthy":                    {errors.New("no database"), "/healthz", "", 200, "ok\n"},
		"ready":                      {nil, "/readyz", "", 200, "ready\n"},
		"ready as JSON":              {nil, "/readyz", "application/json", 200, `{"status":"ready"}` + "\n"},
		"not ready says why":         {errors.New("no database\nat all"), "/readyz", "", 503, "not ready: no database\n"},
		"not ready says why in JSON": {errors.New("no database"), "/readyz", "application/json", 503, `{"reason":"no database","status":"not ready"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			why <- c.ready
			defer func() { <-why }()
			res, body := s.get(c.path, "Accept", c.accept)
			if res.StatusCode != c.status || body != c.body {
				t.Errorf("%d %q, want %d %q", res.StatusCode, body, c.status, c.body)
			}
		})
	}
	for service, want := range map[string]string{
		"": "SERVING", "v1.Flow": "SERVING", "flow.ops.v1.FlowOps": "SERVING", "v2.Flow": "not_found",
	} {
		why <- nil
		if _, body := s.post("/grpc.health.v1.Health/Check", "application/json", `{"service":"`+service+`"}`); !strings.Contains(body, want) {
			t.Errorf("health of %q: %s, want %s", service, body, want)
		}
		<-why
		why <- errors.New("no database")
		want = strings.ReplaceAll(want, "SERVING", "NOT_SERVING")
		if _, body := s.post("/grpc.health.v1.Health/Check", "application/json", `{"service":"`+service+`"}`); !strings.Contains(body, want) {
			t.Errorf("health of %q without database: %s, want %s", service, body, want)
		}
		<-why
	}
}

func TestReflection(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, nil)
	stream := grpcreflect.NewClient(s.http, s.url, connect.WithGRPC()).NewStream(t.Context())
	defer func() { _, _ = stream.Close() }()
	names, err := stream.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{flowv1connect.FlowName, flowopsv1connect.FlowOpsName, grpchealth.HealthV1ServiceName} {
		if !slices.Contains(names, protoreflect.FullName(want)) {
			t.Errorf("%v does not hold %s", names, want)
		}
	}
	files, err := stream.FileContainingSymbol("v1.Flow.GetListOfRacks")
	if err != nil || len(files) == 0 {
		t.Errorf("description of a method: %v, %v", files, err)
	}
	// Older tools know v1alpha only.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", bytes.NewReader([]byte{0, 0, 0, 0, 2, 0x3a, 0}))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	res, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || !bytes.Contains(body, []byte("v1.Flow")) || res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("v1alpha: %q %v, status %q", body, err, res.Trailer.Get("Grpc-Status"))
	}
}
