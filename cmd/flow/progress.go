package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

// progress is what is known of the tasks that are watched. Events and reports may come in any order and twice: each says
// what is, none adds to what was.
type progress struct {
	tasks []*taskProgress // in the order they became known
	byID  map[string]*taskProgress

	forgotten map[flowv1.TaskStatus]int // how many tasks that had ended were dropped
}

// taskProgress is one task as it is drawn.
type taskProgress struct {
	id, rackID, rack string // rack is its name, or its id while that is not known
	operation        string // empty until the task was read
	status           flowv1.TaskStatus
	message          string
	err              string
	created          time.Time
	started          time.Time // zero until it runs
	finished         time.Time // zero until it is final
	stageCount       int       // 0 until it is known
	stages           []*stageProgress
	outlined         bool // the stages to come are known, too
}

// stageProgress is one stage of a task; stages are in the order of their numbers.
type stageProgress struct {
	number   int
	status   task.ReportStatus
	started  time.Time
	finished time.Time
	err      string
	steps    []*stepProgress
}

// stepProgress is one step of a stage: one type of component.
type stepProgress struct {
	componentType            string
	status                   task.ReportStatus
	action                   string // what it is at, while it runs
	total, completed, failed int
	started                  time.Time
	finished                 time.Time
	err                      string
}

func newProgress() *progress {
	return &progress{byID: make(map[string]*taskProgress), forgotten: make(map[flowv1.TaskStatus]int)}
}

// task finds a task, or begins to know it.
func (p *progress) task(id, rackID string) *taskProgress {
	t, ok := p.byID[id]
	if !ok {
		t = &taskProgress{id: id, rackID: rackID, rack: rackID}
		p.byID[id] = t
		p.tasks = append(p.tasks, t)
	}
	return t
}

// apply takes over what an event says.
func (p *progress) apply(ev *flowopsv1.TaskEvent) *taskProgress {
	t := p.task(ev.GetTaskId().GetId(), ev.GetRackId().GetId())
	at := ev.GetAt().AsTime()
	t.status = ev.GetStatus()
	t.message = cmp.Or(ev.GetMessage(), t.message)
	t.stageCount = cmp.Or(int(ev.GetStages()), t.stageCount)
	switch ev.GetKind() {
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_CREATED:
		t.created = at
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_STARTED:
		t.started = at
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_STARTED:
		t.stage(int(ev.GetStage())).start(at)
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_PROGRESS, flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_FINISHED:
		t.stage(int(ev.GetStage())).step(ev.GetComponentType()).apply(ev, at)
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_FINISHED:
		s := t.stage(int(ev.GetStage()))
		s.finished, s.err = at, ev.GetError()
		s.status = ended(s.err)
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED:
		t.finished, t.err = at, ev.GetError()
		t.stopStages(at)
	}
	return t
}

// start shows a stage and its steps as running: all steps of a stage begin with it.
func (s *stageProgress) start(at time.Time) {
	s.status, s.started = task.ReportRunning, at
	for _, p := range s.steps {
		if p.status == task.ReportPending {
			p.status, p.started = task.ReportRunning, at
		}
	}
}

func (s *stepProgress) apply(ev *flowopsv1.TaskEvent, at time.Time) {
	if s.started.IsZero() {
		s.started = at
	}
	s.total, s.completed, s.failed = int(ev.GetTotalComponents()), int(ev.GetCompletedComponents()), int(ev.GetFailedComponents())
	if ev.GetKind() == flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_PROGRESS {
		s.status, s.action = task.ReportRunning, ev.GetAction()
		return
	}
	s.finished, s.err, s.action = at, ev.GetError(), ""
	s.status = ended(s.err)
}

// ended is the status of what has ended with or without an error.
func ended(err string) task.ReportStatus {
	if err != "" {
		return task.ReportFailed
	}
	return task.ReportCompleted
}

// stopStages shows what was running when its task ended as failed, as the report does.
func (t *taskProgress) stopStages(at time.Time) {
	for _, s := range t.stages {
		if s.status == task.ReportRunning {
			s.status, s.finished = task.ReportFailed, at
		}
		for _, p := range s.steps {
			if p.status == task.ReportRunning {
				p.status, p.finished, p.action = task.ReportFailed, at, ""
			}
		}
	}
}

// stage finds a stage by the rule's number, or makes room for it.
func (t *taskProgress) stage(number int) *stageProgress {
	i, found := slices.BinarySearchFunc(t.stages, number, func(s *stageProgress, n int) int { return cmp.Compare(s.number, n) })
	if !found {
		t.stages = slices.Insert(t.stages, i, &stageProgress{number: number, status: task.ReportPending})
	}
	return t.stages[i]
}

// step finds the step of a component type, or adds it.
func (s *stageProgress) step(componentType string) *stepProgress {
	for _, p := range s.steps {
		if p.componentType == componentType {
			return p
		}
	}
	p := &stepProgress{componentType: componentType, status: task.ReportPending}
	if s.status == task.ReportRunning {
		p.status, p.started = task.ReportRunning, s.started
	}
	s.steps = append(s.steps, p)
	return p
}

// outline takes over from a task what its events do not say: its operation, and the stages to come.
func (t *taskProgress) outline(m *flowv1.Task) {
	t.operation = m.GetOperation()
	if t.status == flowv1.TaskStatus_TASK_STATUS_UNKNOWN {
		t.status, t.message = m.GetStatus(), m.GetMessage()
	}
	if m.GetCreatedAt() != nil {
		t.created = m.GetCreatedAt().AsTime()
	}
	r, ok := readReport(m.GetReport())
	if !ok {
		return
	}
	t.outlined = true
	t.stageCount = len(r.Stages)
	for _, sr := range r.Stages {
		s := t.stage(sr.Number)
		if sr.Status == task.ReportSkipped {
			s.status = task.ReportSkipped
		}
		for _, st := range sr.Steps {
			step := s.step(string(st.ComponentType))
			if st.Status == task.ReportSkipped {
				step.status = task.ReportSkipped
			}
			step.total = cmp.Or(step.total, int(st.Total))
		}
	}
}

// adopt takes over everything a task says, for one whose events are not read from the beginning.
func (t *taskProgress) adopt(m *flowv1.Task) {
	t.outline(m)
	t.status, t.message = m.GetStatus(), m.GetMessage()
	if m.GetStartedAt() != nil {
		t.started = m.GetStartedAt().AsTime()
	}
	if m.GetFinishedAt() != nil {
		t.finished = m.GetFinishedAt().AsTime()
	}
	r, ok := readReport(m.GetReport())
	if !ok {
		return
	}
	if t.status == flowv1.TaskStatus_TASK_STATUS_FAILED {
		t.err = r.Error
	}
	for _, sr := range r.Stages {
		s := t.stage(sr.Number)
		s.status, s.err, s.started, s.finished = sr.Status, sr.Error, timeOf(sr.StartedAt), timeOf(sr.FinishedAt)
		for _, st := range sr.Steps {
			p := s.step(string(st.ComponentType))
			p.status, p.err, p.started, p.finished = st.Status, st.Error, timeOf(st.StartedAt), timeOf(st.FinishedAt)
			p.total, p.completed, p.failed = int(st.Total), int(st.Completed), int(st.Failed)
		}
	}
}

// readReport decodes the report of a task; not ok when there is none, or none of a version we know.
func readReport(text string) (task.Report, bool) {
	var r task.Report
	if text == "" || json.Unmarshal([]byte(text), &r) != nil || r.Version != 1 {
		return task.Report{}, false
	}
	return r, true
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// current is the stage a task is at: the last one that has begun; nil before the first.
func (t *taskProgress) current() (s *stageProgress, ordinal int) {
	for i, c := range t.stages {
		if !c.started.IsZero() {
			s, ordinal = c, i+1
		}
	}
	return s, ordinal
}

// elapsed is how long something took, or has been taking until now; zero before it began.
func elapsed(started, finished, now time.Time) time.Duration {
	if started.IsZero() {
		return 0
	}
	if finished.IsZero() {
		finished = now
	}
	return max(finished.Sub(started), 0)
}

// count is how many tasks are in each status.
func (p *progress) count() map[flowv1.TaskStatus]int {
	n := maps.Clone(p.forgotten)
	for _, t := range p.tasks {
		n[t.status]++
	}
	return n
}

// done reports whether every task with one of these ids is final.
func (p *progress) done(ids []string) bool {
	for _, id := range ids {
		if t, ok := p.byID[id]; !ok || !final(t.status) {
			return false
		}
	}
	return true
}

// forget drops a task that has ended; it stays in the counts.
func (p *progress) forget(t *taskProgress) {
	p.forgotten[t.status]++
	delete(p.byID, t.id)
	p.tasks = slices.DeleteFunc(p.tasks, func(o *taskProgress) bool { return o == t })
}
