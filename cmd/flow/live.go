package main

import (
	"io"
	"time"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// renderer shows what a watch sees. Calls come one at a time; progress already has what is shown.
type renderer interface {
	// known is called when a task has been read, once.
	known(t *taskProgress)
	// event is called after each event.
	event(t *taskProgress, ev *flowopsv1.TaskEvent)
	// notice says something about the watch itself; empty takes the last notice back.
	notice(text string)
	// tick is called as time passes.
	tick()
	// end is called once, last.
	end()
}

// live shows tasks on a terminal: a block for each while the blocks fit, then a line for each that is active and a
// summary, with those that have ended scrolling away above.
type live struct {
	painter
	progress *progress
	style    style
	size     func() (width, height int)
	now      func() time.Time
	since    time.Time
	brief    bool // too many tasks for blocks; stays so, to keep the picture calm
	shown    map[*taskProgress]bool
	last     string // the notice
	endless  bool   // tasks that have ended are forgotten
}

func newLive(w io.Writer, p *progress, s style, size func() (width, height int), now func() time.Time) *live {
	return &live{
		painter:  painter{w: w},
		progress: p,
		style:    s,
		size:     size,
		now:      now,
		since:    now(),
		shown:    make(map[*taskProgress]bool),
	}
}

// Drawing is left to the next tick: tasks and events come in bursts.

func (l *live) known(*taskProgress) {}

func (l *live) event(*taskProgress, *flowopsv1.TaskEvent) {}

func (l *live) notice(text string) {
	l.last = text
	l.draw()
}

func (l *live) tick() { l.draw() }

func (l *live) end() {
	l.last = ""
	l.draw()
	_ = l.painter.end()
}

// draw paints the tasks as they are now. A terminal that can't be written to does not stop the watch.
func (l *live) draw() {
	width, height := l.size()
	width-- // a full row leaves terminals at odds about where the cursor is
	d := drawing{style: l.style, width: width, now: l.now()}
	room := height - 1 // the cursor's row
	var notice []string
	if l.last != "" {
		notice = []string{d.render([]span{{l.last, yellow}}, width)}
	}
	room -= len(notice)
	var above, lines []string
	if !l.brief {
		for _, t := range l.progress.tasks {
			lines = append(lines, d.task(t)...)
		}
		l.brief = len(lines) > room
	}
	if l.brief {
		above, lines = l.briefly(d, room)
	}
	_ = l.paint(above, append(lines, notice...), width)
}

// briefly draws a line for each active task and for each that has ended since the last time.
func (l *live) briefly(d drawing, room int) (above, lines []string) {
	var running, others []*taskProgress
	for _, t := range l.progress.tasks {
		switch {
		case l.shown[t]:
		case final(t.status):
			above = append(above, d.brief(t))
			l.shown[t] = true
		case t.status == flowv1.TaskStatus_TASK_STATUS_RUNNING:
			running = append(running, t)
		default:
			others = append(others, t)
		}
	}
	if l.endless {
		for t := range l.shown {
			l.progress.forget(t)
			delete(l.shown, t)
		}
	}
	for _, t := range append(running, others...) {
		if len(lines) == room-1 {
			break // the summary counts the rest
		}
		lines = append(lines, d.brief(t))
	}
	return above, append(lines, d.summary(l.progress.count(), l.since))
}
