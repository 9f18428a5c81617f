package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

// crashSpeed makes waits of the rules so short that a task takes between a few hundred milliseconds and four seconds.
const crashSpeed = 50

// The rules of the crash test. Every step has commands and waits that a crash can fall into.
const (
	// carefulOn uses every action, and has two steps in its second stage.
	carefulOn = `
{"component_type": "powershelf", "stage": 1, "timeout": "30m",
 "main_operation": {"name": "PowerControl"},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "5s", "parameters": {"expected_status": "on"}}]},
{"component_type": "nvswitch", "stage": 2, "timeout": "30m", "delay_after": "5s",
 "main_operation": {"name": "PowerControl"},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "5s", "parameters": {"expected_status": "on"}}]},
{"component_type": "compute", "stage": 2, "timeout": "30m", "max_parallel": 2,
 "pre_operation": [{"name": "Sleep", "parameters": {"duration": "5s"}}, {"name": "GetPowerStatus", "timeout": "5m"}],
 "main_operation": {"name": "PowerControl"},
 "post_operation": [
  {"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "5s", "parameters": {"expected_status": "on"}},
  {"name": "VerifyReachability", "timeout": "30m", "poll_interval": "5s",
   "parameters": {"component_types": ["compute", "nvswitch"], "require_all": true}}]}`

	// resets sends different resets to two types at once, and then one to the shelves.
	resets = `
{"component_type": "compute", "stage": 1, "timeout": "30m", "max_parallel": 1,
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "warm_reset"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "2s", "parameters": {"expected_status": "on"}}]},
{"component_type": "nvswitch", "stage": 1, "timeout": "30m", "max_parallel": 1,
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "force_restart"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "2s", "parameters": {"expected_status": "on"}}]},
{"component_type": "powershelf", "stage": 2, "timeout": "30m", "max_parallel": 1,
 "main_operation": {"name": "PowerControl", "parameters": {"operation": "restart"}},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "2s", "parameters": {"expected_status": "on"}}]}`

	// cycle does the AC power cycle tray by tray.
	cycle = `
{"component_type": "compute", "stage": 1, "timeout": "30m", "max_parallel": 1,
 "main_operation": {"name": "PowerControl"},
 "post_operation": [{"name": "VerifyPowerStatus", "timeout": "30m", "poll_interval": "2s", "parameters": {"expected_status": "on"}}]}`
)

// crashSites are the simulated sites the server is killed on. Whether an act shows before the server is back decides
// what it finds out about a command whose outcome it does not know.
var crashSites = map[string]struct {
	latency time.Duration
	forced  bool // the built-in rules of forced operations wait for fixed times, which must be longer than an act takes
}{
	"acts that are over when the server is back":    {latency: 3 * time.Second, forced: true},
	"acts that are still under way when it is back": {latency: 60 * time.Second},
}

// TestCrashAtRandomMoments kills the server again and again while tasks run, and proves from what the simulator and
// the database have recorded that every task ended as it should and that nothing was done twice that must not be.
func TestCrashAtRandomMoments(t *testing.T) {
	t.Parallel()
	random := chaosRand(t)
	kills := chaosCount(t, "FLOW_CHAOS_KILLS", 20)
	for name, site := range crashSites {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, "--sim-speed", fmt.Sprint(crashSpeed), "--sim-latency", site.latency.String())
			t.Logf("first start: %s", s.start())
			_, postmaster := s.postmaster()
			conn := s.database()
			slowRecords(t, conn)
			watch, unfollow := follow(t, s.ops)
			l := &load{t: t, flow: s.flow, watch: watch, racks: createRacks(t, s.flow, 12), choices: crashChoices(t, s.flow, site.forced)}
			l.start(random)
			k := killer{server: s, conn: conn, watch: watch, random: random(0)}
			for len(k.lives) < (kills+1)/len(crashSites) {
				k.kill()
			}
			l.finish()
			awaitTable(t, conn, watch)
			unfollow()
			if _, pid := s.postmaster(); pid != postmaster {
				t.Errorf("PostgreSQL was process %d and is process %d now: it was not adopted", postmaster, pid)
			}
			h := readHistory(t, conn, filepath.Join(s.dir, "sim.journal"))
			if code, _ := s.stop(); code != exitOK {
				t.Errorf("the server ended with code %d", code)
			}
			h.checkCommands(t)
			h.checkWatch(t, watch)
			checkJobs(t, h, l, k.lives)
			checkPower(t, h, l, s, site.latency)
			k.report(h, watch)
		})
	}
}

// crashChoices are all power operations there are, by the built-in rules and by our own.
func crashChoices(t *testing.T, flow flowv1connect.FlowClient, forced bool) []choice {
	t.Helper()
	onRule := createRule(t, flow, hardware.PowerOn, "careful on", carefulOn)
	resetRule := createRule(t, flow, hardware.Restart, "resets", resets)
	cycleRule := createRule(t, flow, hardware.ColdReset, "cycle", cycle)
	on, off := hardware.PowerStateOn, hardware.PowerStateOff
	choices := []choice{
		{name: "on", leaves: on, ask: askOn(nil)},
		{name: "careful on", leaves: on, ask: askOn(onRule)},
		{name: "off", leaves: off, ask: askOff(false)},
		{name: "restart", leaves: on, ask: askReset(false, nil)},
		{name: "resets", from: on, leaves: on, resets: true, ask: askReset(false, resetRule)},
		{name: "resets again", from: on, leaves: on, resets: true, ask: askReset(false, resetRule)},
		{name: "AC cycle", from: on, leaves: on, resets: true, ask: askCycle(nil)},
		{name: "AC cycle tray by tray", from: on, leaves: on, resets: true, ask: askCycle(cycleRule)},
	}
	if forced {
		choices = append(choices,
			choice{name: "forced off", leaves: off, ask: askOff(true)},
			choice{name: "forced restart", leaves: on, ask: askReset(true, nil)})
	}
	return choices
}

// checkJobs holds every task to how it must have ended.
func checkJobs(t *testing.T, h *history, l *load, lives []life) {
	t.Helper()
	submitted := 0
	for _, jobs := range l.jobs {
		submitted += len(jobs)
		for _, j := range jobs {
			p := h.tasks[uuid.MustParse(j.id)]
			switch {
			case p == nil:
				t.Errorf("task %s (%s) is gone", j.id, j.name)
			case p.State == db.TaskStateCompleted:
			case p.State == db.TaskStateFailed && j.resets && strings.Contains(p.Message, "outcome unknown"):
				if !slices.ContainsFunc(lives, func(l life) bool { return p.StartedAt.Before(l.killedAt) && p.FinishedAt.After(l.killedAt) }) {
					t.Errorf("task %s (%s) was not interrupted and ended as %q", j.id, j.name, p.Message)
				}
			default:
				t.Errorf("task %s (%s) is %s: %s", j.id, j.name, p.State, p.Message)
			}
		}
	}
	if submitted != len(h.tasks) {
		t.Errorf("%d tasks were submitted and there are %d", submitted, len(h.tasks))
	}
}

// checkPower looks into the simulated site of the stopped server, which is in the state its journal leads to.
func checkPower(t *testing.T, h *history, l *load, s *server, latency time.Duration) {
	t.Helper()
	site, err := sim.Open(sim.Config{Journal: filepath.Join(s.dir, "sim.journal"), Latency: latency, Speed: crashSpeed})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = site.Close() }()
	for _, jobs := range l.jobs {
		last := jobs[len(jobs)-1]
		for _, list := range h.tasks[uuid.MustParse(last.id)].plan.Components {
			for _, c := range list {
				got, err := site.Inspect(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if got.Power.State != last.leaves {
					t.Errorf("%s is %s after the task %s (%s)", c.Label(), got.Power.State, last.id, last.name)
				}
			}
		}
	}
}
