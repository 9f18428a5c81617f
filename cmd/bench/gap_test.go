package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGaps(t *testing.T) {
	t.Parallel()
	racks := []rack{{components: []string{"a1", "a2"}}, {components: []string{"b1"}}}
	line := func(at, rest string) string { return `{"seq":1,"at":"2026-01-01T00:00:0` + at + `Z",` + rest + "}\n" }
	power := func(at, kind, component string) string {
		return line(at, `"phase":"done","call":"PowerControl","type":"`+kind+`","components":["`+component+`"]`)
	}
	for name, c := range map[string]struct {
		journal string
		hold    time.Duration
		want    []float64
	}{
		"a gap lies between the last command of a stage and the first of the next": {
			journal: power("1.000", "PowerShelf", "a1") + power("1.500", "PowerShelf", "a2") + power("1.510", "Compute", "a1"),
			want:    []float64{10},
		},
		"each rack has its own": {
			journal: power("1.000", "PowerShelf", "a1") + power("1.100", "PowerShelf", "b1") +
				power("1.200", "Compute", "b1") + power("1.300", "Compute", "a1"),
			want: []float64{100, 300},
		},
		"what the rule waits is no gap": {
			journal: power("1.000", "PowerShelf", "a1") + power("3.020", "Compute", "a1"),
			hold:    2 * time.Second,
			want:    []float64{20},
		},
		"only arrivals of power commands to these racks count": {
			journal: power("1.000", "PowerShelf", "a1") +
				line("1.001", `"phase":"rack","rack":{"id":"x"}`) +
				line("1.002", `"phase":"done","call":"FirmwareControl","type":"Compute","components":["a1"]`) +
				line("1.003", `"phase":"done","receipt":7,"call":"PowerControl","type":"Compute","components":["a1"]`) +
				power("1.004", "Compute", "z1") +
				line("1.005", `"phase":"received","call":"PowerControl","type":"Compute","components":["a1"]`),
			want: []float64{5},
		},
		"a line that is still being written is left alone": {
			journal: power("1.000", "PowerShelf", "a1") + `{"seq":2,"at":"2026`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := readGaps(strings.NewReader(c.journal), racks, c.hold)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGapsOfQueuesAreThoseBetweenTasksOfOneRack(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	w := newWatcher()
	w.spans = map[string]span{
		"a1": {"a", at(0), at(10)}, "a2": {"a", at(13), at(20)}, "a3": {"a", at(19), at(30)}, // begins before a2 has ended
		"b1": {"b", at(5), at(15)}, "b2": {"b", at(22), at(30)}, "b3": {"b", at(32), at(40)},
	}
	gaps, overtakings := w.queueGaps([][]string{{"a1", "b1"}, {"b2", "a2"}, {"a3", "b3"}})
	if diff := cmp.Diff([]float64{7, 3, -1, 2}, gaps); diff != "" || overtakings != 1 {
		t.Errorf("%d overtakings, want 1; gaps:%s", overtakings, diff)
	}
}
