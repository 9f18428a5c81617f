package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/store/db"
)

// goOnLimit is how long a restarted server may take to go on with the work. It does within 3 s on a machine that has
// nothing else to do; the log of the test has the times.
const goOnLimit = 10 * time.Second

// life is one life of the server, with the kill before it.
type life struct {
	killedAt time.Time
	readyAt  time.Time // zero: it was killed again without waiting for that
	running  []string  // the tasks that were to be worked on at the kill
	after    int64     // the newest event at the kill
}

// killer kills a server at random moments.
type killer struct {
	server *server
	conn   *pgx.Conn
	watch  *follower
	random *rand.Rand
	lives  []life

	// aim, when set, waits for a moment worth a kill, at most for a while; a third of the kills come then.
	aim func()
}

// kill kills the server and starts it again. Half of the kills come just after a command has arrived, when its outcome
// is not recorded yet. A quarter do not wait until the server goes on with its work: they hit it while it starts and
// takes its work back.
func (k *killer) kill() {
	s := k.server
	s.t.Helper()
	eventually(s.t, goOnLimit, "a task is under way", func() bool { return len(k.unfinished()) > 0 })
	switch {
	case k.aim != nil && k.random.IntN(3) == 0:
		k.aim()
		k.after(10 * time.Millisecond)
	case k.random.IntN(2) == 0:
		k.after(300 * time.Millisecond)
	default:
		k.awaitCommand()
		k.after(3 * time.Millisecond)
	}
	for k.random.IntN(4) == 0 {
		k.after(600 * time.Millisecond)
	}
	s.awaitReady()
	l := &k.lives[len(k.lives)-1]
	l.readyAt = time.Now()
	later := func(e *flowopsv1.TaskEvent) bool { return e.GetId() > l.after }
	k.watch.awaitAll(s.t, goOnLimit, "the restarted server goes on", l.running, later)
}

// awaitCommand waits for the next line in the journal of the site, or for some time.
func (k *killer) awaitCommand() {
	size := func() int64 {
		st, err := os.Stat(filepath.Join(k.server.dir, "sim.journal"))
		if err != nil {
			return 0 // no command yet
		}
		return st.Size()
	}
	before := size()
	for end := time.Now().Add(time.Second); size() == before && time.Now().Before(end); {
		pause(50 * time.Microsecond)
	}
}

// after kills the server after a time of at most so long, launches it again at once and notes what it found.
func (k *killer) after(most time.Duration) {
	t := k.server.t
	t.Helper()
	pause(time.Duration(k.random.Int64N(int64(most))))
	k.server.kill()
	l := life{killedAt: time.Now()}
	sessions := query(t, k.conn, pgx.RowTo[int32], "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'flow %'")
	k.server.launch()
	// What the dead server had sent may still be carried out, but not once its sessions are gone.
	eventually(t, 10*time.Second, "PostgreSQL ends the sessions of the killed server", func() bool {
		return len(query(t, k.conn, pgx.RowTo[int32], "SELECT pid FROM pg_stat_activity WHERE pid = ANY ($1)", sessions)) == 0
	})
	l.running = k.unfinished()
	l.after = query(t, k.conn, pgx.RowTo[int64], "SELECT coalesce(max(id), 0) FROM event")[0]
	k.lives = append(k.lives, l)
}

// unfinished lists the tasks that are being worked on, or are about to be.
func (k *killer) unfinished() []string {
	return query(k.server.t, k.conn, pgx.RowTo[string], "SELECT id::text FROM task WHERE state IN ('pending', 'running')")
}

// report logs what the kills hit, and holds the server to going on with the work in time.
func (k *killer) report(h *history, watch *follower) {
	t := k.server.t
	var waits []time.Duration
	soon, interrupted := 0, 0
	for _, l := range k.lives {
		interrupted += len(l.running)
		if l.readyAt.IsZero() {
			soon++
			continue
		}
		waits = append(waits, h.wentOn(l.killedAt, l.readyAt)...)
	}
	unknown, again := 0, 0
	for _, p := range h.tasks {
		if p.State == db.TaskStateFailed && strings.Contains(p.Message, "outcome unknown") {
			unknown++
		}
		for _, s := range p.steps {
			for _, times := range s.sent {
				again += len(times) - 1
			}
		}
	}
	resets, others := h.unrecorded(k.lives)
	t.Logf("%d kills, %d of them soon after another; %d tasks, %d commands, %d events; %d times a task was interrupted",
		len(k.lives), soon, len(h.tasks), len(h.commands), len(h.events), interrupted)
	t.Logf("the kills came between a command and its record for %d resets and %d others; %d commands to components were sent again, "+
		"%d tasks ended as outcome unknown, the watch was resumed %d times", resets, others, again, unknown, watch.breaks)
	checkWaits(t, waits)
}

// unrecorded counts the commands that had arrived when the server was killed and were not recorded yet.
func (h *history) unrecorded(lives []life) (resets, others int) {
	for _, e := range h.commands {
		s := h.stepOf(e)
		if s == nil {
			continue
		}
		recorded := slices.IndexFunc(h.events, func(ev db.Event) bool {
			return ev.At.After(e.At) && ev.TaskID == s.TaskID && int(ev.Stage) == s.stage && ev.ComponentType == string(e.Type)
		})
		lost := func(l life) bool { return e.At.Before(l.killedAt) && h.events[recorded].At.After(l.killedAt) }
		if recorded < 0 || !slices.ContainsFunc(lives, lost) {
			continue
		}
		if _, repeatable := e.Operation.WantedState(); repeatable {
			others++
		} else {
			resets++
		}
	}
	return resets, others
}

// wentOn lists how long after a server was ready each of the tasks that its former life had left made progress. Those
// that waited for others have no progress to make.
func (h *history) wentOn(died, ready time.Time) []time.Duration {
	left := map[uuid.UUID]bool{}
	for _, e := range h.events {
		if e.At.After(died) {
			continue
		}
		left[e.TaskID] = e.State != db.TaskStateWaiting && e.Kind != db.EventKindTaskFinished
	}
	var waits []time.Duration
	for _, e := range h.events {
		if e.At.After(died) && left[e.TaskID] {
			waits = append(waits, max(e.At.Sub(ready), 0))
			left[e.TaskID] = false
		}
	}
	return waits
}

func checkWaits(t *testing.T, waits []time.Duration) {
	t.Helper()
	n := len(waits)
	if n == 0 {
		t.Error("no task was left to go on with")
		return
	}
	slices.Sort(waits)
	t.Logf("from ready to the next progress of a task, %d times: p50 %s, p90 %s, p99 %s, longest %s",
		n, waits[n/2], waits[n*9/10], waits[n*99/100], waits[n-1])
	if waits[n-1] > goOnLimit {
		t.Errorf("a task went on only %s after the server was ready", waits[n-1])
	}
}

// slowRecords makes every record of a step take twenty milliseconds, and PostgreSQL drop it when the server dies meanwhile.
// What lies between a command and its record is what the kills are after, and is too short without it.
func slowRecords(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, statement := range []string{
		"ALTER DATABASE flow SET client_connection_check_interval = '1ms'", // holds for the lives to come
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NULL; END $$",
		"CREATE TRIGGER slow BEFORE UPDATE ON task_step FOR EACH STATEMENT EXECUTE FUNCTION slow()",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}
