package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

func TestMain(m *testing.M) {
	// A case is a whole play with a database; make chaos asks for more of them.
	if os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	storetest.Main(m)
}

// bench is an engine on a database and a simulated site of its own.
type bench struct {
	*engine.Engine
	t       *testing.T
	store   *store.Store
	site    *sim.Site
	journal string
	cfg     engine.Config
}

// newBench starts an engine. The site is found powered off and acts at once; waits pass a hundred times faster.
func newBench(t *testing.T, change func(*engine.Config)) *bench {
	t.Helper()
	ctx := t.Context()
	st, err := store.Open(ctx, store.Config{URL: storetest.New(t), RiverConns: 4, EngineConns: 4, APIConns: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	b := &bench{t: t, store: st, journal: filepath.Join(t.TempDir(), "journal")}
	b.site, err = sim.Open(sim.Config{InitialPower: hardware.PowerStateOff, Journal: b.journal, Inventory: b.inventory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.site.Close() })
	cfg := engine.Config{Store: st, Managers: b.site.Managers(), Log: slog.New(slog.DiscardHandler), NodeID: uuid.New(), Speed: 100}
	if change != nil {
		change(&cfg)
	}
	b.cfg = cfg
	b.Engine = b.start(cfg)
	return b
}

// start runs an engine until the test ends.
func (b *bench) start(cfg engine.Config) *engine.Engine {
	b.t.Helper()
	e, err := engine.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := e.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			b.t.Errorf("stop: %v", err)
		}
	})
	return e
}

// join starts another node on the same database and site. A node that starts sweeps at once.
func (b *bench) join(change func(*engine.Config)) {
	b.t.Helper()
	cfg := b.cfg
	cfg.NodeID = uuid.New()
	change(&cfg)
	b.start(cfg)
}

func (b *bench) inventory(ctx context.Context, racks []uuid.UUID) ([]hardware.Component, error) {
	rows, err := db.New(b.store.API).ComponentTargets(ctx, db.ComponentTargetsParams{RackIds: racks, Ids: []uuid.UUID{}})
	if err != nil {
		return nil, err
	}
	var list []hardware.Component
	for _, r := range rows {
		list = append(list, hardware.Component{ID: r.ID, RackID: *r.RackID, Type: hardware.ComponentType(r.Type), Name: r.Name})
	}
	return list, nil
}

// rack is a rack in inventory with its components in the order they are worked on.
type rack struct {
	id         uuid.UUID
	components map[hardware.ComponentType][]uuid.UUID
}

// addRack takes a rack with so many compute trays, NVSwitches and power shelves into inventory.
func (b *bench) addRack(name string, trays, switches, shelves int) rack {
	b.t.Helper()
	r := rack{id: uuid.New(), components: map[hardware.ComponentType][]uuid.UUID{}}
	q := db.New(b.store.API)
	if err := q.RackInsert(b.t.Context(), db.RackInsertParams{ID: r.id, Name: name}); err != nil {
		b.t.Fatal(err)
	}
	p := db.ComponentInsertManyParams{RackID: &r.id}
	for _, kind := range []struct {
		t hardware.ComponentType
		n int
	}{{hardware.Compute, trays}, {hardware.NVSwitch, switches}, {hardware.PowerShelf, shelves}} {
		for i := range kind.n {
			id := uuid.New()
			r.components[kind.t] = append(r.components[kind.t], id)
			p.Ids = append(p.Ids, id)
			p.Types = append(p.Types, string(kind.t))
			p.Names = append(p.Names, fmt.Sprintf("%s-%s-%d", name, kind.t, i))
			p.ExternalIds = append(p.ExternalIds, id.String())
			p.SlotIds = append(p.SlotIds, int32(i))
			p.TrayIdxs = append(p.TrayIdxs, int32(i))
			p.HostIds = append(p.HostIds, 0)
			p.Healths = append(p.Healths, nil)
			for _, text := range []*[]string{&p.Manufacturers, &p.Serials, &p.Models, &p.Descriptions, &p.FirmwareVersions} {
				*text = append(*text, "")
			}
		}
	}
	if err := q.ComponentInsertMany(b.t.Context(), p); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// addRule stores a rule for power_on and returns its id.
func (b *bench) addRule(definition string) *uuid.UUID {
	b.t.Helper()
	def, err := rules.Parse([]byte(definition))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := def.Validate(operation(hardware.PowerOn)); err != nil {
		b.t.Fatal(err)
	}
	return b.addAnyRule(definition)
}

func operation(op hardware.PowerOperation) rules.Operation {
	return rules.Operation{Type: rules.TaskPowerControl, Code: string(op)}
}

// submit asks for an operation on one rack and returns the task's id.
func (b *bench) submit(op hardware.PowerOperation, r rack, rule *uuid.UUID) uuid.UUID {
	b.t.Helper()
	sub, err := b.Tasks.Submit(b.t.Context(), task.Request{
		Operation: operation(op), Scope: inventory.Scope{Racks: []inventory.RackRef{{ID: r.id}}}, RuleID: rule,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return sub.TaskIDs[0]
}

var errSeen = errors.New("seen")

// await follows a task until an event satisfies the condition.
func (b *bench) await(id uuid.UUID, what string, ok func(db.Event) bool) db.Event {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	var got db.Event
	err := b.Watch.Follow(ctx, task.WatchFilter{Tasks: []uuid.UUID{id}}, func(e db.Event) error {
		if got = e; ok(e) {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		b.t.Fatalf("task %s: waiting for %s: %v; last event %s of stage %d: %s", id, what, err, got.Kind, got.Stage, got.Message)
	}
	return got
}

// finished waits for a task to end and returns it with its report.
func (b *bench) finished(id uuid.UUID) (task.View, task.Report) {
	b.t.Helper()
	b.await(id, "its end", func(e db.Event) bool { return e.Kind == db.EventKindTaskFinished })
	views, err := b.Tasks.Get(b.t.Context(), []uuid.UUID{id})
	if err != nil {
		b.t.Fatal(err)
	}
	var report task.Report
	if views[0].Report != "" {
		if err := json.Unmarshal([]byte(views[0].Report), &report); err != nil {
			b.t.Fatal(err)
		}
	}
	return views[0], report
}

// exec runs a statement that must change rows.
func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	tag, err := b.store.API.Exec(b.t.Context(), sql, args...)
	if err != nil {
		b.t.Fatal(err)
	}
	if tag.Update() && tag.RowsAffected() == 0 || tag.Delete() && tag.RowsAffected() == 0 {
		b.t.Fatalf("no rows: %s", sql)
	}
}

// value reads one value.
func value[T any](b *bench, sql string, args ...any) T {
	b.t.Helper()
	var v T
	if err := b.store.API.QueryRow(b.t.Context(), sql, args...).Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// until waits for what no event tells of.
func (b *bench) until(what string, ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			b.t.Fatalf("waiting for %s", what)
		}
	}
}

// intercepted is a component manager whose power commands go through a function, which does not see their contexts.
type intercepted struct {
	hardware.Manager
	control func(send func() (hardware.Results, error)) (hardware.Results, error)
}

func intercept(c *engine.Config, control func(send func() (hardware.Results, error)) (hardware.Results, error)) {
	managers := hardware.Managers{}
	for t, m := range c.Managers {
		managers[t] = intercepted{m, control}
	}
	c.Managers = managers
}

func (i intercepted) PowerControl(ctx context.Context, target hardware.Target, op hardware.PowerOperation, opt hardware.PowerOptions) (
	hardware.Results, error,
) {
	return i.control(func() (hardware.Results, error) {
		return i.Manager.(hardware.PowerController).PowerControl(context.WithoutCancel(ctx), target, op, opt)
	})
}

func (i intercepted) PowerStatus(ctx context.Context, target hardware.Target) (map[uuid.UUID]hardware.PowerReading, error) {
	return i.Manager.(hardware.PowerReader).PowerStatus(ctx, target)
}

// gate holds every power command back until the test lets it through, whatever becomes of its context.
type gate struct {
	t       *testing.T
	waiting chan chan struct{}
}

func newGate(t *testing.T) gate { return gate{t, make(chan chan struct{}, 10)} }

func (g gate) control(send func() (hardware.Results, error)) (hardware.Results, error) {
	open := make(chan struct{})
	g.waiting <- open
	select {
	case <-open:
	case <-g.t.Context().Done():
	}
	return send()
}

// next waits for a command; closing the channel lets it through.
func (g gate) next() chan<- struct{} {
	g.t.Helper()
	select {
	case open := <-g.waiting:
		return open
	case <-time.After(30 * time.Second):
		g.t.Fatal("no power command arrives")
		return nil
	}
}

// sent counts the power commands that arrived at a component.
func (b *bench) sent(component uuid.UUID, op hardware.PowerOperation) int {
	b.t.Helper()
	entries, err := sim.ReadJournal(b.journal)
	if err != nil {
		b.t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if !e.Arrived() || e.Operation != op {
			continue
		}
		for _, c := range e.Components {
			if c == component {
				n++
			}
		}
	}
	return n
}

// script makes hardware calls go wrong.
func (b *bench) script(faults ...sim.Fault) {
	b.t.Helper()
	if err := b.site.Script(faults...); err != nil {
		b.t.Fatal(err)
	}
}
