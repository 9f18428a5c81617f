package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// The ids the tests use.
const (
	rackOne = "11111111-0000-4000-8000-000000000001"
	rackTwo = "11111111-0000-4000-8000-000000000002"
	taskOne = "22222222-0000-4000-8000-000000000001"
	taskTwo = "22222222-0000-4000-8000-000000000002"
	ruleOne = "33333333-0000-4000-8000-000000000001"

	partOne   = "44444444-0000-4000-8000-000000000001"
	partTwo   = "44444444-0000-4000-8000-000000000002"
	domainOne = "55555555-0000-4000-8000-000000000001"
)

// epoch is when the tests play.
func epoch() time.Time { return time.Date(2026, 3, 4, 9, 15, 0, 0, time.UTC) }

// after is a time of the tests.
func after(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(epoch().Add(d)) }

// fake is a server of both services that knows what a test puts into it and keeps what it was asked.
type fake struct {
	flowv1connect.UnimplementedFlowHandler
	flowopsv1connect.UnimplementedFlowOpsHandler

	mu      sync.Mutex
	racks   []*flowv1.Rack
	tasks   []*flowv1.Task
	got     []proto.Message // the requests that change something, and the watches
	submit  error           // what the power calls answer
	refused []string        // rack error trailers of the power calls
	watch   watchFunc
	onList  func() // called for each list of active tasks

	create     func(*flowv1.Rack) error // what creating a rack answers
	components []*flowv1.Component
	domains    []*flowv1.NVLDomain
	diffs      []*flowv1.ComponentDiff
	checkedAt  string // header of the comparison
	report     string // of a patch

	rules        []*flowv1.OperationRule
	associations []*flowv1.RackRuleAssociation
	replaced     []*flowopsv1.ReplacedRule
	explained    []*flowopsv1.RackExplanation
	keys         []string                                  // idempotency keys of the operations
	links        map[string]*flowopsv1.GetTaskPlanResponse // by task; nil: the server does not tell
	lax          bool                                      // answers like NICo Flow: an unknown rule is an empty one
}

// watchFunc plays one watch; n counts them from 0.
type watchFunc func(n int, req *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error

// serve serves the fake in plain text and gives its URL.
func (f *fake) serve(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(f.handler())
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (f *fake) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(flowv1connect.NewFlowHandler(f))
	mux.Handle(flowopsv1connect.NewFlowOpsHandler(f))
	return mux
}

func (f *fake) note(m proto.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, proto.Clone(m))
}

// known gives the tasks as they are now.
func (f *fake) known() []*flowv1.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*flowv1.Task, len(f.tasks))
	for i, t := range f.tasks {
		list[i] = proto.CloneOf(t)
	}
	return list
}

// asked gives the requests so far.
func (f *fake) asked() []proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func (f *fake) Version(context.Context, *flowv1.VersionRequest) (*flowv1.BuildInfo, error) {
	return &flowv1.BuildInfo{Version: "v9.9.9", BuildTime: "2026-01-02T03:04:05Z", GitCommit: "abc"}, nil
}

func (f *fake) CreateExpectedRack(_ context.Context, r *flowv1.CreateExpectedRackRequest) (*flowv1.CreateExpectedRackResponse, error) {
	f.note(r)
	if f.create != nil {
		if err := f.create(r.GetRack()); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.racks = append(f.racks, r.GetRack())
	return &flowv1.CreateExpectedRackResponse{Id: r.GetRack().GetInfo().GetId()}, nil
}

func (f *fake) GetRackInfoByID(_ context.Context, r *flowv1.GetRackInfoByIDRequest) (*flowv1.GetRackInfoResponse, error) {
	for _, rack := range f.racks {
		if rack.GetInfo().GetId().GetId() == r.GetId().GetId() {
			return &flowv1.GetRackInfoResponse{Rack: rack}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("rack %s not found", r.GetId().GetId()))
}

func (f *fake) GetRackInfoBySerial(_ context.Context, r *flowv1.GetRackInfoBySerialRequest) (*flowv1.GetRackInfoResponse, error) {
	for _, rack := range f.racks {
		if rack.GetInfo().GetSerialNumber() == r.GetSerialInfo().GetSerialNumber() {
			return &flowv1.GetRackInfoResponse{Rack: rack}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no rack has the serial number %s", r.GetSerialInfo().GetSerialNumber()))
}

func (f *fake) GetListOfRacks(_ context.Context, r *flowv1.GetListOfRacksRequest) (*flowv1.GetListOfRacksResponse, error) {
	f.note(r)
	resp := &flowv1.GetListOfRacksResponse{}
	for _, rack := range f.racks {
		q := r.GetFilters()
		if len(q) > 0 && !q[0].GetQueryInfo().GetIsWildcard() && q[0].GetQueryInfo().GetPatterns()[0] != rack.GetInfo().GetName() {
			continue
		}
		resp.Racks = append(resp.Racks, rack)
	}
	resp.Total = int32(len(resp.GetRacks()))
	return resp, nil
}

func (f *fake) submitted(ctx context.Context, m proto.Message) (*flowv1.SubmitTaskResponse, error) {
	f.note(m)
	if f.submit != nil {
		return nil, f.submit
	}
	call, _ := connect.CallInfoForHandlerContext(ctx)
	f.mu.Lock()
	f.keys = append(f.keys, call.RequestHeader().Values("idempotency-key")...)
	f.mu.Unlock()
	for _, text := range f.refused {
		call.ResponseTrailer().Add(rackErrorTrailer, text)
	}
	resp := &flowv1.SubmitTaskResponse{}
	for _, t := range f.known() {
		resp.TaskIds = append(resp.TaskIds, t.GetId())
	}
	return resp, nil
}

func (f *fake) PowerOnRack(ctx context.Context, r *flowv1.PowerOnRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return f.submitted(ctx, r)
}

func (f *fake) PowerOffRack(ctx context.Context, r *flowv1.PowerOffRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return f.submitted(ctx, r)
}

func (f *fake) PowerResetRack(ctx context.Context, r *flowv1.PowerResetRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return f.submitted(ctx, r)
}

func (f *fake) ACPowerCycleRack(ctx context.Context, r *flowv1.ACPowerCycleRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return f.submitted(ctx, r)
}

func (f *fake) ListTasks(_ context.Context, r *flowv1.ListTasksRequest) (*flowv1.ListTasksResponse, error) {
	f.note(r)
	if r.GetActiveOnly() && f.onList != nil {
		f.onList()
	}
	tasks := f.known()
	resp := &flowv1.ListTasksResponse{Total: int32(len(tasks))}
	for _, t := range tasks {
		if r.GetActiveOnly() && final(t.GetStatus()) {
			continue
		}
		resp.Tasks = append(resp.Tasks, t)
	}
	return resp, nil
}

func (f *fake) GetTasksByIDs(_ context.Context, r *flowv1.GetTasksByIDsRequest) (*flowv1.GetTasksByIDsResponse, error) {
	tasks := f.known()
	resp := &flowv1.GetTasksByIDsResponse{}
	for _, id := range r.GetTaskIds() {
		i := slices.IndexFunc(tasks, func(t *flowv1.Task) bool { return t.GetId().GetId() == id.GetId() })
		if i < 0 {
			return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("task %s not found", id.GetId()))
		}
		resp.Tasks = append(resp.Tasks, tasks[i])
	}
	return resp, nil
}

func (f *fake) CancelTask(_ context.Context, r *flowv1.CancelTaskRequest) (*flowv1.CancelTaskResponse, error) {
	f.note(r)
	if r.GetTaskId().GetId() == taskTwo {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("task %s cannot be cancelled: it is COMPLETED", taskTwo))
	}
	return &flowv1.CancelTaskResponse{Task: &flowv1.Task{Id: r.GetTaskId(), Status: flowv1.TaskStatus_TASK_STATUS_TERMINATED}}, nil
}

func (f *fake) WatchTasks(_ context.Context, r *flowopsv1.WatchTasksRequest, s *connect.ServerStream[flowopsv1.TaskEvent]) error {
	f.mu.Lock()
	n := 0
	for _, m := range f.got {
		if _, ok := m.(*flowopsv1.WatchTasksRequest); ok {
			n++
		}
	}
	f.mu.Unlock()
	f.note(r)
	_ = s.Send(nil) // the headers
	return f.watch(n, r, func(ev *flowopsv1.TaskEvent) { _ = s.Send(proto.CloneOf(ev)) })
}

// result is what a command line came to.
type result struct {
	code     int
	out, err string
}

// trigger is a writer that calls a function when it is given some text.
type trigger struct {
	bytes.Buffer
	text string
	call func()
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.text != "" && bytes.Contains(p, []byte(w.text)) {
		w.call()
	}
	return n, err
}

// flow runs a command line with what the test gives it. Times are fixed; there is no terminal.
func flow(ctx context.Context, env map[string]string, stdin string, args ...string) result {
	return flowTo(ctx, new(trigger), env, stdin, args...)
}

// flowTo is flow with a standard output that the test listens to.
func flowTo(ctx context.Context, out *trigger, env map[string]string, stdin string, args ...string) result {
	var errs bytes.Buffer
	p := process{
		in: strings.NewReader(stdin), out: out, err: &errs,
		getenv: func(name string) string { return env[name] },
		now:    func() time.Time { return epoch().Add(time.Minute) },
		size:   func(io.Writer) (int, int, bool) { return 0, 0, false },
	}
	code := run(ctx, p, args)
	return result{code: code, out: out.String(), err: errs.String()}
}

// against runs a command line against a fake.
func against(t *testing.T, f *fake, args ...string) result {
	t.Helper()
	return flow(t.Context(), f.env(t), "", args...)
}

// env serves the fake and says in the environment where it is.
func (f *fake) env(t *testing.T) map[string]string {
	t.Helper()
	u, err := url.Parse(f.serve(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"FLOW_HOST": u.Hostname(), "FLOW_PORT": u.Port()}
}
