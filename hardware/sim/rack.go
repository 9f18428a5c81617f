package sim

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// rack holds the components that share power shelves. Everything below the mutex is guarded by it.
type rack struct {
	id uuid.UUID

	mu         sync.Mutex
	components []*component
	pending    []effect // ordered by time
	shelves    int
	journalled bool // the journal knows these components
}

// component is one device. Its JSON form is part of the journal's format.
type component struct {
	ID          uuid.UUID              `json:"id"`
	Type        hardware.ComponentType `json:"type"`
	Power       hardware.PowerState    `json:"power"`
	Ingested    bool                   `json:"ingested,omitempty"`    // it had been brought up when first seen
	Expectation *hardware.Expectation  `json:"expectation,omitempty"` // the last one; nil: none yet
	Update      *update                `json:"update,omitempty"`      // the last firmware update; nil: none yet
	Life        *life                  `json:"life,omitempty"`        // bring-up and decommissioning; nil: none yet
}

// effect is a change of power that is yet to come.
type effect struct {
	At    time.Time           `json:"at"`
	ID    uuid.UUID           `json:"id"`
	State hardware.PowerState `json:"state"`
}

// rackState is a whole rack as a journal line.
type rackState struct {
	ID         uuid.UUID    `json:"id"`
	Components []*component `json:"components"`
	Pending    []effect     `json:"pending,omitempty"`
}

func (r *rack) state() *rackState {
	return &rackState{ID: r.id, Components: r.components, Pending: r.pending}
}

// restore makes the rack what the journal says it was.
func (r *rack) restore(st *rackState) {
	r.components, r.pending, r.journalled = st.Components, st.Pending, true
	r.count()
}

func (r *rack) count() {
	r.shelves = 0
	for _, c := range r.components {
		if c.Type == hardware.PowerShelf {
			r.shelves++
		}
	}
}

func (r *rack) find(id uuid.UUID) *component {
	for _, c := range r.components {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// add takes in one component on the word of a target.
func (r *rack) add(c hardware.Component, power hardware.PowerState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.find(c.ID) == nil {
		r.components = append(r.components, newComponent(c, power))
		r.journalled = false
		r.count()
	}
}

// keep makes the rack hold exactly these components: newcomers come in their initial state, the others keep theirs.
func (r *rack) keep(members []hardware.Component, power hardware.PowerState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make([]*component, 0, len(members))
	for _, m := range members {
		c := r.find(m.ID)
		if c == nil {
			c = newComponent(m, power)
			r.journalled = false
		}
		next = append(next, c)
	}
	if len(next) != len(r.components) {
		r.journalled = false
	}
	r.components = next
	r.count()
}

func newComponent(c hardware.Component, power hardware.PowerState) *component {
	return &component{ID: c.ID, Type: c.Type, Power: power, Ingested: power == hardware.PowerStateOn}
}

// settle lets happen what is due. Effects happen in the order of their times, as a shelf that goes off takes away what
// was still to come for its trays.
func (r *rack) settle(now time.Time) {
	for len(r.pending) > 0 && !r.pending[0].At.After(now) {
		e := r.pending[0]
		r.pending = r.pending[1:]
		if c := r.find(e.ID); c != nil {
			r.turn(c, e.State, e.At)
		}
	}
	if len(r.pending) == 0 {
		r.pending = nil
	}
}

// turn puts a component into a power state. When that leaves the rack without a shelf, its trays lose power.
func (r *rack) turn(c *component, state hardware.PowerState, at time.Time) {
	c.Power = state
	if c.Type != hardware.PowerShelf || r.fed() {
		return
	}
	for _, t := range r.components {
		if isTray(t.Type) {
			r.forget(t.ID)
			t.Power = hardware.PowerStateOff
			t.Update.interrupt(at)
		}
	}
}

// fed tells whether the rack's trays have power. A rack without shelves of its own is fed from elsewhere.
func (r *rack) fed() bool {
	return r.shelves == 0 || slices.ContainsFunc(r.components, func(c *component) bool {
		return c.Type == hardware.PowerShelf && c.Power != hardware.PowerStateOff
	})
}

func (r *rack) reachable(c *component) bool { return !isTray(c.Type) || r.fed() }

// schedule adds an effect behind those due before it or with it.
func (r *rack) schedule(e effect) {
	i := len(r.pending)
	for i > 0 && r.pending[i-1].At.After(e.At) {
		i--
	}
	r.pending = slices.Insert(r.pending, i, e)
}

// forget drops what is still to come for a component.
func (r *rack) forget(id uuid.UUID) {
	if len(r.pending) > 0 {
		r.pending = slices.DeleteFunc(r.pending, func(e effect) bool { return e.ID == id })
	}
}

// destiny is the state a component is in or on its way to.
func (r *rack) destiny(c *component) hardware.PowerState {
	for _, e := range slices.Backward(r.pending) {
		if e.ID == c.ID {
			return e.State
		}
	}
	return c.Power
}

func isTray(t hardware.ComponentType) bool {
	return t == hardware.Compute || t == hardware.NVSwitch
}
