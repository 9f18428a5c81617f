package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/go-chi/chi/v5"
	"google.golang.org/protobuf/reflect/protoreflect"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/store"
)

// Config is what the API needs. Store and Logger are required.
type Config struct {
	Store  *store.Store
	Tasks  *task.Service
	Watch  *task.Hub
	Build  Build
	Logger *slog.Logger

	// Ready says why the server cannot do its work, in a line fit for an operator; nil when it can. Without it the
	// server is always ready.
	Ready func(context.Context) error

	// ReadMaxBytes limits a request message, compressed and not. Default 4 MiB, gRPC's own limit.
	ReadMaxBytes int
}

// Build tells binaries apart.
type Build struct {
	Version   string
	BuildTime string // RFC 3339, UTC
	GitCommit string
}

// Handler serves the whole API.
func Handler(cfg Config) http.Handler {
	if cfg.ReadMaxBytes <= 0 {
		cfg.ReadMaxBytes = 4 << 20
	}
	opts := []connect.HandlerOption{
		strictCodecs(),
		compression(),
		connect.WithReadMaxBytes(cfg.ReadMaxBytes),
		connect.WithInterceptors(interceptor{}),
	}
	services := []string{
		flowv1connect.FlowName, flowopsv1connect.FlowOpsName, grpchealth.HealthV1ServiceName,
		grpcreflect.ReflectV1ServiceName, grpcreflect.ReflectV1AlphaServiceName,
	}
	health := probes{ready: cfg.Ready, services: services}

	r := chi.NewRouter()
	r.Use(observe(cfg.Logger), plainLoopback)
	r.HandleFunc("/healthz", health.live)
	r.HandleFunc("/livez", health.live)
	r.HandleFunc("/readyz", health.readyz)

	_, flow := flowv1connect.NewFlowHandler(&service{store: cfg.Store, build: cfg.Build, tasks: cfg.Tasks}, opts...)
	route(r, flowv1.File_flow_proto.Services().ByName("Flow"), flow)
	_, ops := flowopsv1connect.NewFlowOpsHandler(&opsService{store: cfg.Store, tasks: cfg.Tasks, watch: cfg.Watch}, opts...)
	route(r, flowopsv1.File_ops_proto.Services().ByName("FlowOps"), ops)

	path, checker := grpchealth.NewHandler(health, opts...)
	r.Handle(path+"*", checker)
	reflector := grpcreflect.NewStaticReflector(services...)
	for _, reflection := range []func(*grpcreflect.Reflector, ...connect.HandlerOption) (string, http.Handler){
		grpcreflect.NewHandlerV1, grpcreflect.NewHandlerV1Alpha,
	} {
		path, h := reflection(reflector, opts...)
		r.Handle(path+"*", h)
	}

	r.NotFound(notFound(connect.NewErrorWriter(opts...)))
	return r
}

// route mounts the methods a service has and nothing else under its name.
func route(r chi.Router, service protoreflect.ServiceDescriptor, h http.Handler) {
	for i := range service.Methods().Len() {
		r.Handle(fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(i).Name()), h)
	}
}

// notFound tells clients of an RPC protocol in their own way that there is no such method.
func notFound(errs *connect.ErrorWriter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !errs.IsSupported(r) {
			http.NotFound(w, r)
			return
		}
		err := connect.NewError(connect.CodeUnimplemented, fmt.Errorf("there is no method %s", r.URL.Path))
		_ = errs.Write(w, r, err) // to a client that may have gone
	}
}
