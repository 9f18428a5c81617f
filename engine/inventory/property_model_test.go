package inventory

import (
	"fmt"
	"maps"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
)

// The sizes of the key spaces.
const (
	rackKeys      = 3
	componentKeys = 5
	domainKeys    = 2
	otherKeys     = 4 // serial numbers, external ids, MACs; 0 is none
)

// key makes the nth id of a kind.
func key(kind, n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n+1))
}

type modelRack struct {
	serial, external int
	domain           uuid.UUID
	deleted          int // the moment; 0: live
}

type modelComponent struct {
	kind             hardware.ComponentType
	serial, external int
	rack             uuid.UUID
	deleted          int
}

// model is what the inventory should be.
type model struct {
	now        int
	racks      map[uuid.UUID]modelRack
	components map[uuid.UUID]modelComponent
	macs       map[int]uuid.UUID
	domains    map[uuid.UUID]int // names
}

func newModel() *model {
	return &model{racks: map[uuid.UUID]modelRack{}, components: map[uuid.UUID]modelComponent{}, macs: map[int]uuid.UUID{}, domains: map[uuid.UUID]int{}}
}

// clone lets a write be tried: what comes of it replaces the model when nothing speaks against it.
func (m *model) clone() *model {
	return &model{now: m.now + 1, racks: maps.Clone(m.racks), components: maps.Clone(m.components), macs: maps.Clone(m.macs), domains: maps.Clone(m.domains)}
}

// reasons collects why a write must be refused.
type reasons []fault.Kind

func (r *reasons) when(wrong bool, kind fault.Kind) {
	if wrong {
		*r = append(*r, kind)
	}
}

func (m *model) liveRack(id uuid.UUID) bool {
	r, ok := m.racks[id]
	return ok && r.deleted == 0
}

func (m *model) liveComponent(id uuid.UUID) bool {
	c, ok := m.components[id]
	return ok && c.deleted == 0
}

func (m *model) checkRackKeys(id uuid.UUID, r modelRack, why *reasons) {
	for other, o := range m.racks {
		if other != id && o.deleted == 0 {
			why.when(r.serial != 0 && o.serial == r.serial, fault.KindExists)
			why.when(r.external != 0 && o.external == r.external, fault.KindExists)
		}
	}
}

func (m *model) checkComponentKeys(id uuid.UUID, c modelComponent, why *reasons) {
	for other, o := range m.components {
		if other != id && o.deleted == 0 {
			why.when(c.serial != 0 && o.serial == c.serial, fault.KindExists)
			why.when(c.external != 0 && o.external == c.external && o.kind == c.kind, fault.KindExists)
		}
	}
}

func (m *model) add(n NewComponent, rack uuid.UUID, why *reasons) {
	_, taken := m.components[n.ID]
	why.when(taken, fault.KindExists)
	c := modelComponent{kind: n.Type, serial: number(n.Plate.Serial), external: number(n.ExternalID), rack: rack}
	m.checkComponentKeys(n.ID, c, why)
	if !taken {
		m.components[n.ID] = c
	}
	for _, b := range n.BMCs {
		m.take(n.ID, b, why)
	}
}

func (m *model) take(id uuid.UUID, b NewBMC, why *reasons) {
	mac := int(b.MAC[5])
	owner, held := m.macs[mac]
	why.when(held && owner != id && m.liveComponent(owner), fault.KindExists)
	m.macs[mac] = id
}

// number reads back what text made of a number.
func number(text string) int {
	n := 0
	_, _ = fmt.Sscanf(text, "k%d", &n) // "" is 0
	return n
}

func text(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("k%d", n)
}

func (m *model) forget(component uuid.UUID) {
	delete(m.components, component)
	maps.DeleteFunc(m.macs, func(_ int, owner uuid.UUID) bool { return owner == component })
}
