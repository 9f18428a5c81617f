package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

// TestAnySequenceOfWritesKeepsTheInvariants compares the inventory after each write with a plain model of it. The keys
// are few, so that most writes meet somebody else's.
func TestAnySequenceOfWritesKeepsTheInvariants(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), RiverConns: 1, EngineConns: 1, APIConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	outcomes := map[fault.Kind]int{}
	rapid.Check(t, func(rt *rapid.T) {
		if _, err := s.API.Exec(t.Context(), "TRUNCATE rack, component, bmc, nvl_domain, drift CASCADE"); err != nil {
			rt.Fatal(err)
		}
		p := &play{T: rt, ctx: t.Context(), pool: s.API, model: newModel(), outcomes: outcomes}
		rt.Repeat(map[string]func(*rapid.T){
			"create rack":      p.createRack,
			"patch rack":       p.patchRack,
			"delete rack":      p.deleteRack,
			"purge rack":       p.purgeRack,
			"restore rack":     p.restoreRack,
			"add component":    p.addComponent,
			"patch component":  p.patchComponent,
			"delete component": p.deleteComponent,
			"purge component":  p.purgeComponent,
			"create domain":    p.createDomain,
			"attach":           p.attach,
			"detach":           p.detach,
			"":                 p.compare,
		})
	})
	for _, kind := range []fault.Kind{fault.KindUnknown, fault.KindExists, fault.KindNotFound, fault.KindPrecondition} {
		if outcomes[kind] == 0 {
			t.Errorf("no write ended with %q, which tests little", kind)
		}
	}
}

// play is one sequence of writes.
type play struct {
	*rapid.T
	ctx      context.Context
	pool     *pgxpool.Pool
	model    *model
	outcomes map[fault.Kind]int
}

func (p *play) rack(t *rapid.T) uuid.UUID {
	return key(1, rapid.IntRange(0, rackKeys-1).Draw(t, "rack"))
}

func (p *play) componentID(t *rapid.T) uuid.UUID {
	return key(2, rapid.IntRange(0, componentKeys-1).Draw(t, "component"))
}

func (p *play) domain(t *rapid.T) uuid.UUID {
	return key(3, rapid.IntRange(0, domainKeys-1).Draw(t, "domain"))
}

func other(t *rapid.T, what string) int { return rapid.IntRange(0, otherKeys).Draw(t, what) }

func (p *play) bmcs(t *rapid.T) []NewBMC {
	var list []NewBMC
	for _, mac := range rapid.SliceOfNDistinct(rapid.IntRange(1, otherKeys), 0, 2, rapid.ID).Draw(t, "macs") {
		list = append(list, NewBMC{Path: "bmc", Type: BMCHost, MAC: net.HardwareAddr{2, 0, 0, 0, 0, byte(mac)}})
	}
	return list
}

func (p *play) component(t *rapid.T) NewComponent {
	return NewComponent{
		Path: "component", ID: p.componentID(t), Type: rapid.SampledFrom([]hardware.ComponentType{hardware.Compute, hardware.NVSwitch}).Draw(t, "type"),
		Plate: Plate{Manufacturer: "maker", Serial: text(other(t, "serial"))}, ExternalID: text(other(t, "external id")),
		Slot: -1, Tray: -1, Host: -1, BMCs: p.bmcs(t),
	}
}

// outcome holds what a write came to against what the model says.
func (p *play) outcome(err error, after *model, why reasons) {
	p.Helper()
	p.outcomes[fault.KindOf(err)]++
	switch {
	case err == nil && len(why) == 0:
		p.model = after
	case err == nil:
		p.Fatalf("not refused, want one of %v", why)
	case !slices.Contains(why, fault.KindOf(err)):
		p.Fatalf("refused with %q (%v), want one of %v", err, fault.KindOf(err), why)
	}
}

func (p *play) createRack(t *rapid.T) {
	r := NewRack{
		ID: p.rack(t), Plate: Plate{Name: "rack", Manufacturer: "maker", Serial: text(other(t, "serial"))}, ExternalID: text(other(t, "external id")),
	}
	if rapid.Bool().Draw(t, "in a domain") {
		r.DomainID = p.domain(t)
	}
	for range rapid.IntRange(0, 2).Draw(t, "components") {
		r.Components = append(r.Components, p.component(t))
	}
	after, why := p.model.clone(), reasons{}
	_, taken := after.racks[r.ID]
	why.when(taken, fault.KindExists)
	made := modelRack{serial: number(r.Plate.Serial), external: number(r.ExternalID), domain: r.DomainID}
	after.checkRackKeys(r.ID, made, &why)
	if r.DomainID != uuid.Nil {
		_, known := after.domains[r.DomainID]
		why.when(!known, fault.KindNotFound)
	}
	after.racks[r.ID] = made
	why.when(checkTwins(r.Components) != nil, fault.KindInvalid)
	for _, c := range r.Components {
		after.add(c, r.ID, &why)
	}
	p.outcome(CreateRack(p.ctx, p.pool, r), after, why)
}

func (p *play) patchRack(t *rapid.T) {
	patch := RackPatch{ID: p.rack(t), Plate: Plate{Name: "rack"}}
	for range rapid.IntRange(0, 2).Draw(t, "components") {
		patch.Components = append(patch.Components, RackPatchComponent{NewComponent: p.component(t)})
	}
	after, why := p.model.clone(), reasons{}
	why.when(!after.liveRack(patch.ID), fault.KindNotFound)
	var all []NewComponent
	for _, c := range patch.Components {
		all = append(all, c.NewComponent)
		if has, ok := after.components[c.ID]; ok && has.deleted == 0 && has.rack == patch.ID {
			for _, b := range c.BMCs {
				after.take(c.ID, b, &why)
			}
			continue
		}
		after.add(c.NewComponent, patch.ID, &why)
	}
	why.when(checkTwins(all) != nil, fault.KindInvalid)
	_, err := PatchRack(p.ctx, p.pool, patch)
	p.outcome(err, after, why)
}

func (p *play) deleteRack(t *rapid.T) {
	id := p.rack(t)
	after, why := p.model.clone(), reasons{}
	why.when(!after.liveRack(id), fault.KindNotFound)
	r := after.racks[id]
	r.deleted = after.now
	after.racks[id] = r
	for cid, c := range after.components {
		if c.rack == id && c.deleted == 0 {
			c.deleted = after.now
			after.components[cid] = c
		}
	}
	p.outcome(store.InTx(p.ctx, p.pool, func(tx pgx.Tx) error { return DeleteRack(p.ctx, db.New(tx), id) }), after, why)
}

func (p *play) purgeRack(t *rapid.T) {
	id := p.rack(t)
	after, why := p.model.clone(), reasons{}
	r, ok := after.racks[id]
	why.when(!ok, fault.KindNotFound)
	why.when(ok && r.deleted == 0, fault.KindPrecondition)
	delete(after.racks, id)
	for cid, c := range after.components {
		if c.rack == id {
			after.forget(cid)
		}
	}
	p.outcome(PurgeRack(p.ctx, p.pool, id), after, why)
}

func (p *play) restoreRack(t *rapid.T) {
	id := p.rack(t)
	after, why := p.model.clone(), reasons{}
	r, ok := after.racks[id]
	why.when(!ok, fault.KindNotFound)
	why.when(ok && r.deleted == 0, fault.KindPrecondition)
	after.checkRackKeys(id, r, &why)
	for cid, c := range after.components {
		if c.rack == id && c.deleted == r.deleted {
			p.model.checkComponentKeys(cid, c, &why)
			c.deleted = 0
			after.components[cid] = c
		}
	}
	r.deleted = 0
	after.racks[id] = r
	_, err := RestoreRack(p.ctx, p.pool, id)
	p.outcome(err, after, why)
}

func (p *play) addComponent(t *rapid.T) {
	c := p.component(t)
	after, why := p.model.clone(), reasons{}
	var rack *uuid.UUID
	owner := uuid.Nil
	if rapid.Bool().Draw(t, "in a rack") {
		owner = p.rack(t)
		rack = &owner
		why.when(!after.liveRack(owner), fault.KindNotFound)
	}
	after.add(c, owner, &why)
	_, err := AddComponent(p.ctx, p.pool, c, rack)
	p.outcome(err, after, why)
}

func (p *play) patchComponent(t *rapid.T) {
	patch := ComponentPatch{ID: p.componentID(t), BMCs: p.bmcs(t)}
	after, why := p.model.clone(), reasons{}
	why.when(!after.liveComponent(patch.ID), fault.KindNotFound)
	c := after.components[patch.ID]
	if rapid.Bool().Draw(t, "moves") {
		c.rack = p.rack(t)
		patch.RackID = &c.rack
		why.when(!after.liveRack(c.rack), fault.KindNotFound)
	}
	after.components[patch.ID] = c
	for _, b := range patch.BMCs {
		after.take(patch.ID, b, &why)
	}
	_, err := PatchComponent(p.ctx, p.pool, patch)
	p.outcome(err, after, why)
}

func (p *play) deleteComponent(t *rapid.T) {
	id := p.componentID(t)
	after, why := p.model.clone(), reasons{}
	why.when(!after.liveComponent(id), fault.KindNotFound)
	c := after.components[id]
	c.deleted = after.now
	after.components[id] = c
	p.outcome(DeleteComponent(p.ctx, p.pool, id), after, why)
}

func (p *play) purgeComponent(t *rapid.T) {
	id := p.componentID(t)
	after, why := p.model.clone(), reasons{}
	c, ok := after.components[id]
	why.when(!ok, fault.KindNotFound)
	why.when(ok && c.deleted == 0, fault.KindPrecondition)
	after.forget(id)
	p.outcome(PurgeComponent(p.ctx, p.pool, id), after, why)
}

func (p *play) createDomain(t *rapid.T) {
	d := NewDomain{ID: p.domain(t), Name: text(1 + other(t, "name"))}
	after, why := p.model.clone(), reasons{}
	name, has := after.domains[d.ID]
	if !has || name != number(d.Name) {
		why.when(has || slices.Contains(slices.Collect(maps.Values(after.domains)), number(d.Name)), fault.KindExists)
	}
	after.domains[d.ID] = number(d.Name)
	p.outcome(CreateDomain(p.ctx, p.pool, d), after, why)
}

func (p *play) racks(t *rapid.T) []RackRef {
	var refs []RackRef
	for range rapid.IntRange(0, 3).Draw(t, "racks") {
		refs = append(refs, RackRef{ID: p.rack(t)})
	}
	return refs
}

func (p *play) attach(t *rapid.T) {
	domain, racks := p.domain(t), p.racks(t)
	after, why := p.model.clone(), reasons{}
	_, known := after.domains[domain]
	why.when(!known, fault.KindNotFound)
	for _, ref := range racks {
		r := after.racks[ref.ID]
		why.when(!after.liveRack(ref.ID), fault.KindNotFound)
		why.when(r.domain != uuid.Nil && r.domain != domain, fault.KindExists)
		r.domain = domain
		after.racks[ref.ID] = r
	}
	p.outcome(AttachRacks(p.ctx, p.pool, DomainRef{ID: domain}, racks), after, why)
}

func (p *play) detach(t *rapid.T) {
	racks := p.racks(t)
	after, why := p.model.clone(), reasons{}
	for _, ref := range racks {
		why.when(!after.liveRack(ref.ID), fault.KindNotFound)
		r := after.racks[ref.ID]
		r.domain = uuid.Nil
		after.racks[ref.ID] = r
	}
	p.outcome(DetachRacks(p.ctx, p.pool, racks), after, why)
}

// compare reads everything back, as it is stored and as clients are shown it.
func (p *play) compare(*rapid.T) {
	want := []string{}
	for id, r := range p.model.racks {
		want = append(want, fmt.Sprintf("rack %s %q %q in %s deleted %t", id, text(r.serial), text(r.external), r.domain, r.deleted != 0))
	}
	for id, c := range p.model.components {
		want = append(want, fmt.Sprintf("component %s %s %q %q in %s deleted %t", id, c.kind, text(c.serial), text(c.external), c.rack, c.deleted != 0))
	}
	for mac, id := range p.model.macs {
		want = append(want, fmt.Sprintf("mac %d of %s", mac, id))
	}
	for id, name := range p.model.domains {
		want = append(want, fmt.Sprintf("domain %s %q", id, text(name)))
	}
	rows, err := p.pool.Query(p.ctx, `
		SELECT format('rack %s "%s" "%s" in %s deleted %s', id, serial, external_id, coalesce(nvl_domain_id, $1), deleted_at IS NOT NULL) FROM rack
		UNION ALL SELECT format('component %s %s "%s" "%s" in %s deleted %s', id, type, serial, external_id, coalesce(rack_id, $1), deleted_at IS NOT NULL) FROM component
		UNION ALL SELECT format('mac %s of %s', right(mac::text, 1), component_id)
			FROM bmc JOIN component ON component.id = bmc.component_id AND component.rack_id IS NOT DISTINCT FROM bmc.rack_id
		UNION ALL SELECT format('domain %s "%s"', id, name) FROM nvl_domain`, uuid.Nil)
	if err != nil {
		p.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		p.Fatal(err)
	}
	for i := range got {
		got[i] = strings.NewReplacer("deleted t", "deleted true", "deleted f", "deleted false").Replace(got[i])
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		p.Fatalf("the inventory is not as the model has it:\n%s", diff)
	}
	p.compareReads()
}

// compareReads holds lists against the model: what is live, where it is, and that nothing hangs on what is deleted.
func (p *play) compareReads() {
	racks, total, err := ListRacks(p.ctx, p.pool, RackQuery{Limit: 100, Components: true})
	if err = errors.Join(err, countError(len(racks), int(total))); err != nil {
		p.Fatal(err)
	}
	seen := 0
	for _, r := range racks {
		if !p.model.liveRack(r.ID) {
			p.Fatalf("deleted rack %s is listed", r.ID)
		}
		if (r.Domain == nil) != (p.model.racks[r.ID].domain == uuid.Nil) {
			p.Fatalf("rack %s shows the domain %v", r.ID, r.Domain)
		}
		for _, c := range r.Components {
			if p.model.components[c.ID].rack != r.ID || !p.model.liveComponent(c.ID) {
				p.Fatalf("component %s is listed in rack %s", c.ID, r.ID)
			}
			seen++
		}
	}
	list, total, err := ListComponents(p.ctx, p.pool, ComponentQuery{Limit: 100})
	if err = errors.Join(err, countError(len(list), int(total))); err != nil {
		p.Fatal(err)
	}
	for _, c := range list {
		if c.RackID == nil {
			seen++
		} else if !p.model.liveRack(*c.RackID) {
			p.Fatalf("live component %s is in the deleted rack %s", c.ID, *c.RackID)
		}
	}
	if seen != len(list) {
		p.Fatalf("%d components in racks and alone, %d listed", seen, len(list))
	}
}

func countError(listed, total int) error {
	if listed != total {
		return fmt.Errorf("%d listed, %d counted", listed, total)
	}
	return nil
}
