package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// history is what the database and the simulated site have recorded, each on its own, of everything that happened. The
// clocks of both are this machine's.
type history struct {
	tasks    map[uuid.UUID]*pastTask
	byRack   map[uuid.UUID][]*pastTask // in the order they were submitted
	events   []db.Event
	commands []sim.Entry             // arrivals only, in order
	racks    map[uuid.UUID]uuid.UUID // by component
}

type pastTask struct {
	db.Task
	plan  rules.Plan
	steps []*pastStep
}

type pastStep struct {
	db.TaskStep
	task  *pastTask
	plan  rules.PlanStep
	stage int // its number in the rule

	sent map[sending][]time.Time // when each command arrived, in order
}

// sending is one command to one component.
type sending struct {
	component uuid.UUID
	operation hardware.PowerOperation
}

// readHistory reads it, with the journal of each site there is, and attributes each command to the step it belongs to. A
// command that arrived while no step that sends it was open fails the test: it followed the end of its step, or came
// before the beginning.
func readHistory(t *testing.T, conn *pgx.Conn, journals ...string) *history {
	t.Helper()
	h := &history{tasks: map[uuid.UUID]*pastTask{}, byRack: map[uuid.UUID][]*pastTask{}, racks: map[uuid.UUID]uuid.UUID{}}
	h.readTasks(t, conn)
	var err error
	if h.events, err = db.New(conn).EventList(t.Context(), db.EventListParams{UpToID: math.MaxInt64, Max: math.MaxInt32}); err != nil {
		t.Fatal(err)
	}
	for _, journal := range journals {
		entries, err := sim.ReadJournal(journal)
		if err != nil {
			t.Fatal(err)
		}
		h.commands = append(h.commands, slices.DeleteFunc(entries, func(e sim.Entry) bool { return !e.Arrived() })...)
	}
	slices.SortFunc(h.commands, func(a, b sim.Entry) int { return a.At.Compare(b.At) })
	for _, p := range h.tasks {
		for _, list := range p.plan.Components {
			for _, c := range list {
				h.racks[c.ID] = p.RackID
			}
		}
	}
	for _, e := range h.commands {
		step := h.stepOf(e)
		if step == nil {
			t.Errorf("%s %s arrived at %s at %s, when no step that sends it was open: %s",
				e.Type, e.Operation, e.Components, e.At.Format(stampLayout), h.around(e))
			continue
		}
		for _, id := range e.Components {
			what := sending{id, e.Operation}
			step.sent[what] = append(step.sent[what], e.At)
		}
	}
	return h
}

const stampLayout = "15:04:05.000000"

func (h *history) readTasks(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	q := db.New(conn)
	rows, err := q.TaskList(t.Context(), db.TaskListParams{Max: math.MaxInt32})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.Task.ID
		h.tasks[r.Task.ID] = &pastTask{Task: r.Task}
	}
	for _, r := range slices.Backward(rows) {
		h.byRack[r.Task.RackID] = append(h.byRack[r.Task.RackID], h.tasks[r.Task.ID])
	}
	plans, err := q.TaskPlans(t.Context(), db.TaskPlansParams{TaskIds: ids})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plans {
		if err := json.Unmarshal(p.Plan, &h.tasks[p.TaskID].plan); err != nil {
			t.Fatal(err)
		}
	}
	steps, err := q.StepListByTasks(t.Context(), db.StepListByTasksParams{TaskIds: ids})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		p := h.tasks[s.TaskID]
		stage := p.plan.Stages[s.Stage]
		p.steps = append(p.steps, &pastStep{
			TaskStep: s, task: p, plan: stage.Steps[s.Step], stage: stage.Number, sent: map[sending][]time.Time{},
		})
	}
}

// sends lists the commands of the step.
func (s *pastStep) sends() []hardware.PowerOperation {
	var ops []hardware.PowerOperation
	for _, a := range s.plan.Actions {
		if a.Name == rules.ActionPowerControl {
			ops = append(ops, a.Operation)
		}
	}
	return ops
}

// open reports whether the step was open at a time. A cancelled task leaves steps that never end by themselves, and a
// command that was about to be sent when it was cancelled may still arrive.
func (s *pastStep) open(at time.Time) bool {
	end := s.FinishedAt
	if end == nil && s.task.FinishedAt != nil {
		late := s.task.FinishedAt.Add(200 * time.Millisecond)
		end = &late
	}
	return !at.Before(s.StartedAt) && (end == nil || !at.After(*end))
}

// stepOf finds the step a command belongs to. Of several it is the one that was opened last: what a cancelled task left
// open counts for a while although the next task may have begun.
func (h *history) stepOf(e sim.Entry) *pastStep {
	var last *pastStep
	for _, p := range h.byRack[h.racks[e.Components[0]]] {
		for _, s := range p.steps {
			if s.plan.ComponentType == e.Type && s.open(e.At) && slices.Contains(s.sends(), e.Operation) &&
				(last == nil || s.StartedAt.After(last.StartedAt)) {
				last = s
			}
		}
	}
	return last
}

// around tells what was open on a rack when a command arrived.
func (h *history) around(e sim.Entry) string {
	text := "no task at all"
	for _, p := range h.byRack[h.racks[e.Components[0]]] {
		if p.CreatedAt.After(e.At) {
			break
		}
		text = fmt.Sprintf("task %s %s, %s", p.ID, p.OperationCode, p.State)
		for _, s := range p.steps {
			end := "no end"
			if s.FinishedAt != nil {
				end = s.FinishedAt.Format(stampLayout)
			}
			text += fmt.Sprintf("; stage %d %s %s to %s epoch %d", s.stage, s.plan.ComponentType, s.StartedAt.Format(stampLayout), end, s.Epoch)
		}
	}
	return text
}

// checkCommands holds what no crash may break: no reset arrives twice at a component for one task, whose rules here send
// each kind of reset once; a command that was recorded as done is not sent
// again; stages follow each other; a task that has completed has done all of its plan.
func (h *history) checkCommands(t *testing.T) {
	t.Helper()
	for _, p := range h.tasks {
		resets := map[sending][]time.Time{}
		for _, s := range p.steps {
			for what, times := range s.sent {
				if _, repeatable := what.operation.WantedState(); !repeatable {
					resets[what] = append(resets[what], times...)
				}
			}
			for _, later := range p.steps {
				for what, times := range later.sent {
					if later.stage > s.stage && (s.FinishedAt == nil || times[0].Before(*s.FinishedAt)) {
						t.Errorf("task %s: %s of stage %d arrived before the step %s of stage %d had ended",
							p.ID, what.operation, later.stage, s.plan.ComponentType, s.stage)
					}
				}
			}
		}
		for what, times := range resets {
			if len(times) > 1 {
				t.Errorf("task %s: %s arrived %d times at component %s: %s", p.ID, what.operation, len(times), what.component, stamps(times))
			}
		}
		if p.State == db.TaskStateCompleted {
			p.checkWhole(t)
		}
	}
	h.checkRecorded(t)
}

// checkWhole holds a completed task to its plan.
func (p *pastTask) checkWhole(t *testing.T) {
	t.Helper()
	planned := 0
	for _, stage := range p.plan.Stages {
		planned += len(slices.DeleteFunc(slices.Clone(stage.Steps), func(s rules.PlanStep) bool { return s.Skipped }))
	}
	if len(p.steps) != planned {
		t.Errorf("task %s completed with %d of %d steps", p.ID, len(p.steps), planned)
	}
	for _, s := range p.steps {
		if s.State != db.StepStateCompleted {
			t.Errorf("task %s completed, its step %s of stage %d is %s", p.ID, s.plan.ComponentType, s.stage, s.State)
		}
		for _, op := range s.sends() {
			// A component that was found in the wanted state after a crash needs no command; nothing excuses a reset.
			if _, repeatable := op.WantedState(); repeatable && s.Epoch > 0 {
				continue
			}
			for _, c := range p.plan.Components[s.plan.ComponentType] {
				if len(s.sent[sending{c.ID, op}]) == 0 {
					t.Errorf("task %s completed, but %s never arrived at %s", p.ID, op, c.Label())
				}
			}
		}
	}
}

// checkRecorded compares the commands with the events: each batch of a command that is done says so in one, and what
// arrived before it must not arrive after it again.
func (h *history) checkRecorded(t *testing.T) {
	t.Helper()
	done := map[string][]time.Time{}
	key := func(task uuid.UUID, stage int, kind string) string { return fmt.Sprint(task, stage, kind) }
	for _, e := range h.events {
		if e.Kind == db.EventKindStepProgress && e.Action == string(rules.ActionPowerControl) {
			k := key(e.TaskID, int(e.Stage), e.ComponentType)
			done[k] = append(done[k], e.At)
		}
	}
	for _, p := range h.tasks {
		for _, s := range p.steps {
			for what, times := range s.sent {
				for _, at := range done[key(p.ID, s.stage, string(s.plan.ComponentType))] {
					if times[0].Before(at) && times[len(times)-1].After(at) {
						t.Errorf("task %s: %s was recorded as done in stage %d at %s, but arrived at component %s: %s",
							p.ID, what.operation, s.stage, at.Format(stampLayout), what.component, stamps(times))
					}
				}
			}
		}
	}
}

// checkWatch compares what a follower saw with what is in the table.
func (h *history) checkWatch(t *testing.T, f *follower) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.problems {
		t.Errorf("watching: %s", p)
	}
	for i, e := range f.events {
		if i > 0 && e.GetId() <= f.events[i-1].GetId() {
			t.Fatalf("watching: event %d came after event %d", e.GetId(), f.events[i-1].GetId())
		}
	}
	ended := map[string]int{}
	for i := range max(len(h.events), len(f.events)) {
		if i >= len(h.events) || i >= len(f.events) || h.events[i].ID != f.events[i].GetId() {
			t.Fatalf("watching: %d events seen of %d in the table; number %d is not the same", len(f.events), len(h.events), i)
		}
		e := f.events[i]
		id := e.GetTaskId().GetId()
		if ended[id] > 0 {
			t.Errorf("watching: task %s has the event %v after its end", id, e)
		}
		if e.GetKind() == flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED {
			ended[id]++
		}
	}
	for id, p := range h.tasks {
		if p.FinishedAt != nil && ended[id.String()] != 1 {
			t.Errorf("watching: task %s has ended and %d events say so", id, ended[id.String()])
		}
	}
}

// awaitTable waits until the follower has seen the newest event there is.
func awaitTable(t *testing.T, conn *pgx.Conn, watch *follower) {
	t.Helper()
	newest := query(t, conn, pgx.RowTo[int64], "SELECT coalesce(max(id), 0) FROM event")[0]
	eventually(t, 10*time.Second, "the watch shows the newest event", func() bool { return watch.cursor() >= newest })
}

func stamps(times []time.Time) string {
	text := ""
	for _, at := range times {
		text += " " + at.Format(stampLayout)
	}
	return text
}
