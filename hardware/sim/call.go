package sim

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// manager is the site's adapter for one component type.
type manager struct {
	site *Site
	kind hardware.ComponentType
}

// Type is part of hardware.Manager.
func (m *manager) Type() hardware.ComponentType { return m.kind }

// Implementation is part of hardware.Manager.
func (m *manager) Implementation() string { return "sim" }

// admitFunc says why a component can't take a command now, as the end of a sentence; empty when it can.
type admitFunc func(r *rack, c *component, now time.Time) string

// accept refuses what never reaches the site.
func (m *manager) accept(ctx context.Context, target hardware.Target) error {
	if err := target.Validate(); err != nil {
		return err
	}
	if target.Type != m.kind {
		return hardware.Refused(fmt.Sprintf("component manager for %s can't serve components of type %s", m.kind, target.Type))
	}
	if ctx.Err() != nil {
		return stopped(ctx, hardware.OutcomeNotDone, "not sent")
	}
	return nil
}

// command carries one command out. units is how many latencies its effect takes.
func (m *manager) command(ctx context.Context, target hardware.Target, e Entry, units int, admit admitFunc) (hardware.Results, error) {
	if err := m.accept(ctx, target); err != nil {
		return nil, err
	}
	s := m.site
	e.Type, e.Components, e.Phase = target.Type, target.IDs(), PhaseDone
	hits := s.script.match(e.Call, e.Operation, target)
	if hits.delay > 0 {
		receipt := e
		receipt.At, receipt.Phase = s.now().UTC().Round(0), PhaseReceived
		if err := s.write(&receipt); err != nil {
			return nil, err
		}
		e.Receipt = receipt.Seq
		if !wait(ctx, s.faster(hits.delay)) {
			return nil, s.nothing(&e, stopped(ctx, hardware.OutcomeUncertain, "no answer to "+string(e.Call)))
		}
	}
	v, err := s.enter(ctx, target.Components)
	if err != nil {
		return nil, s.nothing(&e, err)
	}
	results, err := m.decide(v, target, &e, hits, units, admit)
	v.leave()
	if err != nil {
		return nil, err
	}
	s.log.LogAttrs(ctx, slog.LevelDebug, "simulated command", slog.String("call", string(e.Call)),
		slog.String("operation", string(e.Operation)), slog.Int("components", len(results)), slog.Int("exceptions", len(e.Results)))
	if hits.hang {
		<-ctx.Done()
		return nil, stopped(ctx, hardware.OutcomeUncertain, "no answer to "+string(e.Call))
	}
	if hits.whole != nil {
		return nil, hits.whole.err()
	}
	return results, nil
}

// decide finds out what becomes of each component, has it written down, and only then carries it out.
func (m *manager) decide(v *visit, target hardware.Target, e *Entry, hits hits, units int, admit admitFunc) (hardware.Results, error) {
	e.At = v.at
	e.EffectAt = v.at.Add(time.Duration(units) * m.site.latency)
	e.Components = e.Components[:0]
	results := make(hardware.Results, len(target.Components))
	var acts []int
	var missing []uuid.UUID
	for i, c := range target.Components {
		if _, twice := results[c.ID]; twice {
			continue
		}
		err := m.admit(v, i, c, admit)
		f := hits.at(i)
		note, plain := f.outcome(err)
		if f != nil && err == nil {
			err = f.err()
		}
		if plain && hits.hang {
			note, plain = Result{Outcome: OutcomeUncertain, Done: true}, false
		}
		if plain || note.Done {
			acts = append(acts, i)
		}
		if !plain {
			e.note(c.ID, note)
		}
		if note.Missing {
			missing = append(missing, c.ID)
		}
		results[c.ID] = err
		e.Components = append(e.Components, c.ID)
	}
	if err := m.site.write(e, v.racks...); err != nil {
		return nil, err
	}
	for _, i := range acts {
		v.in[i].carryOut(e, v.found[i], e.Results[v.found[i].ID])
	}
	for _, id := range missing {
		delete(results, id)
	}
	return results, nil
}

// nothing writes down that a command came to nothing, and returns why.
func (s *Site) nothing(e *Entry, why error) error {
	e.At = s.now().UTC().Round(0)
	for _, id := range e.Components {
		e.note(id, resultOf(why))
	}
	return cmp.Or(s.write(e), why)
}

// admit says what speaks against a command to a component, faults aside.
func (m *manager) admit(v *visit, i int, c hardware.Component, admit admitFunc) error {
	found := v.found[i]
	if found == nil {
		return unknownComponent(c)
	}
	if found.Type != m.kind {
		return hardware.Refused(fmt.Sprintf("%s is a %s, not a %s", c.Label(), found.Type, m.kind))
	}
	if why := admit(v.in[i], found, v.at); why != "" {
		text := fmt.Sprintf("%s %s %s", m.kind, c.Label(), why)
		if v.in[i].reachable(found) {
			return hardware.Refused(text)
		}
		return hardware.NotDone(text)
	}
	return nil
}

// carryOut does what an entry says to one component. It serves replay as well, so it depends on nothing but the entry
// and the rack.
func (r *rack) carryOut(e *Entry, c *component, res Result) {
	switch e.Call {
	case hardware.CapPowerControl:
		r.order(c, e.Operation, e.At, e.EffectAt, res.State)
		if want, settled := e.Operation.WantedState(); res.State == "" && (!settled || want == hardware.PowerStateOn) {
			c.discover(e.At, e.EffectAt)
		}
	case hardware.CapFirmwareControl:
		c.install(e.Version, e.Force, e.At, e.EffectAt, res.State, res.Text)
	case hardware.CapBringUpControl:
		c.bringUp(e.At, e.EffectAt, res.State)
		r.order(c, hardware.PowerOn, e.At, e.EffectAt, "")
	case hardware.CapInjectExpectation:
		c.expect(e.Expectations)
	case hardware.CapDecommissionControl:
		c.decommission(e.At, e.EffectAt, res.State)
	}
}

// read answers a status call. value is the truth; wrong is what a fault makes of it, given the state it asks for.
func read[T any](ctx context.Context, m *manager, target hardware.Target, call hardware.Capability,
	value func(r *rack, c *component, now time.Time) T, wrong func(v T, state string) T,
) (map[uuid.UUID]T, error) {
	if err := m.accept(ctx, target); err != nil {
		return nil, err
	}
	s := m.site
	hits := s.script.match(call, "", target)
	if !wait(ctx, s.faster(hits.delay)) {
		return nil, stopped(ctx, hardware.OutcomeUncertain, "no answer to "+string(call))
	}
	if hits.hang {
		<-ctx.Done()
		return nil, stopped(ctx, hardware.OutcomeUncertain, "no answer to "+string(call))
	}
	if hits.whole != nil {
		return nil, hits.whole.err()
	}
	v, err := s.enter(ctx, target.Components)
	if err != nil {
		return nil, err
	}
	defer v.leave()
	answer := make(map[uuid.UUID]T, len(target.Components))
	for i, c := range target.Components {
		found := v.found[i]
		if found == nil || found.Type != m.kind {
			continue
		}
		f := hits.at(i)
		if f != nil && f.silences() {
			continue
		}
		val := value(v.in[i], found, v.at)
		if f != nil && f.distorts() {
			val = wrong(val, f.State)
		}
		answer[c.ID] = val
	}
	return answer, nil
}

// wait lets a fault's delay pass and tells whether it did before the context ended.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopped is the error of a call whose context ended.
func stopped(ctx context.Context, o hardware.Outcome, what string) error {
	return &hardware.Error{Outcome: o, Text: fmt.Sprintf("%s: %v", what, context.Cause(ctx)), Cause: ctx.Err()}
}
