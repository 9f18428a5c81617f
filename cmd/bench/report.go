package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"rackflow.dev/flow/api/gen/flowv1"
)

// quantity is something that is measured. Its value is the place in the table.
type quantity int

const (
	rate quantity = iota
	cpuFlow
	cpuPostgres
	cpuBench
	latencyMedian
	latencyP95
	latencyRecorded
	gapMedian
	gapP95
	queueDrain
	queueCPU
	queueOvertakings
	queueGapMedian
	queueGapP95
	queueGapMax
	explainMedian
	reportPlain
	reportDetailed
	memoryIdle
	memoryBusy
	memoryLarge
	memoryEver
	tasksAtOnce
	cpuIdle
	coldAgain
	coldFirst
	createRate
	createCPU
	// Calls on a full inventory.
	listRacks
	listRacksP95
	findRacks
	findRacksP95
	getRack
	getRackP95
	listMade
	listMadeP95
	findComponents
	findComponentsP95
	listOfRacks
	listOfRacksP95
	validate
	validateP95
	validateLarge
	validateLargeP95
	createRack
	createRackP95
	addComponent
	addComponentP95
	memoryUnlisted
	memoryListing
	memoryAgain
	memoryListed
	cpuOthers
)

var quantities = map[quantity]struct{ name, unit string }{
	rate:            {"tasks per second", "/s"},
	cpuFlow:         {"CPU per task, flow", "ms"},
	cpuPostgres:     {"CPU per task, PostgreSQL", "ms"},
	cpuBench:        {"CPU per task, this benchmark", "ms"},
	latencyMedian:   {"submit to completed, p50", "ms"},
	latencyP95:      {"submit to completed, p95", "ms"},
	latencyRecorded: {"submit to recorded, p50", "ms"},
	gapMedian:       {"gap between two stages, p50", "ms"},
	gapP95:          {"gap between two stages, p95", "ms"},

	// Racks with tasks queued five deep.
	queueDrain:       {"queued five deep, submit to end", "s"},
	queueCPU:         {"queued five deep, CPU per task, flow", "ms"},
	queueOvertakings: {"tasks begun before an earlier one ended", ""},
	queueGapMedian:   {"gap between two tasks of a rack, p50", "ms"},
	queueGapP95:      {"gap between two tasks of a rack, p95", "ms"},
	queueGapMax:      {"gap between two tasks of a rack, max", "ms"},

	explainMedian:  {"Explain, power on, p50", "ms"},
	reportPlain:    {"report of a rack's task", "bytes"},
	reportDetailed: {"report of a rack's task, with components", "bytes"},

	memoryIdle:  {"memory, idle", "MB"},
	memoryBusy:  {"memory, 500 tasks running", "MB"},
	memoryLarge: {"memory, 1,000 tasks running", "MB"},
	memoryEver:  {"memory, highest of this life", "MB"},
	tasksAtOnce: {"tasks running at once", ""},
	cpuIdle:     {"CPU per second, idle, flow", "ms"},
	coldAgain:   {"cold start, initialised", "s"},
	coldFirst:   {"cold start, first ever", "s"},
	createRate:  {"racks created per second", "/s"},
	createCPU:   {"CPU per rack created, flow", "ms"},

	// Calls on a full inventory.
	listRacks:         {"GetListOfRacks, 100 racks whole, p50", "ms"},
	listRacksP95:      {"GetListOfRacks, 100 racks whole, p95", "ms"},
	findRacks:         {"GetListOfRacks, name wildcard, p50", "ms"},
	findRacksP95:      {"GetListOfRacks, name wildcard, p95", "ms"},
	getRack:           {"GetRackInfoByID, rack whole, p50", "ms"},
	getRackP95:        {"GetRackInfoByID, rack whole, p95", "ms"},
	listMade:          {"GetComponents, 1,000 by type and maker, p50", "ms"},
	listMadeP95:       {"GetComponents, 1,000 by type and maker, p95", "ms"},
	findComponents:    {"GetComponents, 1,000 by name wildcard, p50", "ms"},
	findComponentsP95: {"GetComponents, 1,000 by name wildcard, p95", "ms"},
	listOfRacks:       {"GetComponents, 1,000 of 50 racks, p50", "ms"},
	listOfRacksP95:    {"GetComponents, 1,000 of 50 racks, p95", "ms"},
	validate:          {"ValidateComponents, 100, p50", "ms"},
	validateP95:       {"ValidateComponents, 100, p95", "ms"},
	validateLarge:     {"ValidateComponents, 1,000, p50", "ms"},
	validateLargeP95:  {"ValidateComponents, 1,000, p95", "ms"},
	createRack:        {"CreateExpectedRack, 35 components, p50", "ms"},
	createRackP95:     {"CreateExpectedRack, 35 components, p95", "ms"},
	addComponent:      {"AddComponent, p50", "ms"},
	addComponentP95:   {"AddComponent, p95", "ms"},
	memoryUnlisted:    {"memory, before listing all racks", "MB"},
	memoryListing:     {"memory, highest while listing", "MB"},
	memoryAgain:       {"memory, highest listing again", "MB"},
	memoryListed:      {"memory, after listing", "MB"},

	cpuOthers: {"CPU used by other processes", "%"},
}

// key is a row.
type key struct {
	quantity quantity
	racks    int // 0: no matter
	rule     ruleKind
}

// targets are the numbers to hold.
var targets = map[key]struct {
	limit   float64
	atLeast bool // else at most
}{
	{rate, bigRacks, ruleKind{}}:                         {250, true},
	{rate, bigRacks, ruleKind{verify: true}}:             {250, true},
	{cpuFlow, bigRacks, ruleKind{}}:                      {6, false},
	{cpuFlow, bigRacks, ruleKind{verify: true}}:          {6, false},
	{latencyMedian, 1, ruleKind{}}:                       {50, false},
	{latencyMedian, 1, ruleKind{verify: true}}:           {50, false},
	{gapP95, gapRacks, ruleKind{}}:                       {50, false},
	{gapP95, gapRacks, ruleKind{verify: true}}:           {50, false},
	{gapP95, gapRacks, ruleKind{hold: holdGap}}:          {50, false},
	{queueOvertakings, queueRacks, ruleKind{}}:           {0, false},
	{queueGapP95, 1, ruleKind{}}:                         {50, false},
	{queueGapP95, queueRacks, ruleKind{}}:                {50, false},
	{queueGapP95, queueRacks, ruleKind{hold: holdGap}}:   {50, false},
	{quantity: explainMedian, racks: explainRacks}:       {1000, false},
	{quantity: reportPlain}:                              {32 << 10, false},
	{quantity: reportDetailed}:                           {32 << 10, false},
	{quantity: memoryIdle}:                               {60, false},
	{memoryLarge, largeRacks, ruleKind{hold: holdLarge}}: {200, false},
	{quantity: coldAgain}:                                {2, false},
	{quantity: coldFirst}:                                {6, false},

	{quantity: listRacks, racks: inventoryRacks}:      {50, false},
	{quantity: findRacks, racks: inventoryRacks}:      {100, false},
	{quantity: getRack, racks: inventoryRacks}:        {5, false},
	{quantity: listMade, racks: inventoryRacks}:       {100, false},
	{quantity: findComponents, racks: inventoryRacks}: {100, false},
	{quantity: listOfRacks, racks: inventoryRacks}:    {100, false},
	{quantity: validate, racks: inventoryRacks}:       {100, false},
	{quantity: createRack, racks: inventoryRacks}:     {15, false},
	{quantity: addComponent, racks: inventoryRacks}:   {10, false},
}

// report is what came out.
type report struct {
	Flow     string   `json:"flow"`
	Cores    int      `json:"cores"`
	CPU      string   `json:"cpu"`
	Database database `json:"postgresql"`
	Runs     int      `json:"runs"`
	Rows     []*row   `json:"rows"`
}

// row is one quantity under one load; a value for each run.
type row struct {
	key    key
	Name   string    `json:"name"`
	Racks  int       `json:"racks,omitempty"`
	Rule   string    `json:"rule,omitempty"`
	Unit   string    `json:"unit,omitempty"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"`
	Target *float64  `json:"target,omitempty"`
	Met    *bool     `json:"met,omitempty"`
	MissBy float64   `json:"miss_by_percent,omitempty"`
}

// add notes the value of one run.
func (r *report) add(k key, v float64) {
	i := slices.IndexFunc(r.Rows, func(w *row) bool { return w.key == k })
	if i < 0 {
		i = len(r.Rows)
		w := &row{key: k, Name: quantities[k.quantity].name, Unit: quantities[k.quantity].unit, Racks: k.racks}
		switch {
		case k.racks == 0:
		case k.quantity >= queueDrain && k.quantity <= explainMedian && k.rule == (ruleKind{}):
			w.Rule = "built-in"
		case k.quantity < memoryIdle:
			w.Rule = k.rule.String()
		}
		r.Rows = append(r.Rows, w)
	}
	r.Rows[i].Values = append(r.Rows[i].Values, v)
}

// describe notes what the numbers were measured on.
func (r *report) describe(ctx context.Context, s *server, c *client) error {
	build, err := c.flow.Version(ctx, &flowv1.VersionRequest{})
	if err != nil {
		return fmt.Errorf("version of the server: %w", err)
	}
	r.Flow = strings.TrimSpace(build.GetVersion() + " " + build.GetGitCommit())
	r.Cores, r.CPU = runtime.NumCPU(), cpuModel()
	if r.Database, err = s.database(ctx); err != nil {
		return fmt.Errorf("postgresql: %w", err)
	}
	return nil
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// finish sorts the rows and compares them with the targets.
func (r *report) finish() {
	slices.SortStableFunc(r.Rows, func(x, y *row) int {
		return cmp.Or(cmp.Compare(x.key.quantity, y.key.quantity), compareRules(x.key.rule, y.key.rule), cmp.Compare(x.key.racks, y.key.racks))
	})
	for _, w := range r.Rows {
		w.Median, w.Min, w.Max = percentile(w.Values, 50), slices.Min(w.Values), slices.Max(w.Values)
		t, ok := targets[w.key]
		if !ok {
			continue
		}
		miss := (w.Median - t.limit) / max(t.limit, 1) // of a limit of 0 there is no part
		if t.atLeast {
			miss = -miss
		}
		w.Target, w.Met = new(t.limit), new(miss <= 0)
		if miss > 0 {
			w.MissBy = math.Ceil(100 * miss)
		}
	}
}

func (r *report) json(out io.Writer) error {
	r.finish()
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func (r *report) table(out io.Writer) error {
	r.finish()
	d := r.Database
	fmt.Fprintf(out, "flow %s on %d cores (%s)\nPostgreSQL %s (%s), fsync %s, synchronous_commit %s, a write to this disk %s ms\n", r.Flow, r.Cores, r.CPU,
		d.Version, d.Source, d.Fsync, d.SynchronousCommit, show(d.WriteMS))
	fmt.Fprintf(out, "Racks of 18 compute trays, 9 NVSwitches, 8 power shelves; three stages; simulated hardware without latency; runs: %d\n\n", r.Runs)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\tRACKS\tRULE\tMEDIAN\tMIN\tMAX\tUNIT\tTARGET")
	last := ""
	for _, w := range r.Rows {
		name := w.Name
		if name == last {
			name = ""
		}
		last = w.Name
		racks := ""
		if w.Racks > 0 {
			racks = fmt.Sprint(w.Racks)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, racks, w.Rule, show(w.Median), show(w.Min), show(w.Max), w.Unit, w.verdict())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if slices.ContainsFunc(r.Rows, func(w *row) bool { return w.key.quantity == gapMedian }) {
		fmt.Fprintln(out, `Gaps under "with verify" include the reading back, so they are upper bounds.`)
	}
	_, err := fmt.Fprintln(out, "What other processes used was missing here: these are the numbers of a calm machine only where that is next to\nnothing.")
	return err
}

// verdict compares with the target in words.
func (w *row) verdict() string {
	switch {
	case w.Target == nil:
		return ""
	case *w.Met:
		return fmt.Sprintf("%s: met", show(*w.Target))
	}
	return fmt.Sprintf("%s: missed by %.0f %%", show(*w.Target), w.MissBy)
}

// show gives a number three figures.
func show(v float64) string {
	switch {
	case v >= 99.95 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// percentile is the smallest value that p percent of the values do not exceed.
func percentile(values []float64, p int) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
