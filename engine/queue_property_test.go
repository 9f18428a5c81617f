package engine_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

const (
	// endLimit is how long all tasks of a case together may take; they need a second or two.
	endLimit = 40 * time.Second
	// promotionLimit is how long a task whose turn has come may still wait. Chapter 30 says 2 s; the driver of a cancelled
	// task may have to stop first, and the machine has other tests to run.
	promotionLimit = 8 * time.Second
	// rackQueue is how many tasks may wait for a rack.
	rackQueue = 5
)

func TestConflictingTasksOfARackRunOneAfterTheOtherInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	f := newField(t)
	var waited, cancelled, refused, full atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		racks := f.newRacks(rapid.IntRange(1, 3).Draw(rt, "racks"))
		clients := rapid.SliceOfN(rapid.SliceOfN(drawAsk(len(racks)), 3, 9), 3, 3).Draw(rt, "clients")
		p := &party{field: f, racks: racks}
		var group sync.WaitGroup
		for _, asks := range clients {
			group.Go(func() {
				for _, a := range asks {
					var err error
					if a.cancel {
						if err = p.cancel(a.pick); err == nil {
							cancelled.Add(1)
						}
					} else {
						err = p.submit(a)
					}
					switch kind := fault.KindOf(err); {
					case err == nil:
					case kind == fault.KindPrecondition: // in other hands, or over before it could be cancelled
						refused.Add(1)
					case kind == fault.KindExhausted && a.queue > 0:
						full.Add(1)
					default:
						p.fault(err)
					}
				}
			})
		}
		group.Wait()
		p.awaitEnd(rt)
		waited.Add(int64(p.judge(rt)))
	})
	t.Logf("%d tasks waited, %d were cancelled, %d were refused and %d found the queue full", waited.Load(), cancelled.Load(), refused.Load(), full.Load())
	for what, n := range map[string]int64{"waited": waited.Load(), "was cancelled": cancelled.Load(), "was refused": refused.Load()} {
		if n == 0 {
			t.Errorf("no task %s, which tests little", what)
		}
	}
}

// field is a bench with two nodes, and rules for the tasks of the cases.
type field struct {
	*bench
	rules map[string]*uuid.UUID
	racks int
}

// ruleNames are the rules of a field, those that succeed first.
var ruleNames = []string{"short", "long", "power", "fails"}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{bench: newBench(t, nil), rules: map[string]*uuid.UUID{}}
	everywhere := func(rest string) string {
		return rule(stage(1, "PowerShelf", rest), stage(2, "NVSwitch", rest), stage(2, "Compute", rest))
	}
	for name, rest := range map[string]string{
		"short": `"main_operation": {"name": "Sleep", "parameters": {"duration": "500ms"}}`,
		"long":  `"main_operation": {"name": "Sleep", "parameters": {"duration": "8s"}}`,
		"power": `"main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on"}}, ` + postVerify,
		"fails": `"main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on"}},
			"post_operation": [{"name": "VerifyPowerStatus", "timeout": "2s", "poll_interval": "1s", "parameters": {"expected_status": "off"}}]`,
	} {
		f.rules[name] = f.addRule(everywhere(rest))
	}
	f.join(func(*engine.Config) {})
	return f
}

func (f *field) newRacks(n int) []rack {
	racks := make([]rack, n)
	for i := range racks {
		f.racks++
		racks[i] = f.addRack(fmt.Sprint("rack-", f.racks), 2, 1, 2)
	}
	return racks
}

// ask is something a client does: it submits a task, or cancels one that somebody has submitted.
type ask struct {
	cancel bool
	pick   int // which task, of those there are then
	rack   int
	op     rules.Operation
	rule   string
	parts  []int // of the components of the rack; empty: all
	queue  time.Duration
}

// operations are drawn from; those for power more often than the others, which exclude everything.
var operations = []rules.Operation{
	operation(hardware.PowerOn), operation(hardware.PowerOff), operation(hardware.Restart), operation(hardware.PowerOn),
	{Type: rules.TaskFirmwareControl, Code: rules.CodeUpgrade}, {Type: rules.TaskFirmwareControl, Code: rules.CodeRollback},
	{Type: rules.TaskBringUp, Code: rules.CodeBringUp}, {Type: rules.TaskBringUp, Code: rules.CodeIngest},
	{Type: rules.TaskDecommission, Code: rules.CodeDecommission},
}

func drawAsk(racks int) *rapid.Generator[ask] {
	return rapid.Custom(func(t *rapid.T) ask {
		a := ask{
			cancel: rapid.IntRange(0, 4).Draw(t, "cancel") == 4,
			pick:   rapid.IntRange(0, 1000).Draw(t, "pick"),
			rack:   rapid.IntRange(0, racks-1).Draw(t, "rack"),
			op:     rapid.SampledFrom(operations).Draw(t, "operation"),
			rule:   rapid.SampledFrom(ruleNames).Draw(t, "rule"),
		}
		if a.op.Type == rules.TaskPowerControl || a.op.Type == rules.TaskFirmwareControl {
			a.parts = rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 0, 2, rapid.ID).Draw(t, "parts")
		}
		if rapid.IntRange(0, 3).Draw(t, "queue") > 0 {
			a.queue = time.Hour
		}
		return a
	})
}

// party is what some clients do to some racks.
type party struct {
	*field
	racks []rack

	mu     sync.Mutex
	tasks  []uuid.UUID
	faults []error // what no client may be told
}

// all lists the components of a rack.
func (r rack) all() []uuid.UUID {
	var list []uuid.UUID
	for _, t := range hardware.ComponentTypes {
		list = append(list, r.components[t]...)
	}
	return list
}

func (p *party) submit(a ask) error {
	r := p.racks[a.rack]
	req := task.Request{Operation: a.op, RuleID: p.rules[a.rule], Queue: a.queue}
	for _, i := range a.parts {
		req.Scope.Components = append(req.Scope.Components, inventory.ComponentRef{ID: r.all()[i]})
	}
	if len(a.parts) == 0 {
		req.Scope.Racks = []inventory.RackRef{{ID: r.id}}
	}
	sub, err := p.Tasks.Submit(p.t.Context(), req)
	if err == nil {
		p.add(sub.TaskIDs...)
	}
	return err
}

func (p *party) add(ids ...uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = append(p.tasks, ids...)
}

// pick is one of the tasks there are, the nil UUID when there is none.
func (p *party) pick(n int) uuid.UUID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tasks) == 0 {
		return uuid.Nil
	}
	return p.tasks[n%len(p.tasks)]
}

func (p *party) cancel(n int) error {
	if id := p.pick(n); id != uuid.Nil {
		return p.Tasks.Cancel(p.t.Context(), id)
	}
	return nil
}

func (p *party) fault(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, err)
}

func (p *party) rackIDs() []uuid.UUID {
	ids := make([]uuid.UUID, len(p.racks))
	for i, r := range p.racks {
		ids[i] = r.id
	}
	return ids
}

// awaitEnd waits until every task has ended.
func (p *party) awaitEnd(rt *rapid.T) {
	rt.Helper()
	for _, err := range p.faults {
		rt.Errorf("a client was told: %v", err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), endLimit)
	defer cancel()
	left := map[uuid.UUID]bool{}
	for _, id := range p.tasks {
		left[id] = true
	}
	if len(left) == 0 {
		return
	}
	err := p.Watch.Follow(ctx, task.WatchFilter{Racks: p.rackIDs()}, func(e db.Event) error {
		if e.Kind == db.EventKindTaskFinished {
			delete(left, e.TaskID)
		}
		if len(left) == 0 {
			return errSeen
		}
		return nil
	})
	if len(left) > 0 {
		rt.Fatalf("%d tasks have not ended within %s (%v): %s", len(left), endLimit, err, p.story())
	}
}

// story is what happened, for the message of a failure.
func (p *party) story() string {
	var text strings.Builder
	for _, e := range p.events() {
		fmt.Fprintf(&text, "\n%d %s rack %s task %s: %s, now %s: %s %s", e.ID, e.At.Format("05.000"), short(e.RackID), short(e.TaskID), e.Kind, e.State, e.Message, e.Error)
	}
	return text.String()
}

func short(id uuid.UUID) string { return id.String()[:4] }

// events are those of the racks in the order of their ids, which is that of their commits: the rack is locked while it is
// given a task, or freed.
func (p *party) events() []db.Event {
	p.t.Helper()
	events, err := db.New(p.store.API).EventListByRacks(p.t.Context(), db.EventListByRacksParams{
		RackIds: p.rackIDs(), UpToID: math.MaxInt64, Max: math.MaxInt32,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return events
}

// claim is what a task claims of its rack.
type claim struct {
	kind       string // a row of the matrix
	components []uuid.UUID
}

// matrix says which claims exclude each other, as chapter 30 does in section 5; "shared" is with D-30.10: of any type.
var matrix = map[string]map[string]string{
	"power with shelf": {"power with shelf": "always", "power": "always", "firmware": "always", "whole": "always"},
	"power":            {"power with shelf": "always", "power": "shared", "firmware": "shared", "whole": "always"},
	"firmware":         {"power with shelf": "always", "power": "shared", "firmware": "shared", "whole": "always"},
	"whole":            {"power with shelf": "always", "power": "always", "firmware": "always", "whole": "always"},
}

func (c claim) excludes(d claim) bool {
	switch matrix[c.kind][d.kind] {
	case "always":
		return true
	case "shared":
		return slices.ContainsFunc(c.components, func(id uuid.UUID) bool { return slices.Contains(d.components, id) })
	default:
		panic("no such claims: " + c.kind + ", " + d.kind)
	}
}

// claims reads what each task claims from its plan.
func (p *party) claims() map[uuid.UUID]claim {
	p.t.Helper()
	claims := map[uuid.UUID]claim{}
	for _, id := range p.tasks {
		got, err := p.Tasks.Plan(p.t.Context(), id)
		if err != nil {
			p.t.Fatal(err)
		}
		c := claim{kind: "whole"}
		switch got.Plan.Operation.Type {
		case rules.TaskPowerControl:
			c.kind = "power"
			if len(got.Plan.Components[hardware.PowerShelf]) > 0 {
				c.kind = "power with shelf"
			}
		case rules.TaskFirmwareControl:
			c.kind = "firmware"
		}
		for _, list := range got.Plan.Components {
			for _, component := range list {
				c.components = append(c.components, component.ID)
			}
		}
		claims[id] = c
	}
	return claims
}

// rackLoad is a rack as the events so far have left it.
type rackLoad struct {
	active  []uuid.UUID
	waiting []uuid.UUID // in the order they came
	since   time.Time   // since when it is the first one's turn; zero: it is not
}

// judge goes through all that happened and holds it to the laws of the queue. It returns how many tasks have waited.
func (p *party) judge(rt *rapid.T) (waited int) {
	rt.Helper()
	claims := p.claims()
	racks := map[uuid.UUID]*rackLoad{}
	for _, e := range p.events() {
		h := racks[e.RackID]
		if h == nil {
			h = &rackLoad{}
			racks[e.RackID] = h
		}
		among := func(list []uuid.UUID) (uuid.UUID, bool) {
			for _, id := range list {
				if claims[id].excludes(claims[e.TaskID]) {
					return id, true
				}
			}
			return uuid.Nil, false
		}
		activate := func() {
			if other, ok := among(h.active); ok {
				rt.Fatalf("event %d: task %s is %s beside task %s, which excludes it:%s", e.ID, short(e.TaskID), e.State, short(other), p.story())
			}
			h.active = append(h.active, e.TaskID)
		}
		drop := func(list []uuid.UUID) []uuid.UUID {
			return slices.DeleteFunc(list, func(id uuid.UUID) bool { return id == e.TaskID })
		}
		switch {
		case e.Kind == db.EventKindTaskCreated && e.State == db.TaskStatePending:
			if other, ok := among(h.waiting); ok {
				rt.Fatalf("event %d: task %s has overtaken task %s, which waits:%s", e.ID, short(e.TaskID), short(other), p.story())
			}
			activate()
		case e.Kind == db.EventKindTaskCreated:
			if _, ok := among(slices.Concat(h.active, h.waiting)); !ok {
				rt.Fatalf("event %d: task %s waits for nothing:%s", e.ID, short(e.TaskID), p.story())
			}
			if h.waiting = append(h.waiting, e.TaskID); len(h.waiting) > rackQueue {
				rt.Fatalf("event %d: %d tasks wait for rack %s:%s", e.ID, len(h.waiting), short(e.RackID), p.story())
			}
			waited++
		case e.Kind == db.EventKindTaskMessage && e.State == db.TaskStatePending:
			if len(h.waiting) == 0 || h.waiting[0] != e.TaskID {
				rt.Fatalf("event %d: task %s is promoted, and is not the first that waits:%s", e.ID, short(e.TaskID), p.story())
			}
			h.waiting = h.waiting[1:]
			activate()
			if late := e.At.Sub(h.since); !h.since.IsZero() && late > promotionLimit {
				rt.Fatalf("event %d: task %s is promoted %s after its turn had come:%s", e.ID, short(e.TaskID), late, p.story())
			}
			h.since = time.Time{}
		case e.Kind == db.EventKindTaskFinished:
			if len(h.waiting) > 0 && h.waiting[0] == e.TaskID {
				h.since = time.Time{}
			}
			h.active, h.waiting = drop(h.active), drop(h.waiting)
		}
		if len(h.waiting) > 0 && h.since.IsZero() {
			free := !slices.ContainsFunc(h.active, func(id uuid.UUID) bool { return claims[id].excludes(claims[h.waiting[0]]) })
			if free {
				h.since = e.At
			}
		}
	}
	return waited
}
