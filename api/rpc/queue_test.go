package rpc

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

const (
	waiting = flowv1.TaskStatus_TASK_STATUS_WAITING
	pending = flowv1.TaskStatus_TASK_STATUS_PENDING

	queueStrategy  = flowv1.ConflictStrategy_CONFLICT_STRATEGY_QUEUE
	rejectStrategy = flowv1.ConflictStrategy_CONFLICT_STRATEGY_REJECT
)

func queue(seconds int32) *flowv1.QueueOptions {
	return &flowv1.QueueOptions{ConflictStrategy: queueStrategy, QueueTimeoutSeconds: seconds}
}

// powerOff asks for racks to be powered off and returns what is answered, with the trailers.
func (s *site) powerOff(ctx context.Context, options *flowv1.QueueOptions, targets ...*flowv1.RackTarget) (ids []*flowv1.UUID, trailers []string, err error) {
	ctx, call := connect.NewClientContext(ctx)
	res, err := s.flow.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: racks(targets...), QueueOptions: options})
	return res.GetTaskIds(), call.ResponseTrailer().Values("flow-rack-error"), err
}

// must is powerOff of one rack that gets a task.
func (s *site) must(options *flowv1.QueueOptions, target *flowv1.RackTarget) *flowv1.Task {
	s.t.Helper()
	ids, _, err := s.powerOff(s.t.Context(), options, target)
	if err != nil || len(ids) != 1 {
		s.t.Fatalf("%d tasks, %v", len(ids), err)
	}
	return s.taskOf(ids[0])
}

func (s *site) taskOf(id *flowv1.UUID) *flowv1.Task {
	s.t.Helper()
	res, err := s.flow.GetTasksByIDs(s.t.Context(), &flowv1.GetTasksByIDsRequest{TaskIds: []*flowv1.UUID{id}})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.GetTasks()[0]
}

// wholeRack makes rack n: two trays, a switch and a shelf, numbered from 1.
func (s *site) wholeRack(n int) *flowv1.RackTarget {
	s.t.Helper()
	r := testRack(n, 0)
	for i, kind := range []flowv1.ComponentType{compute, compute, nvswitch, shelf} {
		r.Components = append(r.Components, part(n, i+1, kind, fmt.Sprint("part-", i+1), fmt.Sprintf("core-%d-%d", n, i+1)))
	}
	s.create(r)
	return byID(r.Info.Id)
}

func TestWhatTheQueueOptionsMean(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		for i, c := range []struct {
			name    string
			options *flowv1.QueueOptions
			wait    time.Duration // 0: refused
		}{
			{"none", nil, 0},
			{"empty ones", &flowv1.QueueOptions{}, 0},
			{"a timeout alone", &flowv1.QueueOptions{QueueTimeoutSeconds: 60}, 0},
			{"to reject", &flowv1.QueueOptions{ConflictStrategy: rejectStrategy, QueueTimeoutSeconds: 60}, 0},
			{"an unknown strategy", &flowv1.QueueOptions{ConflictStrategy: 9, QueueTimeoutSeconds: 60}, 0},
			{"to queue", queue(0), time.Hour},
			{"to queue for less than nothing", queue(-5), time.Hour},
			{"to queue for a second", queue(1), time.Second},
			{"to queue for 90 s", queue(90), 90 * time.Second},
			{"to queue for 30 days", queue(2_592_000), 30 * 24 * time.Hour},
			{"to queue for more", queue(2_592_001), 30 * 24 * time.Hour},
			{"to queue for as long as can be said", queue(math.MaxInt32), 30 * 24 * time.Hour},
		} {
			t.Run(c.name, func(t *testing.T) {
				rack := p.wholeRack(i + 1)
				first := p.must(c.options, rack)
				if first.GetStatus() != pending || first.GetMessage() != "Pending" || first.QueueExpiresAt != nil {
					t.Errorf("nothing is in the way, and the task is %v until %v: %s", first.GetStatus(), first.GetQueueExpiresAt(), first.GetMessage())
				}
				if c.wait == 0 {
					p.refuses(t, func() error { _, _, err := p.powerOff(t.Context(), c.options, rack); return err },
						connect.CodeFailedPrecondition, "failed to create any tasks", rack.GetId().GetId(), first.GetId().GetId())
					return
				}
				second := p.must(c.options, rack)
				if second.GetStatus() != waiting || second.GetMessage() != "Queued: waiting for rack to become available" ||
					second.GetExecutionId() != "" || second.GetStartedAt() != nil || second.AppliedRuleId != nil {
					t.Errorf("task %v", second)
				}
				if got := second.GetQueueExpiresAt().AsTime().Sub(second.GetCreatedAt().AsTime()); (got - c.wait).Abs() > 500*time.Millisecond {
					t.Errorf("it may wait for %s, want %s", got, c.wait)
				}
			})
		}
	})
}

// TestWhichOperationsQueue asks for each operation with the option to queue, where there is one, on a rack in other hands.
func TestWhichOperationsQueue(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		rack := p.wholeRack(1)
		first := p.must(nil, rack)
		spec, options := racks(rack), queue(60)
		for name, c := range map[string]struct {
			call   func(ctx context.Context) (*flowv1.SubmitTaskResponse, error)
			queues bool
		}{
			"PowerOnRack": {func(ctx context.Context) (*flowv1.SubmitTaskResponse, error) {
				return p.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: spec, QueueOptions: options})
			}, true},
			"PowerOffRack": {func(ctx context.Context) (*flowv1.SubmitTaskResponse, error) {
				return p.flow.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: spec, QueueOptions: options})
			}, true},
			"PowerResetRack": {func(ctx context.Context) (*flowv1.SubmitTaskResponse, error) {
				return p.flow.PowerResetRack(ctx, &flowv1.PowerResetRackRequest{TargetSpec: spec, QueueOptions: options})
			}, true},
			"ACPowerCycleRack": {func(ctx context.Context) (*flowv1.SubmitTaskResponse, error) {
				return p.flow.ACPowerCycleRack(ctx, &flowv1.ACPowerCycleRackRequest{TargetSpec: spec, QueueOptions: options})
			}, true},
			"DecommissionRack": {func(ctx context.Context) (*flowv1.SubmitTaskResponse, error) {
				return p.flow.DecommissionRack(ctx, &flowv1.DecommissionRackRequest{TargetSpec: spec, QueueOptions: options})
			}, true},
			"BringUpRack": {func(ctx context.Context) (*flowv1.SubmitTaskResponse, error) {
				return p.flow.BringUpRack(ctx, &flowv1.BringUpRackRequest{TargetSpec: spec})
			}, false},
			"IngestRack": {func(ctx context.Context) (*flowv1.SubmitTaskResponse, error) {
				return p.flow.IngestRack(ctx, &flowv1.IngestRackRequest{TargetSpec: spec})
			}, false},
		} {
			t.Run(name, func(t *testing.T) {
				if !c.queues {
					p.refuses(t, func() error { _, err := c.call(t.Context()); return err },
						connect.CodeFailedPrecondition, "failed to create any tasks", first.GetId().GetId())
					return
				}
				res, err := c.call(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				id := res.GetTaskIds()[0]
				if got := p.taskOf(id).GetStatus(); got != waiting {
					t.Errorf("the task is %v", got)
				}
				p.exec("DELETE FROM task WHERE id = $1", id.GetId())
				p.exec("UPDATE rack SET waiting = 0") // which a deletion doesn't count down
			})
		}
	})
}

func TestTheQueueOfARackHasALimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configured, limit int
	}{"of five": {0, 5}, "of one": {1, 1}, "of seven": {7, 7}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overEachParked(t, func(s *task.Service) { s.Settings.QueueLimit = c.configured }, func(t *testing.T, p *plant) {
				rack, other := p.wholeRack(1), p.wholeRack(2)
				trays := byID(rack.GetId(), compute)
				p.must(nil, trays)
				for range c.limit {
					if got := p.must(queue(0), trays).GetStatus(); got != waiting {
						t.Errorf("a task is %v", got)
					}
				}
				full := fmt.Sprintf("%d/%d", c.limit, c.limit)
				p.refuses(t, func() error { _, _, err := p.powerOff(t.Context(), queue(0), trays); return err },
					connect.CodeResourceExhausted, "failed to create any tasks", rack.GetId().GetId(), "full", full)
				p.refuses(t, func() error { _, _, err := p.powerOff(t.Context(), nil, trays); return err },
					connect.CodeFailedPrecondition, "failed to create any tasks")
				// What would not wait is not counted, nor is another rack's queue.
				if got := p.must(queue(0), byID(rack.GetId(), nvswitch)).GetStatus(); got != pending {
					t.Errorf("a task that conflicts with none is %v", got)
				}
				p.must(nil, other)
				if got := p.must(queue(0), other).GetStatus(); got != waiting {
					t.Errorf("the task of another rack is %v", got)
				}
				// There is room again when one has left.
				p.exec("UPDATE task SET state = 'terminated', finished_at = now(), queue_expires_at = NULL WHERE id = (SELECT id FROM task WHERE state = 'waiting' AND rack_id = $1 LIMIT 1)", rack.GetId().GetId())
				if got := p.must(queue(0), trays).GetStatus(); got != waiting {
					t.Errorf("the task that takes the free place is %v", got)
				}
			})
		})
	}
}

// TestAWaitingTaskIsNotOvertaken has a task work on one tray, one for the whole rack wait for it, and a third come for the
// other tray (D-30.12).
func TestAWaitingTaskIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for name, overtaking := range map[string]bool{"unless the site wants it": true, "by default": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overEachParked(t, func(s *task.Service) { s.Settings.AllowOvertaking = overtaking }, func(t *testing.T, p *plant) {
				rack := p.wholeRack(1)
				tray := func(n int, options *flowv1.QueueOptions) (*flowv1.SubmitTaskResponse, error) {
					return p.flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: components(componentID(testID(2, 1, n))), QueueOptions: options})
				}
				if _, err := tray(1, nil); err != nil {
					t.Fatal(err)
				}
				whole := p.must(queue(0), rack)
				if overtaking {
					res, err := tray(2, nil)
					if err != nil || p.taskOf(res.GetTaskIds()[0]).GetStatus() != pending {
						t.Errorf("%v, %v", res, err)
					}
					return
				}
				p.refuses(t, func() error { _, err := tray(2, nil); return err }, connect.CodeFailedPrecondition, "waiting", whole.GetId().GetId())
				res, err := tray(2, queue(0))
				if err != nil || p.taskOf(res.GetTaskIds()[0]).GetStatus() != waiting {
					t.Errorf("%v, %v", res, err)
				}
			})
		})
	}
}

// TestOtherComponentTypesConflict has two tasks power the same CDU (D-30.10).
func TestOtherComponentTypesConflict(t *testing.T) {
	t.Parallel()
	for name, reference := range map[string]bool{"unless the site wants it": true, "by default": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serveTasks(t, func(s *task.Service) { s.Settings.ReferenceConflicts = reference })
			r := testRack(1, 0)
			r.Components = []*flowv1.Component{part(1, 1, cdu, "c", "core-c"), part(1, 2, cdu, "d", "core-d")}
			p.create(r)
			rule := p.rule("cdus", `{"steps": [{"component_type": "CDU", "stage": 1, "main_operation": {"name": "PowerControl"}}]}`)
			power := func(n int) error {
				_, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: components(componentID(testID(2, 1, n))), RuleId: rule})
				return err
			}
			for _, n := range []int{1, 2} { // apart they never conflict
				if err := power(n); err != nil {
					t.Fatal(err)
				}
			}
			if err := power(1); !reference {
				refused(t, err, connect.CodeFailedPrecondition, "D-30.10")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEachRackOfASubmissionHasItsOwnOutcome has rack 1 free, racks 2 and 3 in other hands, and the queue of rack 3 full.
func TestEachRackOfASubmissionHasItsOwnOutcome(t *testing.T) {
	t.Parallel()
	overEachParked(t, func(s *task.Service) { s.Settings.QueueLimit = 1 }, func(t *testing.T, p *plant) {
		var targets []*flowv1.RackTarget
		for n := 1; n <= 4; n++ {
			targets = append(targets, p.wholeRack(n))
		}
		blocker := map[int]string{}
		for n := 2; n <= 3; n++ {
			blocker[n] = p.must(nil, targets[n-1]).GetId().GetId()
		}
		p.must(queue(0), targets[2])
		rack := func(n int) string { return testID(1, n, 0).GetId() }
		// racksOf are the racks of tasks, in their order.
		racksOf := func(ids []*flowv1.UUID) (list []string) {
			for _, id := range ids {
				list = append(list, p.taskOf(id).GetRackId().GetId())
			}
			return list
		}
		forget := func(ids []*flowv1.UUID) {
			p.exec("DELETE FROM task WHERE id = ANY ($1::uuid[])", each(ids, (*flowv1.UUID).GetId))
			p.exec("UPDATE rack SET waiting = 0 WHERE id <> $1", rack(3))
		}
		for name, c := range map[string]struct {
			options *flowv1.QueueOptions
			racks   []int
			got     []string // racks that get a task
			errors  []string // begin of each trailer
		}{
			"all free":              {nil, []int{4, 1}, []string{rack(1), rack(4)}, nil},
			"some in other hands":   {nil, []int{3, 4, 2, 1}, []string{rack(1), rack(4)}, []string{rack(2) + " failed_precondition ", rack(3) + " failed_precondition "}},
			"queued where there is": {queue(0), []int{3, 2, 1}, []string{rack(1), rack(2)}, []string{rack(3) + " resource_exhausted "}},
		} {
			t.Run(name, func(t *testing.T) {
				var spec []*flowv1.RackTarget
				for _, n := range c.racks {
					spec = append(spec, targets[n-1])
				}
				ids, trailers, err := p.powerOff(t.Context(), c.options, spec...)
				if err != nil {
					t.Fatal(err)
				}
				defer forget(ids)
				if d := cmp.Diff(c.got, racksOf(ids)); d != "" {
					t.Errorf("racks with tasks (-want +got):\n%s", d)
				}
				slices.Sort(trailers)
				if len(trailers) != len(c.errors) {
					t.Fatalf("trailers %q, want %q", trailers, c.errors)
				}
				for i, want := range c.errors {
					if !strings.HasPrefix(trailers[i], want) || !strings.Contains(trailers[i], "conflicts with") {
						t.Errorf("trailer %q, want %q and why", trailers[i], want)
					}
				}
			})
		}
		for name, c := range map[string]struct {
			options *flowv1.QueueOptions
			racks   []int
			code    connect.Code
		}{
			"all in other hands": {nil, []int{2, 3}, connect.CodeFailedPrecondition},
			"all full":           {queue(0), []int{3}, connect.CodeResourceExhausted},
		} {
			t.Run(name, func(t *testing.T) {
				var spec []*flowv1.RackTarget
				words := []string{}
				for _, n := range c.racks {
					spec = append(spec, targets[n-1])
					words = append(words, rack(n), blocker[n])
				}
				p.refuses(t, func() error {
					ids, trailers, err := p.powerOff(t.Context(), c.options, spec...)
					if len(ids)+len(trailers) > 0 {
						t.Errorf("ids %v, trailers %q", ids, trailers)
					}
					if ce, ok := err.(*connect.Error); !ok || !strings.HasPrefix(ce.Message(), "failed to create any tasks") {
						t.Errorf("%v", err)
					}
					return err
				}, c.code, words...)
			})
		}
	})
}

// keyed powers racks on with an idempotency key.
func (s *site) keyed(ctx context.Context, key string, options *flowv1.QueueOptions, targets ...*flowv1.RackTarget) ([]*flowv1.UUID, error) {
	ctx, call := connect.NewClientContext(ctx)
	call.RequestHeader().Set("idempotency-key", key)
	res, err := s.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: racks(targets...), QueueOptions: options})
	return res.GetTaskIds(), err
}

// TestAnIdempotencyKeyFindsItsTasks is D-30.5.
func TestAnIdempotencyKeyFindsItsTasks(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		one, two, three := p.wholeRack(1), p.wholeRack(2), p.wholeRack(3)
		ask := func(key string, options *flowv1.QueueOptions, targets ...*flowv1.RackTarget) []string {
			t.Helper()
			ids, err := p.keyed(t.Context(), key, options, targets...)
			if err != nil {
				t.Fatal(err)
			}
			return each(ids, (*flowv1.UUID).GetId)
		}
		same := func(what string, want, got []string) {
			t.Helper()
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
		first := ask("k", nil, one)
		before := p.contents()
		same("asked again", first, ask("k", nil, one))
		same("asked again, with other options", first, ask("k", queue(7), byID(one.GetId(), compute)))
		if p.contents() != before {
			t.Error("asking again has changed something")
		}
		both := ask("k", nil, two, one)
		same("asked for another rack too", first, both[:1])
		if len(both) != 2 || both[1] == both[0] {
			t.Errorf("tasks %v", both)
		}
		p.refuses(t, func() error { _, err := p.keyed(t.Context(), "other", nil, one); return err }, connect.CodeFailedPrecondition, first[0])
		queued := ask("other", queue(0), one)
		same("asked again while it waits", queued, ask("other", nil, one))
		p.exec("UPDATE task SET state = 'terminated', finished_at = now() WHERE id = $1", first[0])
		same("asked again after its end", first, ask("k", nil, one))
		if a, b := ask("", queue(0), three), ask("", queue(0), three); a[0] == b[0] {
			t.Error("an empty key is none")
		}

		long := strings.Repeat("k", 256)
		p.refuses(t, func() error { _, err := p.keyed(t.Context(), long, nil, three); return err }, connect.CodeInvalidArgument, "idempotency-key", "256")
		ask(long[:255], queue(0), three)
		p.refuses(t, func() error { _, err := p.keyed(t.Context(), "caf\xe9", nil, three); return err }, connect.CodeInvalidArgument, "idempotency-key")
		// The key of another operation.
		off := func(key string, targets ...*flowv1.RackTarget) ([]*flowv1.UUID, []string, error) {
			ctx, call := connect.NewClientContext(t.Context())
			call.RequestHeader().Set("idempotency-key", key)
			res, err := p.flow.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: racks(targets...), QueueOptions: queue(0)})
			return res.GetTaskIds(), call.ResponseTrailer().Values("flow-rack-error"), err
		}
		p.refuses(t, func() error { _, _, err := off("k", one); return err }, connect.CodeAlreadyExists, "idempotency key", `"k"`, first[0], "power_on")
		ids, trailers, err := off("k", one, three)
		if err != nil || len(ids) != 1 || len(trailers) != 1 || !strings.HasPrefix(trailers[0], one.GetId().GetId()+" already_exists ") {
			t.Errorf("%v, trailers %q, %v", ids, trailers, err)
		}
		// What a trailer holds is ASCII, whatever the key.
		ask("schlüssel", queue(0), one)
		if _, trailers, err = off("schlüssel", one, three); err != nil || len(trailers) != 1 || !strings.Contains(trailers[0], `"schl\u00fcssel"`) {
			t.Errorf("trailers %q, %v", trailers, err)
		}
	})
}

func TestManySubmissionsWithOneKeyMakeATaskPerRack(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		one, two := p.wholeRack(1), p.wholeRack(2)
		answers := make([][]string, 20)
		var done sync.WaitGroup
		for i := range answers {
			done.Go(func() {
				ids, err := p.keyed(t.Context(), "k", nil, one, two)
				if err != nil {
					t.Error(err)
				}
				answers[i] = each(ids, (*flowv1.UUID).GetId)
			})
		}
		done.Wait()
		for _, got := range answers {
			if d := cmp.Diff(answers[0], got); d != "" || len(got) != 2 {
				t.Errorf("answers differ: %s", d)
			}
		}
		if n := p.value("SELECT count(*)::text FROM task"); n != "2" {
			t.Errorf("%s tasks, want 2", n)
		}
	})
}
