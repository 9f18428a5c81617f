package engine_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

var (
	bringUp      = rules.Operation{Type: rules.TaskBringUp, Code: rules.CodeBringUp}
	ingest       = rules.Operation{Type: rules.TaskBringUp, Code: rules.CodeIngest}
	decommission = rules.Operation{Type: rules.TaskDecommission, Code: rules.CodeDecommission}
)

// request asks for any operation on a rack.
func (b *bench) request(op rules.Operation, r rack, rule *uuid.UUID) uuid.UUID {
	b.t.Helper()
	sub, err := b.Tasks.Submit(b.t.Context(), task.Request{
		Operation: op, Scope: inventory.Scope{Racks: []inventory.RackRef{{ID: r.id}}}, RuleID: rule,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return sub.TaskIDs[0]
}

// addAnyRule stores a rule for power_on that may have the actions which only rules of ours may have.
func (b *bench) addAnyRule(definition string) *uuid.UUID {
	b.t.Helper()
	def, err := rules.Parse([]byte(definition))
	if err != nil {
		b.t.Fatal(err)
	}
	doc, err := json.Marshal(def)
	if err != nil {
		b.t.Fatal(err)
	}
	id := uuid.New()
	err = db.New(b.store.API).RuleInsert(b.t.Context(), db.RuleInsertParams{
		ID: id, Name: "test", OperationType: "power_control", OperationCode: "power_on", Definition: doc,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return &id
}

// commands lists the commands that arrived at the site, as "<call> <type> x<components>".
func (b *bench) commands() []string {
	b.t.Helper()
	entries, err := sim.ReadJournal(b.journal)
	if err != nil {
		b.t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if !e.Arrived() {
			continue
		}
		name := string(e.Call)
		if e.Operation != "" {
			name = string(e.Operation)
		}
		list = append(list, fmt.Sprintf("%s %s x%d", name, e.Type, len(e.Components)))
	}
	return list
}

// received counts how often a command arrived at a component.
func (b *bench) received(component uuid.UUID, call hardware.Capability) int {
	b.t.Helper()
	entries, err := sim.ReadJournal(b.journal)
	if err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if e.Arrived() && e.Call == call && slices.Contains(e.Components, component) {
			n++
		}
	}
	return n
}

// inspect looks at all components of a rack, past all faults.
func (b *bench) inspect(r rack) map[string]sim.Condition {
	b.t.Helper()
	got := map[string]sim.Condition{}
	for kind, ids := range r.components {
		for i, id := range ids {
			cond, err := b.site.Inspect(b.t.Context(), hardware.Component{ID: id, RackID: r.id, Type: kind})
			if err != nil {
				b.t.Fatal(err)
			}
			got[fmt.Sprintf("%s-%d", kind, i)] = cond
		}
	}
	return got
}

// known is what a task's only step has left of each component, those of a type in order: "" is done, "-" not known.
func (b *bench) known(id uuid.UUID, components []uuid.UUID) []string {
	b.t.Helper()
	results := map[uuid.UUID]string{}
	if err := json.Unmarshal(b.step(id).Results, &results); err != nil {
		b.t.Fatal(err)
	}
	list := make([]string, len(components))
	for i, c := range components {
		text, ok := results[c]
		if !ok {
			text = "-"
		}
		list[i] = text
	}
	return list
}

// wantKnown compares what is left of components; a text that is wanted need only begin what is there.
func (b *bench) wantKnown(id uuid.UUID, components []uuid.UUID, want []string) {
	b.t.Helper()
	got := b.known(id, components)
	for i, text := range got {
		if (want[i] == "" || want[i] == "-") && text != want[i] || !strings.HasPrefix(text, want[i]) {
			b.t.Errorf("known of the components: %q, want %q", got, want)
			return
		}
	}
}

// act is a main operation with a name and more fields.
func act(name string, more ...string) string {
	return fmt.Sprintf(`"main_operation": {%s}`, strings.Join(append([]string{fmt.Sprintf(`"name": %q`, name)}, more...), ", "))
}

// then is a single post-operation that polls.
func then(name, timeout, interval string) string {
	return fmt.Sprintf(`, "post_operation": [{"name": %q, "timeout": %q, "poll_interval": %q}]`, name, timeout, interval)
}

// actionCase is an action on three components, with something wrong at the second.
type actionCase struct {
	fault   sim.Fault
	whole   bool // the fault concerns calls as a whole, not the second component
	fails   string
	sent    int // times the command arrived at the second component
	first   int // ... and at the first; 0 stands for 1
	known   []string
	counted [2]int32 // completed and failed; not compared when there is nothing to count
}

// check runs one case of a rule on a rack of three components of a type; call is the command that is counted.
func (c actionCase) check(t *testing.T, b *bench, kind hardware.ComponentType, call hardware.Capability, rule string, counts bool) {
	t.Helper()
	n := map[hardware.ComponentType]int{kind: 3}
	r := b.addRack("r", n[hardware.Compute], n[hardware.NVSwitch], n[hardware.PowerShelf])
	list := r.components[kind]
	if c.fault.Kind != "" {
		if !c.whole {
			c.fault.Component = list[1]
		}
		b.script(c.fault)
	}
	b.inspect(r) // the site gets to know the rack: that takes a query, and calls have little time
	id := b.request(operation(hardware.PowerOn), r, b.addAnyRule(rule))
	view, report := b.finished(id)
	want := db.TaskStateCompleted
	if c.fails != "" {
		want = db.TaskStateFailed
	}
	if view.State != want || !strings.Contains(view.Message, c.fails) {
		t.Fatalf("%s: %s\nwant %s: ...%s...", view.State, view.Message, want, c.fails)
	}
	if got, first := b.received(list[1], call), b.received(list[0], call); got != c.sent || first != max(c.first, 1) {
		t.Errorf("the command arrived %d times at the second component and %d times at the first, want %d and %d", got, first, c.sent, max(c.first, 1))
	}
	if c.known != nil {
		b.wantKnown(id, list, c.known)
	}
	s := report.Stages[0].Steps[0]
	if c.fails == "" {
		c.counted = [2]int32{3, 0}
	}
	if got := [2]int32{s.Completed, s.Failed}; counts && got != c.counted {
		t.Errorf("%d completed and %d failed, want %d and %d", got[0], got[1], c.counted[0], c.counted[1])
	}
}

func TestBuiltInRulesTakeARackThroughItsLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.Speed = 1000 })
	r := b.addRack("r", 3, 2, 2)
	b.inspect(r)
	seen := 0
	for _, c := range []struct {
		op       rules.Operation
		commands []string
		end      string // of trays, NVSwitches and power shelves
	}{
		{ingest, []string{"InjectExpectation Compute x3", "InjectExpectation NVSwitch x2"},
			"Off WaitingForIngestion Ready 1.0.0, Off WaitingForIngestion Ready 1.0.0, Off WaitingForIngestion Ready 1.0.0"},
		{bringUp, []string{
			"power_on PowerShelf x2", "power_on Compute x3", "FirmwareControl Compute x3", "power_on NVSwitch x2",
			"power_off Compute x3", "power_on Compute x3",
		}, "On MachineCreated Ready 1.1.0, On MachineCreated Ready 1.0.0, On MachineCreated Ready 1.0.0"},
		{decommission, []string{"DecommissionControl Compute x3", "DecommissionControl NVSwitch x2", "DecommissionControl PowerShelf x2"},
			"On NotDiscovered Decommissioned 1.1.0, On NotDiscovered Decommissioned 1.0.0, On NotDiscovered Decommissioned 1.0.0"},
	} {
		view, report := b.finished(b.request(c.op, r, nil))
		if view.State != db.TaskStateCompleted {
			t.Fatalf("%s: %s: %s", c.op, view.State, view.Message)
		}
		for _, stage := range report.Stages {
			if stage.Status != task.ReportCompleted {
				t.Errorf("%s: stage %d is %s", c.op, stage.Number, stage.Status)
			}
		}
		got := b.commands()
		got, seen = got[seen:], len(got)
		if c.op == ingest {
			slices.Sort(got) // two steps side by side
		}
		if d := cmp.Diff(c.commands, got); d != "" {
			t.Errorf("%s: commands (-want +got):\n%s", c.op, d)
		}
		conditions := map[string]string{}
		for name, cond := range b.inspect(r) {
			kind, _, _ := strings.Cut(name, "-")
			end := fmt.Sprintf("%s %s %s %s", cond.Power.State, cond.BringUp, cond.Decommission, cond.Firmware.Version)
			if other, ok := conditions[kind]; ok && other != end {
				t.Errorf("%s: %s is %s, another one %s", c.op, name, end, other)
			}
			conditions[kind] = end
		}
		ends := make([]string, 0, 3)
		for _, kind := range slices.Sorted(maps.Keys(conditions)) {
			ends = append(ends, conditions[kind])
		}
		if d := cmp.Diff(c.end, strings.Join(ends, ", ")); d != "" {
			t.Errorf("%s: the rack (-want +got):\n%s", c.op, d)
		}
	}
}
