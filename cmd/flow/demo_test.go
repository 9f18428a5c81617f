package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// fakeServer is a localServer that is a fake.
type fakeServer struct {
	addr    string
	stopped bool
}

func (s *fakeServer) Addr() string { return s.addr }

func (s *fakeServer) Stop(context.Context) error {
	s.stopped = true
	return nil
}

// demo runs the demo against a fake that plays a story.
func demo(t *testing.T, ctx context.Context, s *story, out *trigger, args ...string) (result, serveOptions, *fakeServer) {
	t.Helper()
	f := &fake{tasks: []*flowv1.Task{outlined()}}
	f.watch = func(_ int, _ *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error {
		sendAll(s.events, send)
		return nil
	}
	u, err := url.Parse(f.serve(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	local := &fakeServer{addr: u.Host}
	var options serveOptions
	var errs bytes.Buffer
	c := &cli{process: process{
		in: strings.NewReader(""), out: out, err: &errs, now: epoch,
		getenv: func(string) string { return "" },
		size:   func(io.Writer) (int, int, bool) { return 0, 0, false },
	}}
	cmd := c.demoCommand(func(_ context.Context, o serveOptions) (localServer, error) {
		options = o
		if _, err := os.Stat(o.dataDir); err != nil {
			t.Error(err)
		}
		return local, nil
	})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	code := exitOK
	if err := cmd.ExecuteContext(ctx); err != nil {
		code = exitError
		if outcome := (*outcomeError)(nil); errors.As(err, &outcome) {
			code = outcome.code
		}
	}
	return result{code: code, out: out.String(), err: errs.String()}, options, local
}

func TestDemoTellsTheStory(t *testing.T) {
	t.Parallel()
	got, o, s := demo(t, t.Context(), succeeded(), new(trigger))
	if got.code != exitOK || !s.stopped {
		t.Errorf("stopped %t, %+v", s.stopped, got)
	}
	if !o.sim || !o.simOff || o.simSpeed != 5 {
		t.Errorf("started with %+v", o)
	}
	if _, err := os.Stat(o.dataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory %s stays: %v", o.dataDir, err)
	}
	for _, text := range []string{
		"Rack nvl72-01 is in the inventory: 18 compute trays, 9 NVSwitches, 8 power shelves.",
		"completed in",
		"http://" + s.addr + "/v1.Flow/GetListOfRacks",
		"flow demo --keep",
	} {
		if !strings.Contains(got.out, text) {
			t.Errorf("%q is not there:\n%s", text, got.out)
		}
	}
}

func TestDemoKeepsServing(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	dir := t.TempDir()
	got, o, s := demo(t, ctx, succeeded(), &trigger{text: "Serving until interrupted", call: interrupt}, "--keep", "--data-dir", dir)
	if got.code != exitOK || !s.stopped || !strings.HasSuffix(got.out, "Stopping ...\n") {
		t.Errorf("stopped %t, %+v", s.stopped, got)
	}
	if _, err := os.Stat(dir); err != nil || o.dataDir != dir {
		t.Errorf("data directory %s: %v", o.dataDir, err)
	}
}

func TestDemoFailsWithItsTask(t *testing.T) {
	t.Parallel()
	got, _, s := demo(t, t.Context(), untilFailed(), new(trigger))
	if got.code != exitTaskFailed || !s.stopped {
		t.Errorf("stopped %t, %+v", s.stopped, got)
	}
}
