package sim_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/hardwaretest"
	"rackflow.dev/flow/hardware/sim"
)

// clock is a clock that moves when told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// id is a readable component or rack id.
func id(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// rackOf makes rack n: two power shelves, two switches, three trays, and one of each of the other types doubled.
func rackOf(n int) []hardware.Component {
	var cs []hardware.Component
	for _, part := range []struct {
		kind  hardware.ComponentType
		name  string
		count int
	}{
		{hardware.PowerShelf, "shelf", 2}, {hardware.NVSwitch, "switch", 2}, {hardware.Compute, "tray", 3},
		{hardware.ToRSwitch, "tor", 2}, {hardware.UMS, "ums", 2}, {hardware.CDU, "cdu", 2},
	} {
		for i := range part.count {
			cs = append(cs, hardware.Component{ID: id(n*100 + len(cs) + 1), RackID: id(n * 100), Type: part.kind, Name: fmt.Sprintf("%s-%d", part.name, i+1)})
		}
	}
	return cs
}

// inventory serves whole racks.
func inventory(cs ...[]hardware.Component) sim.InventoryFunc {
	return func(_ context.Context, ids []uuid.UUID) ([]hardware.Component, error) {
		var live []hardware.Component
		for _, c := range slices.Concat(cs...) {
			if slices.Contains(ids, c.RackID) {
				live = append(live, c)
			}
		}
		return live, nil
	}
}

func open(t testing.TB, cfg sim.Config) *sim.Site {
	t.Helper()
	s, err := sim.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// named picks components of a rack by name; they must be of one type.
func named(cs []hardware.Component, names ...string) hardware.Target {
	var target hardware.Target
	for _, name := range names {
		i := slices.IndexFunc(cs, func(c hardware.Component) bool { return c.Name == name })
		target.Type = cs[i].Type
		target.Components = append(target.Components, cs[i])
	}
	return target
}

func powerControl(t testing.TB, s *sim.Site, target hardware.Target, op hardware.PowerOperation) (hardware.Results, error) {
	t.Helper()
	return s.Managers()[target.Type].(hardware.PowerController).PowerControl(t.Context(), target, op, hardware.PowerOptions{})
}

// order is powerControl where nothing may go wrong.
func order(t testing.TB, s *sim.Site, target hardware.Target, op hardware.PowerOperation) {
	t.Helper()
	results, err := powerControl(t, s, target, op)
	if err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	for id, err := range results {
		if err != nil {
			t.Fatalf("%s %s: %v", op, id, err)
		}
	}
}

// look tells the power of components as text by name: "Off", or "Off unreachable".
func look(t testing.TB, s *sim.Site, cs []hardware.Component) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for _, c := range cs {
		cond, err := s.Inspect(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		got[c.Name] = string(cond.Power.State)
		if !cond.Power.Reachable {
			got[c.Name] += " unreachable"
		}
	}
	return got
}

func TestSiteKeepsTheContractOfAdapters(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sim.Config{
		"in memory, at once":      {},
		"journalled, taking time": {Latency: time.Minute, Speed: 2, Journal: "journal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hardwaretest.Run(t, func(t *testing.T) hardwaretest.Harness { return harness(t, cfg) })
		})
	}
}

func harness(t *testing.T, cfg sim.Config) hardwaretest.Harness {
	rack, now := rackOf(1), newClock()
	cfg.Now, cfg.Inventory = now.Now, inventory(rack)
	h := hardwaretest.Harness{Rack: rack, Settle: func(testing.TB) { now.Advance(10 * time.Minute) }}
	if cfg.Journal != "" {
		cfg.Journal = filepath.Join(t.TempDir(), cfg.Journal)
		h.Acts = func() int {
			entries, err := sim.ReadJournal(cfg.Journal)
			if err != nil {
				t.Error(err)
			}
			return count(entries, sim.Entry.Arrived)
		}
	}
	site := open(t, cfg)
	h.Managers = site.Managers()
	h.Fault = func(t testing.TB, f hardwaretest.Fault) bool {
		kind := map[hardwaretest.Problem]sim.Kind{
			hardwaretest.Refusal: sim.Refuse, hardwaretest.Busy: sim.Unavailable, hardwaretest.LostReply: sim.LostReply,
			hardwaretest.Missing: sim.Partial, hardwaretest.Hang: sim.Hang,
		}[f.Problem]
		script(t, site, sim.Fault{Component: f.Component, Call: f.Call, Kind: kind, Times: 1})
		return true
	}
	return h
}

func script(t testing.TB, s *sim.Site, faults ...sim.Fault) {
	t.Helper()
	if err := s.Script(faults...); err != nil {
		t.Fatal(err)
	}
}

func count(entries []sim.Entry, f func(sim.Entry) bool) int {
	n := 0
	for _, e := range entries {
		if f(e) {
			n++
		}
	}
	return n
}

func TestConfigThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]sim.Config{
		"negative latency":             {Latency: -1},
		"negative speed":               {Speed: -1},
		"initially neither on nor off": {InitialPower: hardware.PowerStateRebooting},
		"a journal that is a folder":   {Journal: t.TempDir()},
	} {
		if s, err := sim.Open(cfg); err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
		}
	}
}

func TestInventoryIsAskedOnlyForWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	rack := rackOf(1)
	live := rack[:len(rack)-1]
	asked := 0
	s := open(t, sim.Config{Inventory: func(ctx context.Context, ids []uuid.UUID) ([]hardware.Component, error) {
		asked++
		return inventory(live)(ctx, ids)
	}})
	look(t, s, live)
	if asked != 1 {
		t.Errorf("asked %d times for one rack, want 1", asked)
	}
	if _, err := s.Inspect(t.Context(), rack[len(rack)-1]); hardware.OutcomeOf(err) != hardware.OutcomeRefused {
		t.Errorf("component that is not in the inventory: error %v, want one that is refused", err)
	}
	live = rack
	look(t, s, rack)
	if asked != 3 {
		t.Errorf("asked %d times, want 3: the rack, the stranger, the newcomer", asked)
	}
}

func TestInventoryThatFailsMeansNothingWasDone(t *testing.T) {
	t.Parallel()
	s := open(t, sim.Config{Inventory: func(context.Context, []uuid.UUID) ([]hardware.Component, error) {
		return nil, fmt.Errorf("database is away")
	}})
	_, err := powerControl(t, s, named(rackOf(1), "tray-1"), hardware.PowerOff)
	if hardware.OutcomeOf(err) != hardware.OutcomeNotDone {
		t.Errorf("error %v, want one that is not done", err)
	}
}

func TestSiteThatIsClosedDoesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, sim.Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := powerControl(t, s, named(rackOf(1), "tray-1"), hardware.PowerOff)
	if hardware.OutcomeOf(err) != hardware.OutcomeNotDone {
		t.Errorf("error %v, want one that is not done", err)
	}
}
