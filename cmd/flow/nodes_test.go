package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

// takeOverLimit is how long after the death of a node its tasks may take to end on another.
const takeOverLimit = 15 * time.Second

// nodeRule leads to a state that the racks are in on every simulated site: each server has a site of its own.
const nodeRule = `
{"component_type": "powershelf", "stage": 1, "timeout": "30m", "delay_after": "500ms",
 "main_operation": {"name": "PowerControl"},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "1s", "parameters": {"expected_status": "on"}}]},
{"component_type": "nvswitch", "stage": 2, "timeout": "30m", "delay_after": "500ms",
 "main_operation": {"name": "PowerControl"}},
{"component_type": "compute", "stage": 2, "timeout": "30m", "max_parallel": 1, "delay_after": "500ms",
 "main_operation": {"name": "PowerControl"}},
{"component_type": "compute", "stage": 3, "timeout": "30m", "delay_after": "500ms",
 "main_operation": {"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "1s", "parameters": {"expected_status": "on"}}}`

// TestOneOfTwoNodesDies kills one of two servers on one database while both drive tasks: the other one finishes all of them.
func TestOneOfTwoNodesDies(t *testing.T) {
	t.Parallel()
	url := storetest.New(t)
	dying := newServer(t, "--database-url", url)
	living := newServer(t, "--database-url", url)
	dying.start()
	living.start()
	conn := connectTo(t, url)
	watch, unfollow := follow(t, living.ops)
	racks := createRacks(t, living.flow, 60)
	rule := createRule(t, living.flow, hardware.PowerOn, "nodes", nodeRule)

	var tasks []string
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, s := range []*server{dying, living} {
		group.Go(func() {
			for n := i; n < len(racks); n += 2 {
				res, err := askOn(rule)(t.Context(), s.flow, rackTarget(racks[n]), "")
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				mu.Lock()
				tasks = append(tasks, res.GetTaskIds()[0].GetId())
				mu.Unlock()
			}
		})
	}
	group.Wait()
	var driven map[uuid.UUID]int
	eventually(t, 10*time.Second, "both servers drive tasks", func() bool {
		driven = drivenBy(t, conn)
		return driven[dying.node()] > 0 && driven[living.node()] > 0
	})
	dying.kill()
	killed := time.Now()
	watch.awaitAll(t, time.Minute, "the tasks end", tasks, isFinished)

	awaitTable(t, conn, watch)
	unfollow()
	h := readHistory(t, conn, filepath.Join(dying.dir, "sim.journal"), filepath.Join(living.dir, "sim.journal"))
	h.checkCommands(t)
	h.checkWatch(t, watch)
	var longest time.Duration
	taken := 0
	for _, id := range parseIDs(t, tasks) {
		p := h.tasks[id]
		if p.State != db.TaskStateCompleted {
			t.Errorf("task %s is %s: %s", id, p.State, p.Message)
		}
		longest = max(longest, p.FinishedAt.Sub(killed))
		for _, s := range p.steps {
			if s.Epoch > 0 {
				taken++
			}
		}
	}
	t.Logf("steps driven at the kill: %d by the server killed, %d by the other one, which took over %d and had ended all tasks after %s",
		driven[dying.node()], driven[living.node()], taken, longest)
	if taken == 0 {
		t.Error("no step was taken over")
	}
	if longest > takeOverLimit {
		t.Errorf("the last task ended %s after the kill, want at most %s", longest, takeOverLimit)
	}
	if code, _ := living.stop(); code != exitOK {
		t.Errorf("the server ended with code %d", code)
	}
}

// node is the id the server has in the database.
func (s *server) node() uuid.UUID {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "node-id"))
	if err != nil {
		s.t.Fatal(err)
	}
	return uuid.MustParse(strings.TrimSpace(string(text)))
}

// drivenBy counts the steps each node drives.
func drivenBy(t *testing.T, conn *pgx.Conn) map[uuid.UUID]int {
	t.Helper()
	driven := map[uuid.UUID]int{}
	for _, id := range query(t, conn, pgx.RowTo[uuid.UUID], `SELECT node.node_id FROM task_step JOIN node ON node.incarnation = task_step.node
		WHERE task_step.state = 'running'`) {
		driven[id]++
	}
	return driven
}
