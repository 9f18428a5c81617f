package sim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

func TestParseFaultsReadsEveryField(t *testing.T) {
	t.Parallel()
	got, err := sim.ParseFaults([]byte(`[{
		"component": "00000000-0000-4000-8000-000000000105", "type": "compute", "call": "PowerControl",
		"operation": "cold_reset", "kind": "wrong_state", "times": 2, "after": 1, "delay": "1.5s", "text": "no", "state": "Off"
	}, {"kind": "hang"}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []sim.Fault{{
		Component: id(105), Type: hardware.Compute, Call: hardware.CapPowerControl, Operation: hardware.ColdReset,
		Kind: sim.WrongState, Times: 2, After: 1, Delay: 1500 * time.Millisecond, Text: "no", State: "Off",
	}, {Kind: sim.Hang}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestParseFaultsTellsEveryProblemByItsPath(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ doc, want string }{
		"not a list":          {`{}`, "faults: not a JSON list of objects"},
		"nothing":             {``, "faults: not a JSON list of objects"},
		"no kind":             {`[{"kind":"slow","delay":"1s"},{}]`, `faults[1].kind: unknown kind ""`},
		"unknown kind":        {`[{"kind":"gone"}]`, `faults[0].kind: unknown kind "gone"`},
		"unknown field":       {`[{"kind":"hang","when":"now"}]`, "faults[0].when: unknown field"},
		"a number for a text": {`[{"kind":"hang","text":7}]`, "faults[0].text: must be a string"},
		"half a time":         {`[{"kind":"hang","times":0.5}]`, "faults[0].times: must be a whole number"},
		"a negative count":    {`[{"kind":"hang","after":-1}]`, "faults[0].after: must not be negative"},
		"a duration in words": {`[{"kind":"slow","delay":"soon"}]`, `faults[0].delay: "soon" is not a duration such as 1.5s`},
		"slow without delay":  {`[{"kind":"slow"}]`, "faults[0].delay: a slow call needs a delay"},
		"state without use":   {`[{"kind":"hang","state":"On"}]`, "faults[0].state: a fault of kind hang has no state"},
		"state of another call": {`[{"kind":"flap","call":"PowerStatus","state":"Queued"}]`,
			`faults[0].state: unknown state "Queued" (expected one of: Unknown, On, Off, Rebooting)`},
		"operation without use": {`[{"kind":"hang","call":"PowerStatus","operation":"power_on"}]`,
			"faults[0].operation: only PowerControl has an operation"},
		"several problems": {`[{"component":"x","type":"Toaster","call":"Toast","operation":"toast"}]`, strings.Join([]string{
			`faults[0].component: "x" is not a UUID`,
			`faults[0].type: component type "Toaster" is unknown or invalid`,
			`faults[0].call: unknown call "Toast"`,
			`faults[0].operation: unrecognized power operation "toast"`,
			`faults[0].kind: unknown kind ""`,
		}, "\n")},
	} {
		_, err := sim.ParseFaults([]byte(tc.doc))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		}
	}
}

func TestScriptTakesAllFaultsOrNone(t *testing.T) {
	t.Parallel()
	s := open(t, sim.Config{})
	err := s.Script(sim.Fault{Kind: sim.Refuse}, sim.Fault{Kind: sim.Slow})
	if want := "faults[1].delay: a slow call needs a delay"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	order(t, s, named(rackOf(1), "tray-1"), hardware.PowerOff)
}

func FuzzParseFaults(f *testing.F) {
	f.Add([]byte(`[{"kind":"slow","delay":"1s","type":"CDU","times":1}]`))
	f.Add([]byte(`[{"kind":"flap","state":"On"},null]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		faults, err := sim.ParseFaults(doc)
		if err != nil {
			return
		}
		s, err := sim.Open(sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Script(faults...); err != nil {
			t.Errorf("parsed and then refused: %v", err)
		}
	})
}
