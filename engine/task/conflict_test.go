package task

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

func id(n byte) uuid.UUID { return uuid.UUID{0: n, 15: 1} }

// of makes a footprint of components by type.
func of(t rules.TaskType, components map[hardware.ComponentType][]byte) footprint {
	f := footprint{Type: t}
	for kind, list := range components {
		f.Types = append(f.Types, kind)
		for _, n := range list {
			f.Components = append(f.Components, id(n))
		}
	}
	slices.Sort(f.Types)
	sortIDs(f.Components)
	return f
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	type parts = map[hardware.ComponentType][]byte
	tray1, tray2, switch1, shelf1 := parts{hardware.Compute: {1}}, parts{hardware.Compute: {2}}, parts{hardware.NVSwitch: {3}}, parts{hardware.PowerShelf: {4}}
	whole := parts{hardware.Compute: {1, 2}, hardware.NVSwitch: {3}, hardware.PowerShelf: {4}}
	tor := parts{hardware.ToRSwitch: {5}}
	bringUp, decommission := rules.TaskBringUp, rules.TaskDecommission
	for name, c := range map[string]struct {
		a, b footprint
		want string
	}{
		"power on and off of one tray":                      {of(power, tray1), of(power, tray1), "C3"},
		"power of two trays":                                {of(power, tray1), of(power, tray2), ""},
		"power of a switch against the whole rack":          {of(power, switch1), of(power, whole), "C1"},
		"power of a shelf against any tray":                 {of(power, shelf1), of(power, tray2), "C1"},
		"power of one switch twice":                         {of(power, switch1), of(power, switch1), "C4"},
		"firmware of a tray and of a switch":                {of(firmware, tray1), of(firmware, switch1), ""},
		"firmware of a tray against power of the rack":      {of(firmware, tray1), of(power, whole), "C2"},
		"firmware of a shelf against power of a tray":       {of(firmware, shelf1), of(power, tray1), ""},
		"power and firmware of one switch":                  {of(power, switch1), of(firmware, switch1), "C6"},
		"power and firmware of one tray":                    {of(power, tray1), of(firmware, tray1), "C5"},
		"firmware of one shelf twice":                       {of(firmware, shelf1), of(firmware, shelf1), "C7"},
		"ingest against power of a tray":                    {of(bringUp, whole), of(power, tray1), "C8"},
		"bring-up twice":                                    {of(bringUp, tray1), of(bringUp, tray2), "C8"},
		"decommission against an injection":                 {of(decommission, shelf1), of(rules.TaskInjectExpectation, tray1), "C9"},
		"injection against power of the rack":               {of(rules.TaskInjectExpectation, whole), of(power, whole), ""},
		"power of one ToR switch twice (ours)":              {of(power, tor), of(power, tor), "D-30.10"},
		"power and firmware of one ToR switch (ours)":       {of(power, tor), of(firmware, tor), "D-30.10"},
		"power of a ToR switch against firmware of a shelf": {of(power, tor), of(firmware, shelf1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := conflict(c.a, c.b); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := conflict(c.b, c.a); got != c.want {
				t.Errorf("the other way round: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestConflictsAreSymmetricAndATaskConflictsWithItself(t *testing.T) {
	t.Parallel()
	types := []rules.TaskType{power, firmware, rules.TaskBringUp, rules.TaskDecommission}
	// A component's type follows from its number, as it does in an inventory.
	draw := rapid.Custom(func(t *rapid.T) footprint {
		parts := map[hardware.ComponentType][]byte{}
		for _, n := range rapid.SliceOfNDistinct(rapid.ByteRange(0, 11), 1, 6, rapid.ID[byte]).Draw(t, "components") {
			kind := hardware.ComponentTypes[n%6]
			parts[kind] = append(parts[kind], n)
		}
		return of(rapid.SampledFrom(types).Draw(t, "type"), parts)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		if (conflict(a, b) == "") != (conflict(b, a) == "") {
			t.Fatalf("%v and %v: one way only", a, b)
		}
		if conflict(a, a) == "" {
			t.Fatalf("%v may run beside itself", a)
		}
		if shareComponent(a.Components, b.Components) && conflict(a, b) == "" {
			t.Fatalf("%v and %v share a component", a, b)
		}
	})
}
