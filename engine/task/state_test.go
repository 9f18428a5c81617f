package task

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var events = []Event{Promote, Start, Finish, Fail, Expire, Cancel}

func TestEveryStateHasARowAndTerminalOnesHaveNoWayOut(t *testing.T) {
	t.Parallel()
	for _, s := range db.AllTaskStateValues() {
		row, ok := taskMoves[s]
		if !ok {
			t.Errorf("state %s has no row", s)
		}
		for ev, to := range row {
			if to == s {
				t.Errorf("%s leaves %s where it is", ev, s)
			}
		}
	}
	for _, s := range []db.TaskState{db.TaskStateCompleted, db.TaskStateFailed, db.TaskStateTerminated} {
		if !Terminal(s) {
			t.Errorf("%s has a way out", s)
		}
	}
}

func TestTheDatabaseAllowsExactlyTheMovesOfTheTable(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), storetest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "SELECT from_state, to_state FROM task_move")
	if err != nil {
		t.Fatal(err)
	}
	type move struct{ From, To db.TaskState }
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[move])
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[move]bool{}
	for from, row := range taskMoves {
		for _, to := range row {
			allowed[move{from, to}] = true
		}
	}
	if len(stored) != len(allowed) {
		t.Errorf("the database knows %d moves, the table %d", len(stored), len(allowed))
	}
	for _, m := range stored {
		if !allowed[m] {
			t.Errorf("the database allows %s -> %s", m.From, m.To)
		}
	}

	// And it refuses every other one, whoever writes it.
	for _, from := range db.AllTaskStateValues() {
		for _, to := range db.AllTaskStateValues() {
			if from == to {
				continue
			}
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = tx.Exec(t.Context(), `INSERT INTO task (id, rack_id, operation_type, operation_code, state, message, started_at, finished_at,
				queue_expires_at) VALUES ('10000000-0000-0000-0000-000000000000', gen_random_uuid(), 'power_control', 'power_on', $1, '', now(),
				CASE WHEN $1::task_state IN ('completed', 'failed', 'terminated') THEN now() END, CASE WHEN $1 = 'waiting' THEN now() END)`, from)
			if err != nil {
				t.Fatalf("insert %s: %v", from, err)
			}
			_, err = tx.Exec(t.Context(), `UPDATE task SET state = $1, finished_at = CASE WHEN $1::task_state IN ('completed', 'failed', 'terminated')
				THEN now() END, queue_expires_at = CASE WHEN $1 = 'waiting' THEN now() END`, to)
			if got := err == nil; got != allowed[move{from, to}] {
				t.Errorf("%s -> %s: database says %v", from, to, err)
			}
			_ = tx.Rollback(t.Context())
		}
	}
}

var update = flag.Bool("update", false, "write the table of moves into the docs")

func TestTheDocsShowTheTable(t *testing.T) {
	t.Parallel()
	var rows []string
	for from, row := range taskMoves {
		for ev, to := range row {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", from, ev, to))
		}
	}
	slices.Sort(rows)
	want := "| from | event | to |\n| --- | --- | --- |\n" + strings.Join(rows, "")
	const page, begin, end = "../../docs/architecture.md", "<!-- moves: kept by a test in engine/task -->\n", "<!-- /moves -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	shown, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the moves", page)
	}
	if shown == want {
		return
	}
	if !*update {
		t.Fatalf("%s shows other moves than the table; run with -update", page)
	}
	if err := os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestNoSequenceOfEventsLeavesATerminalState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.SampledFrom([]db.TaskState{db.TaskStateWaiting, db.TaskStatePending}).Draw(t, "first")
		for _, ev := range rapid.SliceOf(rapid.SampledFrom(events)).Draw(t, "events") {
			next, err := Next(state, ev)
			if err != nil && next != state {
				t.Fatalf("a refused %s moved %s to %s", ev, state, next)
			}
			if Terminal(state) && next != state {
				t.Fatalf("%s moved %s to %s", ev, state, next)
			}
			state = next
		}
	})
}
