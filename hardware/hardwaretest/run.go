package hardwaretest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// prompt is how long a call may take to notice that its context has ended; far more than it needs, for slow machines.
const prompt = 5 * time.Second

// Run checks an adapter. open makes a new harness; it is called often, and from several goroutines.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	checks := []struct {
		name  string
		check func(t *testing.T, open func(t *testing.T) Harness)
	}{
		{"a manager names its type and implementation", names},
		{"a target nobody could serve is refused by every call", badTargets},
		{"an unsupported power operation is refused before any act", unsupported},
		{"a firmware part nobody knows is refused before any act", unknownPart},
		{"every call answers for every component", answers},
		{"an unknown component fails alone", unknown},
		{"power status is the truth once settled and orders can be repeated", powerTruth},
		{"a firmware update ends with the wanted version", firmwareTruth},
		{"bring-up and decommissioning reach their ends", lifeTruth},
		{"a call whose context has ended does nothing", ended},
		{"a call that gets no answer ends with its context", hangs},
		{"a problem with one component is classified and stays with it", outcomes},
		{"many callers at once", concurrent},
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t, open)
		})
	}
}

func names(t *testing.T, open func(t *testing.T) Harness) {
	for kind, m := range open(t).Managers {
		if m.Type() != kind || m.Implementation() == "" {
			t.Errorf("manager of %s: type %s, implementation %q", kind, m.Type(), m.Implementation())
		}
	}
}

func badTargets(t *testing.T, open func(t *testing.T) Harness) {
	eachCall(t, open, func(t *testing.T, h Harness, good hardware.Target, c call) {
		other := hardware.PowerShelf
		if good.Type == other {
			other = hardware.Compute
		}
		for name, target := range map[string]hardware.Target{
			"no component":           {Type: good.Type},
			"a component without id": {Type: good.Type, Components: []hardware.Component{{Type: good.Type}}},
			"an unknown type":        {Type: "Toaster", Components: good.Components},
			"another manager's type": {Type: other, Components: good.Components},
		} {
			if _, err := c.do(t.Context(), target); err == nil || hardware.OutcomeOf(err) != hardware.OutcomeRefused {
				t.Errorf("%s: error %v, want one that is refused", name, err)
			}
		}
		if n := h.acts(); n != 0 {
			t.Errorf("%d commands reached a device, want 0", n)
		}
	})
}

func unsupported(t *testing.T, open func(t *testing.T) Harness) {
	each(t, open, func(t *testing.T, h Harness, m hardware.Manager) {
		p := power(t, m)
		for _, op := range append([]hardware.PowerOperation{"toast", ""}, hardware.PowerOperations...) {
			if op.Supports(m.Type()) && op != "" && op != "toast" {
				continue
			}
			_, err := p.PowerControl(t.Context(), h.of(m.Type()), op, hardware.PowerOptions{})
			if err == nil || hardware.OutcomeOf(err) != hardware.OutcomeRefused {
				t.Errorf("%q: error %v, want one that is refused", op, err)
			}
		}
		if n := h.acts(); n != 0 {
			t.Errorf("%d commands reached a device, want 0", n)
		}
		wantPower(t, h, m, hardware.PowerStateOn)
	})
}

func unknownPart(t *testing.T, open func(t *testing.T) Harness) {
	each(t, open, func(t *testing.T, h Harness, m hardware.Manager) {
		f, ok := m.(hardware.FirmwareController)
		if !ok {
			t.Skip("no firmware control")
		}
		_, err := f.StartFirmware(t.Context(), h.of(m.Type()), hardware.FirmwareRequest{Version: "7.7.7", SubTargets: []string{"toaster"}})
		if err == nil || hardware.OutcomeOf(err) != hardware.OutcomeRefused {
			t.Errorf("error %v, want one that is refused", err)
		}
		if n := h.acts(); n != 0 {
			t.Errorf("%d commands reached a device, want 0", n)
		}
	})
}

func answers(t *testing.T, open func(t *testing.T) Harness) {
	eachCall(t, open, func(t *testing.T, h Harness, target hardware.Target, c call) {
		results, err := c.do(t.Context(), target)
		if c.capability == hardware.CapFirmwareConsistencyCheck {
			if err != nil {
				t.Errorf("a rack in which all is the same is inconsistent: %v", err)
			}
			return
		}
		wantAll(t, target, results, err)
		if n := h.acts(); h.Acts != nil && c.command && n == 0 {
			t.Error("no command reached a device")
		}
	})
}

func unknown(t *testing.T, open func(t *testing.T) Harness) {
	eachCall(t, open, func(t *testing.T, h Harness, target hardware.Target, c call) {
		stranger := hardware.Component{ID: uuid.New(), RackID: target.Components[0].RackID, Type: target.Type,
			ExternalID: "stranger", MAC: "02:00:00:00:00:01"}
		both := hardware.Target{Type: target.Type, Components: append([]hardware.Component{stranger}, target.Components...)}
		results, err := c.do(t.Context(), both)
		if c.capability == hardware.CapFirmwareConsistencyCheck {
			if err == nil {
				t.Error("a component without version data is consistent")
			}
			return
		}
		if e, ok := results[stranger.ID]; ok && (e == nil || !c.command) {
			t.Errorf("the unknown component was answered with success")
		}
		delete(results, stranger.ID)
		wantAll(t, target, results, err)
	})
}

func ended(t *testing.T, open func(t *testing.T) Harness) {
	eachCall(t, open, func(t *testing.T, h Harness, target hardware.Target, c call) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.do(cancelled, target); !errors.Is(err, context.Canceled) || hardware.OutcomeOf(err) == hardware.OutcomeRefused {
			t.Errorf("cancelled: error %v, want context.Canceled and not refused", err)
		}
		late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		if _, err := c.do(late, target); !hardware.IsTimeout(err) {
			t.Errorf("too late: error %v, want a timeout", err)
		}
		if n := h.acts(); n != 0 {
			t.Errorf("%d commands reached a device, want 0", n)
		}
	})
}

func hangs(t *testing.T, open func(t *testing.T) Harness) {
	eachCall(t, open, func(t *testing.T, h Harness, target hardware.Target, c call) {
		h.fault(t, Fault{Component: target.Components[0].ID, Call: c.capability, Problem: Hang})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := c.do(ctx, target)
			done <- err
		}()
		select {
		case err := <-done:
			if !hardware.IsTimeout(err) || hardware.OutcomeOf(err) != hardware.OutcomeUncertain {
				t.Errorf("error %v, want a timeout with uncertain outcome", err)
			}
		case <-time.After(prompt):
			t.Errorf("no return %v after the deadline", prompt)
		}
	})
}

func outcomes(t *testing.T, open func(t *testing.T) Harness) {
	for name, tc := range map[string]struct {
		problem Problem
		want    hardware.Outcome // 0: none, the component may just be missing
	}{
		"a refusal":        {Refusal, hardware.OutcomeRefused},
		"a busy device":    {Busy, hardware.OutcomeNotDone},
		"a lost reply":     {LostReply, hardware.OutcomeUncertain},
		"a missing answer": {Missing, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachCall(t, open, func(t *testing.T, h Harness, target hardware.Target, c call) {
				bad := target.Components[1].ID
				h.fault(t, Fault{Component: bad, Call: c.capability, Problem: tc.problem})
				results, err := c.do(t.Context(), target)
				if c.capability == hardware.CapFirmwareConsistencyCheck {
					if err == nil {
						t.Error("a component that can't be read is consistent")
					}
					return
				}
				e, ok := results[bad]
				switch {
				case ok && e == nil, ok && !c.command:
					t.Error("the component was answered with success")
				case ok && tc.want != 0 && hardware.OutcomeOf(e) != tc.want:
					t.Errorf("error %v has outcome %d, want %d", e, hardware.OutcomeOf(e), tc.want)
				case !ok && tc.want == hardware.OutcomeRefused && c.command:
					t.Error("a refusal was not told")
				}
				others := hardware.Target{Type: target.Type}
				for _, c := range target.Components {
					if c.ID != bad {
						others.Components = append(others.Components, c)
					}
				}
				delete(results, bad)
				wantAll(t, others, results, err)
			})
		})
	}
}

func concurrent(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	var wg sync.WaitGroup
	for _, m := range h.Managers {
		target := h.of(m.Type())
		p, ok := m.(hardware.PowerController)
		if !ok || len(target.Components) == 0 {
			continue
		}
		for i := range 8 {
			op := []hardware.PowerOperation{hardware.PowerOn, hardware.ForcePowerOn}[i%2]
			wg.Go(func() {
				for range 10 {
					results, err := p.PowerControl(t.Context(), target, op, hardware.PowerOptions{})
					wantAllQuietly(t, target, results, err)
				}
			})
		}
		for _, c := range calls(m) {
			if c.command {
				continue
			}
			wg.Go(func() {
				for range 10 {
					if _, err := c.do(t.Context(), target); err != nil {
						t.Errorf("%s: %v", c.capability, err)
					}
				}
			})
		}
	}
	wg.Wait()
	h.settle(t)
	for _, m := range h.Managers {
		if _, ok := m.(hardware.PowerController); ok && len(h.of(m.Type()).Components) > 0 {
			wantPower(t, h, m, hardware.PowerStateOn)
		}
	}
}

// wantAllQuietly is wantAll for goroutines, which must not end the test.
func wantAllQuietly(t testing.TB, target hardware.Target, results hardware.Results, err error) {
	if err != nil {
		t.Errorf("call failed: %v", err)
		return
	}
	wantAll(t, target, results, nil)
}

// wantPower fails unless all components of the manager's type are in a state.
func wantPower(t testing.TB, h Harness, m hardware.Manager, state hardware.PowerState) {
	t.Helper()
	r, ok := m.(hardware.PowerReader)
	if !ok {
		return
	}
	target := h.of(m.Type())
	got, err := r.PowerStatus(t.Context(), target)
	if err != nil {
		t.Fatalf("power status: %v", err)
	}
	want := make(map[uuid.UUID]hardware.PowerState, len(target.Components))
	states := make(map[uuid.UUID]hardware.PowerState, len(got))
	for _, c := range target.Components {
		want[c.ID] = state
	}
	for id, reading := range got {
		states[id] = reading.State
	}
	if d := cmp.Diff(want, states); d != "" {
		t.Errorf("power states of %s (-want +got):\n%s", m.Type(), d)
	}
}

func power(t testing.TB, m hardware.Manager) hardware.PowerController {
	t.Helper()
	p, ok := m.(hardware.PowerController)
	if !ok {
		t.Skip("no power control")
	}
	return p
}
