package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

// picture is a golden picture: the lines between the first and the last one, which are empty.
func picture(s string) string { return strings.Trim(s, "\n") }

func TestDrawTask(t *testing.T) {
	t.Parallel()
	_, running := tell(untilSecondStage(), outlined())
	_, failed := tell(untilFailed(), outlined())
	_, unknown := tell(untilSecondStage(), nil)
	_, waiting := tell(new(story), nil)
	waiting.status, waiting.rack = flowv1.TaskStatus_TASK_STATUS_WAITING, "rack-1"
	waiting.message = "Queued: waiting for rack to become available"
	for name, test := range map[string]struct {
		task  *taskProgress
		style style
		width int
		want  string
	}{
		"a running task": {running, style{unicode: true}, 100, `
⠋ rack-1  PowerOn  running  5.9s                                22222222-0000-4000-8000-000000000001
  ✓ stage 1  PowerShelf  ████████████████████████    8/8                                        2.6s
  ⠋ stage 2  NVSwitch    ████████████████░░░░░░░░    5/9  1 failed VerifyPowerStatus            3.3s
  · stage 3  Compute     ░░░░░░░░░░░░░░░░░░░░░░░░   0/18
  ·          CDU                                          skipped`},
		"a failed task": {failed, style{unicode: true}, 100, `
✗ rack-1  PowerOn  failed  6.6s                                 22222222-0000-4000-8000-000000000001
  stage 2 failed: component type NVSwitch failed: timeout after 5m0s waiting for power status On (a…
  ✓ stage 1  PowerShelf  ████████████████████████    8/8                                        2.6s
  ✗ stage 2  NVSwitch    ████████████████████████    8/9  1 failed                              4.0s
  · stage 3  Compute     ░░░░░░░░░░░░░░░░░░░░░░░░   0/18
  ·          CDU                                          skipped`},
		"a task that was not read": {unknown, style{}, 100, `
| 11111111-0000-4000-8000-000000000001  task  running  5.9s     22222222-0000-4000-8000-000000000001
  + stage 1  PowerShelf  ########################    8/8                                        2.6s
  | stage 2  NVSwitch    ################--------    5/9  1 failed VerifyPowerStatus            3.3s`},
		"a narrow terminal loses the action": {running, style{}, 60, `
| rack-1  PowerOn  running  5.9s
  + stage 1  PowerShelf  ####################    8/8    2.6s
  | stage 2  NVSwitch    #############-------    5/9    3.3s
  . stage 3  Compute     --------------------   0/18
  .          CDU`},
		"a very narrow one the bar": {running, style{}, 40, `
| rack-1  PowerOn  running  5.9s
  + stage 1  PowerShelf    8/8    2.6s
  | stage 2  NVSwitch      5/9    3.3s
  . stage 3  Compute      0/18
  .          CDU`},
		"a task that waits says for what": {waiting, style{unicode: true}, 80, `
· rack-1  task  waiting                     22222222-0000-4000-8000-000000000001
  Queued: waiting for rack to become available`},
		"colours": {running, style{colour: true, unicode: true}, 60, `
{36m}⠋{0m} {1m}rack-1{0m}  PowerOn  {36m}running{0m}{2m}  5.9s{0m}
  {32m}✓{0m} stage 1  PowerShelf  {32m}████████████████████{0m}    8/8  {2m}  2.6s{0m}
  {36m}⠋{0m} stage 2  NVSwitch    {36m}███████████{0m}{31m}██{0m}{2m}░░░░░░░{0m}    5/9  {2m}  3.3s{0m}
  {2m}·{0m} stage 3  Compute     {2m}░░░░░░░░░░░░░░░░░░░░{0m}   0/18  {2m}      {0m}
  {2m}·{0m}          CDU                                      {2m}      {0m}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drawing{style: test.style, width: test.width, now: epoch().Add(6 * time.Second)}
			got := strings.Join(d.task(test.task), "\n")
			got = strings.ReplaceAll(got, "\x1b[", "{")
			for _, code := range []string{"0", "1", "2", "31", "32", "36"} {
				got = strings.ReplaceAll(got, "{"+code+"m", "{"+code+"m}")
			}
			if diff := cmp.Diff(picture(test.want), got); diff != "" {
				t.Errorf("%s\n%s", diff, got)
			}
		})
	}
}

func TestDrawingIsNeverWiderThanTheTerminal(t *testing.T) {
	t.Parallel()
	_, failed := tell(untilFailed(), outlined())
	failed.rack = strings.Repeat("räck", 30)
	for width := range 120 {
		d := drawing{style: style{colour: true, unicode: true}, width: width, now: epoch()}
		for _, l := range append(d.task(failed), d.brief(failed), d.summary(map[flowv1.TaskStatus]int{failed.status: 1}, epoch())) {
			if n := visible(l); n > width {
				t.Errorf("width %d: %q has %d", width, l, n)
			}
		}
	}
}

func TestDrawBrief(t *testing.T) {
	t.Parallel()
	_, running := tell(untilSecondStage(), outlined())
	_, failed := tell(untilFailed(), outlined())
	_, pending := tell(new(story), outlined())
	pending.status = flowv1.TaskStatus_TASK_STATUS_PENDING
	_, done := tell(untilSecondStage().end(flowv1.TaskStatus_TASK_STATUS_COMPLETED, "Succeeded"), outlined())
	d := drawing{style: style{unicode: true}, width: 90, now: epoch().Add(6 * time.Second)}
	want := picture(`
⠋ rack-1      PowerOn  stage 2 of 3  NVSwitch 5/9 VerifyPowerStatus  5.9s
✗ rack-1      PowerOn  failed: stage 2 failed: component type NVSwitch failed: timeout af…
· rack-1      PowerOn  pending
✓ rack-1      PowerOn  completed in 3.6s`)
	got := strings.Join([]string{d.brief(running), d.brief(failed), d.brief(pending), d.brief(done)}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                     "0.0s",
		9*time.Second + 999*time.Millisecond:  "9.9s",
		10 * time.Second:                      "10s",
		59*time.Second + 900*time.Millisecond: "59s",
		time.Minute:                           "1m00s",
		61 * time.Minute:                      "1h01m",
	} {
		if got := clock(d); got != want {
			t.Errorf("clock(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestTextFromElsewhereCannotMoveTheCursor(t *testing.T) {
	t.Parallel()
	const bad = "a\x1b[2Jb\r\nc\u202ed\tf\x9b"
	if got := line(bad); strings.ContainsAny(got, "\x1b\r\n\t\u202e") || strings.Contains(got, "\x9b") {
		t.Errorf("line keeps %q", got)
	}
	if got, want := clean(bad), "a?[2Jb?\nc?d f?"; got != want {
		t.Errorf("clean = %q, want %q", got, want)
	}
	if n := visible("\x1b[31mred\x1b[0m"); n != 3 {
		t.Errorf("visible = %d, want 3", n)
	}
}
