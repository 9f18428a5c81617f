package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

const (
	// expiryLimit is how long after its time, or after the server is ready again, a waiting task may be ended.
	expiryLimit = 5 * time.Second
	// clockSlack is what may lie between the moment from which the server counts a task's time and that of its insertion.
	clockSlack = 500 * time.Millisecond
	// deepest is how many tasks a rack of a throng has when no more are added for a while: one that runs and five that wait.
	deepest = 6
)

// The rules of the throng, at crashSpeed.
const (
	// shortOn takes some two hundred milliseconds.
	shortOn = `
{"component_type": "powershelf", "stage": 1, "timeout": "30m",
 "main_operation": {"name": "PowerControl"},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "5s", "parameters": {"expected_status": "on"}}]},
{"component_type": "nvswitch", "stage": 2, "timeout": "30m", "delay_after": "5s", "main_operation": {"name": "PowerControl"}},
{"component_type": "compute", "stage": 2, "timeout": "30m", "delay_after": "5s", "main_operation": {"name": "PowerControl"}}`

	// hopelessRule fails at its second stage, also when it is tried again.
	hopelessRule = `
{"component_type": "powershelf", "stage": 1, "timeout": "30m", "main_operation": {"name": "PowerControl"}},
{"component_type": "compute", "stage": 2, "timeout": "30m",
 "main_operation": {"name": "VerifyPowerStatus", "timeout": "2s", "poll_interval": "1s", "parameters": {"expected_status": "off"}}}`

	// shortResets sends a reset to each kind.
	shortResets = `
{"component_type": "nvswitch", "stage": 1, "timeout": "30m",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "warm_reset"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "2s", "parameters": {"expected_status": "on"}}]},
{"component_type": "compute", "stage": 1, "timeout": "30m", "max_parallel": 2,
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "force_restart"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "2s", "parameters": {"expected_status": "on"}}]},
{"component_type": "powershelf", "stage": 2, "timeout": "30m",
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "restart"}}}`
)

// TestCrashWhileTasksWait kills the server again and again while tasks queue up several deep, expire, are cancelled and are
// retried, and proves from what the simulator and the database have recorded that the queues held.
func TestCrashWhileTasksWait(t *testing.T) {
	t.Parallel()
	random := chaosRand(t)
	kills := chaosCount(t, "FLOW_CHAOS_KILLS", 20)
	s := newServer(t, "--sim-speed", fmt.Sprint(crashSpeed), "--sim-latency", "1s")
	s.start()
	conn := s.database()
	slowRecords(t, conn)
	slowQueues(t, conn)
	watch, unfollow := follow(t, s.ops)
	c := newThrong(t, s, watch, 8)
	c.start(random)
	k := killer{server: s, conn: conn, watch: watch, random: random(0)}
	aimed := 0
	k.aim = func() {
		if awaitQueueMove(t, conn) {
			aimed++
		}
	}
	for len(k.lives) < kills {
		k.kill()
	}
	c.finish()
	awaitTable(t, conn, watch)
	unfollow()
	h := readHistory(t, conn, filepath.Join(s.dir, "sim.journal"))
	h.checkCommands(t)
	h.checkWatch(t, watch)
	c.checkEnds(h, k.lives)
	checkReports(t, s)
	checkLeft(t, conn)
	checkQueues(t, h, k.lives, goOnLimit)
	if code, _ := s.stop(); code != exitOK {
		t.Errorf("the server ended with code %d", code)
	}
	t.Logf("%d kills came while a task was just being promoted, cancelled, expired or retried", aimed)
	k.report(h, watch)
}

// slowQueues makes every move of a queue, and every retry, take twenty milliseconds of the transaction it is part of.
func slowQueues(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, statement := range []string{
		"CREATE TRIGGER slow_queue AFTER UPDATE ON task FOR EACH ROW WHEN (OLD.state = 'waiting' OR NEW.state = 'terminated') EXECUTE FUNCTION slow()",
		"CREATE TRIGGER slow_retry AFTER INSERT ON task FOR EACH ROW WHEN (NEW.retry_of IS NOT NULL) EXECUTE FUNCTION slow()",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitQueueMove waits until a task is just being promoted, cancelled, expired or retried, or for some time; it
// reports whether one is.
func awaitQueueMove(t *testing.T, conn *pgx.Conn) bool {
	t.Helper()
	for end := time.Now().Add(time.Second); time.Now().Before(end); pause(2 * time.Millisecond) {
		moves := query(t, conn, pgx.RowTo[bool], `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event = 'PgSleep' AND query ~ '^-- name: (TaskPromote|TaskEnd|TaskInsertMany) ')`)
		if moves[0] {
			return true
		}
	}
	return false
}

// wish is a task of the throng, as it was asked for.
type wish struct {
	choice
	queue    time.Duration
	fails    bool
	retried  bool
	answered time.Time // when its cancelling was confirmed
}

// throng keeps the queues of its racks filled: it submits tasks, cancels some of them and retries what did not complete.
type throng struct {
	load
	ops    flowopsv1connect.FlowOpsClient
	fails  map[string]bool // choices
	wishes []map[string]*wish
}

func newThrong(t *testing.T, s *server, watch *follower, racks int) *throng {
	t.Helper()
	on, failing, resets := createRule(t, s.flow, hardware.PowerOn, "short on", shortOn), createRule(t, s.flow, hardware.PowerOn, "hopeless", hopelessRule),
		createRule(t, s.flow, hardware.Restart, "short resets", shortResets)
	c := &throng{
		load: load{t: t, flow: s.flow, watch: watch, racks: createRacks(t, s.flow, racks)},
		ops:  s.ops, fails: map[string]bool{"hopeless": true},
		wishes: make([]map[string]*wish, racks),
	}
	c.choices = []choice{
		{name: "on", ask: askOn(on)}, {name: "hopeless", ask: askOn(failing)},
		{name: "trays on", ask: only(flowv1.ComponentType_COMPONENT_TYPE_COMPUTE, askOn(on))},
		{name: "switches on", ask: only(flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH, askOn(on))},
		{name: "resets", resets: true, ask: askReset(false, resets)},
	}
	return c
}

// only is ask for the components of one type: such tasks of different types do not exclude each other.
func only(kind flowv1.ComponentType, ask askFunc) askFunc {
	return func(ctx context.Context, c flowv1connect.FlowClient, spec *target, text string) (*flowv1.SubmitTaskResponse, error) {
		for _, r := range spec.GetRacks().GetTargets() {
			r.ComponentTypes = []flowv1.ComponentType{kind}
		}
		return ask(ctx, c, spec, text)
	}
}

func (c *throng) start(random func(uint64) *rand.Rand) {
	c.enough = make(chan struct{})
	c.t.Cleanup(c.group.Wait)
	for i := range c.racks {
		c.wishes[i] = map[string]*wish{}
		c.group.Go(func() {
			if err := c.drive(i, random(uint64(i)+1)); err != nil && c.t.Context().Err() == nil {
				c.t.Errorf("rack %d: %v", i, err)
			}
		})
	}
}

// drive does what is to be done on one rack until there is enough, and waits for the end of all of it.
func (c *throng) drive(rack int, random *rand.Rand) error {
	ctx := c.t.Context()
	for n := 0; ; n++ {
		select {
		case <-c.enough:
			return c.await(ctx, rack, 0)
		default:
		}
		if err := c.await(ctx, rack, deepest); err != nil {
			return err
		}
		var err error
		switch random.IntN(8) {
		case 0, 1:
			err = c.cancelSome(ctx, rack, random)
		case 2:
			err = c.retrySome(ctx, rack, random)
		default:
			err = c.submitOne(ctx, rack, n, random)
		}
		switch connect.CodeOf(err) {
		case connect.CodeFailedPrecondition, connect.CodeResourceExhausted: // it is over meanwhile, or the queue is full
		default:
			if err != nil {
				return err
			}
		}
		pause(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
	}
}

// await waits until the rack has so few tasks that have not ended.
func (c *throng) await(ctx context.Context, rack, most int) error {
	return c.watch.await(ctx, func(last map[string]*flowopsv1.TaskEvent) bool {
		open := 0
		for id := range c.wishes[rack] {
			if last[id] == nil || !isFinished(last[id]) {
				open++
			}
		}
		return open <= most
	})
}

// some picks a task of the rack for which ok holds by its newest event; "" when there is none.
func (c *throng) some(rack int, random *rand.Rand, ok func(*flowopsv1.TaskEvent) bool) string {
	var ids []string
	c.watch.mu.Lock()
	for id := range c.wishes[rack] {
		if e := c.watch.last[id]; e != nil && ok(e) {
			ids = append(ids, id)
		}
	}
	c.watch.mu.Unlock()
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	return ids[random.IntN(len(ids))]
}

func (c *throng) submitOne(ctx context.Context, rack, n int, random *rand.Rand) error {
	w := &wish{choice: c.choices[random.IntN(len(c.choices))], queue: time.Hour}
	if random.IntN(4) == 0 {
		w.queue = time.Duration(1+random.IntN(2)) * time.Second
	}
	w.fails = c.fails[w.name]
	w.choice.ask = waitingFor(w.choice.ask, w.queue)
	id, err := c.submit(ctx, rack, w.choice, fmt.Sprintf("%s, number %d of rack %d", w.name, n, rack))
	if err == nil {
		c.wishes[rack][id] = w
	}
	return err
}

func (c *throng) cancelSome(ctx context.Context, rack int, random *rand.Rand) error {
	id := c.some(rack, random, func(e *flowopsv1.TaskEvent) bool { return !isFinished(e) })
	if id == "" {
		return nil
	}
	return again(ctx, func() error {
		_, err := c.flow.CancelTask(ctx, &flowv1.CancelTaskRequest{TaskId: &flowv1.UUID{Id: id}})
		if err == nil {
			c.wishes[rack][id].answered = time.Now()
		}
		return err
	})
}

// retrySome retries a task that did not complete. When the answer is lost the task knows by which one it was retried.
func (c *throng) retrySome(ctx context.Context, rack int, random *rand.Rand) error {
	id := c.some(rack, random, func(e *flowopsv1.TaskEvent) bool {
		return isFinished(e) && e.GetStatus() != flowv1.TaskStatus_TASK_STATUS_COMPLETED
	})
	if id == "" || c.wishes[rack][id].retried {
		return nil
	}
	old := c.wishes[rack][id]
	w := &wish{choice: old.choice, fails: old.fails, queue: time.Hour}
	var next string
	err := again(ctx, func() error {
		res, err := c.ops.RetryTask(ctx, &flowopsv1.RetryTaskRequest{TaskId: &flowv1.UUID{Id: id}, QueueOptions: queueOptions(w.queue)})
		next = res.GetTaskId().GetId()
		return err
	})
	if err != nil { // refused, it may be because it was done already
		var plan *flowopsv1.GetTaskPlanResponse
		perr := again(ctx, func() (err error) {
			plan, err = c.ops.GetTaskPlan(ctx, &flowopsv1.GetTaskPlanRequest{TaskId: &flowv1.UUID{Id: id}})
			return err
		})
		if next = plan.GetRetriedBy().GetId(); perr != nil || next == "" {
			return errors.Join(perr, err)
		}
	}
	old.retried = true
	c.wishes[rack][next] = w
	return nil
}

// again repeats a call until the server answers it.
func again(ctx context.Context, call func() error) error {
	for ; ; pause(20 * time.Millisecond) {
		err := call()
		if err == nil || connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeUnavailable || ctx.Err() != nil {
			return err
		}
	}
}

// checkEnds holds every task to how it must have ended.
func (c *throng) checkEnds(h *history, lives []life) {
	t := c.t
	t.Helper()
	count := map[string]int{}
	known := 0
	for _, wishes := range c.wishes {
		known += len(wishes)
		for id, w := range wishes {
			p := h.tasks[uuid.MustParse(id)]
			if p == nil {
				t.Errorf("task %s (%s) is gone", id, w.name)
				continue
			}
			how := string(p.State)
			switch {
			case p.State == db.TaskStateCompleted && !w.fails && w.answered.IsZero():
			case p.State == db.TaskStateFailed && w.fails:
			case p.State == db.TaskStateFailed && w.resets && strings.Contains(p.Message, "outcome unknown"):
				how = "unknown"
			case p.State == db.TaskStateTerminated && p.Message == task.MessageCancelled:
				how = "cancelled " + string(lastBefore(h, p))
			case p.State == db.TaskStateTerminated && p.Message == task.MessageExpired && w.queue < time.Hour:
				how = "expired"
				deadline := p.CreatedAt.Add(w.queue)
				if p.StartedAt != nil || len(p.steps) > 0 {
					t.Errorf("task %s (%s) has expired, and was executed", id, w.name)
				}
				if late := p.FinishedAt.Sub(upAfter(lives, deadline, *p.FinishedAt)); late > expiryLimit || p.FinishedAt.Before(deadline.Add(-clockSlack)) {
					t.Errorf("task %s (%s) was to expire at %s and did at %s", id, w.name, deadline.Format(stampLayout), p.FinishedAt.Format(stampLayout))
				}
			default:
				t.Errorf("task %s (%s) is %s: %s", id, w.name, p.State, p.Message)
			}
			count[how]++
			if w.retried {
				count["retried"]++
			}
		}
	}
	if known != len(h.tasks) {
		t.Errorf("%d tasks were submitted and there are %d", known, len(h.tasks))
	}
	t.Logf("how tasks ended: %v", count)
	for _, how := range []string{"completed", "failed", "expired", "retried", "cancelled waiting", "cancelled running"} {
		if count[how] == 0 {
			t.Errorf("no task was %s, which tests little", how)
		}
	}
}

// lastBefore is the state a task was in before it ended.
func lastBefore(h *history, p *pastTask) db.TaskState {
	var state db.TaskState
	for _, e := range h.events {
		if e.TaskID == p.ID && e.Kind != db.EventKindTaskFinished {
			state = e.State
		}
	}
	return state
}

// upAfter is from when on a server was there to do what was due at one time and done at another: later than it was due when
// the server was killed in between.
func upAfter(lives []life, due, done time.Time) time.Time {
	for _, l := range lives {
		switch {
		case l.killedAt.After(done):
			return due
		case l.readyAt.IsZero(): // killed again before it had its time
			due = later(due, l.killedAt)
		default:
			due = later(due, l.readyAt)
		}
	}
	return due
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// checkReports holds the reports of tasks, all of which have ended, to being final.
func checkReports(t *testing.T, s *server) {
	t.Helper()
	const page = 1000
	for offset := int32(0); ; offset += page {
		res, err := s.flow.ListTasks(t.Context(), &flowv1.ListTasksRequest{WithReport: true, Pagination: &flowv1.Pagination{Offset: offset, Limit: page}})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range res.GetTasks() {
			if got.GetFinishedAt() == nil || got.GetQueueExpiresAt() != nil {
				t.Errorf("task %s is %s", got.GetId().GetId(), got.GetStatus())
			}
			var r task.Report
			if got.GetReport() == "" {
				continue
			}
			if err := json.Unmarshal([]byte(got.GetReport()), &r); err != nil {
				t.Fatal(err)
			}
			for _, stage := range r.Stages {
				running := stage.Status == task.ReportRunning
				for _, step := range stage.Steps {
					running = running || step.Status == task.ReportRunning
				}
				if running {
					t.Errorf("task %s is %s, and its report %s", got.GetId().GetId(), got.GetStatus(), got.GetReport())
				}
			}
		}
		if len(res.GetTasks()) < page {
			return
		}
	}
}

// checkLeft holds the database to having nothing left of tasks that have ended.
func checkLeft(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for what, sql := range map[string]string{
		"tasks that have not ended":         "SELECT count(*) FROM task WHERE finished_at IS NULL",
		"racks that tasks wait for":         "SELECT count(*) FROM rack WHERE waiting <> 0",
		"steps that somebody is to work on": "SELECT count(*) FROM task_step WHERE node IS NOT NULL",
	} {
		n := -1
		for end := time.Now().Add(goOnLimit); n != 0 && time.Now().Before(end); pause(20 * time.Millisecond) {
			n = query(t, conn, pgx.RowTo[int], sql)[0]
		}
		if n != 0 {
			t.Errorf("there are %d %s", n, what)
		}
	}
}

// excludes says whether two tasks of a rack must not run at once, as far as power tasks go.
func (p *pastTask) excludes(o *pastTask) bool {
	if p.plan.Operation.Type != rules.TaskPowerControl || o.plan.Operation.Type != rules.TaskPowerControl {
		panic("the throng knows power tasks only")
	}
	if len(p.plan.Components[hardware.PowerShelf]) > 0 || len(o.plan.Components[hardware.PowerShelf]) > 0 {
		return true
	}
	for kind, list := range p.plan.Components {
		for _, c := range list {
			if slices.ContainsFunc(o.plan.Components[kind], func(d hardware.Component) bool { return d.ID == c.ID }) {
				return true
			}
		}
	}
	return false
}

// checkQueues goes through the events and holds every rack to this: what excludes each other never runs at once, nobody
// overtakes, and whoever's turn it is goes on within the limit of a server that is there.
func checkQueues(t *testing.T, h *history, lives []life, limit time.Duration) {
	t.Helper()
	type queue struct {
		active, waiting []*pastTask
		since           time.Time // since when it is the turn of the first that waits
	}
	queues := map[uuid.UUID]*queue{}
	var gaps []time.Duration
	deep := 0
	for _, e := range h.events {
		q := queues[e.RackID]
		if q == nil {
			q = &queue{}
			queues[e.RackID] = q
		}
		p := h.tasks[e.TaskID]
		against := func(list []*pastTask) *pastTask {
			if i := slices.IndexFunc(list, p.excludes); i >= 0 {
				return list[i]
			}
			return nil
		}
		others := func(list []*pastTask) []*pastTask {
			return slices.DeleteFunc(list, func(o *pastTask) bool { return o == p })
		}
		switch {
		case e.Kind == db.EventKindTaskCreated && e.State == db.TaskStateWaiting:
			q.waiting = append(q.waiting, p)
			deep = max(deep, len(q.waiting))
		case e.Kind == db.EventKindTaskCreated, e.Kind == db.EventKindTaskMessage && e.State == db.TaskStatePending:
			if e.Kind == db.EventKindTaskMessage {
				if len(q.waiting) == 0 || q.waiting[0] != p {
					t.Errorf("event %d: task %s was promoted and was not the first that waited", e.ID, p.ID)
				}
				q.waiting = others(q.waiting)
				if !q.since.IsZero() {
					gap := max(0, e.At.Sub(upAfter(lives, q.since, e.At)))
					gaps = append(gaps, gap)
					if gap > limit {
						t.Errorf("event %d: task %s was promoted %s after its turn had come", e.ID, p.ID, gap)
					}
				}
				q.since = time.Time{}
			} else if o := against(q.waiting); o != nil {
				t.Errorf("event %d: task %s has overtaken task %s", e.ID, p.ID, o.ID)
			}
			if o := against(q.active); o != nil {
				t.Errorf("event %d: task %s was let go beside task %s", e.ID, p.ID, o.ID)
			}
			q.active = append(q.active, p)
		case e.Kind == db.EventKindTaskFinished:
			if len(q.waiting) > 0 && q.waiting[0] == p {
				q.since = time.Time{}
			}
			q.active, q.waiting = others(q.active), others(q.waiting)
		}
		if len(q.waiting) > 0 && q.since.IsZero() && !slices.ContainsFunc(q.active, q.waiting[0].excludes) {
			q.since = e.At
		}
	}
	if len(gaps) == 0 {
		t.Error("no task was promoted")
		return
	}
	slices.Sort(gaps)
	n := len(gaps)
	t.Logf("queues were up to %d deep; from a task's turn, or the server being ready, to its promotion, %d times: p50 %s, p99 %s, longest %s",
		deep, n, gaps[n/2], gaps[n*99/100], gaps[n-1])
}

// TestOneOfTwoNodesDiesWhileTasksWait kills one of two servers on one database while tasks wait for what both of them do,
// some of it just cancelled: the queues go on, in their order.
func TestOneOfTwoNodesDiesWhileTasksWait(t *testing.T) {
	t.Parallel()
	const racks, each = 16, 4
	url := storetest.New(t)
	dying := newServer(t, "--database-url", url, "--sim-speed", "10")
	living := newServer(t, "--database-url", url, "--sim-speed", "10")
	dying.start()
	living.start()
	conn := connectTo(t, url)
	watch, unfollow := follow(t, living.ops)
	ids := createRacks(t, living.flow, racks)
	rule := createRule(t, living.flow, hardware.PowerOn, "nodes", nodeRule)
	ask := waitingFor(askOn(rule), time.Hour)

	tasks := make([][]string, racks)
	var group sync.WaitGroup
	for i, rack := range ids {
		group.Go(func() {
			for n := range each {
				res, err := ask(t.Context(), []*server{dying, living}[(i+n)%2].flow, rackTarget(rack), "")
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				tasks[i] = append(tasks[i], res.GetTaskIds()[0].GetId())
			}
		})
	}
	group.Wait()
	eventually(t, 10*time.Second, "both servers drive tasks", func() bool {
		driven := drivenBy(t, conn)
		return driven[dying.node()] > 1 && driven[living.node()] > 1
	})
	// Half of what runs is cancelled; the server that dies has no time to let go of all of it.
	cancelled := query(t, conn, pgx.RowTo[string], "SELECT id::text FROM task WHERE state = 'running' ORDER BY id LIMIT $1", racks/2)
	for _, id := range cancelled {
		group.Go(func() {
			_, err := living.flow.CancelTask(t.Context(), &flowv1.CancelTaskRequest{TaskId: &flowv1.UUID{Id: id}})
			if err != nil && connect.CodeOf(err) != connect.CodeFailedPrecondition { // it may have ended
				t.Errorf("cancel: %v", err)
			}
		})
	}
	dying.kill()
	dead := life{killedAt: time.Now()}
	group.Wait()
	all := slices.Concat(tasks...)
	watch.awaitAll(t, 2*time.Minute, "the tasks end", all, isFinished)

	awaitTable(t, conn, watch)
	unfollow()
	h := readHistory(t, conn, filepath.Join(dying.dir, "sim.journal"), filepath.Join(living.dir, "sim.journal"))
	h.checkCommands(t)
	h.checkWatch(t, watch)
	for _, id := range parseIDs(t, all) {
		p := h.tasks[id]
		if p.State != db.TaskStateCompleted && (p.State != db.TaskStateTerminated || !slices.Contains(cancelled, id.String())) {
			t.Errorf("task %s is %s: %s", id, p.State, p.Message)
		}
	}
	checkReports(t, living)
	checkLeft(t, conn)
	checkQueues(t, h, nil, takeOverLimit)
	t.Logf("all tasks had ended %s after the kill", h.events[len(h.events)-1].At.Sub(dead.killedAt))
	if code, _ := living.stop(); code != exitOK {
		t.Errorf("the server ended with code %d", code)
	}
}
