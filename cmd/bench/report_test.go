package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values []float64
		p      int
		want   float64
	}{
		"of nothing":                        {nil, 50, 0},
		"of one value":                      {[]float64{3}, 95, 3},
		"the middle of three, in any order": {[]float64{9, 1, 5}, 50, 5},
		"95 of 20 is the last but one":      {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 95, 19},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := percentile(c.values, c.p); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestTargetsAreToldMetOrMissedByHowMuch(t *testing.T) {
	t.Parallel()
	r := &report{Runs: 1}
	r.add(key{quantity: coldFirst}, 9)
	r.add(key{rate, bigRacks, ruleKind{}}, 200)
	r.add(key{rate, smallRacks, ruleKind{}}, 10)
	r.add(key{cpuFlow, bigRacks, ruleKind{}}, 6)
	var out bytes.Buffer
	if err := r.table(&out); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 4 && !strings.HasPrefix(line, "Racks of") {
			rows = append(rows, strings.Join(f, " "))
		}
	}
	for _, want := range []string{
		"tasks per second 50 no verify 10 10 10 /s",
		"500 no verify 200 200 200 /s 250: missed by 20 %",
		"CPU per task, flow 500 no verify 6 6 6 ms 6: met",
		"cold start, first ever 9 9 9 s 6: missed by 50 %",
	} {
		if !strings.Contains(strings.Join(rows, "\n"), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

func TestEveryQuantityHasAName(t *testing.T) {
	t.Parallel()
	for q := rate; q <= cpuOthers; q++ {
		if quantities[q].name == "" {
			t.Errorf("quantity %d has none", q)
		}
	}
}
