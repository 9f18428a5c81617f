package main

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/embedded"
)

// outageRule has commands of all kinds, and waits that an outage can fall into.
const outageRule = `
{"component_type": "compute", "stage": 1, "timeout": "30m", "max_parallel": 2,
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "force_power_off"}},
 "post_operation": [
  {"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "200ms", "parameters": {"expected_status": "off"}},
  {"name": "Sleep", "parameters": {"duration": "400ms"}}]},
{"component_type": "nvswitch", "stage": 1, "timeout": "30m", "max_parallel": 1,
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "warm_reset"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "200ms", "parameters": {"expected_status": "on"}}]},
{"component_type": "powershelf", "stage": 2, "timeout": "30m", "max_parallel": 1, "delay_after": "400ms",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "force_restart"}}},
{"component_type": "compute", "stage": 3, "timeout": "30m", "max_parallel": 1, "delay_after": "400ms",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "200ms", "parameters": {"expected_status": "on"}}]}`

// TestDatabaseOutage stops PostgreSQL under fifty running tasks and starts it again.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	outage := chaosTime(t, "FLOW_CHAOS_OUTAGE", 5*time.Second)
	random := chaosRand(t)(0)
	cluster := embedded.Config{Dir: filepath.Join(dataRoot(t), "data"), NoFsync: true}
	postgres, err := embedded.Start(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Stop(context.Background()) })

	s := newServer(t, "--database-url", postgres.URL(), "--sim-latency", "300ms")
	s.complains = true
	s.start()
	watch, unfollow := follow(t, s.ops)
	racks := createRacks(t, s.flow, 50)
	rule := createRule(t, s.flow, hardware.Restart, "outage", outageRule)
	res, err := askReset(false, rule)(t.Context(), s.flow, rackTarget(racks...), "")
	if err != nil {
		t.Fatal(err)
	}
	var tasks []string
	for _, id := range res.GetTaskIds() {
		tasks = append(tasks, id.GetId())
	}
	watch.awaitAll(t, 30*time.Second, "the tasks run", tasks, func(e *flowopsv1.TaskEvent) bool {
		return e.GetStatus() == flowv1.TaskStatus_TASK_STATUS_RUNNING
	})
	pause(time.Duration(random.Int64N(int64(time.Second))))

	calls := callAll(t, s)
	if err := postgres.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	eventually(t, 10*time.Second, "the server says that it is not ready", func() bool { return s.readyz() == http.StatusServiceUnavailable })
	calls.reset()
	for time.Since(stopped) < outage {
		if got := s.readyz(); got != http.StatusServiceUnavailable {
			t.Errorf("readiness is %d without a database", got)
		}
		pause(50 * time.Millisecond)
	}
	away := calls.reset()
	if postgres, err = embedded.Start(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	eventually(t, 10*time.Second, "the server is ready again", func() bool { return s.readyz() == http.StatusOK })
	ready := time.Since(back)
	calls.reset()
	watch.awaitAll(t, time.Minute, "the tasks end", tasks, isFinished)
	ended := time.Since(back)
	present := calls.stop()
	t.Logf("without a database for %s; ready after %s, all tasks ended after %s", back.Sub(stopped), ready, ended)
	t.Logf("calls without a database: %v, slowest %s; calls after it: %v, slowest %s",
		away.codes, away.slowest, present.codes, present.slowest)
	if away.codes[connect.CodeUnavailable] == 0 || len(away.codes) != 1 {
		t.Errorf("without a database calls were answered with %v, want only unavailable", away.codes)
	}
	if present.codes[connect.CodeUnavailable] > 0 {
		t.Errorf("once the server was ready calls were still answered with %v", present.codes)
	}

	conn := connectTo(t, postgres.URL())
	awaitTable(t, conn, watch)
	unfollow()
	h := readHistory(t, conn, filepath.Join(s.dir, "sim.journal"))
	h.checkCommands(t)
	h.checkWatch(t, watch)
	for _, id := range parseIDs(t, tasks) {
		if p := h.tasks[id]; p.State != db.TaskStateCompleted {
			t.Errorf("task %s is %s: %s", id, p.State, p.Message)
		}
	}
	if code, took := s.stop(); code != exitOK {
		t.Errorf("the server ended with code %d after %s", code, took)
	}
}

// answers is what calls were told.
type answers struct {
	codes   map[connect.Code]int // 0: success
	slowest time.Duration
}

// caller keeps making calls of all kinds, and fails the test for an answer that says neither success nor unavailable.
type caller struct {
	t       *testing.T
	mu      sync.Mutex
	since   time.Time
	answers answers
	cancel  context.CancelFunc
	group   sync.WaitGroup
}

// codeOK stands for success among codes.
const codeOK connect.Code = 0

// callAll begins to make calls, until stop.
func callAll(t *testing.T, s *server) *caller {
	c := &caller{t: t, answers: answers{codes: map[connect.Code]int{}}}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	nobody := &flowv1.UUID{Id: uuid.NewString()}
	calls := map[string]func(context.Context) error{
		"list racks": func(ctx context.Context) error {
			_, err := s.flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{WithComponents: true})
			return err
		},
		"list tasks": func(ctx context.Context) error {
			_, err := s.flow.ListTasks(ctx, &flowv1.ListTasksRequest{WithReport: true})
			return err
		},
		"create rule": func(ctx context.Context) error {
			_, err := s.flow.CreateOperationRule(ctx, &flowv1.CreateOperationRuleRequest{
				Name: uuid.NewString(), OperationType: flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, OperationCode: string(hardware.PowerOn),
				RuleDefinitionJson: `{"version": "v1", "steps": [` + carefulOn + `]}`,
			})
			return err
		},
		"submit": func(ctx context.Context) error {
			_, err := s.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: rackTarget(nobody)})
			return notFound(err)
		},
		"cancel": func(ctx context.Context) error {
			_, err := s.flow.CancelTask(ctx, &flowv1.CancelTaskRequest{TaskId: nobody})
			return notFound(err)
		},
		"watch": func(ctx context.Context) error {
			stream, err := s.ops.WatchTasks(ctx, &flowopsv1.WatchTasksRequest{TaskIds: []*flowv1.UUID{nobody}})
			if err != nil {
				return notFound(err)
			}
			defer stream.Close()
			stream.Receive()
			return notFound(stream.Err())
		},
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		c.group.Go(func() {
			for ctx.Err() == nil {
				c.call(ctx, name, calls[name])
				pause(20 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() { c.cancel(); c.group.Wait() })
	return c
}

// notFound takes the right answer about what does not exist for success.
func notFound(err error) error {
	if connect.CodeOf(err) == connect.CodeNotFound || connect.CodeOf(err) == connect.CodeFailedPrecondition {
		return nil
	}
	return err
}

func (c *caller) call(ctx context.Context, name string, do func(context.Context) error) {
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err := do(limit)
	if ctx.Err() != nil {
		return
	}
	code := codeOK
	if err != nil {
		code = connect.CodeOf(err)
	}
	if code != codeOK && code != connect.CodeUnavailable {
		c.t.Errorf("%s: %v", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !began.Before(c.since) {
		c.answers.codes[code]++
		c.answers.slowest = max(c.answers.slowest, time.Since(began))
	}
}

// reset gives the answers to the calls made since the last reset. A call that spans a reset does not count.
func (c *caller) reset() answers {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.answers
	c.answers, c.since = answers{codes: map[connect.Code]int{}}, time.Now()
	return got
}

func (c *caller) stop() answers {
	c.cancel()
	c.group.Wait()
	return c.reset()
}
