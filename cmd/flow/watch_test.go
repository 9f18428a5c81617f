package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// errNoServer is what a server that goes away leaves its watchers with.
var errNoServer = connect.NewError(connect.CodeUnavailable, errors.New("shutting down"))

// oneRack is a fake with one rack and a task on it that has just begun.
func oneRack(w watchFunc) *fake {
	return &fake{
		racks: []*flowv1.Rack{{Info: &flowv1.DeviceInfo{Id: &flowv1.UUID{Id: rackOne}, Name: "rack-1"}}},
		tasks: []*flowv1.Task{outlined()},
		watch: w,
	}
}

func succeeded() *story {
	return untilSecondStage().stepDone(0, 2, "NVSwitch", 9, 0, 9, "").stageDone(2, "").
		end(flowv1.TaskStatus_TASK_STATUS_COMPLETED, "Succeeded")
}

func sendAll(events []*flowopsv1.TaskEvent, send func(*flowopsv1.TaskEvent)) {
	for _, ev := range events {
		send(ev)
	}
}

// watches are the watches that a fake was asked for.
func watches(f *fake) []*flowopsv1.WatchTasksRequest {
	var list []*flowopsv1.WatchTasksRequest
	for _, m := range f.asked() {
		if w, ok := m.(*flowopsv1.WatchTasksRequest); ok {
			list = append(list, w)
		}
	}
	return list
}

func TestWatchResumesAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	all := succeeded().events
	f := oneRack(func(n int, _ *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error {
		switch n {
		case 0:
			sendAll(all[:4], send)
			return errNoServer
		case 1:
			return nil // ended without an error, as a server does that stops in order
		}
		sendAll(all[4:], send)
		return nil
	})
	got := against(t, f, "task", "watch", taskOne)
	if got.code != exitOK || got.err != "" {
		t.Fatalf("%+v", got)
	}
	last := int64(4)
	ids := []*flowv1.UUID{{Id: taskOne}}
	want := []*flowopsv1.WatchTasksRequest{
		{TaskIds: ids, AfterEventId: new(int64)},
		{TaskIds: ids, AfterEventId: &last},
		{TaskIds: ids, AfterEventId: &last},
	}
	if diff := cmp.Diff(want, watches(f), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for text, times := range map[string]int{
		"connection lost, trying again: shutting down": 1,
		"connected again":                      2, // the second stream is accepted before it ends
		"rack-1 22222222 stage 1 of 3 started": 1,
		"completed in":                         1,
	} {
		if n := strings.Count(got.out, text); n != times {
			t.Errorf("%q is there %d times, want %d:\n%s", text, n, times, got.out)
		}
	}
}

func TestWatchOfATaskThatHasEndedNeedsNoEvents(t *testing.T) {
	t.Parallel()
	f := oneRack(nil)
	f.tasks[0].Status, f.tasks[0].FinishedAt = flowv1.TaskStatus_TASK_STATUS_COMPLETED, after(time.Minute)
	got := against(t, f, "task", "watch", taskOne)
	if got.code != exitOK || !strings.Contains(got.out, "PowerOn: completed") || len(watches(f)) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestWatchExitsWith2WhenATaskDidNotComplete(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*story{
		"failed":     untilFailed(),
		"terminated": untilSecondStage().end(flowv1.TaskStatus_TASK_STATUS_TERMINATED, "Cancelled by user"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := against(t, oneRack(func(_ int, _ *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error {
				sendAll(s.events, send)
				return nil
			}), "task", "watch", taskOne)
			want := "Error: task watch: task " + taskOne + " of rack rack-1 is " + name + "\n"
			if got.code != exitTaskFailed || got.err != want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestWatchGivesUpWhereTryingAgainCannotHelp(t *testing.T) {
	t.Parallel()
	f := oneRack(func(int, *flowopsv1.WatchTasksRequest, func(*flowopsv1.TaskEvent)) error {
		return connect.NewError(connect.CodePermissionDenied, errors.New("not yours"))
	})
	got := against(t, f, "task", "watch", taskOne)
	if got.code != exitError || got.err != "Error: task watch: not yours (permission_denied)\n" || len(watches(f)) != 1 {
		t.Errorf("%+v", got)
	}
	got = against(t, f, "task", "watch", taskTwo)
	if got.code != exitError || got.err != "Error: task watch: task "+taskTwo+" not found (not_found)\n" {
		t.Errorf("%+v", got)
	}
}

func TestWatchAsJSONIsALineForEachEvent(t *testing.T) {
	t.Parallel()
	events := succeeded().events
	got := against(t, oneRack(func(_ int, _ *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error {
		sendAll(events, send)
		return nil
	}), "task", "watch", taskOne, "-o", "json")
	out := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != exitOK || len(out) != len(events) {
		t.Fatalf("%d lines, want %d: %+v", len(out), len(events), got)
	}
	var last struct {
		ID     string `json:"id"`
		Kind   string `json:"kind"`
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(out[len(out)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if last.Kind != "TASK_EVENT_KIND_TASK_FINISHED" || last.Status != "TASK_STATUS_COMPLETED" {
		t.Errorf("the last line is %s", out[len(out)-1])
	}
}

// An endless watch begins with the tasks that run, follows others as they come, and ends well when it is interrupted.
func TestWatchOfARackGoesOnUntilInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	late := &flowv1.Task{Id: &flowv1.UUID{Id: taskTwo}, RackId: &flowv1.UUID{Id: rackOne}, Operation: "ForcePowerOff, forced true"}
	f := oneRack(nil)
	listed := make(chan struct{})
	f.onList = func() { close(listed) } // a second list would panic
	f.watch = func(_ int, _ *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error {
		<-listed
		f.mu.Lock()
		f.tasks = append(f.tasks, late)
		f.mu.Unlock()
		for _, ev := range untilSecondStage().end(flowv1.TaskStatus_TASK_STATUS_COMPLETED, "Succeeded").events {
			ev.TaskId = late.GetId()
			send(ev)
		}
		<-ctx.Done()
		return errNoServer
	}
	out := &trigger{text: "completed in", call: interrupt}
	got := flowTo(ctx, out, f.env(t), "", "task", "watch", "--rack", "rack-1", "--timeout", "0")
	if got.code != exitOK || got.err != "" {
		t.Errorf("%+v", got)
	}
	want := []*flowopsv1.WatchTasksRequest{{RackIds: []*flowv1.UUID{{Id: rackOne}}}}
	if diff := cmp.Diff(want, watches(f), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{
		"task " + taskOne + ", PowerOn: running, at stage 1 of 3",
		"task " + taskTwo + ", ForcePowerOff: ",
		"rack-1 22222222 completed in",
	} {
		if !strings.Contains(got.out, text) {
			t.Errorf("%q is not there:\n%s", text, got.out)
		}
	}
}

func TestWaitInterruptedSaysThatTheTaskGoesOn(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	f := oneRack(func(_ int, _ *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error {
		sendAll(untilSecondStage().events, send)
		interrupt()
		<-ctx.Done()
		return errNoServer
	})
	port := f.env(t)["FLOW_PORT"]
	got := flow(ctx, nil, "", "power", "on", "rack-1", "--wait", "-P", port)
	if got.code != exitInterrupted || got.out != taskOne+"\n" {
		t.Errorf("%+v", got)
	}
	want := "\nStopped watching; the task goes on.\n  watch:   flow task watch --port " + port + " " + taskOne +
		"\n  cancel:  flow task cancel --port " + port + " " + taskOne + "\n"
	if !strings.HasSuffix(got.err, want) {
		t.Errorf("standard error is %q", got.err)
	}
}

// The server that took the tasks is gone when the wait begins: it is waited for.
func TestWaitIsPatient(t *testing.T) {
	t.Parallel()
	f := oneRack(func(n int, _ *flowopsv1.WatchTasksRequest, send func(*flowopsv1.TaskEvent)) error {
		if n == 0 {
			return errNoServer
		}
		sendAll(succeeded().events, send)
		return nil
	})
	got := against(t, f, "power", "on", "rack-1", "--wait", "-o", "json", "--timeout", "5s")
	want := `{
  "task_ids": [
    "` + taskOne + `"
  ],
  "tasks": [
    {
      "id": "` + taskOne + `",
      "rack_id": "` + rackOne + `",
      "rack": "rack-1",
      "status": "completed",
      "message": "Succeeded"
    }
  ]
}
`
	if got.code != exitOK {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(want, got.out); diff != "" {
		t.Error(diff)
	}
}
