package task

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
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

type parts = map[hardware.ComponentType][]byte

// TestConflictVectors are those of the specification, by their numbers, and what else the table of rules says by name.
func TestConflictVectors(t *testing.T) {
	t.Parallel()
	tray1, tray2, switch1, shelf1 := parts{hardware.Compute: {1}}, parts{hardware.Compute: {2}}, parts{hardware.NVSwitch: {3}}, parts{hardware.PowerShelf: {4}}
	whole := parts{hardware.Compute: {1, 2}, hardware.NVSwitch: {3}, hardware.PowerShelf: {4}}
	tor, ums, cdu := parts{hardware.ToRSwitch: {5}}, parts{hardware.UMS: {6}}, parts{hardware.CDU: {7}}
	bringUp, decommission := rules.TaskBringUp, rules.TaskDecommission
	for name, c := range map[string]struct {
		incoming, active footprint
		want             string
	}{
		"1: power on and off of one tray":              {of(power, tray1), of(power, tray1), "C3"},
		"2: power of two trays":                        {of(power, tray1), of(power, tray2), ""},
		"3: power of a switch against the whole rack":  {of(power, switch1), of(power, whole), "C1"},
		"4: firmware of a tray and of a switch":        {of(firmware, tray1), of(firmware, switch1), ""},
		"5: firmware of a tray against a power-off":    {of(firmware, tray1), of(power, whole), "C2"},
		"6: ingest against power of a tray":            {of(bringUp, whole), of(power, tray1), "C8"},
		"7: firmware of a shelf against power of tray": {of(firmware, shelf1), of(power, tray1), ""},
		"8: power and firmware of one switch":          {of(power, switch1), of(firmware, switch1), "C6"},
		"9: bring-up twice":                            {of(bringUp, tray1), of(bringUp, tray2), "C8"},

		"power of a shelf against any tray":                   {of(power, shelf1), of(power, tray2), "C1"},
		"power of one switch twice":                           {of(power, switch1), of(power, switch1), "C4"},
		"power and firmware of one tray":                      {of(power, tray1), of(firmware, tray1), "C5"},
		"firmware of one shelf twice":                         {of(firmware, shelf1), of(firmware, shelf1), "C7"},
		"decommission against an injection":                   {of(decommission, shelf1), of(rules.TaskInjectExpectation, tray1), "C9"},
		"injection against power of the rack":                 {of(rules.TaskInjectExpectation, whole), of(power, whole), ""},
		"power of trays apart and a switch both have":         {of(power, parts{hardware.Compute: {1}, hardware.NVSwitch: {3}}), of(power, parts{hardware.Compute: {2}, hardware.NVSwitch: {3}}), "C3"},
		"power of one ToR switch twice":                       {of(power, tor), of(power, tor), "D-30.10"},
		"power of one UMS twice":                              {of(power, ums), of(power, ums), "D-30.10"},
		"power and firmware of one CDU":                       {of(power, cdu), of(firmware, cdu), "D-30.10"},
		"firmware of one ToR switch twice, as everywhere":     {of(firmware, tor), of(firmware, tor), "C7"},
		"power of a ToR switch against firmware of a shelf":   {of(power, tor), of(firmware, shelf1), ""},
		"power of a ToR switch and a tray against the switch": {of(power, parts{hardware.Compute: {1}, hardware.ToRSwitch: {5}}), of(power, tor), "D-30.10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := conflict(c.incoming, c.active); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := conflict(c.active, c.incoming); got != c.want {
				t.Errorf("the other way round: got %q, want %q", got, c.want)
			}
		})
	}
}

// TestTheConflictMatrix is the matrix of the specification: each kind of task against each, with nothing in common and with
// a component of each type in common.
func TestTheConflictMatrix(t *testing.T) {
	t.Parallel()
	const (
		always   = "always"
		never    = "never"
		shared   = "if shared"
		sharedCN = "if shared (compute, nvswitch)" // any other type: D-30.10
	)
	kinds := []string{"power with shelf", "power, no shelf", "firmware", "bring_up/ingest", "decommission", "inject"}
	matrix := [][]string{
		{always, always, always, always, always, never},
		{always, sharedCN, sharedCN, always, always, never},
		{always, sharedCN, shared, always, always, never},
		{always, always, always, always, always, always},
		{always, always, always, always, always, always},
		{never, never, never, always, always, never},
	}
	types := []rules.TaskType{power, power, firmware, rules.TaskBringUp, rules.TaskDecommission, rules.TaskInjectExpectation}
	type common struct {
		what string // "": nothing
		a, b parts
	}
	cases := []common{
		{"", parts{hardware.Compute: {1}, hardware.NVSwitch: {3}}, parts{hardware.Compute: {2}, hardware.NVSwitch: {4}}},
		{"compute", parts{hardware.Compute: {1}}, parts{hardware.Compute: {1, 2}, hardware.NVSwitch: {4}}},
		{"nvswitch", parts{hardware.Compute: {1}, hardware.NVSwitch: {3}}, parts{hardware.NVSwitch: {3}}},
	}
	for _, other := range []hardware.ComponentType{hardware.ToRSwitch, hardware.UMS, hardware.CDU} {
		cases = append(cases, common{string(other), parts{other: {5}}, parts{other: {5, 6}}})
	}
	ours, reference := &Service{}, &Service{Settings: Settings{ReferenceConflicts: true}}
	// task makes a footprint of a kind; shelf is the number of the shelf of one that has any.
	task := func(kind int, p parts, shelf byte) footprint {
		own := maps.Clone(p)
		if kind == 0 {
			own[hardware.PowerShelf] = []byte{shelf}
		}
		return of(types[kind], own)
	}
	for i, row := range matrix {
		for j, cell := range row {
			for _, c := range cases {
				wantReference, want := cell == always, cell == always
				if c.what != "" && cell == shared {
					wantReference, want = true, true
				}
				if c.what != "" && cell == sharedCN {
					want, wantReference = true, c.what == "compute" || c.what == "nvswitch"
				}
				incoming, active := task(i, c.a, 20), other{footprint: task(j, c.b, 21), state: db.TaskStateRunning}
				if got := len(ours.conflicts(incoming, []other{active})) > 0; got != want {
					t.Errorf("%s against %s with %q in common: conflict %t, want %t", kinds[i], kinds[j], c.what, got, want)
				}
				if got := len(reference.conflicts(incoming, []other{active})) > 0; got != wantReference {
					t.Errorf("%s against %s with %q in common, as in the reference: conflict %t, want %t", kinds[i], kinds[j], c.what, got, wantReference)
				}
			}
		}
	}
}

func TestWhichTasksANewcomerMinds(t *testing.T) {
	t.Parallel()
	tray := parts{hardware.Compute: {1}}
	var tasks []other
	for _, state := range []db.TaskState{db.TaskStateRunning, db.TaskStateWaiting, db.TaskStatePending} {
		tasks = append(tasks, other{footprint: of(power, tray), state: state})
	}
	for name, c := range map[string]struct {
		settings Settings
		want     []db.TaskState
	}{
		"active and waiting ones (D-30.12)": {Settings{}, []db.TaskState{db.TaskStateRunning, db.TaskStateWaiting, db.TaskStatePending}},
		"active ones where it may overtake": {Settings{AllowOvertaking: true}, []db.TaskState{db.TaskStateRunning, db.TaskStatePending}},
	} {
		var got []db.TaskState
		for _, conflict := range (&Service{Settings: c.settings}).conflicts(of(power, tray), tasks) {
			got = append(got, conflict.State)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
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
