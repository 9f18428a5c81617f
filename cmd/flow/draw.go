package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

// The parts of a drawn step, in characters. A terminal that is too narrow loses the action first, then the bar.
const (
	typeWidth    = 10 // PowerShelf
	stageWidth   = 8  // stage 12
	countWidth   = 5  // 18/18
	timeWidth    = 6
	barWidth     = 24
	leastBar     = 8
	actionWidth  = 20
	leastAction  = 12
	mostAction   = 36 // 18 failed VerifyFirmwareConsistency
	fixedColumns = 2 + 2 + stageWidth + 1 + typeWidth + 2 + 2 + countWidth + 2 + timeWidth
)

// drawing puts tasks on a terminal of some width at some time.
type drawing struct {
	style
	width int
	now   time.Time
}

// task draws one task as a block: a head, a line for each step, and what it says.
func (d drawing) task(t *taskProgress) []string {
	lines := []string{d.head(t)}
	if text := t.remark(); text != "" {
		c := dim
		if t.status == flowv1.TaskStatus_TASK_STATUS_FAILED {
			c = red
		}
		lines = append(lines, d.render([]span{{"  ", plain}, {text, c}}, d.width))
	}
	for _, s := range t.stages {
		label := fmt.Sprintf("stage %d", s.number)
		if len(s.steps) == 0 {
			lines = append(lines, d.step(label, &stepProgress{status: s.status, started: s.started, finished: s.finished}))
		}
		for _, p := range s.steps {
			lines = append(lines, d.step(label, p))
			label = ""
		}
	}
	return lines
}

// head is the first line of a block.
func (d drawing) head(t *taskProgress) string {
	spans := []span{
		d.taskIcon(t.status, d.now), {" ", plain},
		{t.rack, bold}, {"  ", plain},
		{t.name(), plain}, {"  ", plain},
		{statusWord(t.status), statusColour(t.status)},
	}
	if e := elapsed(t.started, t.finished, d.now); e > 0 {
		spans = append(spans, span{"  " + clock(e), dim})
	}
	used := 0
	for _, s := range spans {
		used += utf8.RuneCountInString(s.text)
	}
	if room := d.width - used - len(t.id); room >= 2 {
		spans = append(spans, span{strings.Repeat(" ", room) + t.id, dim})
	}
	return d.render(spans, d.width)
}

// step draws one step.
func (d drawing) step(label string, p *stepProgress) string {
	c := dim
	count, at, took := "", "", ""
	switch p.status {
	case task.ReportSkipped:
		at = "skipped"
	case task.ReportRunning:
		c, at = cyan, p.action
	case task.ReportCompleted:
		c = green
	case task.ReportFailed:
		c, at = red, "failed"
	}
	if p.total > 0 {
		count = fmt.Sprintf("%d/%d", p.completed, p.total)
	}
	if p.failed > 0 {
		at = fmt.Sprintf("%d failed %s", p.failed, strings.TrimPrefix(at, "failed"))
	}
	if !p.started.IsZero() {
		took = clock(elapsed(p.started, p.finished, d.now))
	}
	bar, action := d.columns()
	spans := []span{
		{"  ", plain}, d.icon(p.status, d.now), {" ", plain},
		{pad(label, stageWidth) + " ", plain},
		{pad(p.componentType, typeWidth) + "  ", plain},
	}
	if bar > 0 {
		if p.status == task.ReportSkipped {
			spans = append(spans, span{strings.Repeat(" ", bar), plain})
		} else {
			spans = append(spans, d.bar(bar, p.total, p.completed, p.failed, c)...)
		}
		spans = append(spans, span{"  ", plain})
	}
	spans = append(spans, span{padLeft(count, countWidth) + "  ", plain})
	if action > 0 {
		spans = append(spans, span{pad(d.cut(at, action), action) + "  ", c})
	}
	return d.render(append(spans, span{padLeft(took, timeWidth), dim}), d.width)
}

// columns shares the width between bar and action.
func (d drawing) columns() (bar, action int) {
	room := d.width - fixedColumns
	if room >= leastBar+2+leastAction {
		bar = min(room-min(room-leastBar-2, actionWidth)-2, barWidth)
		return bar, min(room-bar-2, mostAction)
	}
	if room >= leastBar {
		return min(room, barWidth), 0
	}
	return 0, 0
}

// brief draws one task on one line.
func (d drawing) brief(t *taskProgress) string {
	spans := []span{
		d.taskIcon(t.status, d.now), {" ", plain},
		{pad(t.rack, typeWidth), bold}, {"  ", plain},
		{t.name(), plain}, {"  ", plain},
	}
	s, ordinal := t.current()
	switch {
	case final(t.status):
		spans = append(spans, span{statusWord(t.status), statusColour(t.status)})
		if text := t.remark(); text != "" {
			spans = append(spans, span{": " + text, plain})
		} else if e := elapsed(t.started, t.finished, d.now); e > 0 {
			spans = append(spans, span{" in " + clock(e), dim})
		}
		return d.render(spans, d.width)
	case s == nil:
		spans = append(spans, span{statusWord(t.status), statusColour(t.status)})
		return d.render(spans, d.width)
	}
	spans = append(spans, span{"stage " + ordinalOf(ordinal, t.stageCount), dim})
	for _, p := range s.steps {
		if p.status == task.ReportRunning {
			spans = append(spans, span{fmt.Sprintf("  %s %d/%d %s", p.componentType, p.completed, p.total, p.action), plain})
		}
	}
	spans = append(spans, span{"  " + clock(elapsed(t.started, t.finished, d.now)), dim})
	return d.render(spans, d.width)
}

// summary counts tasks by status.
func (d drawing) summary(n map[flowv1.TaskStatus]int, since time.Time) string {
	total := 0
	var parts []span
	for _, s := range []flowv1.TaskStatus{
		flowv1.TaskStatus_TASK_STATUS_RUNNING,
		flowv1.TaskStatus_TASK_STATUS_PENDING,
		flowv1.TaskStatus_TASK_STATUS_WAITING,
		flowv1.TaskStatus_TASK_STATUS_COMPLETED,
		flowv1.TaskStatus_TASK_STATUS_FAILED,
		flowv1.TaskStatus_TASK_STATUS_TERMINATED,
	} {
		if n[s] > 0 {
			parts = append(parts, span{", ", plain}, span{fmt.Sprintf("%d %s", n[s], statusWord(s)), statusColour(s)})
		}
		total += n[s]
	}
	spans := []span{{fmt.Sprintf("%d tasks", total), bold}, {": ", plain}}
	if len(parts) > 0 {
		spans = append(spans, parts[1:]...)
	}
	return d.render(append(spans, span{"  " + clock(d.now.Sub(since)), dim}), d.width)
}

// name is the operation for people: what the word already says is left out.
func (t *taskProgress) name() string {
	return cmp.Or(operationName(t.operation), "task")
}

// remark is what a task says beyond its status.
func (t *taskProgress) remark() string {
	switch {
	case t.status == flowv1.TaskStatus_TASK_STATUS_COMPLETED:
		return ""
	case strings.EqualFold(t.message, statusWord(t.status)):
		return t.err
	}
	return cmp.Or(t.message, t.err)
}

// ordinalOf is "2 of 3", or "2" while the number of stages is not known.
func ordinalOf(n, count int) string {
	if count < n {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, count)
}
