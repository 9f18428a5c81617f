package rpc

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

func (s *site) cancelTask(ctx context.Context, id *flowv1.UUID) (*flowv1.Task, error) {
	res, err := s.flow.CancelTask(ctx, &flowv1.CancelTaskRequest{TaskId: id})
	return res.GetTask(), err
}

func TestWhatCancellingATaskDoes(t *testing.T) {
	t.Parallel()
	terminated := flowv1.TaskStatus_TASK_STATUS_TERMINATED
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		for n, state := range []string{"waiting", "pending", "running", "terminated"} {
			t.Run(state, func(t *testing.T) {
				p.create(testRack(n, 1))
				id := p.task(n, 1, state, testID(2, n, 0))
				before := p.contents()
				task, err := p.cancelTask(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				message := "Cancelled by user"
				if state == "terminated" {
					if message = "as recorded"; p.contents() != before {
						t.Error("cancelling it again has changed something")
					}
				}
				if task.GetStatus() != terminated || task.GetMessage() != message || task.GetFinishedAt() == nil || task.QueueExpiresAt != nil {
					t.Errorf("task %v", task)
				}
				if started := state == "running" || state == "terminated"; (task.GetReport() != "") != started {
					t.Errorf("report %q", task.GetReport())
				}
				if d := diff(task, p.taskOf(id)); d != "" {
					t.Errorf("answered (-) and stored (+):\n%s", d)
				}
				if got := p.value("SELECT count(*)::text FROM task WHERE rack_id = $1 AND finished_at IS NULL", testID(1, n, 0).GetId()); got != "0" {
					t.Errorf("%s tasks are active", got)
				}
			})
		}
		for n, state := range []string{"completed", "failed"} {
			id := p.task(20+n, 1, state)
			p.refuses(t, func() error { _, err := p.cancelTask(t.Context(), id); return err },
				connect.CodeFailedPrecondition, "task cannot be cancelled", id.GetId(), state)
		}
		unknown := newID()
		p.refuses(t, func() error { _, err := p.cancelTask(t.Context(), unknown); return err }, connect.CodeNotFound, unknown.GetId())
		for _, id := range []*flowv1.UUID{nil, {}, {Id: "7"}, {Id: "00000000-0000-0000-0000-000000000000"}} {
			p.refuses(t, func() error { _, err := p.cancelTask(t.Context(), id); return err }, connect.CodeInvalidArgument, "task_id")
		}
	})
}

func TestRetriesOverTheAPI(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		rack := p.wholeRack(1)
		retry := func(ctx context.Context, m *flowopsv1.RetryTaskRequest) (*flowopsv1.RetryTaskResponse, error) {
			return p.ops.RetryTask(ctx, m)
		}
		for _, id := range []*flowv1.UUID{nil, {}, {Id: "7"}, {Id: "00000000-0000-0000-0000-000000000000"}} {
			p.refuses(t, func() error {
				_, err := retry(t.Context(), &flowopsv1.RetryTaskRequest{TaskId: id})
				return err
			}, connect.CodeInvalidArgument, "task_id")
		}
		unknown := newID()
		p.refuses(t, func() error {
			_, err := retry(t.Context(), &flowopsv1.RetryTaskRequest{TaskId: unknown})
			return err
		}, connect.CodeNotFound, unknown.GetId())
		p.refuses(t, func() error {
			_, err := p.ops.GetTaskPlan(t.Context(), &flowopsv1.GetTaskPlanRequest{TaskId: unknown})
			return err
		}, connect.CodeNotFound, unknown.GetId())

		first := p.must(nil, rack)
		again := &flowopsv1.RetryTaskRequest{TaskId: first.GetId()}
		p.refuses(t, func() error { _, err := retry(t.Context(), again); return err }, connect.CodeFailedPrecondition, first.GetId().GetId(), "pending")
		if _, err := p.cancelTask(t.Context(), first.GetId()); err != nil {
			t.Fatal(err)
		}
		blocker := p.must(nil, byID(rack.GetId(), compute))
		p.refuses(t, func() error { _, err := retry(t.Context(), again); return err }, connect.CodeFailedPrecondition, blocker.GetId().GetId())
		again.QueueOptions, again.Description = queue(90), new("once more")
		res, err := retry(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		task := p.taskOf(res.GetTaskId())
		if task.GetStatus() != waiting || task.GetDescription() != "once more" || res.GetStage() != 1 || task.GetOperation() != first.GetOperation() {
			t.Errorf("from stage %d: %v", res.GetStage(), task)
		}
		p.refuses(t, func() error { _, err := retry(t.Context(), again); return err },
			connect.CodeFailedPrecondition, first.GetId().GetId(), "retried already", res.GetTaskId().GetId())
		for _, link := range []struct{ id, of, by *flowv1.UUID }{{first.GetId(), nil, res.GetTaskId()}, {res.GetTaskId(), first.GetId(), nil}} {
			plan, err := p.ops.GetTaskPlan(t.Context(), &flowopsv1.GetTaskPlanRequest{TaskId: link.id})
			if err != nil {
				t.Fatal(err)
			}
			if plan.GetRetryOf().GetId() != link.of.GetId() || plan.GetRetriedBy().GetId() != link.by.GetId() {
				t.Errorf("task %s is a retry of %v and retried by %v", link.id.GetId(), plan.GetRetryOf(), plan.GetRetriedBy())
			}
		}
	})
}
