package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

func TestPower(t *testing.T) {
	t.Parallel()
	const L = time.Second
	type act struct {
		wait  time.Duration // before it
		names string
		op    hardware.PowerOperation
		fails string // what each component answers
	}
	for name, tc := range map[string]struct {
		initial hardware.PowerState
		acts    []act
		wait    time.Duration // before the look
		want    map[string]string
	}{
		"an order shows nothing before its time": {
			acts: []act{{0, "tray-1", hardware.PowerOff, ""}}, wait: L - 1,
			want: map[string]string{"tray-1": "On"},
		},
		"an order shows in time": {
			acts: []act{{0, "tray-1", hardware.ForcePowerOff, ""}}, wait: L,
			want: map[string]string{"tray-1": "Off", "tray-2": "On"},
		},
		"an order sent again does not put its effect off": {
			acts: []act{{0, "tray-1", hardware.PowerOff, ""}, {L - 1, "tray-1", hardware.PowerOff, ""}}, wait: 1,
			want: map[string]string{"tray-1": "Off"},
		},
		"the newest order wins": {
			acts: []act{{0, "tray-1", hardware.PowerOff, ""}, {L / 2, "tray-1", hardware.PowerOn, ""}}, wait: 2 * L,
			want: map[string]string{"tray-1": "On"},
		},
		"a component restarts before it is on again": {
			acts: []act{{0, "tray-1 tray-2", hardware.ColdReset, ""}}, wait: L - 1,
			want: map[string]string{"tray-1": "Rebooting", "tray-2": "Rebooting", "tray-3": "On"},
		},
		"a component that was off is on after a restart": {
			acts: []act{{0, "tray-1", hardware.PowerOff, ""}, {L, "tray-1", hardware.ForceRestart, ""}}, wait: L,
			want: map[string]string{"tray-1": "On"},
		},
		"an order during a restart wins": {
			acts: []act{{0, "tray-1", hardware.WarmReset, ""}, {0, "tray-1", hardware.PowerOff, ""}}, wait: L,
			want: map[string]string{"tray-1": "Off"},
		},
		"one shelf feeds the whole rack": {
			acts: []act{{0, "shelf-1", hardware.PowerOff, ""}}, wait: L,
			want: map[string]string{"shelf-1": "Off", "shelf-2": "On", "tray-1": "On", "switch-1": "On"},
		},
		"trays lose power with the last shelf, other devices do not": {
			acts: []act{{0, "shelf-1", hardware.PowerOff, ""}, {L, "shelf-2", hardware.PowerOff, ""}}, wait: L,
			want: map[string]string{
				"shelf-1": "Off", "shelf-2": "Off", "tray-1": "Off unreachable", "switch-1": "Off unreachable", "cdu-1": "On",
			},
		},
		"a tray without shelf power can't be powered on": {
			acts: []act{
				{0, "shelf-1 shelf-2", hardware.PowerOff, ""},
				{L, "tray-1", hardware.PowerOn, "Compute tray-1 (" + id(105).String() + ") is unreachable: no power shelf of its rack is on"},
				{0, "tray-1", hardware.ColdReset, "is unreachable"},
			},
			wait: L, want: map[string]string{"tray-1": "Off unreachable"},
		},
		"a tray without shelf power is off, so off is done": {
			acts: []act{{0, "shelf-1 shelf-2", hardware.PowerOff, ""}, {L, "tray-1", hardware.ForcePowerOff, ""}},
			want: map[string]string{"tray-1": "Off unreachable"},
		},
		"trays stay off when a shelf comes back": {
			acts: []act{{0, "shelf-1 shelf-2", hardware.PowerOff, ""}, {L, "shelf-2", hardware.PowerOn, ""}}, wait: L,
			want: map[string]string{"shelf-2": "On", "tray-1": "Off", "switch-1": "Off"},
		},
		"a tray on its way up loses power with the last shelf": {
			acts: []act{
				{0, "shelf-1 shelf-2", hardware.PowerOff, ""}, {L / 2, "tray-1", hardware.Restart, ""},
			},
			wait: 2 * L, want: map[string]string{"tray-1": "Off unreachable"},
		},
		"a rack that is off is powered on shelves first": {
			initial: hardware.PowerStateOff,
			acts: []act{
				{0, "tray-1", hardware.PowerOn, "is unreachable"},
				{0, "shelf-1", hardware.PowerOn, ""},
				{0, "tray-1", hardware.PowerOn, "is unreachable"},
				{L, "tray-1", hardware.PowerOn, ""},
			},
			wait: L, want: map[string]string{"shelf-1": "On", "shelf-2": "Off", "tray-1": "On", "tray-2": "Off"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rack, now := rackOf(1), newClock()
			s := open(t, sim.Config{Inventory: inventory(rack), Latency: 10 * L, Speed: 10, InitialPower: tc.initial, Now: now.Now})
			for _, a := range tc.acts {
				now.Advance(a.wait)
				target := named(rack, strings.Fields(a.names)...)
				results, err := powerControl(t, s, target, a.op)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range target.Components {
					err, told := results[c.ID]
					switch {
					case !told:
						t.Errorf("%s %s: no answer", a.op, c.Name)
					case a.fails == "" && err != nil, a.fails != "" && (err == nil || !strings.Contains(err.Error(), a.fails)):
						t.Errorf("%s %s: error %v, want %q", a.op, c.Name, err, a.fails)
					case err != nil && hardware.OutcomeOf(err) != hardware.OutcomeNotDone:
						t.Errorf("%s %s: outcome %d, want not done", a.op, c.Name, hardware.OutcomeOf(err))
					}
				}
			}
			now.Advance(tc.wait)
			got := look(t, s, rack)
			for name := range got {
				if _, ok := tc.want[name]; !ok {
					delete(got, name)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("power (-want +got):\n%s", d)
			}
		})
	}
}

func TestColdResetOfASwitchIsRefusedInTheWordsOfTheContract(t *testing.T) {
	t.Parallel()
	s := open(t, sim.Config{})
	_, err := powerControl(t, s, named(rackOf(1), "switch-1"), hardware.ColdReset)
	if want := "unsupported power operation for NVSwitch: cold_reset"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestComponentNamedTwiceIsOrderedOnce(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/journal"
	s := open(t, sim.Config{Journal: path})
	order(t, s, named(rackOf(1), "tray-1", "tray-2", "tray-1"), hardware.ColdReset)
	entries, err := sim.ReadJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(named(rackOf(1), "tray-1", "tray-2").IDs(), entries[len(entries)-1].Components); d != "" {
		t.Errorf("components ordered (-want +got):\n%s", d)
	}
}

func TestOneCallMaySpanRacks(t *testing.T) {
	t.Parallel()
	one, two := rackOf(1), rackOf(2)
	s := open(t, sim.Config{Inventory: inventory(one, two)})
	target := named(one, "tray-1", "tray-2")
	target.Components = append(named(two, "tray-2").Components, target.Components...)
	order(t, s, target, hardware.PowerOff)
	for _, c := range target.Components {
		if cond, err := s.Inspect(t.Context(), c); err != nil || cond.Power.State != hardware.PowerStateOff {
			t.Errorf("%s of rack %s: %s, %v; want Off", c.Name, c.RackID, cond.Power.State, err)
		}
	}
}
