package inventory

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/google/uuid"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
)

// maxTargets bounds the entries of one scope.
const maxTargets = 10_000

// Scope is what a request names, before it is resolved: racks, NVLink domains or single components.
type Scope struct {
	Racks      []RackRef
	Domains    []DomainRef
	Components []ComponentRef
}

// RackRef names a rack by one of its identifiers, and which of its components are meant.
type RackRef struct {
	ID         uuid.UUID
	Name       string
	ExternalID string
	Types      []hardware.ComponentType // empty: all
}

// DomainRef names an NVLink domain by one of its identifiers, and which components of its racks are meant.
type DomainRef RackRef

// ComponentRef names a component by its id, or by what others call it.
type ComponentRef struct {
	ID       uuid.UUID
	External string                 // its external id, or a MAC of one of its BMCs
	Type     hardware.ComponentType // with External; "": any
}

// Selection is what a scope means: components of racks, or single ones.
type Selection struct {
	Racks      map[uuid.UUID]Types
	Components []uuid.UUID // ascending
}

// Types are the component types of a rack that are meant.
type Types struct {
	All  bool
	Only []hardware.ComponentType
}

// Has reports whether components of this type are meant.
func (t Types) Has(c hardware.ComponentType) bool { return t.All || slices.Contains(t.Only, c) }

// RackIDs lists the racks of a selection in ascending order.
func (s Selection) RackIDs() []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(s.Racks))
	for id := range s.Racks {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

// add unites what is meant of a rack with what was before.
func (s Selection) add(rack uuid.UUID, types []hardware.ComponentType) {
	t := s.Racks[rack]
	t.All = t.All || len(types) == 0
	t.Only = append(t.Only, types...)
	s.Racks[rack] = t
}

// Check refuses a scope of the wrong size.
func (s Scope) Check() error {
	for _, kind := range []struct {
		field   string
		entries int
	}{{"racks", len(s.Racks)}, {"nvl_domains", len(s.Domains)}, {"components", len(s.Components)}} {
		if kind.entries > maxTargets {
			return fault.Invalid("target_spec."+kind.field+".targets", "has %d entries, at most %d are allowed", kind.entries, maxTargets)
		}
	}
	if len(s.Racks)+len(s.Domains)+len(s.Components) == 0 {
		return fault.Invalid("target_spec", "must have at least one entry")
	}
	return nil
}

// Resolve finds what a scope means. It takes two statements at most whatever the size of the scope; the first entry, in
// the order of the request, that names nothing or more than one thing fails the whole.
func (s Scope) Resolve(ctx context.Context, q *db.Queries) (Selection, error) {
	if err := s.Check(); err != nil {
		return Selection{}, err
	}
	switch {
	case len(s.Components) > 0:
		return s.resolveComponents(ctx, q)
	case len(s.Domains) > 0:
		return s.resolveDomains(ctx, q)
	default:
		return s.resolveRacks(ctx, q)
	}
}

func (s Scope) resolveRacks(ctx context.Context, q *db.Queries) (Selection, error) {
	racks, err := lookUpRacks(ctx, q, s.Racks)
	if err != nil {
		return Selection{}, err
	}
	sel := Selection{Racks: make(map[uuid.UUID]Types, len(s.Racks))}
	for i, r := range s.Racks {
		id, err := racks.pick(fmt.Sprintf("target_spec.racks.targets[%d]", i), r.key())
		if err != nil {
			return Selection{}, err
		}
		sel.add(id, r.Types)
	}
	return sel, nil
}

func (s Scope) resolveDomains(ctx context.Context, q *db.Queries) (Selection, error) {
	found, err := lookUpDomains(ctx, q, s.Domains)
	if err != nil {
		return Selection{}, err
	}
	domains := make([]uuid.UUID, len(s.Domains))
	for i, d := range s.Domains {
		if domains[i], err = found.pick(fmt.Sprintf("target_spec.nvl_domains.targets[%d]", i), d.key()); err != nil {
			return Selection{}, err
		}
	}
	rows, err := q.RackListByDomains(ctx, db.RackListByDomainsParams{DomainIds: domains})
	if err != nil {
		return Selection{}, fmt.Errorf("racks of domains: %w", err)
	}
	members := map[uuid.UUID][]uuid.UUID{}
	for _, row := range rows {
		members[*row.NvlDomainID] = append(members[*row.NvlDomainID], row.ID)
	}
	sel := Selection{Racks: make(map[uuid.UUID]Types, len(rows))}
	for i, d := range s.Domains {
		for _, rack := range members[domains[i]] {
			sel.add(rack, d.Types)
		}
	}
	return sel, nil
}

func (s Scope) resolveComponents(ctx context.Context, q *db.Queries) (Selection, error) {
	found, err := lookUpComponents(ctx, q, s.Components)
	if err != nil {
		return Selection{}, err
	}
	sel := Selection{Components: make([]uuid.UUID, 0, len(s.Components))}
	for i, c := range s.Components {
		switch hits := found.of(c); {
		case len(hits) == 0:
			return Selection{}, fault.NotFound("%s not found", c).On(fmt.Sprintf("target_spec.components.targets[%d]", i))
		case len(hits) > 1:
			return Selection{}, fault.Precondition("%s is ambiguous: it names %d components; name one by id, or add its type", c, len(hits)).
				On(fmt.Sprintf("target_spec.components.targets[%d]", i))
		default:
			sel.Components = append(sel.Components, hits[0])
		}
	}
	slices.SortFunc(sel.Components, compareIDs)
	sel.Components = slices.Compact(sel.Components)
	return sel, nil
}

// identifier is one thing a client may call an object by.
type identifier struct {
	kind string // id, name, external id or mac
	text string
}

func (i identifier) String() string {
	if i.kind == "id" {
		return i.text
	}
	return i.kind + " " + quote(i.text)
}

func identify(id uuid.UUID, name, external string) identifier {
	switch {
	case name != "":
		return identifier{"name", name}
	case external != "":
		return identifier{"external id", external}
	default:
		return identifier{"id", id.String()}
	}
}

func (r RackRef) key() identifier   { return identify(r.ID, r.Name, r.ExternalID) }
func (d DomainRef) key() identifier { return identify(d.ID, d.Name, d.ExternalID) }

// found has the objects that identifiers name; noun is what they are.
type found struct {
	noun string
	ids  map[identifier][]uuid.UUID
}

func (f found) add(id uuid.UUID, name, external *string) {
	for _, key := range []identifier{{"id", id.String()}, {"name", value(name)}, {"external id", value(external)}} {
		if key.text != "" {
			f.ids[key] = append(f.ids[key], id)
		}
	}
}

// pick returns the one object of that identifier, or refuses the request at this field.
func (f found) pick(field string, key identifier) (uuid.UUID, error) {
	switch hits := f.ids[key]; len(hits) {
	case 0:
		return uuid.Nil, fault.NotFound("%s %s not found", f.noun, key).On(field)
	case 1:
		return hits[0], nil
	default: // only names of racks are shared
		return uuid.Nil, fault.Invalid(field, "%s %s matches multiple %ss; use %s id", f.noun, key, f.noun, f.noun)
	}
}

func lookUpRacks(ctx context.Context, q *db.Queries, refs []RackRef) (found, error) {
	p := db.RackListByScopeParams{Ids: []uuid.UUID{}, Names: []string{}, ExternalIds: []string{}}
	for _, r := range refs {
		sortIdentifier(r.key(), r.ID, &p.Ids, &p.Names, &p.ExternalIds)
	}
	rows, err := q.RackListByScope(ctx, p)
	if err != nil {
		return found{}, fmt.Errorf("look racks up: %w", err)
	}
	f := found{noun: "rack", ids: make(map[identifier][]uuid.UUID, 3*len(rows))}
	for _, row := range rows {
		f.add(row.ID, &row.Name, row.ExternalID)
	}
	return f, nil
}

func lookUpDomains(ctx context.Context, q *db.Queries, refs []DomainRef) (found, error) {
	p := db.DomainListByScopeParams{Ids: []uuid.UUID{}, Names: []string{}, ExternalIds: []string{}}
	for _, d := range refs {
		sortIdentifier(d.key(), d.ID, &p.Ids, &p.Names, &p.ExternalIds)
	}
	rows, err := q.DomainListByScope(ctx, p)
	if err != nil {
		return found{}, fmt.Errorf("look NVLink domains up: %w", err)
	}
	f := found{noun: "NVLink domain", ids: make(map[identifier][]uuid.UUID, 3*len(rows))}
	for _, row := range rows {
		f.add(row.ID, row.Name, row.ExternalID)
	}
	return f, nil
}

func sortIdentifier(key identifier, id uuid.UUID, ids *[]uuid.UUID, names, externals *[]string) {
	switch key.kind {
	case "name":
		*names = append(*names, key.text)
	case "external id":
		*externals = append(*externals, key.text)
	default:
		*ids = append(*ids, id)
	}
}

func (c ComponentRef) String() string {
	switch {
	case c.External == "":
		return "component " + c.ID.String()
	case c.Type == "":
		return "component " + quote(c.External)
	default:
		return fmt.Sprintf("%s component %s", c.Type, quote(c.External))
	}
}

// foundComponents has live components by what they were looked up by.
type foundComponents map[identifier][]db.ComponentListByScopeRow

// lookUpComponents finds components by id, external id and MAC in one statement.
func lookUpComponents(ctx context.Context, q *db.Queries, refs []ComponentRef) (foundComponents, error) {
	p := db.ComponentListByScopeParams{Ids: []uuid.UUID{}, ExternalIds: []string{}, Macs: []net.HardwareAddr{}}
	for _, c := range refs {
		if c.External == "" {
			p.Ids = append(p.Ids, c.ID)
			continue
		}
		p.ExternalIds = append(p.ExternalIds, c.External)
		if mac, err := ParseMAC(c.External); err == nil {
			p.Macs = append(p.Macs, mac)
		}
	}
	rows, err := q.ComponentListByScope(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look components up: %w", err)
	}
	f := make(foundComponents, len(rows))
	for _, row := range rows {
		key := identifier{row.Kind, row.Identifier}
		f[key] = append(f[key], row)
	}
	return f, nil
}

// of returns the components a reference may mean, each once. An external id and a MAC that name the same one agree.
func (f foundComponents) of(c ComponentRef) []uuid.UUID {
	rows := f[identifier{"id", c.ID.String()}]
	if c.External != "" {
		rows = f[identifier{"external id", c.External}]
		if mac, err := ParseMAC(c.External); err == nil {
			rows = slices.Concat(rows, f[identifier{"mac", mac.String()}])
		}
	}
	var ids []uuid.UUID
	for _, row := range rows {
		if c.Type == "" || row.Type == string(c.Type) {
			ids = append(ids, row.ID)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
