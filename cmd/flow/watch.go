package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

const (
	firstRetry  = 250 * time.Millisecond
	longestWait = 5 * time.Second // between two tries to connect
	readTimeout = 10 * time.Second
	// openTimeout is how long the first answer of a watch is waited for before the tasks that run already are read.
	// A server that answers at once makes it irrelevant.
	openTimeout = time.Second
	// A task that appears while many are watched is not read: it is shown without its operation and its later stages.
	readLimit  = 50
	readAtOnce = 100
	frameEvery = 100 * time.Millisecond
)

// watch follows tasks over one stream of events after another, until all have ended or its context does.
type watch struct {
	s        *client
	progress *progress
	renderer renderer

	ids     []string // the tasks to follow to their end; none: the watch is endless
	rackIDs []string // with no ids: the racks whose tasks to follow; none: all
	patient bool     // a server that can't be reached at first is waited for, too

	seeded bool           // the tasks have been read
	last   *int64         // id of the last event
	wait   time.Duration  // before the next try to connect; 0 after one that worked
	asked  map[string]int // how often each task was read
}

// run follows the tasks. It returns nil when they have ended, the context's error, or what makes another try useless.
func (w *watch) run(ctx context.Context) error {
	w.asked = make(map[string]int)
	defer w.renderer.end()
	lost := false
	for {
		err := w.once(ctx, &lost)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !w.patient && !w.seeded, hopeless(err):
			return err
		}
		if !lost {
			w.renderer.notice(fmt.Sprintf("connection lost, trying again: %s", reason(err)))
			lost = true
		}
		if !w.pause(ctx) {
			return ctx.Err()
		}
	}
}

// pause waits before the next try, twice as long each time.
func (w *watch) pause(ctx context.Context) bool {
	w.wait = min(max(2*w.wait, firstRetry), longestWait)
	after := time.NewTimer(w.wait)
	defer after.Stop()
	frames := time.NewTicker(frameEvery)
	defer frames.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-after.C:
			return true
		case <-frames.C:
			w.renderer.tick()
		}
	}
}

// errStreamEnded is a server that closed the stream of its own accord, as one does that stops.
var errStreamEnded = errors.New("the server ended the watch")

// once follows one stream. It returns nil when all tasks have ended.
func (w *watch) once(ctx context.Context, lost *bool) error {
	if len(w.ids) > 0 && !w.seeded {
		if err := w.read(ctx, w.ids, true); err != nil {
			return err
		}
		w.seeded = true
	}
	if w.finished() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, opened, failed := w.open(ctx)
	late := time.NewTimer(openTimeout)
	defer late.Stop()
	frames := time.NewTicker(frameEvery)
	defer frames.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-opened:
			opened = nil
			w.found(lost)
			if err := w.seed(ctx); err != nil {
				return err
			}
		case <-late.C:
			if err := w.seed(ctx); err != nil {
				return err
			}
		case ev := <-events:
			w.found(lost)
			w.take(ctx, ev)
			if w.finished() {
				return nil
			}
		case <-frames.C:
			w.renderer.tick()
		}
	}
}

// found takes the notice of a lost connection back.
func (w *watch) found(lost *bool) {
	w.wait = 0
	if *lost {
		*lost = false
		w.renderer.notice("")
	}
}

// open begins to receive in the background. Opened is closed when the server has accepted the watch; failed gets one
// error, after the last event.
func (w *watch) open(ctx context.Context) (events <-chan *flowopsv1.TaskEvent, opened <-chan struct{}, failed <-chan error) {
	out, accepted, end := make(chan *flowopsv1.TaskEvent), make(chan struct{}), make(chan error)
	req := w.request()
	go func() {
		err := func() error {
			stream, err := w.s.ops.WatchTasks(ctx, req)
			if err != nil {
				return err
			}
			defer func() { _ = stream.Close() }()
			if len(stream.ResponseHeader()) > 0 {
				close(accepted)
			}
			for stream.Receive() {
				select {
				case out <- stream.Msg():
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := stream.Err(); err != nil {
				return err
			}
			return errStreamEnded
		}()
		select {
		case end <- err:
		case <-ctx.Done():
		}
	}()
	return out, accepted, end
}

// request asks for the tasks that have not ended, from where the last stream broke off.
func (w *watch) request() *flowopsv1.WatchTasksRequest {
	req := &flowopsv1.WatchTasksRequest{AfterEventId: w.last}
	for _, id := range w.ids {
		if !final(w.progress.task(id, "").status) {
			req.TaskIds = append(req.TaskIds, &flowv1.UUID{Id: id})
		}
	}
	for _, id := range w.rackIDs {
		req.RackIds = append(req.RackIds, &flowv1.UUID{Id: id})
	}
	if w.last == nil && len(w.ids) > 0 {
		req.AfterEventId = new(int64)
	}
	return req
}

func (w *watch) finished() bool { return len(w.ids) > 0 && w.progress.done(w.ids) }

// take shows one event.
func (w *watch) take(ctx context.Context, ev *flowopsv1.TaskEvent) {
	id := ev.GetId()
	w.last = &id
	t := w.progress.apply(ev)
	if w.worthReading(t) {
		// What it would tell is decoration: without it the events alone are shown.
		_ = w.read(ctx, []string{t.id}, false)
	}
	w.renderer.event(t, ev)
}

// worthReading reports whether reading a task would tell what its events do not: once for its operation and rack, and
// once for its stages when it has begun.
func (w *watch) worthReading(t *taskProgress) bool {
	if len(w.progress.tasks) > readLimit || final(t.status) {
		return false
	}
	switch w.asked[t.id] {
	case 0:
		return true
	case 1:
		return !t.outlined && !t.started.IsZero()
	}
	return false
}

// read reads tasks by id. Those that have ended are taken as they are when all there is to know is wanted: their events
// may be gone.
func (w *watch) read(ctx context.Context, ids []string, complete bool) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var tasks []*flowv1.Task
	for some := range slices.Chunk(ids, readAtOnce) {
		req := &flowv1.GetTasksByIDsRequest{}
		for _, id := range some {
			req.TaskIds = append(req.TaskIds, &flowv1.UUID{Id: id})
		}
		resp, err := w.s.flow.GetTasksByIDs(ctx, req)
		if err != nil {
			return err
		}
		tasks = append(tasks, resp.GetTasks()...)
	}
	w.learn(ctx, tasks, func(m *flowv1.Task) bool { return complete && final(m.GetStatus()) })
	return nil
}

// seed reads the tasks that are active when an endless watch begins.
func (w *watch) seed(ctx context.Context) error {
	if w.seeded {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	racks := w.rackIDs
	if len(racks) == 0 {
		racks = []string{""}
	}
	var tasks []*flowv1.Task
	for _, rack := range racks {
		req := &flowv1.ListTasksRequest{ActiveOnly: true, WithReport: true, Pagination: &flowv1.Pagination{Limit: pageSize}}
		if rack != "" {
			req.RackId = &flowv1.UUID{Id: rack}
		}
		resp, err := w.s.flow.ListTasks(ctx, req)
		if err != nil {
			return err
		}
		tasks = append(tasks, resp.GetTasks()...)
	}
	slices.Reverse(tasks) // the oldest first
	w.learn(ctx, tasks, func(*flowv1.Task) bool { return true })
	w.seeded = true
	return nil
}

// learn takes over what tasks say: all of it for those that are whole, and else only what their events leave out.
func (w *watch) learn(ctx context.Context, tasks []*flowv1.Task, whole func(*flowv1.Task) bool) {
	var unnamed []string
	for _, m := range tasks {
		if w.asked[m.GetId().GetId()] == 0 {
			unnamed = append(unnamed, m.GetRackId().GetId())
		}
	}
	names, _ := w.s.rackNames(ctx, unnamed) // decoration
	for _, m := range tasks {
		id, rackID := m.GetId().GetId(), m.GetRackId().GetId()
		t := w.progress.task(id, rackID)
		if whole(m) {
			t.adopt(m)
		} else {
			t.outline(m)
		}
		w.asked[id]++
		if w.asked[id] == 1 {
			t.rackID, t.rack = rackID, rackLabel(names, rackID)
			w.renderer.known(t)
		}
	}
}

// hopeless reports whether trying again can't help.
func hopeless(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodePermissionDenied, connect.CodeUnauthenticated,
		connect.CodeUnimplemented, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return true
	}
	return false
}

// reason is the text of an error without its code.
func reason(err error) string {
	var ce *connect.Error
	if errors.As(err, &ce) && ce.Message() != "" {
		return ce.Message()
	}
	return err.Error()
}
