package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// client speaks gRPC in plain text.
type client struct {
	flow flowv1connect.FlowClient
	ops  flowopsv1connect.FlowOpsClient
}

func dial(addr string) *client {
	t := &http.Transport{Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	hc := &http.Client{Transport: t}
	return &client{
		flow: flowv1connect.NewFlowClient(hc, "http://"+addr, connect.WithGRPC()),
		ops:  flowopsv1connect.NewFlowOpsClient(hc, "http://"+addr, connect.WithGRPC()),
	}
}

// ending is how a task ended.
type ending struct {
	status   flowv1.TaskStatus
	recorded time.Time // by the server, in the transaction that ended it
	seen     time.Time // here
	message  string
	reason   string
}

// watcher follows the events of all tasks over one stream.
type watcher struct {
	mu      sync.Mutex
	ended   map[string]ending
	moved   chan struct{} // closed and replaced when a task ends
	err     error         // the stream is over
	running map[string]bool
	most    int             // tasks that ran at once
	spans   map[string]span // by task
}

func newWatcher() *watcher {
	return &watcher{ended: map[string]ending{}, running: map[string]bool{}, spans: map[string]span{}, moved: make(chan struct{})}
}

// run follows the stream until it or ctx ends. It begins with the oldest event, so that nothing can come too early.
func (w *watcher) run(ctx context.Context, c *client) {
	stream, err := c.ops.WatchTasks(ctx, &flowopsv1.WatchTasksRequest{AfterEventId: new(int64(0))})
	if err == nil {
		defer stream.Close()
		for stream.Receive() {
			w.note(stream.Msg())
		}
		if err = stream.Err(); err == nil {
			err = errors.New("the server ended it")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = fmt.Errorf("watch: %w", err)
	close(w.moved)
}

func (w *watcher) note(e *flowopsv1.TaskEvent) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	id := e.GetTaskId().GetId()
	switch e.GetKind() {
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_STARTED:
		w.running[id] = true
		w.spans[id] = span{rack: e.GetRackId().GetId(), start: e.GetAt().AsTime()}
		w.most = max(w.most, len(w.running))
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED:
		delete(w.running, id)
		if s, ok := w.spans[id]; ok {
			s.end = e.GetAt().AsTime()
			w.spans[id] = s
		}
		w.ended[id] = ending{
			status: e.GetStatus(), recorded: e.GetAt().AsTime(), seen: now, message: e.GetMessage(), reason: e.GetError(),
		}
		close(w.moved)
		w.moved = make(chan struct{})
	}
}

// await waits until all of the tasks have ended and forgets them.
func (w *watcher) await(ctx context.Context, ids []string) ([]ending, error) {
	ends := make([]ending, 0, len(ids))
	for len(ends) < len(ids) {
		w.mu.Lock()
		e, ok := w.ended[ids[len(ends)]]
		delete(w.ended, ids[len(ends)])
		moved, err := w.moved, w.err
		w.mu.Unlock()
		if ok {
			ends = append(ends, e)
			continue
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return ends, nil
}

func (w *watcher) peak() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

func (w *watcher) resetPeak() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = 0
}
