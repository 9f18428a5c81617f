package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/exec"
	"rackflow.dev/flow/engine/exec/virtual"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// rehearsalStart is when rehearsals begin; any time would do, and one that never changes makes their reports the same.
var rehearsalStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// ruleTest is the flags of rule test.
type ruleTest struct {
	file, rack string
	op         ruleOperation
	faults     []string // one fault each
	faultFiles []string
	latency    time.Duration
	start      string // the power state the rack is found in
}

var startWords = []word[hardware.PowerState]{{"on", hardware.PowerStateOn}, {"off", hardware.PowerStateOff}}

func (c *cli) ruleTestCommand() *cobra.Command {
	var t ruleTest
	cmd := &cobra.Command{
		Use:   "test -f FILE --rack FILE",
		Short: "Try a rule on a simulated rack, in no time",
		Long: `Carry a rule out on a simulated rack as the server would, in a time of its own: hours of waiting are over at once. It needs no
server and changes nothing. What happened is printed with its times, and the report as a task would have it. The exit code
is 0 when the rule completed, and 2 when it failed.

--file is the JSON document of a rule, or a YAML file of rules with one for the operation; --rack is the document of a rack
as rack create takes it. The rule is tried for power_control/power_on, unless --operation-type and --operation say else.
The rack is found off where the operation powers it on, and on otherwise, unless --start says else.

A fault makes calls to the hardware go wrong. It is a list of key=value:
  kind       ` + joined(sim.Kinds) + `
  component  name or id of a component; type: kind of components; call: as PowerControl or PowerStatus;
  operation  as power_on; without these, any
  times      how many calls it meets, after: how many it lets pass before; delay: how long calls take
  text       what the device says, without a comma; state: what a wrong_state leads to or shows
A fault that meets no call is warned of. --faults takes the same keys in JSON, and there a text may have commas.`,
		Example: `  flow rule test -f rule.json --rack testdata/racks/gb200-nvl72.json
  flow rule test -f rules.yaml --rack rack.json --operation-type power_control --operation power_off
  flow rule test -f rule.json --rack rack.json --fault kind=hang,type=NVSwitch,call=PowerControl,times=1
  flow rule test -f rule.json --rack rack.json --fault kind=refuse,component=tray-03 -o json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.testRule(cmd, t) },
	}
	f := cmd.Flags()
	f.StringVarP(&t.file, "file", "f", "", "`FILE` with the rule, - for standard input")
	f.StringVar(&t.rack, "rack", "", "`FILE` with the rack, - for standard input")
	t.op.register(cmd)
	f.StringArrayVar(&t.faults, "fault", nil, "a fault, as `KEY=VALUE,...`; may be repeated")
	f.StringArrayVar(&t.faultFiles, "faults", nil, "`FILE` with a JSON list of faults; may be repeated")
	f.DurationVar(&t.latency, "latency", 3*time.Second, "how long an act takes until it shows")
	f.StringVar(&t.start, "start", "", "power state the rack is found in: "+accepted(startWords))
	must(cmd.RegisterFlagCompletionFunc("start", completeWords(startWords)))
	must(cmd.MarkFlagFilename("file", "json", "yaml", "yml"))
	must(cmd.MarkFlagFilename("rack", "json"))
	must(cmd.MarkFlagFilename("faults", "json"))
	return cmd
}

// joined lists words for people.
func joined[S ~string](list []S) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

func (c *cli) testRule(cmd *cobra.Command, t ruleTest) error {
	if err := requiredFlags(cmd, "", "file", "rack"); err != nil {
		return err
	}
	switch {
	case t.file == "-" && t.rack == "-":
		return &usageError{cmd: cmd, err: fmt.Errorf("rule test: only one of --file and --rack can be standard input")}
	case t.latency < 0:
		return &usageError{cmd: cmd, err: fmt.Errorf("rule test: --latency must not be negative, got %s", t.latency)}
	}
	op, err := trialOperation(cmd, t.op)
	if err != nil {
		return err
	}
	start := startOf(op)
	if t.start != "" {
		if start, err = parseWord(startWords, "power state", t.start); err != nil {
			return fmt.Errorf("rule test: --start: %w", err)
		}
	}
	plan, rack, err := c.trialPlan(t.file, t.rack, op)
	if err != nil {
		return fmt.Errorf("rule test: %w", err)
	}
	faults, err := c.scriptedFaults(t, rack)
	if err != nil {
		return fmt.Errorf("rule test: %w", err)
	}
	result, err := rehearse(cmd.Context(), plan, rack, start, t.latency, faults)
	if err != nil {
		return fmt.Errorf("rule test: %w", err)
	}
	if err := c.printRehearsal(plan, rack, result, faults); err != nil {
		return err
	}
	for i, f := range faults {
		if f.met == 0 {
			fmt.Fprintf(c.err, "Warning: fault %d (%s) met no call\n", i+1, line(f.from))
		}
	}
	if result.State != db.TaskStateCompleted {
		return &outcomeError{code: exitTaskFailed, text: "Error: rule test: the rule failed: " + firstSentence(line(result.Message))}
	}
	return nil
}

const (
	maxCell     = 100 // characters of a reason in the table
	maxSentence = 200 // of the error at the end; all of it is in the report
)

// idInBrackets stands behind the names of components in messages.
var idInBrackets = regexp.MustCompile(` \([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)`)

// firstSentence is the beginning of a message, without the ids of the components it names.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(idInBrackets.ReplaceAllString(text, ""), "; ")
	if r := []rune(text); len(r) > maxSentence {
		text = string(r[:maxSentence*2/3]) + "..." + string(r[len(r)-maxSentence/3:]) // the reason is at the end
	}
	return text
}

// shortened cuts a text to a number of characters.
func shortened(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-3]) + "..."
	}
	return text
}

// startOf is the state a rack is in before an operation.
func startOf(op rules.Operation) hardware.PowerState {
	if state, ok := hardware.PowerOperation(op.Code).WantedState(); ok && state == hardware.PowerStateOn {
		return hardware.PowerStateOff
	}
	return hardware.PowerStateOn
}

// rehearse carries a plan out on a simulated site of one rack.
func rehearse(ctx context.Context, plan rules.Plan, rack *flowv1.Rack, start hardware.PowerState, latency time.Duration, faults []trialFault) (
	exec.Rehearsed, error,
) {
	clock := virtual.New(rehearsalStart)
	components := plannable(rack)
	site, err := sim.Open(sim.Config{
		Latency: latency, InitialPower: start, Now: clock.Now,
		Pass: func(ctx context.Context, d time.Duration) bool { return clock.Sleep(ctx, clock.Now().Add(d)) },
		Inventory: func(context.Context, []uuid.UUID) ([]hardware.Component, error) {
			list := make([]hardware.Component, len(components))
			for i, c := range components {
				list[i] = c.Component
			}
			return list, nil
		},
	})
	if err != nil {
		return exec.Rehearsed{}, err
	}
	for _, f := range faults {
		if err := site.Script(f.Fault); err != nil {
			return exec.Rehearsed{}, err
		}
	}
	expected := make(map[uuid.UUID]hardware.Expectation, len(components))
	for i, c := range components {
		info := rack.GetComponents()[i].GetInfo()
		expected[c.ID] = hardware.Expectation{
			Component: c.Component, Manufacturer: info.GetManufacturer(), Serial: info.GetSerialNumber(), Model: info.GetModel(),
			Slot: c.Slot, Tray: c.Tray, Host: c.Host,
		}
	}
	result, err := exec.Rehearsal{Plan: plan, Managers: site.Managers(), Clock: clock, Expected: expected}.Run(ctx)
	for i, n := range site.FaultsMet() {
		faults[i].met = n
	}
	return result, err
}

// trialFault is a fault of a trial.
type trialFault struct {
	sim.Fault
	from string // as it was typed, or its place in a file
	met  int    // calls it has applied to
}

// scriptedFaults reads the faults of the flags and files, and refuses those that can't meet a call on the rack.
func (c *cli) scriptedFaults(t ruleTest, rack *flowv1.Rack) ([]trialFault, error) {
	var faults []trialFault
	for _, path := range t.faultFiles {
		doc, name, err := readDocument(c.in, path)
		if err != nil {
			return nil, err
		}
		var list []map[string]any
		if json.Unmarshal(doc, &list) == nil { // else the parser says what is wrong
			for i, fault := range list {
				if err := nameComponent(fault, rack); err != nil {
					return nil, fmt.Errorf("%s: faults[%d].component: %w", name, i, err)
				}
			}
			if doc, err = json.Marshal(list); err != nil {
				return nil, err
			}
		}
		read, err := sim.ParseFaults(doc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, f := range read {
			faults = append(faults, trialFault{Fault: f, from: fmt.Sprintf("%s: faults[%d]", name, i)})
		}
	}
	for _, text := range t.faults {
		f, err := typedFault(text, rack)
		if err != nil {
			return nil, fmt.Errorf("--fault %q: %w", text, err)
		}
		faults = append(faults, trialFault{Fault: f, from: text})
	}
	for _, f := range faults {
		if err := onRack(f.Fault, rack); err != nil {
			return nil, fmt.Errorf("fault %q: %w", f.from, err)
		}
	}
	return faults, nil
}

// typedFault reads a fault that was typed as KEY=VALUE,...
func typedFault(text string, rack *flowv1.Rack) (sim.Fault, error) {
	fault := map[string]any{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return sim.Fault{}, fmt.Errorf("%q is not of the form key=value", pair)
		}
		key = strings.TrimSpace(key)
		fault[key] = value
		if n, err := strconv.Atoi(value); err == nil && (key == "times" || key == "after") {
			fault[key] = n
		}
	}
	if err := nameComponent(fault, rack); err != nil {
		return sim.Fault{}, fmt.Errorf("component: %w", err)
	}
	doc, err := json.Marshal([]any{fault})
	if err != nil {
		return sim.Fault{}, err
	}
	read, err := sim.ParseFaults(doc)
	if err != nil {
		return sim.Fault{}, errors.New(strings.ReplaceAll(err.Error(), "faults[0].", ""))
	}
	return read[0], nil
}

// nameComponent lets a fault name its component by name.
func nameComponent(fault map[string]any, rack *flowv1.Rack) error {
	name, ok := fault["component"].(string)
	if !ok {
		return nil
	}
	var known []string
	for _, m := range rack.GetComponents() {
		if m.GetInfo().GetName() == name {
			fault["component"] = m.GetInfo().GetId().GetId()
			return nil
		}
		known = append(known, m.GetInfo().GetName())
	}
	if uuid.Validate(name) == nil {
		return nil
	}
	const most = 3
	text := strings.Join(known[:min(len(known), most)], ", ")
	if n := len(known) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("the rack has no component named %q, but %s", name, cmp.Or(line(text), "none at all"))
}

// onRack refuses a fault of a component or of a type that the rack does not have.
func onRack(f sim.Fault, rack *flowv1.Rack) error {
	var types []string
	for _, m := range rack.GetComponents() {
		kind := typeName(m.GetType())
		if m.GetInfo().GetId().GetId() == f.Component.String() {
			if f.Type != "" && string(f.Type) != kind {
				return fmt.Errorf("component %s is of type %s, not %s", line(m.GetInfo().GetName()), kind, f.Type)
			}
			return nil
		}
		if !slices.Contains(types, kind) {
			types = append(types, kind)
		}
	}
	switch {
	case f.Component != uuid.Nil:
		return fmt.Errorf("the rack has no component with id %s", f.Component)
	case f.Type != "" && !slices.Contains(types, string(f.Type)):
		return fmt.Errorf("the rack has no component of type %s, but %s", f.Type, cmp.Or(strings.Join(types, ", "), "none at all"))
	}
	return nil
}

// faultDocument is a fault for scripts, in the keys of --faults.
type faultDocument struct {
	Component string                  `json:"component,omitempty"`
	Type      hardware.ComponentType  `json:"type,omitempty"`
	Call      hardware.Capability     `json:"call,omitempty"`
	Operation hardware.PowerOperation `json:"operation,omitempty"`
	Kind      sim.Kind                `json:"kind"`
	Times     int                     `json:"times,omitempty"`
	After     int                     `json:"after,omitempty"`
	Delay     string                  `json:"delay,omitempty"`
	Text      string                  `json:"text,omitempty"`
	State     string                  `json:"state,omitempty"`
	Met       int                     `json:"met"` // calls it has applied to
}

func (f trialFault) document() faultDocument {
	d := faultDocument{
		Type: f.Type, Call: f.Call, Operation: f.Operation, Kind: f.Kind, Times: f.Times, After: f.After, Text: f.Text, State: f.State,
		Met: f.met,
	}
	if f.Component != uuid.Nil {
		d.Component = f.Component.String()
	}
	if f.Delay > 0 {
		d.Delay = f.Delay.String()
	}
	return d
}

// momentDocument is a moment of a rehearsal for scripts; times are seconds since the start.
type momentDocument struct {
	From          float64 `json:"from_s"`
	To            float64 `json:"to_s"`
	Stage         int     `json:"stage"`
	ComponentType string  `json:"component_type"`
	Action        string  `json:"action"`
	Batch         int     `json:"batch"`
	Batches       int     `json:"batches"`
	Total         int     `json:"total_components"`
	Completed     int     `json:"completed_components"`
	Failed        int     `json:"failed_components"`
	Started       bool    `json:"started,omitempty"`
	Retry         string  `json:"retry,omitempty"`
	Error         string  `json:"error,omitempty"`
}

func (c *cli) printRehearsal(plan rules.Plan, rack *flowv1.Rack, r exec.Rehearsed, faults []trialFault) error {
	scripted := make([]faultDocument, len(faults))
	for i, f := range faults {
		scripted[i] = f.document()
	}
	moments := make([]momentDocument, len(r.Moments))
	for i, m := range r.Moments {
		moments[i] = momentDocument{
			From: m.From.Seconds(), To: m.To.Seconds(), Stage: m.Stage, ComponentType: string(m.Type), Action: string(m.Action.Name),
			Batch: m.Batch, Batches: m.Batches, Total: m.Total, Completed: m.Completed, Failed: m.Failed, Started: m.Started, Retry: m.Retry, Error: m.Error,
		}
	}
	return c.printValue(struct {
		Operation string           `json:"operation"`
		Rule      string           `json:"rule"`
		Status    string           `json:"status"`
		Message   string           `json:"message"`
		Took      float64          `json:"took_s"`
		Faults    []faultDocument  `json:"faults"`
		Moments   []momentDocument `json:"moments"`
		Report    task.Report      `json:"report"`
	}{plan.Operation.String(), plan.RuleName, string(r.State), r.Message, r.Took.Seconds(), scripted, moments, r.Report}, func(w io.Writer) error {
		err := facts(w, [][2]string{
			{"Operation", plan.Operation.String()},
			{"Rule", line(plan.RuleName)},
			{"Rack", line(rack.GetInfo().GetName())},
			{"Result", fmt.Sprintf("%s after %s", r.State, r.Took)},
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(w)
		if err := momentTable(w, r.Moments); err != nil {
			return err
		}
		fmt.Fprintln(w)
		return c.stageTable(w, r.Report, timeline{from: rehearsalStart, to: rehearsalStart.Add(r.Took)})
	})
}

// momentTable has a row for each thing that happened.
func momentTable(w io.Writer, moments []exec.Moment) error {
	rows := make([][]string, len(moments))
	for i, m := range moments {
		result := "done"
		switch {
		case m.Error != "":
			result = "failed" // why is said below
		case m.Retry != "":
			result = "tried again: " + shortened(line(m.Retry), maxCell)
		case m.Started:
			result = "started"
		case m.Progress:
			result = fmt.Sprintf("%d of %d done, %d failed", m.Completed, m.Total, m.Failed)
		}
		batch := ""
		if m.Batches > 1 {
			batch = fmt.Sprintf("%d of %d", m.Batch, m.Batches)
		}
		rows[i] = []string{
			"+" + m.From.String(), (m.To - m.From).String(), strconv.Itoa(m.Stage), string(m.Type),
			strings.TrimSpace(string(m.Action.Name) + " " + m.Action.Detail()), batch, result,
		}
	}
	return grid(w, []string{"AT", "TOOK", "STAGE", "COMPONENTS", "ACTION", "BATCH", "RESULT"}, rows)
}
