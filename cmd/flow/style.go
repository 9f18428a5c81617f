package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

// style is what a terminal can show.
type style struct {
	colour  bool
	unicode bool
}

// newStyle reads what the environment says about the terminal; not ok when it can't move its cursor.
func newStyle(getenv getenvFunc) (s style, ok bool) {
	locale := getenv("LC_ALL")
	for _, name := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = getenv(name)
		}
	}
	locale = strings.ToLower(locale)
	s = style{
		colour:  getenv("NO_COLOR") == "",
		unicode: strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8"),
	}
	kind := getenv("TERM")
	return s, kind != "" && kind != "dumb"
}

// colour is a parameter of the escape sequence that sets it.
type colour string

// The colours in use.
const (
	plain  colour = ""
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
)

// span is text in one colour.
type span struct {
	text   string
	colour colour
}

// render puts spans on one line that is not wider than the terminal.
func (s style) render(spans []span, width int) string {
	var b strings.Builder
	for _, sp := range spans {
		text := line(sp.text)
		if n := utf8.RuneCountInString(text); n > width {
			text = s.cut(text, width)
		}
		width -= utf8.RuneCountInString(text)
		if s.colour && sp.colour != plain && text != "" {
			text = "\x1b[" + string(sp.colour) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}

// cut shortens text to a number of characters and shows that it did.
func (s style) cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	mark := "~"
	if s.unicode {
		mark = "…"
	}
	if n < 1 {
		return ""
	}
	return string([]rune(text)[:n-1]) + mark
}

// bar draws how much of a whole is done and how much has failed.
func (s style) bar(width, total, completed, failed int, c colour) []span {
	full, rest := "#", "-"
	if s.unicode {
		full, rest = "█", "░"
	}
	if total <= 0 || width <= 0 {
		return []span{{strings.Repeat(rest, max(width, 0)), dim}}
	}
	bad := min(failed*width/total, width)
	if failed > 0 && bad == 0 {
		bad = 1
	}
	good := max(min((completed+failed)*width/total, width)-bad, 0)
	return []span{
		{strings.Repeat(full, good), c},
		{strings.Repeat(full, bad), red},
		{strings.Repeat(rest, width-good-bad), dim},
	}
}

// spinnerFrame is how long one picture of the spinner stands.
const spinnerFrame = 100 * time.Millisecond

// spinner is a picture that moves with time.
func (s style) spinner(now time.Time) string {
	frames := []string{"|", "/", "-", "\\"}
	if s.unicode {
		frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	}
	return frames[int(now.UnixMilli()/spinnerFrame.Milliseconds())%len(frames)]
}

// icon is the sign in front of a stage or step.
func (s style) icon(status task.ReportStatus, now time.Time) span {
	switch status {
	case task.ReportRunning:
		return span{s.spinner(now), cyan}
	case task.ReportCompleted:
		return span{s.pick("✓", "+"), green}
	case task.ReportFailed:
		return span{s.pick("✗", "x"), red}
	}
	return span{s.pick("·", "."), dim}
}

// taskIcon is the sign in front of a task.
func (s style) taskIcon(status flowv1.TaskStatus, now time.Time) span {
	switch status {
	case flowv1.TaskStatus_TASK_STATUS_RUNNING:
		return s.icon(task.ReportRunning, now)
	case flowv1.TaskStatus_TASK_STATUS_COMPLETED:
		return s.icon(task.ReportCompleted, now)
	case flowv1.TaskStatus_TASK_STATUS_FAILED:
		return s.icon(task.ReportFailed, now)
	case flowv1.TaskStatus_TASK_STATUS_TERMINATED:
		return span{s.pick("■", "x"), yellow}
	}
	return s.icon(task.ReportPending, now)
}

func (s style) pick(unicode, ascii string) string {
	if s.unicode {
		return unicode
	}
	return ascii
}

// statusColour is the colour of a status in words.
func statusColour(s flowv1.TaskStatus) colour {
	switch s {
	case flowv1.TaskStatus_TASK_STATUS_COMPLETED:
		return green
	case flowv1.TaskStatus_TASK_STATUS_FAILED:
		return red
	case flowv1.TaskStatus_TASK_STATUS_TERMINATED:
		return yellow
	case flowv1.TaskStatus_TASK_STATUS_RUNNING:
		return cyan
	}
	return dim
}

// pad fills text up to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

// padLeft fills text up to a width in front.
func padLeft(text string, width int) string {
	return strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0)) + text
}

// clock shows a duration in at most six characters while it is below 100 hours.
func clock(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
