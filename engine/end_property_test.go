package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/store/db"
)

func TestEveryTaskEndsOnceAndForGoodWhateverHappensToIt(t *testing.T) {
	t.Parallel()
	f := newField(t)
	mortal := f.newMortal()
	var did [lastDeed + 1]atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		racks := f.newRacks(rapid.IntRange(1, 2).Draw(rt, "racks"))
		clients := rapid.SliceOfN(rapid.SliceOfN(drawDeed(len(racks)), 3, 8), 3, 3).Draw(rt, "clients")
		p := &party{field: f, racks: racks}
		var group sync.WaitGroup
		for _, deeds := range clients {
			group.Go(func() {
				for _, d := range deeds {
					err := p.do(d, mortal)
					switch kind := fault.KindOf(err); {
					case err == nil:
						did[d.kind].Add(1)
					case kind == fault.KindPrecondition || kind == fault.KindExhausted:
					default:
						p.fault(err)
					}
					if n := value[int](f.bench, `SELECT count(*) FROM rack WHERE waiting <> (SELECT count(*) FROM task WHERE rack_id = rack.id AND state = 'waiting')`); n > 0 {
						p.fault(fmt.Errorf("%d racks count their waiting tasks wrong", n))
					}
				}
			})
		}
		group.Wait()
		p.drain(rt)
		p.judge(rt)
		p.judgeEnds(rt)
	})
	for kind := range did {
		t.Logf("%s: %d", deedNames[kind], did[kind].Load())
		if did[kind].Load() == 0 {
			t.Errorf("none succeeded to %s, which tests little", deedNames[kind])
		}
	}
}

// The deeds of clients, of fate, and of those who look after it.
const (
	doSubmit = iota
	doCancel
	doRetry
	doOrphan
	doLose
	doRestart
	doWatch
	lastDeed = doWatch
)

var deedNames = [...]string{"submit", "cancel", "retry", "orphan steps", "lose jobs", "restart a node", "watch"}

type deed struct {
	kind int
	ask
}

func drawDeed(racks int) *rapid.Generator[deed] {
	kinds := []int{doSubmit, doSubmit, doSubmit, doSubmit, doCancel, doCancel, doRetry, doRetry, doOrphan, doLose, doRestart, doWatch, doWatch}
	return rapid.Custom(func(t *rapid.T) deed {
		d := deed{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), ask: drawAsk(racks).Draw(t, "ask")}
		if d.queue > 0 && rapid.Bool().Draw(t, "short") {
			d.queue = time.Duration(rapid.IntRange(1, 300).Draw(t, "timeout")) * time.Millisecond
		}
		return d
	})
}

func (p *party) do(d deed, m *mortal) error {
	switch d.kind {
	case doSubmit:
		return p.submit(d.ask)
	case doCancel:
		return p.cancel(d.pick)
	case doRetry:
		id := p.pick(d.pick)
		if id == uuid.Nil {
			return nil
		}
		next, _, err := p.Tasks.Retry(p.t.Context(), task.Retry{TaskID: id, Queue: d.queue})
		if err == nil {
			p.add(next)
		}
		return err
	case doOrphan:
		// As a node leaves its steps that is no more.
		p.always(`UPDATE task_step SET node = gen_random_uuid() WHERE node IS NOT NULL AND task_id IN (SELECT id FROM task WHERE rack_id = ANY ($1))`, p.rackIDs())
		p.takeOver()
	case doLose:
		p.always(`DELETE FROM river_job WHERE state IN ('available', 'scheduled', 'retryable') AND kind IN ('task_start', 'task_step', 'task_expire')
			AND (args->>'task')::uuid IN (SELECT id FROM task WHERE rack_id = ANY ($1))`, p.rackIDs())
		p.always(`UPDATE task_step SET due_at = now() - interval '1 hour' WHERE state = 'running' AND node IS NULL AND task_id IN (SELECT id FROM task WHERE rack_id = ANY ($1))`, p.rackIDs())
		p.always(`UPDATE task SET updated_at = now() - interval '1 hour' WHERE state = 'pending' AND rack_id = ANY ($1)`, p.rackIDs())
		p.takeOver()
	case doRestart:
		m.restart()
	case doWatch:
		ctx, cancel := context.WithTimeout(p.t.Context(), 50*time.Millisecond)
		defer cancel()
		after := value[int64](p.bench, "SELECT coalesce(max(id), 0) FROM event")
		_ = p.Watch.Follow(ctx, task.WatchFilter{Racks: p.rackIDs(), After: after}, func(db.Event) error { return errSeen })
	}
	return nil
}

// always is exec for a statement that may find nothing.
func (b *bench) always(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.store.API.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Errorf("%s: %v", sql, err)
	}
}

// takeOver is the sweep of a node that starts, and is gone again.
func (b *bench) takeOver() {
	b.t.Helper()
	cfg := b.cfg
	cfg.NodeID, cfg.NoWork = uuid.New(), true
	e, err := engine.New(cfg)
	if err == nil {
		if err = e.Start(b.t.Context()); err == nil {
			err = e.Stop(b.t.Context())
		}
	}
	if err != nil {
		b.t.Errorf("take over: %v", err)
	}
}

// mortal is a node that parks its steps soon, and that is stopped in the middle of its work.
type mortal struct {
	*bench
	mu     sync.Mutex
	engine *engine.Engine
}

func (f *field) newMortal() *mortal {
	f.t.Helper()
	m := &mortal{bench: f.bench}
	m.cfg.NodeID, m.cfg.InlineWait = uuid.New(), 20*time.Millisecond
	m.begin()
	f.t.Cleanup(m.end)
	return m
}

func (m *mortal) begin() {
	var err error
	if m.engine, err = engine.New(m.cfg); err == nil {
		err = m.engine.Start(m.t.Context())
	}
	if err != nil {
		m.t.Errorf("start: %v", err)
	}
}

func (m *mortal) end() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // calls under way are cut off
	if err := m.engine.Stop(ctx); err != nil {
		m.t.Errorf("stop: %v", err)
	}
}

func (m *mortal) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
	m.begin()
}

// drain waits until every task has ended. Jobs with a time are made to come at once: River would look for them every 5 s.
func (p *party) drain(rt *rapid.T) {
	rt.Helper()
	for _, err := range p.faults {
		rt.Errorf("%v", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(endLimit); ; <-tick.C {
		p.always("UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state IN ('scheduled', 'retryable') AND kind IN ('task_step', 'task_start')")
		left := value[int](p.bench, `SELECT (SELECT count(*) FROM task WHERE finished_at IS NULL AND rack_id = ANY ($1))
			+ (SELECT count(*) FROM task_step JOIN task ON task.id = task_id WHERE node IS NOT NULL AND rack_id = ANY ($1))`, p.rackIDs())
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			stamps := value[string](p.bench, `SELECT coalesce(string_agg(format('step %s/%s of task %s (%s) by node %s, registered: %s', task_step.stage, step, left(id::text, 4), task.state,
				node, EXISTS (SELECT FROM node AS n WHERE n.incarnation = task_step.node)), '; '), 'none') FROM task_step JOIN task ON task.id = task_id
				WHERE node IS NOT NULL AND rack_id = ANY ($1)`, p.rackIDs())
			rt.Fatalf("%d tasks and stamps are left after %s; stamps: %s; %s", left, endLimit, stamps, p.story())
		}
	}
}

// lives are the moves of chapter 30, section 8.
var lives = map[db.TaskState][]db.TaskState{
	db.TaskStateWaiting: {db.TaskStatePending, db.TaskStateTerminated},
	db.TaskStatePending: {db.TaskStateWaiting, db.TaskStateRunning, db.TaskStateFailed, db.TaskStateTerminated},
	db.TaskStateRunning: {db.TaskStateCompleted, db.TaskStateFailed, db.TaskStateTerminated},
}

// judgeEnds holds what is left of every task to what must be left.
func (p *party) judgeEnds(rt *rapid.T) {
	rt.Helper()
	at, ended := map[uuid.UUID]db.TaskState{}, map[uuid.UUID]int{}
	for _, e := range p.events() {
		before, known := at[e.TaskID]
		switch {
		case ended[e.TaskID] > 0:
			rt.Errorf("event %d: %s of task %s after its end", e.ID, e.Kind, short(e.TaskID))
		case !known && e.State != db.TaskStateWaiting && e.State != db.TaskStatePending:
			rt.Errorf("event %d: task %s begins as %s", e.ID, short(e.TaskID), e.State)
		case known && before != e.State && !slices.Contains(lives[before], e.State):
			rt.Errorf("event %d: task %s moves from %s to %s", e.ID, short(e.TaskID), before, e.State)
		case e.Kind != db.EventKindTaskFinished && lives[e.State] == nil:
			rt.Errorf("event %d: task %s is %s, says %s", e.ID, short(e.TaskID), e.State, e.Kind)
		}
		at[e.TaskID] = e.State
		if e.Kind == db.EventKindTaskFinished {
			ended[e.TaskID]++
		}
	}
	views, err := p.Tasks.Get(p.t.Context(), p.tasks)
	if err != nil {
		rt.Fatal(err)
	}
	for _, v := range views {
		if ended[v.ID] != 1 || v.FinishedAt == nil || v.QueueExpiresAt != nil || at[v.ID] != v.State {
			rt.Errorf("task %s is %s, %d events say that it has ended and the last one %s; finished %v, expires %v",
				short(v.ID), v.State, ended[v.ID], at[v.ID], v.FinishedAt, v.QueueExpiresAt)
		}
		if v.Message == task.MessageExpired && v.StartedAt != nil {
			rt.Errorf("task %s has expired, and was executed", short(v.ID))
		}
		checkReport(rt, v)
	}
	if n := value[int](p.bench, "SELECT coalesce(sum(waiting), 0)::integer FROM rack WHERE id = ANY ($1)", p.rackIDs()); n != 0 {
		rt.Errorf("%d tasks are said to wait", n)
	}
	if rt.Failed() {
		rt.Log(p.story())
	}
}

// checkReport holds the report of a task that has ended to being final.
func checkReport(rt *rapid.T, v task.View) {
	rt.Helper()
	if v.StartedAt == nil {
		if v.Report != "" {
			rt.Errorf("task %s never started, and its report is %s", short(v.ID), v.Report)
		}
		return
	}
	var r task.Report
	if err := json.Unmarshal([]byte(v.Report), &r); err != nil {
		rt.Fatalf("report of task %s: %v", short(v.ID), err)
	}
	failed := false
	for _, stage := range r.Stages {
		failed = failed || stage.Status == task.ReportFailed
		wrong := stage.Status == task.ReportRunning || v.State == db.TaskStateCompleted && stage.Status != task.ReportCompleted && stage.Status != task.ReportSkipped
		for _, step := range stage.Steps {
			wrong = wrong || step.Status == task.ReportRunning || (step.FinishedAt == nil) != (step.Status == task.ReportPending || step.Status == task.ReportSkipped) ||
				step.Completed+step.Failed > step.Total
		}
		if wrong {
			rt.Errorf("task %s is %s, and its report %s", short(v.ID), v.State, v.Report)
			return
		}
	}
	if (v.State == db.TaskStateFailed) != failed && v.State != db.TaskStateTerminated || failed != (r.Error != "") {
		rt.Errorf("task %s is %s, and its report %s", short(v.ID), v.State, v.Report)
	}
}
