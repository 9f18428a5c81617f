package sim_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

// story gives a site a life worth remembering: acts that are over, acts in flight, faults, two racks.
func story(t testing.TB, s *sim.Site, now *clock, one, two []hardware.Component) {
	t.Helper()
	order(t, s, named(one, "tray-1", "tray-2"), hardware.ForcePowerOff)
	now.Advance(time.Second)
	order(t, s, named(one, "tray-1"), hardware.PowerOn)
	script(t, s, sim.Fault{Component: named(one, "tray-3").Components[0].ID, Kind: sim.WrongState, Times: 1, State: "Unknown"})
	order(t, s, named(one, "tray-3"), hardware.Restart)
	order(t, s, named(one, "switch-1"), hardware.PowerOff)
	now.Advance(time.Second / 2)
	order(t, s, named(one, "switch-1"), hardware.PowerOn)
	if err := startFirmware(t, s, named(one, "switch-1", "switch-2"), hardware.FirmwareRequest{Version: "2"}); err != nil {
		t.Fatal(err)
	}
	order(t, s, named(two, "shelf-1"), hardware.PowerOff)
	expected := hardware.Expectation{Component: named(two, "tray-1").Components[0], Serial: "SN-1", Slot: 1, Tray: 1, Host: -1,
		BMCs: []hardware.BMC{{Type: hardware.DPUBMC, MAC: "02:00:00:00:00:01"}}}
	if _, err := s.Managers()[hardware.Compute].(hardware.ExpectationInjector).InjectExpectation(t.Context(), []hardware.Expectation{expected}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Managers()[hardware.CDU].(hardware.Decommissioner).Decommission(t.Context(), named(two, "cdu-1")); err != nil {
		t.Fatal(err)
	}
	now.Advance(time.Second)
	order(t, s, named(two, "shelf-2"), hardware.PowerOff)
}

// snapshot is the condition of every component, now and at some times to come.
func snapshot(t testing.TB, s *sim.Site, now *clock, cs ...[]hardware.Component) map[string]sim.Condition {
	t.Helper()
	got := make(map[string]sim.Condition)
	for step := range 5 {
		for _, rack := range cs {
			for _, c := range rack {
				cond, err := s.Inspect(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				got[fmt.Sprintf("%d %s %s", step, c.Name, c.ID)] = cond
			}
		}
		now.Advance(time.Second)
	}
	return got
}

func TestSiteOpenedAgainIsInTheStateItHad(t *testing.T) {
	t.Parallel()
	for name, compact := range map[string]int64{"from its history": 0, "from a compacted journal": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two, now := rackOf(1), rackOf(2), newClock()
			cfg := sim.Config{Inventory: inventory(one, two), Latency: time.Second, Now: now.Now, Journal: filepath.Join(t.TempDir(), "journal")}
			s := open(t, cfg)
			story(t, s, now, one, two)
			_ = s.Close()
			cfg.Compact = compact
			cfg.Inventory = nil // the journal alone must do
			cfg.InitialPower = hardware.PowerStateOff
			_ = open(t, cfg).Close()
			s = open(t, cfg) // twice, as a compacted journal must be readable too
			got := snapshot(t, s, now, one, two)

			// What the site would have been without the break.
			at := newClock()
			s = open(t, sim.Config{Inventory: inventory(one, two), Latency: time.Second, Now: at.Now})
			story(t, s, at, one, two)
			if d := cmp.Diff(snapshot(t, s, at, one, two), got); d != "" {
				t.Errorf("(-unbroken +opened again):\n%s", d)
			}
		})
	}
}

func TestJournalCutInItsLastLinesIsTheStateBeforeOrAfter(t *testing.T) {
	t.Parallel()
	rack := named(rackOf(1), "tray-1", "tray-2").Components
	path := filepath.Join(t.TempDir(), "journal")
	cfg := sim.Config{Inventory: inventory(rack), Journal: path}
	s := open(t, cfg)
	order(t, s, named(rack, "tray-1"), hardware.PowerOff) // two lines: the rack and the command
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	order(t, s, named(rack, "tray-2"), hardware.ForcePowerOff)
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	rackLine := bytes.IndexByte(first, '\n') + 1
	for n := rackLine - 1; n <= len(all); n++ { // the last byte of the first line, and every one of the two behind it
		if err := os.WriteFile(path, all[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"tray-1": "On", "tray-2": "On"}
		whole := 0
		if n >= rackLine {
			whole = rackLine
		}
		if n >= len(first) {
			want["tray-1"], whole = "Off", len(first)
		}
		if n == len(all) {
			want["tray-2"], whole = "Off", len(all)
		}
		s, err := sim.Open(cfg)
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if d := cmp.Diff(want, look(t, s, rack)); d != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", n, d)
		}
		if st, err := os.Stat(path); err != nil || st.Size() != int64(whole) {
			t.Fatalf("cut at %d: %d bytes left, want %d", n, st.Size(), whole)
		}
		order(t, s, named(rack, "tray-1"), hardware.PowerOn)
		_ = s.Close()
		entries, err := sim.ReadJournal(path)
		if err != nil {
			t.Fatalf("cut at %d and written on: %v", n, err)
		}
		for i, e := range entries {
			if e.Seq != uint64(i)+1 {
				t.Fatalf("cut at %d: entry %d has number %d", n, i+1, e.Seq)
			}
		}
	}
}

func TestJournalTellsWhatArrivedAndWhatWasDone(t *testing.T) {
	t.Parallel()
	rack, now := rackOf(1), newClock()
	path := filepath.Join(t.TempDir(), "journal")
	s := open(t, sim.Config{Inventory: inventory(rack), Journal: path, Now: now.Now, Latency: time.Second})
	tray := named(rack, "tray-1")
	script(t, s, sim.Fault{Component: tray.Components[0].ID, Kind: sim.LostReply, Delay: time.Nanosecond, Times: 1, Text: "lost"})
	if _, err := powerControl(t, s, tray, hardware.ColdReset); err != nil {
		t.Fatal(err)
	}
	order(t, s, tray, hardware.PowerOff)
	entries, err := sim.ReadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []sim.Entry{
		{Seq: 1, Phase: sim.PhaseReceived, Operation: hardware.ColdReset},
		{Seq: 2, Phase: sim.PhaseRack},
		{Seq: 3, Phase: sim.PhaseDone, Receipt: 1, Operation: hardware.ColdReset, EffectAt: now.Now().Add(time.Second)},
		{Seq: 4, Phase: sim.PhaseDone, Operation: hardware.PowerOff, EffectAt: now.Now().Add(time.Second)},
	}
	want[2].Results = map[uuid.UUID]sim.Result{tray.Components[0].ID: {Outcome: sim.OutcomeUncertain, Text: "lost", Done: true}}
	for i := range want {
		want[i].At = now.Now()
		if want[i].Phase != sim.PhaseRack {
			want[i].Call, want[i].Type, want[i].Components = hardware.CapPowerControl, hardware.Compute, tray.IDs()
		}
		entries[i].Rack = nil
	}
	if d := cmp.Diff(want, entries); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := count(entries, sim.Entry.Arrived); n != 2 {
		t.Errorf("%d commands arrived, want 2", n)
	}
	acted := func(e sim.Entry) bool { return e.Acted(tray.Components[0].ID) }
	if n := count(entries, acted); n != 2 {
		t.Errorf("%d acts, want 2", n)
	}
}

func TestJournalServesOneSiteAtATime(t *testing.T) {
	t.Parallel()
	cfg := sim.Config{Journal: filepath.Join(t.TempDir(), "journal")}
	open(t, cfg)
	if s, err := sim.Open(cfg); err == nil {
		_ = s.Close()
		t.Error("opened twice")
	}
}

func TestJournalThatIsNotOneIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not JSON":            "power on everything\n",
		"an unknown device":   `{"seq":1,"phase":"done","call":"PowerControl","components":["` + id(1).String() + `"]}` + "\n",
		"damage in its midst": `{"seq":1,"phase":"received"}` + "\n{\n" + `{"seq":2,"phase":"received"}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := sim.Open(sim.Config{Journal: path}); err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
		}
	}
}

func TestCompactionLeavesOneLineARack(t *testing.T) {
	t.Parallel()
	cfg := sim.Config{Journal: filepath.Join(t.TempDir(), "journal")}
	s := open(t, cfg)
	for range 50 {
		order(t, s, named(rackOf(1), "tray-1"), hardware.PowerOff)
		order(t, s, named(rackOf(2), "tray-1"), hardware.PowerOn)
	}
	_ = s.Close()
	cfg.Compact = 1 << 20
	_ = open(t, cfg).Close()
	if entries, err := sim.ReadJournal(cfg.Journal); err != nil || len(entries) != 102 {
		t.Errorf("below the size: %d entries, %v; want all 102", len(entries), err)
	}
	cfg.Compact = 1
	_ = open(t, cfg).Close()
	entries, err := sim.ReadJournal(cfg.Journal)
	if err != nil || len(entries) != 2 || entries[0].Seq != 103 {
		t.Errorf("compacted: %+v, %v; want 2 entries from number 103", entries, err)
	}
}

// TestKilledProcessLosesNothingItPromised kills a process in the midst of commands and looks at what it left behind.
func TestKilledProcessLosesNothingItPromised(t *testing.T) {
	const variable = "SIM_TEST_JOURNAL"
	rack := rackOf(1)
	if path := os.Getenv(variable); path != "" {
		s := open(t, sim.Config{Inventory: inventory(rack), Journal: path})
		for {
			for _, c := range named(rack, "tray-1", "tray-2", "tray-3", "tray-1").Components {
				order(t, s, hardware.Target{Type: c.Type, Components: []hardware.Component{c}}, hardware.ColdReset)
				fmt.Println("promised", c.ID)
			}
		}
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	promised := make(map[string]int)
	n := 0
	for lines := bufio.NewScanner(out); lines.Scan(); n++ {
		promised[lines.Text()]++
		if n == 100 {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	_ = open(t, sim.Config{Inventory: inventory(rack), Journal: path}).Close()
	entries, err := sim.ReadJournal(path)
	if err != nil || n < 100 {
		t.Fatalf("%d promises, %v; want at least 100", n, err)
	}
	for _, c := range named(rack, "tray-1", "tray-2", "tray-3").Components {
		done := count(entries, func(e sim.Entry) bool { return e.Acted(c.ID) })
		if want := promised["promised "+c.ID.String()]; done < want || done > want+1 {
			t.Errorf("%s: %d resets in the journal, want the %d promised or one more", c.Name, done, want)
		}
	}
}

func FuzzReadJournal(f *testing.F) {
	path := filepath.Join(f.TempDir(), "journal")
	s := open(f, sim.Config{Journal: path})
	if _, err := s.Managers()[hardware.Compute].(hardware.PowerController).PowerControl(f.Context(), named(rackOf(1), "tray-1"), hardware.Restart, hardware.PowerOptions{}); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sim.Open(sim.Config{Journal: path})
		if err != nil {
			return
		}
		defer s.Close()
		if _, err := sim.ReadJournal(path); err != nil {
			t.Errorf("opened but not readable: %v", err)
		}
	})
}
