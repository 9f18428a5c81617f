package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// Kind is the way in which a call goes wrong.
type Kind string

// The kinds of faults. "The component" is the one the fault names. Where it names none, Refuse, Unavailable and
// LostReply are answers to the call as a whole, and the other kinds concern every component of the call.
// In the answer to a status call a component that was refused, unavailable, lost or failed is missing.
const (
	Refuse      Kind = "refuse"      // nothing is done: OutcomeRefused
	Unavailable Kind = "unavailable" // nothing is done: OutcomeNotDone
	Fail        Kind = "fail"        // nothing is done, but the device's error doesn't say so: OutcomeUncertain
	LostReply   Kind = "lost_reply"  // done, and then OutcomeUncertain
	Partial     Kind = "partial"     // done, but the component is missing from the answer
	Hang        Kind = "hang"        // not done for the component; the call blocks until its context ends
	HangDone    Kind = "hang_done"   // done; the call blocks until its context ends
	Slow        Kind = "slow"        // nothing but Delay; other faults may come on top
	WrongState  Kind = "wrong_state" // a command reports success but leads to State; a reading shows State
	Flap        Kind = "flap"        // every other reading shows State
)

// Kinds lists every kind.
var Kinds = []Kind{Refuse, Unavailable, Fail, LostReply, Partial, Hang, HangDone, Slow, WrongState, Flap}

// Fault makes calls go wrong. Of several faults that fit a component the one scripted first applies.
type Fault struct {
	Component uuid.UUID               // the zero id: any
	Type      hardware.ComponentType  // empty: any
	Call      hardware.Capability     // empty: any
	Operation hardware.PowerOperation // of PowerControl; empty: any
	Kind      Kind
	Times     int           // how many calls it applies to; 0: all
	After     int           // how many calls it lets pass before
	Delay     time.Duration // before the call is acted upon; divided by the site's speed
	Text      string        // the error's text; empty: one that names the kind

	// State is where WrongState and Flap lead, in the words of the call: a power, firmware or bring-up state, or a
	// decommissioning text. Empty: for a command the state stays as it was; a power reading shows the opposite of the
	// truth, any other reading shows the unknown.
	State string
}

// validate returns what is wrong by field name of the JSON form.
func (f Fault) validate() map[string]string {
	bad := make(map[string]string)
	if !slices.Contains(Kinds, f.Kind) {
		bad["kind"] = fmt.Sprintf("unknown kind %q", f.Kind)
	}
	if f.Type != "" && !slices.Contains(hardware.ComponentTypes, f.Type) {
		bad["type"] = fmt.Sprintf("component type %q is unknown or invalid", f.Type)
	}
	if f.Call != "" && !slices.Contains(calls, f.Call) {
		bad["call"] = fmt.Sprintf("unknown call %q", f.Call)
	}
	if f.Operation != "" {
		if _, err := hardware.ParsePowerOperation(string(f.Operation)); err != nil {
			bad["operation"] = err.Error()
		} else if f.Call != "" && f.Call != hardware.CapPowerControl {
			bad["operation"] = "only PowerControl has an operation"
		}
	}
	for name, n := range map[string]int{"times": f.Times, "after": f.After, "delay": int(f.Delay)} {
		if n < 0 {
			bad[name] = "must not be negative"
		}
	}
	if f.Kind == Slow && f.Delay == 0 {
		bad["delay"] = "a slow call needs a delay"
	}
	if f.State != "" && f.Kind != WrongState && f.Kind != Flap {
		bad["state"] = fmt.Sprintf("a fault of kind %s has no state", f.Kind)
	} else if known := states[f.Call]; f.State != "" && known != nil && !slices.Contains(known, f.State) {
		bad["state"] = fmt.Sprintf("unknown state %q (expected one of: %s)", f.State, strings.Join(known, ", "))
	}
	return bad
}

// calls are the calls a fault can meet.
var calls = []hardware.Capability{
	hardware.CapInjectExpectation, hardware.CapPowerControl, hardware.CapPowerStatus, hardware.CapFirmwareControl,
	hardware.CapFirmwareStatus, hardware.CapBringUpControl, hardware.CapBringUpStatus,
	hardware.CapFirmwareConsistencyCheck, hardware.CapDecommissionControl, hardware.CapDecommissionStatus,
}

var (
	powerStates    = []string{"Unknown", "On", "Off", "Rebooting"}
	firmwareStates = []string{"Unknown", "Queued", "Verifying", "Completed", "Failed"}
	bringUpStates  = []string{"NotDiscovered", "WaitingForIngestion", "MachineNotCreated", "MachineCreated"}
)

// states are the words for a state in each call; a call that is not listed takes any.
var states = map[hardware.Capability][]string{
	hardware.CapPowerControl:    powerStates,
	hardware.CapPowerStatus:     powerStates,
	hardware.CapFirmwareControl: firmwareStates,
	hardware.CapFirmwareStatus:  firmwareStates,
	hardware.CapBringUpControl:  bringUpStates,
	hardware.CapBringUpStatus:   bringUpStates,
}

// script is the list of live faults with their counters.
type script struct {
	any    atomic.Bool // spares the lock where there are none
	mu     sync.Mutex
	faults []*scripted
}

type scripted struct {
	Fault
	met int // calls it fitted, those let pass included
}

// Script adds faults behind those there are. Nothing is added when one of them makes no sense.
func (s *Site) Script(faults ...Fault) error {
	var errs []error
	for i, f := range faults {
		bad := f.validate()
		for _, name := range fieldNames {
			if text, ok := bad[name]; ok {
				errs = append(errs, fmt.Errorf("faults[%d].%s: %s", i, name, text))
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	for _, f := range faults {
		s.script.faults = append(s.script.faults, &scripted{Fault: f})
	}
	s.script.any.Store(len(s.script.faults) > 0)
	return nil
}

// FaultsMet tells how many calls each fault has applied to, in the order they were scripted.
func (s *Site) FaultsMet() []int {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	met := make([]int, len(s.script.faults))
	for i, f := range s.script.faults {
		if met[i] = max(f.met-f.After, 0); f.Times > 0 {
			met[i] = min(met[i], f.Times)
		}
	}
	return met
}

// ClearFaults ends all faults. Calls that hang already keep hanging.
func (s *Site) ClearFaults() {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.faults = nil
	s.script.any.Store(false)
}

// hit is a fault as it meets one call.
type hit struct {
	Fault
	odd bool // the first, third, ... call it meets
}

// hits is what the script has for one call.
type hits struct {
	by    []*hit // beside the target's components; nil: no faults at all
	whole *hit   // the answer to the call as a whole
	delay time.Duration
	hang  bool
}

func (h hits) at(i int) *hit {
	if h.by == nil {
		return nil
	}
	return h.by[i]
}

// match finds and counts the faults that a call meets.
func (sc *script) match(call hardware.Capability, op hardware.PowerOperation, target hardware.Target) hits {
	var h hits
	if !sc.any.Load() {
		return h
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	h.by = make([]*hit, len(target.Components))
	for _, f := range sc.faults {
		if f.Call != "" && f.Call != call || f.Operation != "" && f.Operation != op || f.Type != "" && f.Type != target.Type {
			continue
		}
		met := false
		for i, c := range target.Components {
			met = met || f.fits(c, h.by[i])
		}
		if !met {
			continue
		}
		f.met++
		n := f.met - f.After
		if n <= 0 || f.Times > 0 && n > f.Times {
			continue
		}
		h.delay += f.Delay
		if f.Kind == Slow {
			continue
		}
		it := &hit{Fault: f.Fault, odd: n%2 == 1}
		for i, c := range target.Components {
			if f.fits(c, h.by[i]) {
				h.by[i] = it
			}
		}
		h.hang = h.hang || f.Kind == Hang || f.Kind == HangDone
		if h.whole == nil && f.Component == uuid.Nil && slices.Contains([]Kind{Refuse, Unavailable, LostReply}, f.Kind) {
			h.whole = it
		}
	}
	return h
}

func (f *scripted) fits(c hardware.Component, taken *hit) bool {
	return (taken == nil || f.Kind == Slow) && (f.Component == uuid.Nil || f.Component == c.ID)
}

// err is what the caller gets for a component that would otherwise have succeeded.
func (h *hit) err() error {
	text := cmp.Or(h.Text, "simulated fault: "+strings.ReplaceAll(string(h.Kind), "_", " "))
	switch h.Kind {
	case Refuse:
		return hardware.Refused(text)
	case Unavailable:
		return hardware.NotDone(text)
	case Fail, LostReply, Hang, HangDone:
		return hardware.Uncertain(text)
	default:
		return nil
	}
}

// outcome is what the journal says of a component. refused is what speaks against the command without the fault. The
// second result tells whether it is a plain success, which needs no word.
func (h *hit) outcome(refused error) (Result, bool) {
	if h == nil || refused != nil {
		return resultOf(refused), refused == nil
	}
	res := resultOf(h.err())
	switch h.Kind {
	case LostReply, HangDone:
		res.Done = true
	case Partial:
		res.Done, res.Missing = true, true
	case WrongState:
		res.Done, res.State, res.Text = h.State != "", h.State, h.Text
	case Flap, Slow:
		return res, true
	}
	return res, false
}

// silences tells whether a component is missing from the answer to a status call.
func (h *hit) silences() bool {
	return slices.Contains([]Kind{Refuse, Unavailable, Fail, LostReply, Partial}, h.Kind)
}

// distorts tells whether a reading is not the truth.
func (h *hit) distorts() bool { return h.Kind == WrongState || h.Kind == Flap && h.odd }
