package main

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

// TestCancelledThenKilled cancels tasks and kills the server as soon as the answers are there: the tasks stay
// terminated and nothing of them follows, neither from the killed life nor from the next one.
func TestCancelledThenKilled(t *testing.T) {
	t.Parallel()
	random := chaosRand(t)(0)
	const rounds, perRound = 4, 6
	s := newServer(t, "--sim-latency", "100ms")
	s.start()
	watch, unfollow := follow(t, s.ops)
	racks := createRacks(t, s.flow, rounds*perRound+1)
	witness := racks[rounds*perRound]
	rule := createRule(t, s.flow, hardware.Restart, "slow", slowRule)

	killed := map[string]time.Time{} // by task: when its server was
	for round := range rounds {
		res, err := askReset(false, rule)(t.Context(), s.flow, rackTarget(racks[round*perRound:(round+1)*perRound]...), "")
		if err != nil {
			t.Fatal(err)
		}
		pause(time.Duration(random.Int64N(int64(time.Second)))) // pending or in any step
		var group sync.WaitGroup
		for _, id := range res.GetTaskIds() {
			group.Go(func() {
				got, err := s.flow.CancelTask(t.Context(), &flowv1.CancelTaskRequest{TaskId: id})
				if err != nil {
					t.Errorf("cancel: %v", err)
				} else if got.GetTask().GetStatus() != flowv1.TaskStatus_TASK_STATUS_TERMINATED {
					t.Errorf("task %s was cancelled and is %s", id.GetId(), got.GetTask().GetStatus())
				}
			})
		}
		group.Wait()
		s.kill()
		for _, id := range res.GetTaskIds() {
			killed[id.GetId()] = time.Now()
		}
		s.start()
		// While this one runs the others would have gone on.
		again, err := askReset(false, rule)(t.Context(), s.flow, rackTarget(witness), "")
		if err != nil {
			t.Fatal(err)
		}
		watch.awaitAll(t, 30*time.Second, "another task ends", []string{again.GetTaskIds()[0].GetId()}, isFinished)
	}

	conn := s.database()
	awaitTable(t, conn, watch)
	h := readHistory(t, conn, filepath.Join(s.dir, "sim.journal"))
	h.checkCommands(t)
	h.checkWatch(t, watch)
	for id, at := range killed {
		p := h.tasks[uuid.MustParse(id)]
		if p.State != db.TaskStateTerminated || p.Message != task.MessageCancelled {
			t.Errorf("task %s was cancelled and is %s: %s", id, p.State, p.Message)
		}
		sentLate := func(e sim.Entry) bool { return e.At.After(at) && h.racks[e.Components[0]] == p.RackID }
		if late := slices.IndexFunc(h.commands, sentLate); late >= 0 {
			t.Errorf("task %s was cancelled, but then %s arrived", id, h.commands[late].Operation)
		}
	}

	// What they held is free.
	res, err := askOn(nil)(t.Context(), s.flow, rackTarget(racks...), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(res.GetTaskIds()) != len(racks) {
		t.Errorf("%d of %d racks took another task", len(res.GetTaskIds()), len(racks))
	}
	var tasks []string
	for _, id := range res.GetTaskIds() {
		tasks = append(tasks, id.GetId())
	}
	watch.awaitAll(t, time.Minute, "the racks are powered on", tasks, func(e *flowopsv1.TaskEvent) bool {
		return e.GetStatus() == flowv1.TaskStatus_TASK_STATUS_COMPLETED
	})
	unfollow()
}
