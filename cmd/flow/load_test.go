package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/hardware"
)

// smallRack is the nth simulated rack with fewer parts: two shelves, four trays, two switches.
func smallRack(t *testing.T, n int) *flowv1.Rack {
	t.Helper()
	doc := stampRack(n)
	left := map[string]int{"powershelf": 2, "compute": 4, "nvswitch": 2}
	doc.Components = slices.DeleteFunc(doc.Components, func(c componentDocument) bool {
		left[c.Type]--
		return left[c.Type] < 0
	})
	rack, problems := doc.message(asNew)
	if err := errors.Join(problems...); err != nil {
		t.Fatal(err)
	}
	return rack
}

// createRacks takes racks into the inventory and returns their ids.
func createRacks(t *testing.T, flow flowv1connect.FlowClient, n int) []*flowv1.UUID {
	t.Helper()
	ids := make([]*flowv1.UUID, n)
	for i := range ids {
		res, err := flow.CreateExpectedRack(t.Context(), &flowv1.CreateExpectedRackRequest{Rack: smallRack(t, i)})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = res.GetId()
	}
	return ids
}

func createRule(t *testing.T, flow flowv1connect.FlowClient, op hardware.PowerOperation, name, steps string) *flowv1.UUID {
	t.Helper()
	res, err := flow.CreateOperationRule(t.Context(), &flowv1.CreateOperationRuleRequest{
		Name: name, OperationType: flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, OperationCode: string(op),
		RuleDefinitionJson: `{"version": "v1", "steps": [` + steps + `]}`,
	})
	if err != nil {
		t.Fatalf("rule %q: %v", name, err)
	}
	return res.GetId()
}

func rackTarget(ids ...*flowv1.UUID) *flowv1.OperationTargetSpec {
	targets := make([]*flowv1.RackTarget, len(ids))
	for i, id := range ids {
		targets[i] = &flowv1.RackTarget{Identifier: &flowv1.RackTarget_Id{Id: id}}
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: &flowv1.RackTargets{Targets: targets}}}
}

// follower keeps every event of every task, over as many breaks of the stream as there are: it resumes after the last
// id it has seen, as a client should.
type follower struct {
	mu       sync.Mutex
	events   []*flowopsv1.TaskEvent
	last     map[string]*flowopsv1.TaskEvent // by task
	changed  chan struct{}                   // closed and replaced when an event comes
	breaks   int
	problems []string
}

// follow follows until stop is called, or the end of the test.
func follow(t *testing.T, ops flowopsv1connect.FlowOpsClient) (f *follower, stop func()) {
	f = &follower{last: map[string]*flowopsv1.TaskEvent{}, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			err := f.read(ctx, ops)
			f.mu.Lock()
			f.breaks++
			// What a dying server leaves unsaid the client makes up itself; what a server says must be right.
			if connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeUnavailable {
				f.problems = append(f.problems, err.Error())
			}
			f.mu.Unlock()
			pause(10 * time.Millisecond)
		}
	})
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return f, stop
}

func (f *follower) read(ctx context.Context, ops flowopsv1connect.FlowOpsClient) error {
	after := f.cursor()
	stream, err := ops.WatchTasks(ctx, &flowopsv1.WatchTasksRequest{AfterEventId: &after})
	if err != nil {
		return err
	}
	defer stream.Close()
	for stream.Receive() {
		f.take(stream.Msg())
	}
	return stream.Err()
}

func (f *follower) cursor() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) == 0 {
		return 0
	}
	return f.events[len(f.events)-1].GetId()
}

func (f *follower) take(e *flowopsv1.TaskEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	f.last[e.GetTaskId().GetId()] = e
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits until ok, which is looked at after each event; last is the newest event of each task.
func (f *follower) await(ctx context.Context, ok func(last map[string]*flowopsv1.TaskEvent) bool) error {
	for {
		f.mu.Lock()
		done, changed := ok(f.last), f.changed
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitAll waits until ok holds for the newest event of every one of the tasks.
func (f *follower) awaitAll(t *testing.T, limit time.Duration, what string, tasks []string, ok func(*flowopsv1.TaskEvent) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var missing []string
	err := f.await(ctx, func(last map[string]*flowopsv1.TaskEvent) bool {
		missing = missing[:0]
		for _, id := range tasks {
			if e := last[id]; e == nil || !ok(e) {
				missing = append(missing, fmt.Sprintf("%s: %v", id, e))
			}
		}
		return len(missing) == 0
	})
	if err != nil {
		t.Fatalf("%s: not within %s for %d of %d tasks, the first one being %s", what, limit, len(missing), len(tasks), missing[0])
	}
}

func isFinished(e *flowopsv1.TaskEvent) bool {
	return e.GetKind() == flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED
}

// choice is something that can be asked of a rack.
type choice struct {
	name   string
	from   hardware.PowerState // what the rack must be in; empty: anything
	leaves hardware.PowerState // what its components are in when the task has completed
	resets bool                // it may fail when a crash hides what became of a reset
	ask    askFunc
}

// target is short for what an operation is asked of.
type target = flowv1.OperationTargetSpec

// askFunc submits an operation on a target, with a description.
type askFunc func(context.Context, flowv1connect.FlowClient, *target, string) (*flowv1.SubmitTaskResponse, error)

// waitingFor is ask for tasks that wait where they conflict with others.
func waitingFor(ask askFunc, timeout time.Duration) askFunc {
	return func(ctx context.Context, c flowv1connect.FlowClient, spec *target, text string) (*flowv1.SubmitTaskResponse, error) {
		return ask(ctx, queueingClient{c, queueOptions(timeout)}, spec, text)
	}
}

// queueingClient adds queue options to what it is asked to submit.
type queueingClient struct {
	flowv1connect.FlowClient
	options *flowv1.QueueOptions
}

func (c queueingClient) PowerOnRack(ctx context.Context, m *flowv1.PowerOnRackRequest) (*flowv1.SubmitTaskResponse, error) {
	m.QueueOptions = c.options
	return c.FlowClient.PowerOnRack(ctx, m)
}

func (c queueingClient) PowerResetRack(ctx context.Context, m *flowv1.PowerResetRackRequest) (*flowv1.SubmitTaskResponse, error) {
	m.QueueOptions = c.options
	return c.FlowClient.PowerResetRack(ctx, m)
}

func queueOptions(timeout time.Duration) *flowv1.QueueOptions {
	return &flowv1.QueueOptions{
		ConflictStrategy:    flowv1.ConflictStrategy_CONFLICT_STRATEGY_QUEUE,
		QueueTimeoutSeconds: int32(timeout / time.Second),
	}
}

func askOn(rule *flowv1.UUID) askFunc {
	return func(ctx context.Context, c flowv1connect.FlowClient, spec *target, text string) (*flowv1.SubmitTaskResponse, error) {
		return c.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: spec, Description: text, RuleId: rule})
	}
}

func askOff(forced bool) askFunc {
	return func(ctx context.Context, c flowv1connect.FlowClient, spec *target, text string) (*flowv1.SubmitTaskResponse, error) {
		return c.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: spec, Description: text, Forced: forced})
	}
}

func askReset(forced bool, rule *flowv1.UUID) askFunc {
	return func(ctx context.Context, c flowv1connect.FlowClient, spec *target, text string) (*flowv1.SubmitTaskResponse, error) {
		return c.PowerResetRack(ctx, &flowv1.PowerResetRackRequest{TargetSpec: spec, Description: text, Forced: forced, RuleId: rule})
	}
}

func askCycle(rule *flowv1.UUID) askFunc {
	return func(ctx context.Context, c flowv1connect.FlowClient, spec *target, text string) (*flowv1.SubmitTaskResponse, error) {
		return c.ACPowerCycleRack(ctx, &flowv1.ACPowerCycleRackRequest{TargetSpec: spec, Description: text, RuleId: rule})
	}
}

// job is a task the load has submitted.
type job struct {
	id string
	choice
}

// load keeps every one of its racks busy with one task after the other. A submission whose answer is lost is looked up
// by its description before it is repeated.
type load struct {
	t       *testing.T
	flow    flowv1connect.FlowClient
	watch   *follower
	racks   []*flowv1.UUID
	choices []choice
	jobs    [][]job // by rack, in order; each belongs to its rack's goroutine until finish returns

	enough chan struct{} // closed when no more tasks are wanted
	group  sync.WaitGroup
}

func (l *load) start(random func(stream uint64) *rand.Rand) {
	l.jobs, l.enough = make([][]job, len(l.racks)), make(chan struct{})
	l.t.Cleanup(l.group.Wait) // when the test ends early, its context ends the load
	for i := range l.racks {
		l.group.Go(func() { l.drive(i, random(uint64(i)+1)) })
	}
}

// finish lets the running tasks end.
func (l *load) finish() {
	close(l.enough)
	l.group.Wait()
}

func (l *load) drive(rack int, random *rand.Rand) {
	power := hardware.PowerStateOn // as the simulator finds it
	for ctx := l.t.Context(); ctx.Err() == nil; {
		select {
		case <-l.enough:
			return
		default:
		}
		c := l.choices[random.IntN(len(l.choices))]
		if c.from != "" && c.from != power {
			continue
		}
		id, err := l.submit(ctx, rack, c, fmt.Sprintf("%s, number %d of rack %d", c.name, len(l.jobs[rack]), rack))
		if ctx.Err() != nil {
			return // the test has failed elsewhere
		}
		if err != nil {
			l.t.Errorf("%s: %v", c.name, err)
			return
		}
		l.jobs[rack] = append(l.jobs[rack], job{id: id, choice: c})
		err = l.watch.await(ctx, func(last map[string]*flowopsv1.TaskEvent) bool { return last[id] != nil && isFinished(last[id]) })
		if err != nil {
			return
		}
		power = c.leaves
	}
}

func (l *load) submit(ctx context.Context, rack int, c choice, description string) (string, error) {
	for ; ; pause(20 * time.Millisecond) {
		res, err := c.ask(ctx, l.flow, rackTarget(l.racks[rack]), description)
		if err == nil {
			return res.GetTaskIds()[0].GetId(), nil
		}
		if connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeUnavailable || ctx.Err() != nil {
			return "", err
		}
		id, err := l.lookUp(ctx, rack, description)
		if id != "" || err != nil {
			return id, err
		}
	}
}

// lookUp finds a task by its description among the newest of its rack.
func (l *load) lookUp(ctx context.Context, rack int, description string) (string, error) {
	for ; ; pause(20 * time.Millisecond) {
		res, err := l.flow.ListTasks(ctx, &flowv1.ListTasksRequest{
			RackId: l.racks[rack], Pagination: &flowv1.Pagination{Limit: 10},
		})
		if err == nil {
			for _, task := range res.GetTasks() {
				if task.GetDescription() == description {
					return task.GetId().GetId(), nil
				}
			}
			return "", nil
		}
		if connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeUnavailable || ctx.Err() != nil {
			return "", err
		}
	}
}

func parseIDs(t *testing.T, ids []string) []uuid.UUID {
	t.Helper()
	list := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		var err error
		if list[i], err = uuid.Parse(id); err != nil {
			t.Fatal(err)
		}
	}
	return list
}
