package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
)

// slowRule takes about two seconds; a reset that is under way when the server stops shows what became of it.
const slowRule = `
{"component_type": "nvswitch", "stage": 1, "timeout": "30m", "max_parallel": 1, "delay_after": "300ms",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "warm_reset"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "100ms", "parameters": {"expected_status": "on"}}]},
{"component_type": "compute", "stage": 1, "timeout": "30m", "max_parallel": 1, "delay_after": "300ms",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "force_restart"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "100ms", "parameters": {"expected_status": "on"}}]},
{"component_type": "powershelf", "stage": 2, "timeout": "30m", "max_parallel": 1, "delay_after": "300ms",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "100ms", "parameters": {"expected_status": "on"}}]},
{"component_type": "compute", "stage": 3, "timeout": "30m", "max_parallel": 1, "delay_after": "300ms",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "warm_reset"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "100ms", "parameters": {"expected_status": "on"}}]}`

// longRule takes about eight seconds: a server that is watched goes on for two before it stops.
const longRule = slowRule + `,
{"component_type": "nvswitch", "stage": 4, "timeout": "30m", "max_parallel": 1, "delay_after": "3s",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "restart"}}},
{"component_type": "powershelf", "stage": 5, "timeout": "30m", "max_parallel": 1, "delay_after": "3s",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "restart"}}}`

// TestGracefulStopWhileTasksRun asks the server to end while it drives tasks and while a client watches. It does, in time
// and with code 0, and the next life goes on: an orderly stop leaves no outcome unknown.
func TestGracefulStopWhileTasksRun(t *testing.T) {
	t.Parallel()
	random := chaosRand(t)(0)
	const limit = 10 * time.Second
	s := newServer(t, "--sim-latency", "200ms", "--shutdown-timeout", limit.String())
	s.start()
	watch, unfollow := follow(t, s.ops)
	racks := createRacks(t, s.flow, 20)
	rule := createRule(t, s.flow, hardware.Restart, "long", longRule)
	res, err := askReset(false, rule)(t.Context(), s.flow, rackTarget(racks...), "")
	if err != nil {
		t.Fatal(err)
	}
	var tasks []string
	for _, id := range res.GetTaskIds() {
		tasks = append(tasks, id.GetId())
	}
	watch.awaitAll(t, 10*time.Second, "the tasks run", tasks, func(e *flowopsv1.TaskEvent) bool {
		return e.GetKind() != flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_CREATED
	})
	var died, ready []time.Time
	for range 2 {
		pause(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		code, took := s.stop()
		t.Logf("stopped after %s", took)
		if code != exitOK || took > limit {
			t.Errorf("the server ended with code %d after %s", code, took)
		}
		died = append(died, time.Now())
		s.start()
		ready = append(ready, time.Now())
	}
	watch.awaitAll(t, time.Minute, "the tasks end", tasks, isFinished)
	conn := s.database()
	awaitTable(t, conn, watch)
	unfollow()
	h := readHistory(t, conn, filepath.Join(s.dir, "sim.journal"))
	h.checkCommands(t)
	h.checkWatch(t, watch)
	var waits []time.Duration
	for i := range died {
		waits = append(waits, h.wentOn(died[i], ready[i])...)
	}
	checkWaits(t, waits)
	for _, id := range parseIDs(t, tasks) {
		if p := h.tasks[id]; p.State != db.TaskStateCompleted {
			t.Errorf("task %s is %s: %s", id, p.State, p.Message)
		}
	}
}

// lateRule sends an AC power cycle after a second.
const lateRule = `
{"component_type": "compute", "stage": 1, "timeout": "30m", "delay_after": "100ms",
 "pre_operation": [{"name": "Sleep", "parameters": {"duration": "1s"}}],
 "main_operation": {"name": "PowerControl"}}`

// TestGracefulStopDuringCall asks the server to end while a call to the hardware is under way that belongs to a reset, and
// lets it end in time or not at all. Where it is cut off, whether the reset got through may stay unknown.
func TestGracefulStopDuringCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		ends    bool // the call
	}{
		"a call that ends is waited for and recorded":    {time.Minute, true},
		"a call that does not end is cut off in the end": {time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "--sim-latency", "0", "--shutdown-timeout", c.timeout.String())
			s.start()
			racks := createRacks(t, s.flow, 1)
			rule := createRule(t, s.flow, hardware.ColdReset, "late", lateRule)
			watch, _ := follow(t, s.ops)
			res, err := askCycle(rule)(t.Context(), s.flow, rackTarget(racks...), "")
			if err != nil {
				t.Fatal(err)
			}
			id := res.GetTaskIds()[0].GetId()
			watch.awaitAll(t, 10*time.Second, "the task runs", []string{id}, func(e *flowopsv1.TaskEvent) bool {
				return e.GetKind() == flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_STARTED
			})
			release := s.holdSite()
			began := time.Now()
			s.terminate()
			if c.ends {
				// The listener closes first; the process stays for the call.
				eventually(t, 10*time.Second, "the server answers nobody any more", func() bool { return s.readyz() == 0 })
				select {
				case <-s.done:
					t.Fatal("the server ended with a call under way")
				default:
				}
				release()
			}
			code := s.wait(c.timeout + 20*time.Second)
			t.Logf("stopped after %s", time.Since(began))
			if code != exitOK {
				t.Errorf("the server ended with code %d", code)
			}
			s.start()
			watch.awaitAll(t, 10*time.Second, "the task ends", []string{id}, isFinished)
			h := readHistory(t, s.database(), filepath.Join(s.dir, "sim.journal"))
			h.checkCommands(t)
			p := h.tasks[uuid.MustParse(id)]
			if unknown := strings.Contains(p.Message, "outcome unknown"); p.State != db.TaskStateCompleted && (c.ends || !unknown) {
				t.Errorf("the task is %s: %s", p.State, p.Message)
			}
		})
	}
}

// holdSite makes the next command to a rack that the site does not know yet take until release is called: the site asks
// the inventory for it, whose table is locked. It returns when the command is under way.
func (s *server) holdSite() (release func()) {
	s.t.Helper()
	conn := s.database()
	tx, err := conn.Begin(s.t.Context())
	if err == nil {
		_, err = tx.Exec(s.t.Context(), "LOCK TABLE component IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, 10*time.Second, "a command waits for the inventory", func() bool {
		return query(s.t, conn, pgx.RowTo[bool], "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'component'::regclass AND NOT granted)")[0]
	})
	return func() {
		if err := tx.Commit(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}
