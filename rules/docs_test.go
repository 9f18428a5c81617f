package rules

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// authored is a rule as sites write them.
type authored struct {
	Name      string          `json:"name"`
	Type      TaskType        `json:"operation_type"`
	Code      string          `json:"operation"`
	IsDefault *bool           `json:"is_default"`
	Steps     json.RawMessage `json:"steps"`
}

// authoredRules reads a batch and fails the test unless each rule in it is good.
func authoredRules(t *testing.T, text []byte) []authored {
	t.Helper()
	doc, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var batch struct {
		Version string
		Rules   []authored
	}
	if err := json.Unmarshal(doc, &batch); err != nil {
		t.Fatal(err)
	}
	if batch.Version != SchemaVersion || len(batch.Rules) == 0 {
		t.Fatalf("%d rules of version %q", len(batch.Rules), batch.Version)
	}
	for _, r := range batch.Rules {
		good(t, r.Name, Operation{r.Type, r.Code}, `{"steps": `+string(r.Steps)+`}`)
	}
	return batch.Rules
}

func good(t *testing.T, name string, op Operation, doc string) {
	t.Helper()
	d, err := ParseStrict([]byte(doc))
	if err == nil {
		err = d.Validate(op)
	}
	if err == nil {
		err = op.Validate()
	}
	if err != nil {
		t.Errorf("%s, %s: %v", name, op, err)
	}
}

var (
	jsonBlock = regexp.MustCompile("(?ms)^```json (\\S+)/(\\S+)\n(.*?)^```$")
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
)

// TestTheRulesOfTheDocsAreGood reads the examples as somebody would who copies them, and holds the page to name every
// operation and every action there is for operators.
func TestTheRulesOfTheDocsAreGood(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	blocks := jsonBlock.FindAllStringSubmatch(text, -1)
	batches := yamlBlock.FindAllStringSubmatch(text, -1)
	if n := strings.Count(text, "\n```json") + strings.Count(text, "\n```yaml"); len(blocks) == 0 || len(batches) == 0 || len(blocks)+len(batches) != n {
		t.Errorf("%d definitions and %d batches are read of %d examples", len(blocks), len(batches), n)
	}
	for _, b := range blocks {
		good(t, b[3], Operation{TaskType(b[1]), b[2]}, b[3])
	}
	for _, b := range batches {
		authoredRules(t, []byte(b[1]))
	}
	for name, spec := range actions {
		if strings.Contains(text, "| `"+string(name)+"` |") != spec.stored {
			t.Errorf("%s: in the table of actions is what operators may use, and nothing else", name)
		}
	}
	for _, typ := range []TaskType{TaskPowerControl, TaskFirmwareControl} {
		if want := "| `" + string(typ) + "` | `" + strings.Join(typ.Codes(), "`, `") + "` |"; !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestTheExampleHasADefaultForEveryOperation also plans each rule for a whole rack: no step of it is skipped.
func TestTheExampleHasADefaultForEveryOperation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/rules/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	left := map[Operation]bool{}
	for _, typ := range []TaskType{TaskPowerControl, TaskFirmwareControl} {
		for _, code := range typ.Codes() {
			left[Operation{typ, code}] = true
		}
	}
	used := map[ActionName]bool{}
	for _, r := range authoredRules(t, text) {
		op := Operation{r.Type, r.Code}
		if !left[op] || r.IsDefault != nil {
			t.Errorf("%s is not the one default of %s", r.Name, op)
		}
		delete(left, op)
		d, err := Parse([]byte(`{"steps": ` + string(r.Steps) + `}`))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := NewPlan(Input{Operation: op, Rule: Rule{Name: r.Name, Definition: d}, Components: []Component{
			{Component: component("PowerShelf", "shelf")}, {Component: component("NVSwitch", "switch")}, {Component: component("Compute", "tray")},
		}})
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		for _, stage := range plan.Stages {
			for _, s := range stage.Steps {
				if len(s.Actions) == 0 {
					t.Errorf("%s: a step of stage %d does nothing", r.Name, stage.Number)
				}
				for _, a := range s.Actions {
					used[a.Name] = true
				}
			}
		}
	}
	for op := range left {
		t.Errorf("there is no rule for %s", op)
	}
	for name, spec := range actions {
		if spec.stored && !used[name] {
			t.Errorf("%s is not shown", name)
		}
	}
}
