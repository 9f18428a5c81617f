package main

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

// story is the life of task one as a server tells it: three stages, of which the second has two steps.
type story struct {
	events []*flowopsv1.TaskEvent
	at     time.Duration
	status flowv1.TaskStatus
}

func (s *story) tell(wait time.Duration, ev *flowopsv1.TaskEvent) *story {
	s.at += wait
	ev.Id = int64(len(s.events) + 1)
	ev.At = after(s.at)
	ev.TaskId, ev.RackId = &flowv1.UUID{Id: taskOne}, &flowv1.UUID{Id: rackOne}
	ev.Status, ev.Stages = s.status, 3
	s.events = append(s.events, ev)
	return s
}

func (s *story) begin() *story {
	s.status = flowv1.TaskStatus_TASK_STATUS_PENDING
	s.tell(0, &flowopsv1.TaskEvent{Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_CREATED, Message: "Pending"})
	s.status = flowv1.TaskStatus_TASK_STATUS_RUNNING
	return s.tell(100*time.Millisecond, &flowopsv1.TaskEvent{Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_STARTED, Message: "Running"})
}

func (s *story) stage(wait time.Duration, number int32) *story {
	return s.tell(wait, &flowopsv1.TaskEvent{Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_STARTED, Stage: number})
}

func (s *story) progress(wait time.Duration, stage int32, kind, action string, completed, failed, total int32) *story {
	return s.tell(wait, &flowopsv1.TaskEvent{
		Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_PROGRESS, Stage: stage, ComponentType: kind, Action: action,
		CompletedComponents: completed, FailedComponents: failed, TotalComponents: total,
	})
}

func (s *story) stepDone(wait time.Duration, stage int32, kind string, completed, failed, total int32, err string) *story {
	return s.tell(wait, &flowopsv1.TaskEvent{
		Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_FINISHED, Stage: stage, ComponentType: kind, Error: err,
		CompletedComponents: completed, FailedComponents: failed, TotalComponents: total,
	})
}

func (s *story) stageDone(stage int32, err string) *story {
	return s.tell(0, &flowopsv1.TaskEvent{Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_FINISHED, Stage: stage, Error: err})
}

func (s *story) end(status flowv1.TaskStatus, message string) *story {
	s.status = status
	return s.tell(0, &flowopsv1.TaskEvent{Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED, Message: message})
}

// untilSecondStage is a task in the middle of its second stage.
func untilSecondStage() *story {
	return new(story).begin().
		stage(0, 1).
		progress(600*time.Millisecond, 1, "PowerShelf", "PowerControl", 0, 0, 8).
		stepDone(2*time.Second, 1, "PowerShelf", 8, 0, 8, "").
		stageDone(1, "").
		stage(0, 2).
		progress(time.Second, 2, "NVSwitch", "VerifyPowerStatus", 5, 1, 9)
}

// untilFailed is a task that fails in its second stage.
func untilFailed() *story {
	const cause = "timeout after 5m0s waiting for power status On (attempts: 31)"
	return untilSecondStage().
		stepDone(3*time.Second, 2, "NVSwitch", 8, 1, 9, cause).
		stageDone(2, "component type NVSwitch failed: "+cause).
		end(flowv1.TaskStatus_TASK_STATUS_FAILED, "stage 2 failed: component type NVSwitch failed: "+cause)
}

// outlined is task one as a server answers it when it has just begun.
func outlined() *flowv1.Task {
	return &flowv1.Task{
		Id: &flowv1.UUID{Id: taskOne}, RackId: &flowv1.UUID{Id: rackOne},
		Operation: "PowerOn, forced false",
		Status:    flowv1.TaskStatus_TASK_STATUS_RUNNING,
		Message:   "Running",
		CreatedAt: after(0), StartedAt: after(100 * time.Millisecond), UpdatedAt: after(100 * time.Millisecond),
		Report: `{"version":1,"stages":[
			{"number":1,"status":"running","started_at":"2026-03-04T09:15:00Z","steps":[
				{"component_type":"PowerShelf","status":"running","total_components":8,"started_at":"2026-03-04T09:15:00Z"}]},
			{"number":2,"status":"pending","steps":[{"component_type":"NVSwitch","status":"pending","total_components":9}]},
			{"number":3,"status":"pending","steps":[
				{"component_type":"Compute","status":"pending","total_components":18},{"component_type":"CDU","status":"skipped"}]}]}`,
	}
}

// tell makes the progress that a story leads to.
func tell(s *story, known *flowv1.Task) (*progress, *taskProgress) {
	p := newProgress()
	t := p.task(taskOne, rackOne)
	if known != nil {
		t.outline(known)
		t.rack = "rack-1"
	}
	for _, ev := range s.events {
		p.apply(ev)
	}
	return p, t
}

func TestProgressSaysTheSameWhenEventsComeTwice(t *testing.T) {
	t.Parallel()
	_, once := tell(untilFailed(), outlined())
	p, twice := tell(untilFailed(), outlined())
	for _, ev := range untilFailed().events[3:] {
		p.apply(ev)
	}
	d := drawing{width: 100, now: epoch()}
	if want, got := d.task(once), d.task(twice); !slices.Equal(want, got) {
		t.Errorf("once:\n%q\ntwice:\n%q", want, got)
	}
}

func TestProgressOfACancelledTaskHasNothingRunning(t *testing.T) {
	t.Parallel()
	s := untilSecondStage().end(flowv1.TaskStatus_TASK_STATUS_TERMINATED, "Cancelled by user")
	_, got := tell(s, outlined())
	for _, st := range got.stages {
		for _, p := range st.steps {
			if st.status == task.ReportRunning || p.status == task.ReportRunning {
				t.Errorf("stage %d, %s still runs", st.number, p.componentType)
			}
		}
	}
	if s := got.stages[1]; s.status != task.ReportFailed {
		t.Errorf("stage 2 is %s, want failed", s.status)
	}
	if s := got.stages[2]; s.status != task.ReportPending {
		t.Errorf("stage 3 is %s, want pending", s.status)
	}
}

func TestProgressAdoptsAReport(t *testing.T) {
	t.Parallel()
	m := outlined()
	m.Status, m.Message = flowv1.TaskStatus_TASK_STATUS_FAILED, "stage 1 failed: component type PowerShelf failed: refused"
	m.FinishedAt = timestamppb.New(epoch().Add(4 * time.Second))
	m.Report = `{"version":1,"error":"component type PowerShelf failed: refused","stages":[{"number":1,"status":"failed",
		"started_at":"2026-03-04T09:15:00Z","finished_at":"2026-03-04T09:15:03Z","error":"component type PowerShelf failed: refused",
		"steps":[{"component_type":"PowerShelf","status":"failed","total_components":8,"completed_components":6,"failed_components":2,
			"started_at":"2026-03-04T09:15:00Z","finished_at":"2026-03-04T09:15:03Z","error":"refused"}]}]}`
	p := newProgress()
	got := p.task(taskOne, rackOne)
	got.adopt(m)
	step := got.stages[0].steps[0]
	if step.completed != 6 || step.failed != 2 || step.total != 8 || step.err != "refused" ||
		elapsed(step.started, step.finished, epoch()) != 3*time.Second {
		t.Errorf("step is %+v", step)
	}
	if !p.done([]string{taskOne}) || p.done([]string{taskOne, taskTwo}) {
		t.Error("task one is done and task two is not known, but done says else")
	}
}

func TestProgressTakesNoReportOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", `{"version":2,"stages":[{"number":1}]}`} {
		if _, ok := readReport(text); ok {
			t.Errorf("report %q was taken", text)
		}
	}
}

func TestProgressForgetsButCounts(t *testing.T) {
	t.Parallel()
	p, done := tell(untilFailed(), outlined())
	p.forget(done)
	if n := p.count()[flowv1.TaskStatus_TASK_STATUS_FAILED]; n != 1 || len(p.tasks) != 0 {
		t.Errorf("%d failed, %d tasks, want 1 and 0", n, len(p.tasks))
	}
}
