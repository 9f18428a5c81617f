package engine_test

import (
	"testing"
	"time"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store/db"
)

// D-31.19: the reference goes on by the built-in rule when it cannot read the stored ones.
func TestWithoutALookAtTheRulesNothingIsSubmitted(t *testing.T) {
	t.Parallel()
	b := newBench(t, idle)
	r := b.addRack("r", 1, 0, 1)
	for _, table := range []string{"operation_rule", "rack_rule"} {
		b.exec("ALTER TABLE " + table + " RENAME TO hidden")
		_, err := b.Tasks.Submit(t.Context(), task.Request{
			Operation: operation(hardware.PowerOn), Scope: inventory.Scope{Racks: []inventory.RackRef{{ID: r.id}}},
		})
		if err == nil || fault.KindOf(err) != fault.KindUnknown {
			t.Errorf("without %s: %v, want an error of ours", table, err)
		}
		b.exec("ALTER TABLE hidden RENAME TO " + table)
	}
	if n := value[int](b, "SELECT count(*) FROM task"); n != 0 {
		t.Errorf("%d tasks were made", n)
	}
}

func TestWithoutALookAtTheRulesAPromotionIsTriedAgain(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	b := newBench(t, func(c *engine.Config) { intercept(c, g.control) })
	r := b.addRack("r", 0, 0, 2)
	first := b.submit(hardware.PowerOff, r, b.addRule(rule(patient("PowerShelf", mainPower))))
	command := g.next()
	next := b.wait(r, nil, time.Hour)
	// The site's rule switches shelves one by one; the built-in one does so all at once and then looks.
	site := b.addRule(rule(patient("PowerShelf", `"max_parallel": 1, `+mainPower)))
	b.exec("UPDATE operation_rule SET is_default = true WHERE id = $1", *site)
	b.exec("ALTER TABLE operation_rule RENAME TO hidden")
	close(command)
	// What has ended is not held up by what cannot begin.
	if view, _ := b.finished(first); view.State != db.TaskStateCompleted {
		t.Errorf("the first: %s: %s", view.State, view.Message)
	}
	if got := b.state(next); got != db.TaskStateWaiting {
		t.Fatalf("the next task is %s while nobody knows its rule", got)
	}
	b.exec("ALTER TABLE hidden RENAME TO operation_rule")
	for range 2 {
		close(g.next())
	}
	view, _ := b.finished(next)
	if view.State != db.TaskStateCompleted || view.AppliedRuleID == nil || *view.AppliedRuleID != *site {
		t.Errorf("the next: %s by rule %v: %s", view.State, view.AppliedRuleID, view.Message)
	}
	for _, e := range b.arrived(hardware.PowerOn) {
		if len(e.Components) != 1 {
			t.Errorf("%d shelves were switched on at once", len(e.Components))
		}
	}
}

// arrived lists the power commands that arrived.
func (b *bench) arrived(op hardware.PowerOperation) (list []sim.Entry) {
	b.t.Helper()
	entries, err := sim.ReadJournal(b.journal)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Arrived() && e.Operation == op {
			list = append(list, e)
		}
	}
	return list
}
