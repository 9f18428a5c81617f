package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

func TestLinesSayEachEvent(t *testing.T) {
	t.Parallel()
	p := newProgress()
	task := p.task(taskOne, rackOne)
	task.rack = "rack-1"
	var b bytes.Buffer
	r := &lines{w: &b, progress: p, now: epoch}
	r.known(task)
	for i, ev := range untilFailed().events {
		if i == 1 {
			task.outline(outlined())
			r.known(task)
		}
		r.event(p.apply(ev), ev)
	}
	ev := &flowopsv1.TaskEvent{
		At: after(9 * time.Second), TaskId: &flowv1.UUID{Id: taskOne}, Status: task.status,
		Kind: flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_MESSAGE, Message: "Running: waiting for readiness of 2 components",
	}
	r.event(p.apply(ev), ev)
	r.notice("connection lost, trying again: EOF")
	r.notice("")
	want := picture(`
2026-03-04T09:15:00Z rack-1 22222222 task 22222222-0000-4000-8000-000000000001, task: unknown
2026-03-04T09:15:00Z rack-1 22222222 created: Pending
2026-03-04T09:15:00Z rack-1 22222222 task 22222222-0000-4000-8000-000000000001, PowerOn: pending
2026-03-04T09:15:00Z rack-1 22222222 started
2026-03-04T09:15:00Z rack-1 22222222 stage 1 of 3 started
2026-03-04T09:15:00Z rack-1 22222222 stage 1 of 3 PowerShelf PowerControl 0/8
2026-03-04T09:15:02Z rack-1 22222222 stage 1 of 3 PowerShelf completed 8/8
2026-03-04T09:15:02Z rack-1 22222222 stage 1 of 3 completed
2026-03-04T09:15:02Z rack-1 22222222 stage 2 of 3 started
2026-03-04T09:15:03Z rack-1 22222222 stage 2 of 3 NVSwitch VerifyPowerStatus 5/9, 1 failed
2026-03-04T09:15:06Z rack-1 22222222 stage 2 of 3 NVSwitch failed 8/9, 1 failed: timeout after 5m0s waiting for power status On (attempts: 31)
2026-03-04T09:15:06Z rack-1 22222222 stage 2 of 3 failed: component type NVSwitch failed: timeout after 5m0s waiting for power status On (attempts: 31)
2026-03-04T09:15:06Z rack-1 22222222 failed in 6.6s: stage 2 failed: component type NVSwitch failed: timeout after 5m0s waiting for power status On (attempts: 31)
2026-03-04T09:15:09Z rack-1 22222222 Running: waiting for readiness of 2 components
2026-03-04T09:15:00Z connection lost, trying again: EOF
2026-03-04T09:15:00Z connected again
`) + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestLinesForgetInAnEndlessWatch(t *testing.T) {
	t.Parallel()
	p := newProgress()
	r := &lines{w: new(bytes.Buffer), progress: p, now: epoch, endless: true}
	for _, ev := range untilFailed().events {
		r.event(p.apply(ev), ev)
	}
	if len(p.tasks) != 0 {
		t.Errorf("%d tasks are kept", len(p.tasks))
	}
}
