package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"rackflow.dev/flow/hardware"
)

// anyDuration is within the bounds of a rule, and above zero when it has to be there.
func anyDuration(needed bool) *rapid.Generator[Duration] {
	return rapid.Custom(func(t *rapid.T) Duration {
		least := int64(0)
		if needed {
			least = 1
		}
		if rapid.Bool().Draw(t, "round") {
			return Duration(rapid.Int64Range(least, 168*60).Draw(t, "minutes")) * Duration(time.Minute)
		}
		return Duration(rapid.Int64Range(least, int64(MaxDuration)).Draw(t, "ns"))
	})
}

func anyAction(internal bool) *rapid.Generator[Action] {
	var names []ActionName
	for name, spec := range actions {
		if spec.stored || internal {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return rapid.Custom(func(t *rapid.T) Action {
		name := rapid.SampledFrom(names).Draw(t, "name")
		spec := actions[name]
		a := Action{
			Name:         name,
			Timeout:      anyDuration(spec.needsTimeout).Draw(t, "timeout"),
			PollInterval: anyDuration(spec.needsPollInterval).Draw(t, "poll interval"),
			Parameters:   Parameters{},
		}
		switch name {
		case ActionSleep:
			a.Parameters["duration"] = anyDuration(false).Draw(t, "duration").String()
		case ActionPowerControl:
			a.Parameters["operation"] = string(rapid.SampledFrom(hardware.PowerOperations).Draw(t, "operation"))
		case ActionVerifyPowerStatus:
			a.Parameters["expected_status"] = rapid.SampledFrom([]string{"on", "off"}).Draw(t, "status")
		case ActionVerifyReachability:
			var list []any
			for _, typ := range rapid.SliceOfN(rapid.SampledFrom(hardware.ComponentTypes), 1, 4).Draw(t, "types") {
				list = append(list, string(typ))
			}
			a.Parameters["component_types"] = list
		case ActionFirmwareControl:
			a.Parameters["poll_timeout"] = json.Number(fmt.Sprint(int64(anyDuration(false).Draw(t, "poll timeout"))))
		}
		key := rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) })
		a.Parameters[key.Draw(t, "unknown key")] = rapid.SampledFrom([]any{
			nil, true, "<&>\u2028", json.Number("1.50"), []any{}, map[string]any{"": json.Number("1e3")},
		}).Draw(t, "unknown value")
		return a
	})
}

// anyDefinition is one that validates.
func anyDefinition(internal bool) *rapid.Generator[Definition] {
	return rapid.Custom(func(t *rapid.T) Definition {
		d := Definition{Version: SchemaVersion}
		type slot struct {
			stage int
			typ   hardware.ComponentType
		}
		slots := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) slot {
			return slot{rapid.IntRange(1, 5).Draw(t, "stage"), rapid.SampledFrom(hardware.ComponentTypes).Draw(t, "type")}
		}), 1, 8, rapid.ID).Draw(t, "slots")
		list := rapid.SliceOfN(anyAction(internal), 0, 2)
		for _, s := range slots {
			step := Step{
				ComponentType: s.typ, Stage: s.stage,
				MaxParallel: rapid.IntRange(0, 5).Draw(t, "max parallel"),
				Timeout:     anyDuration(false).Draw(t, "timeout"),
				DelayAfter:  anyDuration(false).Draw(t, "delay"),
				Main:        anyAction(internal).Draw(t, "main"),
			}
			step.Pre = append(step.Pre, list.Draw(t, "pre")...)
			step.Post = append(step.Post, list.Draw(t, "post")...)
			if rapid.Bool().Draw(t, "retry") {
				initial := anyDuration(true).Draw(t, "initial")
				step.Retry = &Retry{
					rapid.IntRange(1, 100).Draw(t, "attempts"), initial,
					rapid.Float64Range(1, 1e6).Draw(t, "coefficient"),
					rapid.SampledFrom([]Duration{0, initial, MaxDuration}).Draw(t, "max interval"),
				}
			}
			d.Steps = append(d.Steps, step)
		}
		return d
	})
}

func anyComponents() *rapid.Generator[[]Component] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Component {
		position := rapid.IntRange(-1, 3)
		return Component{
			Component: hardware.Component{
				ID:         uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
				RackID:     rack,
				Type:       rapid.SampledFrom(hardware.ComponentTypes).Draw(t, "type"),
				Name:       rapid.StringMatching(`[a-c]?`).Draw(t, "name"),
				ExternalID: rapid.StringMatching(`[a-z"]*`).Draw(t, "external id"),
			},
			Slot: position.Draw(t, "slot"), Tray: position.Draw(t, "tray"), Host: position.Draw(t, "host"),
		}
	}), 1, 12)
}

func TestAValidDefinitionValidatesAndReadsBackFromItsCanonicalForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := anyDefinition(false).Draw(t, "definition")
		if err := d.Validate(powerOn); err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseStrict(doc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Fatalf("read back (-written +read):\n%s", diff)
		}
	})
}

func TestPlanLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := Input{
			Operation:  Operation{TaskBringUp, CodeBringUp},
			Rule:       Rule{Name: "r", Definition: anyDefinition(true).Draw(t, "definition")},
			Components: anyComponents().Draw(t, "components"),
		}
		p, err := NewPlan(in)
		applies := slices.ContainsFunc(in.Rule.Definition.Steps, func(s Step) bool {
			return slices.ContainsFunc(in.Components, func(c Component) bool { return c.Type == s.ComponentType })
		})
		if applies != (err == nil) {
			t.Fatalf("a step applies: %t, planning: %v", applies, err)
		}
		if err != nil {
			return
		}
		stepsAreThoseOfTheRule(t, in, p)
		componentsAreThoseTargeted(t, in, p)
		budgetsHoldTheReference(t, in, p)
		if diff := cmp.Diff(p, stored(t, p)); diff != "" {
			t.Fatalf("stored (-planned +read):\n%s", diff)
		}
	})
}

func stepsAreThoseOfTheRule(t *rapid.T, in Input, p Plan) {
	if !slices.IsSortedFunc(p.Stages, func(a, b PlanStage) int { return a.Number - b.Number }) {
		t.Fatal("stages do not ascend")
	}
	count := 0
	for _, stage := range p.Stages {
		var want, got []hardware.ComponentType
		for _, s := range in.Rule.Definition.Steps {
			if s.Stage == stage.Number {
				want = append(want, s.ComponentType)
			}
		}
		for _, s := range stage.Steps {
			got = append(got, s.ComponentType)
		}
		if !slices.Equal(want, got) {
			t.Fatalf("stage %d has steps for %v, want %v", stage.Number, got, want)
		}
		count += len(got)
	}
	if count != len(in.Rule.Definition.Steps) {
		t.Fatalf("%d steps planned, want %d", count, len(in.Rule.Definition.Steps))
	}
}

func componentsAreThoseTargeted(t *rapid.T, in Input, p Plan) {
	total := 0
	for typ, list := range p.Components {
		total += len(list)
		for _, c := range list {
			if !slices.ContainsFunc(in.Components, func(i Component) bool { return i.Component == c && c.Type == typ }) {
				t.Fatalf("%s is not targeted as %s", c.Label(), typ)
			}
		}
	}
	if total != len(in.Components) {
		t.Fatalf("%d components planned, want %d", total, len(in.Components))
	}
	for _, stage := range p.Stages {
		for _, s := range stage.Steps {
			list := p.Components[s.ComponentType]
			if s.Skipped != (len(list) == 0) || s.Skipped != (len(s.Actions) == 0) {
				t.Fatalf("%s with %d components and %d actions is skipped: %t", s.ComponentType, len(list), len(s.Actions), s.Skipped)
			}
			for _, a := range s.Actions {
				batches := p.Batches(s, a)
				if !slices.Equal(slices.Concat(batches...), list) || len(batches) != batchCount(a.Name, s.MaxParallel, len(list)) {
					t.Fatalf("%s has batches %v of %v", a.Name, batches, list)
				}
			}
		}
	}
}

func budgetsHoldTheReference(t *rapid.T, in Input, p Plan) {
	for _, stage := range p.Stages {
		for _, s := range stage.Steps {
			if s.Skipped {
				continue
			}
			i := slices.IndexFunc(in.Rule.Definition.Steps, func(d Step) bool {
				return d.Stage == stage.Number && d.ComponentType == s.ComponentType
			})
			if least := referenceBudget(in.Rule.Definition.Steps[i], len(p.Components[s.ComponentType])); s.Budget < least {
				t.Fatalf("budget %s is below the reference's %s", s.Budget, least)
			}
			if p.Budget < s.Budget {
				t.Fatalf("task budget %s is below the step's %s", p.Budget, s.Budget)
			}
		}
	}
}

func TestWaitsNeverShrinkAndStayWithinTheCap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{
			MaxAttempts:        100,
			InitialInterval:    anyDuration(true).Draw(t, "initial"),
			BackoffCoefficient: rapid.Float64Range(1, 1e300).Draw(t, "coefficient"),
		}
		r.MaxInterval = rapid.SampledFrom([]Duration{0, r.InitialInterval, MaxDuration}).Draw(t, "max interval")
		limit := time.Duration(r.MaxInterval)
		if limit == 0 {
			limit = 100 * time.Duration(r.InitialInterval)
		}
		last := time.Duration(0)
		for n := 1; n < r.MaxAttempts; n++ {
			wait := r.Wait(n)
			if wait < last || wait <= 0 || wait > limit {
				t.Fatalf("wait %d is %s after %s, limit %s", n, wait, last, limit)
			}
			last = wait
		}
	})
}
