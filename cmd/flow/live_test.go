package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

// stage is a live renderer on a screen, with a clock that the test turns.
type stage struct {
	*screen
	live *live
	now  time.Time
}

func newStage(t *testing.T, p *progress, width, height int) *stage {
	s := &stage{screen: newScreen(t, width, height), now: epoch()}
	s.live = newLive(s.screen, p, style{unicode: true}, func() (int, int) { return s.width, s.height }, func() time.Time { return s.now })
	return s
}

func (s *stage) show(want string) {
	s.t.Helper()
	if diff := cmp.Diff(picture(want), s.String()); diff != "" {
		s.t.Errorf("%s\n%s", diff, s.String())
	}
}

func TestLiveRedrawsOneBlockForATask(t *testing.T) {
	t.Parallel()
	p := newProgress()
	task := p.task(taskOne, rackOne)
	task.outline(outlined())
	task.rack = "rack-1"
	s := newStage(t, p, 81, 24)
	_, _ = s.Write([]byte("$ flow power on rack-1 --wait\n"))
	events := untilFailed().events
	s.live.known(task)
	s.live.tick()
	s.show(`
$ flow power on rack-1 --wait
⠋ rack-1  PowerOn  running                  22222222-0000-4000-8000-000000000001
  · stage 1  PowerShelf  ░░░░░░░░░░░░░░░░░░    0/8
  · stage 2  NVSwitch    ░░░░░░░░░░░░░░░░░░    0/9
  · stage 3  Compute     ░░░░░░░░░░░░░░░░░░   0/18
  ·          CDU                                    skipped`)
	for i, ev := range events {
		s.now = ev.GetAt().AsTime().Add(50 * time.Millisecond)
		s.live.event(p.apply(ev), ev)
		s.live.tick()
		if i == 3 {
			s.show(`
$ flow power on rack-1 --wait
⠧ rack-1  PowerOn  running  0.6s            22222222-0000-4000-8000-000000000001
  ⠧ stage 1  PowerShelf  ░░░░░░░░░░░░░░░░░░    0/8  PowerControl            0.6s
  · stage 2  NVSwitch    ░░░░░░░░░░░░░░░░░░    0/9
  · stage 3  Compute     ░░░░░░░░░░░░░░░░░░   0/18
  ·          CDU                                    skipped`)
		}
	}
	s.live.end()
	s.show(`
$ flow power on rack-1 --wait
✗ rack-1  PowerOn  failed  6.6s             22222222-0000-4000-8000-000000000001
  stage 2 failed: component type NVSwitch failed: timeout after 5m0s waiting fo…
  ✓ stage 1  PowerShelf  ██████████████████    8/8                          2.6s
  ✗ stage 2  NVSwitch    ██████████████████    8/9  1 failed                4.0s
  · stage 3  Compute     ░░░░░░░░░░░░░░░░░░   0/18
  ·          CDU                                    skipped`)
	if s.cursorHidden {
		t.Error("the cursor stays hidden")
	}
}

func TestLiveWritesNothingWhenNothingHasChanged(t *testing.T) {
	t.Parallel()
	p, _ := tell(untilFailed(), outlined())
	s := newStage(t, p, 80, 24)
	s.live.tick()
	before := s.written
	s.now = s.now.Add(time.Hour)
	s.live.tick()
	if n := s.written - before; n != 0 {
		t.Errorf("%d bytes for a picture that stands still", n)
	}
}

func TestLiveShowsANotice(t *testing.T) {
	t.Parallel()
	p, _ := tell(untilFailed(), nil)
	s := newStage(t, p, 60, 24)
	s.live.notice("connection lost, trying again: EOF")
	if !strings.HasSuffix(s.String(), "\nconnection lost, trying again: EOF") {
		t.Errorf("no notice:\n%s", s)
	}
	s.live.notice("")
	if strings.Contains(s.String(), "lost") {
		t.Errorf("the notice stays:\n%s", s)
	}
}

// crowd is a number of tasks that are pending.
func crowd(n int) (*progress, []*taskProgress) {
	p := newProgress()
	for i := range n {
		t := p.task(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), rackOne)
		t.rack, t.operation, t.status = fmt.Sprintf("rack-%d", i+1), "PowerOn, forced false", flowv1.TaskStatus_TASK_STATUS_PENDING
	}
	return p, p.tasks
}

func TestLiveSummarisesManyTasks(t *testing.T) {
	t.Parallel()
	p, tasks := crowd(20)
	s := newStage(t, p, 61, 6)
	s.live.tick()
	s.show(`
· rack-1      PowerOn  pending
· rack-2      PowerOn  pending
· rack-3      PowerOn  pending
· rack-4      PowerOn  pending
20 tasks: 20 pending  0.0s`)
	tasks[5].status = flowv1.TaskStatus_TASK_STATUS_RUNNING
	tasks[0].status = flowv1.TaskStatus_TASK_STATUS_COMPLETED
	tasks[7].status, tasks[7].message = flowv1.TaskStatus_TASK_STATUS_FAILED, "stage 1 failed: no answer"
	s.now = s.now.Add(time.Second)
	s.live.tick()
	s.show(`
✓ rack-1      PowerOn  completed
✗ rack-8      PowerOn  failed: stage 1 failed: no answer
⠋ rack-6      PowerOn  running
· rack-2      PowerOn  pending
· rack-3      PowerOn  pending
· rack-4      PowerOn  pending
20 tasks: 1 running, 17 pending, 1 completed, 1 failed  1.0s`)
	for _, t := range tasks {
		if !final(t.status) {
			t.status = flowv1.TaskStatus_TASK_STATUS_COMPLETED
		}
	}
	s.live.end()
	if got := strings.Split(s.String(), "\n"); len(got) != 21 || got[20] != "20 tasks: 19 completed, 1 failed  1.0s" {
		t.Errorf("at the end:\n%s", s)
	}
}

func TestLiveForgetsInAnEndlessWatch(t *testing.T) {
	t.Parallel()
	p, tasks := crowd(20)
	s := newStage(t, p, 61, 6)
	s.live.endless = true
	for _, t := range tasks {
		t.status = flowv1.TaskStatus_TASK_STATUS_COMPLETED
	}
	s.live.tick()
	if len(p.tasks) != 0 || len(s.live.shown) != 0 || !strings.HasSuffix(s.String(), "20 tasks: 20 completed  0.0s") {
		t.Errorf("%d tasks are kept:\n%s", len(p.tasks), s)
	}
}

// The law: whatever changes, the screen shows exactly the lines of the last frame below what was printed before.
func TestPainterShowsTheLastFrame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		s := newScreen(t, 20, 12)
		p := painter{w: s}
		var above []string
		for range 20 {
			lines := make([]string, random.IntN(8))
			for i := range lines {
				lines[i] = strings.Repeat(string(rune('a'+random.IntN(3))), random.IntN(19)+1)
			}
			var more []string
			if random.IntN(4) == 0 {
				more = []string{"above"}
			}
			above = append(above, more...)
			if err := p.paint(more, lines, 20); err != nil {
				t.Fatal(err)
			}
			want := strings.TrimRight(strings.Join(append(append([]string(nil), above...), lines...), "\n"), "\n")
			if diff := cmp.Diff(want, s.String()); diff != "" {
				t.Fatal(diff)
			}
		}
	}
}

func TestPainterRedrawsAtAnotherWidth(t *testing.T) {
	t.Parallel()
	s := newScreen(t, 20, 12)
	p := painter{w: s}
	_ = p.paint(nil, []string{strings.Repeat("a", 20), "b"}, 20)
	// A terminal made half as wide shows the first line on two rows.
	s.width, s.rows, s.row = 10, [][]rune{[]rune("aaaaaaaaaa"), []rune("aaaaaaaaaa"), []rune("b"), nil}, 3
	_ = p.paint(nil, []string{"aaaaaaaaaa", "b"}, 10)
	if want := "aaaaaaaaaa\nb"; s.String() != want {
		t.Errorf("screen is\n%s", s)
	}
}
