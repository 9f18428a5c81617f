package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// InventoryFunc lists all live components of the given racks. It is called outside of any lock, when a call names a
// rack or a component that the site does not know yet.
type InventoryFunc func(ctx context.Context, rackIDs []uuid.UUID) ([]hardware.Component, error)

// Config is what a site needs to know. The zero value is a site in memory whose acts show at once.
type Config struct {
	// Inventory tells which components share a rack. Nil: the site believes what the targets say, and knows a power
	// shelf only once it has been a target.
	Inventory InventoryFunc

	// Latency is how long an act takes until its effect shows; a firmware update takes three times as long, a
	// decommissioning twice. 0: at once.
	Latency time.Duration

	// Speed makes latencies and the delays of faults pass that many times faster. 0 means 1.
	Speed float64

	// InitialPower is the state, On or Off, a component is found in at first sight. Empty means On.
	// A component found on has been ingested, one found off waits until it is brought up or powered on.
	InitialPower hardware.PowerState

	// Journal is the path of the file that lets the site survive its process. Empty: memory only.
	// One process at a time may hold it.
	Journal string

	// Compact is the size in bytes above which Open replaces the journal's history by the state it leads to.
	// 0: never, so that the whole history can be read.
	Compact int64

	// Now is the clock. Nil means time.Now.
	Now func() time.Time

	// Logger gets commands at debug level and what was wrong with the journal as warnings. Nil: nothing is logged.
	Logger *slog.Logger
}

// Site is a simulated site. It is safe for concurrent use.
type Site struct {
	inventory InventoryFunc
	latency   time.Duration // speed already taken into account
	speed     float64
	initial   hardware.PowerState
	now       func() time.Time
	log       *slog.Logger
	journal   *journal // nil: memory only
	script    script
	racks     sync.Map // uuid.UUID -> *rack
	closed    atomic.Bool
}

// Open makes a site and, where there is a journal, brings it back to the state it had.
func Open(cfg Config) (*Site, error) {
	s := &Site{
		inventory: cfg.Inventory,
		speed:     cmp.Or(cfg.Speed, 1),
		initial:   cmp.Or(cfg.InitialPower, hardware.PowerStateOn),
		now:       cfg.Now,
		log:       cfg.Logger,
	}
	if cfg.Latency < 0 || cfg.Compact < 0 || !(s.speed > 0) {
		return nil, errors.New("simulated site: latency, speed and compact must not be negative")
	}
	if s.initial != hardware.PowerStateOn && s.initial != hardware.PowerStateOff {
		return nil, fmt.Errorf("simulated site: initial power %q is neither On nor Off", s.initial)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.latency = s.faster(cfg.Latency)
	if cfg.Journal != "" {
		if err := s.restore(cfg.Journal, cfg.Compact); err != nil {
			return nil, fmt.Errorf("simulated site: %w", err)
		}
	}
	return s, nil
}

// Close gives the journal up. Calls made after it do nothing and answer OutcomeNotDone.
func (s *Site) Close() error {
	if s.closed.Swap(true) || s.journal == nil {
		return nil
	}
	return s.journal.close()
}

// Managers returns one adapter for each component type, every one with all capabilities.
func (s *Site) Managers() hardware.Managers {
	ms := make(hardware.Managers, len(hardware.ComponentTypes))
	for _, t := range hardware.ComponentTypes {
		ms[t] = &manager{site: s, kind: t}
	}
	return ms
}

// Condition is all there is to know of a component now, faults aside.
type Condition struct {
	Power        hardware.PowerReading
	Firmware     hardware.FirmwareReading
	BringUp      hardware.BringUpState
	Decommission string
	Expectation  *hardware.Expectation // what the site was told of it last; nil: nothing
}

// Inspect looks at a component past all scripted faults; for tests and for pages that show the simulation itself.
func (s *Site) Inspect(ctx context.Context, c hardware.Component) (Condition, error) {
	v, err := s.enter(ctx, []hardware.Component{c})
	if err != nil {
		return Condition{}, err
	}
	defer v.leave()
	r, found := v.racks[0], v.found[0]
	if found == nil {
		return Condition{}, unknownComponent(c)
	}
	return Condition{
		Power:        r.powerReading(found),
		Firmware:     found.firmwareReading(v.at),
		BringUp:      found.bringUpState(v.at),
		Decommission: found.decommissionState(v.at),
		Expectation:  found.Expectation,
	}, nil
}

// visit is a look at the racks of a target, all of them locked and settled. racks are in locking order, found and in
// run beside the target's components; found is nil for a component the site does not know.
type visit struct {
	at    time.Time
	racks []*rack
	in    []*rack
	found []*component
}

func (v *visit) leave() {
	for _, r := range v.racks {
		r.mu.Unlock()
	}
}

// enter locks the racks of the components, asking the inventory for what is not known yet.
func (s *Site) enter(ctx context.Context, cs []hardware.Component) (*visit, error) {
	if s.closed.Load() {
		return nil, hardware.NotDone("the simulated site is closed")
	}
	v, missing := s.lock(cs)
	if len(missing) == 0 {
		return v, nil
	}
	v.leave()
	if err := s.learn(ctx, missing); err != nil {
		return nil, &hardware.Error{Outcome: hardware.OutcomeNotDone, Text: fmt.Sprintf("inventory of the simulated site: %v", err), Cause: err}
	}
	v, _ = s.lock(cs)
	return v, nil
}

// lock locks every rack of the components, in the order of the racks' ids so that two calls can't wait for each other.
func (s *Site) lock(cs []hardware.Component) (v *visit, missing []hardware.Component) {
	v = &visit{in: make([]*rack, len(cs)), found: make([]*component, len(cs))}
	for i, c := range cs {
		if i > 0 && rackKey(c) == v.in[i-1].id {
			v.in[i] = v.in[i-1]
			continue
		}
		v.in[i] = s.rack(rackKey(c))
		if !slices.Contains(v.racks, v.in[i]) {
			v.racks = append(v.racks, v.in[i])
		}
	}
	slices.SortFunc(v.racks, func(a, b *rack) int { return slices.Compare(a.id[:], b.id[:]) })
	for _, r := range v.racks {
		r.mu.Lock()
	}
	v.at = s.now().UTC().Round(0) // wall clock only: times must mean the same when read back from the journal
	for _, r := range v.racks {
		r.settle(v.at)
	}
	for i, c := range cs {
		if v.found[i] = v.in[i].find(c.ID); v.found[i] == nil {
			missing = append(missing, c)
		}
	}
	return v, missing
}

// learn takes in the racks of components that are not known.
func (s *Site) learn(ctx context.Context, missing []hardware.Component) error {
	var ids []uuid.UUID
	for _, c := range missing {
		switch {
		case s.inventory == nil || c.RackID == uuid.Nil:
			s.rack(rackKey(c)).add(c, s.initial)
		case !slices.Contains(ids, c.RackID):
			ids = append(ids, c.RackID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	live, err := s.inventory(ctx, ids)
	if err != nil {
		return err
	}
	members := make(map[uuid.UUID][]hardware.Component, len(ids))
	for _, c := range live {
		members[c.RackID] = append(members[c.RackID], c)
	}
	for _, id := range ids {
		s.rack(id).keep(members[id], s.initial)
	}
	return nil
}

func (s *Site) rack(id uuid.UUID) *rack {
	if r, ok := s.racks.Load(id); ok {
		return r.(*rack)
	}
	r, _ := s.racks.LoadOrStore(id, &rack{id: id})
	return r.(*rack)
}

func (s *Site) faster(d time.Duration) time.Duration { return time.Duration(float64(d) / s.speed) }

// rackKey is where a component is kept. One that stands in no rack has a place of its own and no shelf to depend on.
func rackKey(c hardware.Component) uuid.UUID {
	if c.RackID == uuid.Nil {
		return c.ID
	}
	return c.RackID
}

func unknownComponent(c hardware.Component) error {
	return hardware.Refused(fmt.Sprintf("component %s is not known to the simulated site", c.Label()))
}
