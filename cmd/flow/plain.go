package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"rackflow.dev/flow/api/gen/flowopsv1"
)

// lines shows tasks as text, a line for each event, for what is not a terminal.
type lines struct {
	w        io.Writer
	progress *progress
	now      func() time.Time
	endless  bool // tasks that have ended are forgotten
}

func (l *lines) known(t *taskProgress) {
	s, ordinal := t.current()
	at := ""
	if s != nil && !final(t.status) {
		at = ", at stage " + ordinalOf(ordinal, t.stageCount)
	}
	l.line(l.now(), t, fmt.Sprintf("task %s, %s: %s%s", t.id, t.name(), statusWord(t.status), at))
}

func (l *lines) event(t *taskProgress, ev *flowopsv1.TaskEvent) {
	if text := eventText(t, ev); text != "" {
		l.line(ev.GetAt().AsTime(), t, text)
	}
	if l.endless && final(t.status) {
		l.progress.forget(t)
	}
}

func (l *lines) notice(text string) {
	if text == "" {
		text = "connected again"
	}
	fmt.Fprintf(l.w, "%s %s\n", stamp(l.now()), line(text))
}

func (*lines) tick() {}

func (*lines) end() {}

func (l *lines) line(at time.Time, t *taskProgress, text string) {
	fmt.Fprintf(l.w, "%s %s %s %s\n", stamp(at), line(t.rack), shortID(t.id), line(text))
}

// eventText says in words what happened.
func eventText(t *taskProgress, ev *flowopsv1.TaskEvent) string {
	stage := ""
	if n := int(ev.GetStage()); n > 0 {
		stage = fmt.Sprintf("stage %d", n)
		for i, s := range t.stages {
			if s.number == n && t.stageCount > 0 {
				stage = "stage " + ordinalOf(i+1, t.stageCount)
			}
		}
	}
	switch ev.GetKind() {
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_CREATED:
		return join("created", ev.GetMessage())
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_STARTED:
		return "started"
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_STARTED:
		return stage + " started"
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_PROGRESS:
		return fmt.Sprintf("%s %s %s %s", stage, ev.GetComponentType(), ev.GetAction(), counts(ev))
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_FINISHED:
		return join(fmt.Sprintf("%s %s %s %s", stage, ev.GetComponentType(), ended(ev.GetError()), counts(ev)), ev.GetError())
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_FINISHED:
		return join(fmt.Sprintf("%s %s", stage, ended(ev.GetError())), ev.GetError())
	case flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED:
		text := statusWord(ev.GetStatus())
		if e := elapsed(t.started, t.finished, t.finished); e > 0 {
			text += " in " + clock(e)
		}
		return join(text, t.remark())
	}
	return ev.GetMessage()
}

// counts shows how far a step is.
func counts(ev *flowopsv1.TaskEvent) string {
	text := fmt.Sprintf("%d/%d", ev.GetCompletedComponents(), ev.GetTotalComponents())
	if n := ev.GetFailedComponents(); n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	return text
}

// join adds an explanation where there is one.
func join(text, why string) string {
	if why == "" || strings.EqualFold(text, why) {
		return text
	}
	return text + ": " + why
}

// stamp is a time in a log line.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// shortID is enough of an id to tell a handful of tasks apart.
func shortID(id string) string { return id[:min(8, len(id))] }
