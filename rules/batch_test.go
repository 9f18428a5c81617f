package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
)

// minimalBatch is the smallest file of the specification.
const minimalBatch = `version: v1
rules:
  - name: site power on
    operation_type: power_control
    operation: power_on
    steps:
      - component_type: powershelf
        stage: 1
        max_parallel: 1
        timeout: 10m
        retry: {max_attempts: 2, initial_interval: 10s, backoff_coefficient: 1.5}
        main_operation: {name: PowerControl}
        post_operation:
          - {name: VerifyPowerStatus, timeout: 4m, poll_interval: 15s, parameters: {expected_status: "on"}}
  - name: site power off
    operation_type: power_control
    operation: power_off
    steps: [{component_type: compute, stage: 1, main_operation: {name: PowerControl}}]
`

// oneRule is a batch of one rule that is no default, with some lines put into it. They may overwrite what it has.
func oneRule(lines string) string {
	rule := []string{"name: night", "operation_type: power_control", "operation: power_on", "is_default: false", "steps: []"}
	text := "rules:\n  -\n"
	for _, l := range rule {
		key, _, _ := strings.Cut(l, ":")
		if !strings.Contains("\n"+lines, "\n"+key+":") {
			text += "    " + l + "\n"
		}
	}
	for _, l := range strings.Split(lines, "\n") {
		text += "    " + l + "\n"
	}
	return text
}

// yamlStep is oneRule with a step of some keys, in flow style.
func yamlStep(keys string) string {
	for _, key := range []string{"component_type: Compute", "stage: 1", "main_operation: {name: PowerControl}"} {
		name, _, _ := strings.Cut(key, ":")
		if !strings.Contains(keys, name+":") {
			keys = key + ", " + keys
		}
	}
	return oneRule("steps: [{" + strings.TrimSuffix(keys, ", ") + "}]")
}

func TestParseBatchReadsTheExampleOfTheSpecification(t *testing.T) {
	t.Parallel()
	got, err := ParseBatchStrict([]byte(minimalBatch))
	if err != nil {
		t.Fatal(err)
	}
	want := []Draft{
		{
			Name: "site power on", Operation: Operation{TaskPowerControl, "power_on"}, IsDefault: true,
			Definition: Definition{Version: "v1", Steps: []Step{{
				ComponentType: hardware.PowerShelf, Stage: 1, MaxParallel: 1, Timeout: Duration(10 * time.Minute),
				Retry: &Retry{MaxAttempts: 2, InitialInterval: Duration(10 * time.Second), BackoffCoefficient: 1.5},
				Main:  Action{Name: ActionPowerControl},
				Post: []Action{{
					Name: ActionVerifyPowerStatus, Timeout: Duration(4 * time.Minute), PollInterval: Duration(15 * time.Second),
					Parameters: Parameters{"expected_status": "on"},
				}},
			}}},
		},
		{
			Name: "site power off", Operation: Operation{TaskPowerControl, "power_off"}, IsDefault: true,
			Definition: Definition{Version: "v1", Steps: []Step{{
				ComponentType: hardware.Compute, Stage: 1, Main: Action{Name: ActionPowerControl},
			}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drafts (-want +got):\n%s", diff)
	}
}

func TestTheExampleBatchLoads(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/rules/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if drafts, err := ParseBatchStrict(text); err != nil || len(drafts) == 0 {
		t.Errorf("%d rules: %v", len(drafts), err)
	}
}

func TestParseBatchReads(t *testing.T) {
	t.Parallel()
	night := func(change func(*Draft)) []Draft {
		d := Draft{Name: "night", Operation: Operation{TaskPowerControl, "power_on"}, Definition: Definition{Version: "v1"}}
		change(&d)
		return []Draft{d}
	}
	step := func(change func(*Step)) []Draft {
		return night(func(d *Draft) {
			s := Step{ComponentType: hardware.Compute, Stage: 1, Main: Action{Name: ActionPowerControl}}
			change(&s)
			d.Definition.Steps = []Step{s}
		})
	}
	verify := func(parameters Parameters) []Draft {
		return step(func(s *Step) {
			s.Main = Action{
				Name: ActionVerifyPowerStatus, Timeout: Duration(time.Minute), PollInterval: Duration(time.Second), Parameters: parameters,
			}
		})
	}
	tests := map[string]struct {
		doc  string
		want []Draft
	}{
		"no rules as nothing to do":           {"rules: []", nil},
		"no rules as an empty value":          {"Rules:", nil},
		"a byte order mark":                   {"\ufeffrules:\n- {name: night, operation_type: power_control, operation: power_on, is_default: false}", night(func(*Draft) {})},
		"an empty version as v1":              {"version: ''\nrules: []", nil},
		"the marks around a document":         {"---\nrules:\n...\n", nil},
		"a rule that is no default alone":     {oneRule("description: at night"), night(func(d *Draft) { d.Description = "at night" })},
		"keys in any letter case":             {"Rules:\n- {NAME: night, Operation_Type: power_control, operation: power_on, is_default: false}", night(func(*Draft) {})},
		"unknown keys as nothing":             {oneRule("colour: red"), night(func(*Draft) {})},
		"numbers as text where text is meant": {oneRule("name: 0x1F\ndescription: 1.50"), night(func(d *Draft) { d.Name, d.Description = "0x1F", "1.50" })},
		"truth values as text likewise":       {oneRule("name: True"), night(func(d *Draft) { d.Name = "True" })},
		"null as absent":                      {oneRule("description: ~\nsteps:"), night(func(*Draft) {})},
		"an unquoted on as text": {
			yamlStep("main_operation: {name: VerifyPowerStatus, timeout: 1m, poll_interval: 1s, parameters: {expected_status: on}}"),
			verify(Parameters{"expected_status": "on"}),
		},
		"an unquoted off as text": {
			yamlStep("main_operation: {name: VerifyPowerStatus, timeout: 1m, poll_interval: 1s, parameters: {expected_status: off}}"),
			verify(Parameters{"expected_status": "off"}),
		},
		"a duration of sleep as the text it is": {
			yamlStep("main_operation: {name: Sleep, parameters: {duration: 90s}}"),
			step(func(s *Step) { s.Main = Action{Name: ActionSleep, Parameters: Parameters{"duration": "90s"}} }),
		},
		"a number for it as nanoseconds": {
			yamlStep("main_operation: {name: Sleep, parameters: {duration: 5_000_000_000}}"),
			step(func(s *Step) {
				s.Main = Action{Name: ActionSleep, Parameters: Parameters{"duration": json.Number("5000000000")}}
			}),
		},
		"a zero without unit as no timeout": {yamlStep("timeout: 0"), step(func(*Step) {})},
		"parameters of every kind": {
			yamlStep("main_operation: {name: PowerControl, parameters: {a: [1, 1.50, .5, true, ~], b: {c: '.inf'}, 7: x}}"),
			step(func(s *Step) {
				s.Main.Parameters = Parameters{
					"a": []any{json.Number("1"), json.Number("1.50"), json.Number("0.5"), true, nil},
					"b": map[string]any{"c": ".inf"}, "7": "x",
				}
			}),
		},
		"anchors, aliases and merge keys": {
			"rules:\n- &a {name: x, operation_type: power_control, operation: power_on, is_default: false}\n- {<<: *a, name: y}\n- {<<: *a, name: z}\n",
			[]Draft{
				{Name: "x", Operation: Operation{TaskPowerControl, "power_on"}, Definition: Definition{Version: "v1"}},
				{Name: "y", Operation: Operation{TaskPowerControl, "power_on"}, Definition: Definition{Version: "v1"}},
				{Name: "z", Operation: Operation{TaskPowerControl, "power_on"}, Definition: Definition{Version: "v1"}},
			},
		},
		"tags that say what is there anyway": {oneRule("name: !!str 5\nis_default: !!bool false"), night(func(d *Draft) { d.Name = "5" })},
		"blocks of text":                     {oneRule("description: |\n  a\n  b\nname: >-\n  c\n  d"), night(func(d *Draft) { d.Name, d.Description = "c d", "a\nb\n" })},
		"JSON":                               {`{"rules": [{"name": "night", "operation_type": "power_control", "operation": "power_on", "is_default": false}]}`, night(func(*Draft) {})},
		"a YAML 1.1 directive as of 1.2":     {"%YAML 1.1\n---\n" + oneRule("name: on"), night(func(d *Draft) { d.Name = "on" })},
		"a number beyond all numbers, where text is wanted": {oneRule("name: 1e400"), night(func(d *Draft) { d.Name = "1e400" })},
		"rules of the same name for several operations": {
			oneRule("") + strings.TrimPrefix(oneRule("operation: restart"), "rules:\n"),
			append(night(func(*Draft) {}), night(func(d *Draft) { d.Operation.Code = "restart" })...),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseBatch([]byte(tt.doc))
			if err != nil {
				t.Fatalf("%v in\n%s", err, tt.doc)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("drafts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseBatchRefuses(t *testing.T) {
	t.Parallel()
	const first = "rule 0 (night) from YAML file: "
	const invalid = "invalid rule 0 from YAML file: night: "
	missing := func(code string, typ TaskType) Problem {
		return Problem{"rules", fmt.Sprintf("required operation '%s' missing for operation type %s", code, typ)}
	}
	tests := map[string]struct {
		doc  string
		want Problems
	}{
		"an empty file":     {"", Problems{{"", "batch of rules must be an object, got null"}}},
		"a file of remarks": {"# later\n", Problems{{"", "batch of rules must be an object, got null"}}},
		"text that is not YAML": {
			"rules: [", Problems{{"", "failed to parse YAML: line 1, column 8: sequence end token ']' not found"}},
		},
		"a key behind a key": {
			"a: b: c", Problems{{"", "failed to parse YAML: line 1, column 4: mapping value is not allowed in this context"}},
		},
		"text that is not UTF-8": {"rules: \xff", Problems{{"", "failed to parse YAML: the text is not UTF-8"}}},
		"a second document": {
			"rules: []\n---\nrules: []\n", Problems{{"", "failed to parse YAML: line 3, column 6: a second document begins"}},
		},
		"an alias of nothing": {
			"rules: *all", Problems{{"", "failed to parse YAML: line 1, column 8: alias 'all' has no anchor before it"}},
		},
		"a value that holds itself": {
			"rules: &all [*all]", Problems{{"", "failed to parse YAML: line 1, column 14: alias 'all' has no anchor before it"}},
		},
		"a tag of somebody else": {
			"rules: !site []", Problems{{"", "failed to parse YAML: line 1, column 8: tag '!site' is not supported"}},
		},
		"a misspelt key":            {"rule: []", Problems{{"rules", "the file has no key 'rules'"}}},
		"nothing but a version":     {"version: v1", Problems{{"rules", "the file has no key 'rules'"}}},
		"a list":                    {"- a", Problems{{"", "batch of rules must be an object, got array"}}},
		"another version":           {"version: v2\nrules: []", Problems{{"version", "unsupported version 'v2', want 'v1'"}}},
		"a version that is no text": {"version: 1\nrules: []", Problems{{"version", "unsupported version '1', want 'v1'"}}},
		"rules that are no list":    {"rules: {}", Problems{{"rules", "rules must be of type array, got object"}}},
		"a rule that is none": {
			"rules: [~]", Problems{{"rules[0]", "rule 0 (no name) from YAML file: rule must be an object, got null"}},
		},
		"a rule without a name": {
			oneRule("name: ''"), Problems{{"rules[0].name", "invalid rule 0 from YAML file: no name: rule name is required"}},
		},
		"a name that is too long": {
			oneRule("name: " + strings.Repeat("é", 129)),
			Problems{{"rules[0].name", "invalid rule 0 from YAML file: " + strings.Repeat("é", 64) +
				"...: rule name has 129 characters, at most 128 are allowed"}},
		},
		"a name that the database can't hold": {
			oneRule(`name: "a\0b"`), Problems{{"rules[0].name", `invalid rule 0 from YAML file: a\x00b: name contains a NUL character`}},
		},
		"no operation type": {
			oneRule("operation_type:"),
			Problems{{"rules[0].operation_type", invalid + "operation type '' has no stored rules: use power_control or firmware_control"}},
		},
		"a name of spaces": {
			oneRule("name: ' '"), Problems{{"rules[0].name", "invalid rule 0 from YAML file:  : rule name is required"}},
		},
		"an operation type that there is none of, once": {
			oneRule("operation_type: power_contol\nsteps: [{component_type: CDU, stage: 0, main_operation: {name: PowerControl}}]"),
			Problems{
				{"rules[0].operation_type", invalid + "operation type 'power_contol' has no stored rules: use power_control or firmware_control"},
				{"rules[0].steps[0].stage", invalid + "step 0: stage must be >= 1, got 0"},
			},
		},
		"a coefficient that is not a number": {
			yamlStep("retry: {max_attempts: 2, initial_interval: 1s, backoff_coefficient: .nan}"),
			Problems{{"rules[0].steps[0].retry.backoff_coefficient",
				first + "step[0] (Compute): retry: backoff_coefficient: .nan is no number that can be stored"}},
		},
		"a coefficient beyond all numbers": {
			yamlStep("retry: {max_attempts: 2, initial_interval: 1s, backoff_coefficient: 1e400}"),
			Problems{{"rules[0].steps[0].retry.backoff_coefficient",
				first + "step[0] (Compute): retry: backoff_coefficient: 1e400 is no number that can be stored"}},
		},
		"a parameter without end": {
			yamlStep("main_operation: {name: PowerControl, parameters: {a: {b: .inf}}}"),
			Problems{{"rules[0].steps[0].main_operation.parameters.a",
				first + "step[0] (Compute): main_operation: parameter 'a' holds a number out of range, .inf"}},
		},
		"bring-up": {
			oneRule("operation_type: bring_up\noperation: bring_up"),
			Problems{{"rules[0].operation_type", invalid + "operation type 'bring_up' has no stored rules: use power_control or firmware_control"}},
		},
		"decommission": {
			oneRule("operation_type: decommission\noperation: decommission"),
			Problems{{"rules[0].operation_type", invalid + "operation type 'decommission' has no stored rules: use power_control or firmware_control"}},
		},
		"an operation of another type": {
			oneRule("operation: upgrade"),
			Problems{{"rules[0].operation", invalid + "invalid operation code 'upgrade' for operation type 'power_control'"}},
		},
		"is_default in text": {
			oneRule("is_default: 'no'"), Problems{{"rules[0].is_default", first + "is_default must be of type bool, got string"}},
		},
		"is_default in a word of YAML 1.1": {
			oneRule("is_default: yes"), Problems{{"rules[0].is_default", first + "is_default must be of type bool, got string"}},
		},
		"a key that stands twice": {
			oneRule("description: a\ndescription: b"), Problems{{"rules[0].description", first + "duplicate key 'description'"}},
		},
		"a key that stands twice in a step": {
			yamlStep("stage: 1, Stage: 2"), Problems{{"rules[0].steps[0].stage", first + "step[0] (Compute): duplicate key 'stage'"}},
		},
		"a timeout without a unit": {
			yamlStep("timeout: 30"),
			Problems{{"rules[0].steps[0].timeout", first + "step[0] (Compute): invalid timeout ('30'): no duration such as 90s or 1h30m"}},
		},
		"a duration in retry": {
			yamlStep("retry: {max_attempts: 2, initial_interval: soon, backoff_coefficient: 1}"),
			Problems{{"rules[0].steps[0].retry.initial_interval",
				first + "step[0] (Compute): retry: invalid initial_interval ('soon'): no duration such as 90s or 1h30m"}},
		},
		"a duration of the main action": {
			yamlStep("main_operation: {name: PowerControl, timeout: 1d}"),
			Problems{{"rules[0].steps[0].main_operation.timeout",
				first + "step[0] (Compute): main_operation: invalid timeout ('1d'): no duration such as 90s or 1h30m"}},
		},
		"a duration of another action": {
			yamlStep("component_type: powershelf, post_operation: [{name: GetPowerStatus, timeout: 5m}, {name: GetPowerStatus, timeout: 5}]"),
			Problems{{"rules[0].steps[0].post_operation[1].timeout",
				first + "step[0] (powershelf): post_operation: action[1]: invalid timeout ('5'): no duration such as 90s or 1h30m"}},
		},
		"a stage in text": {
			yamlStep("stage: '1'"), Problems{{"rules[0].steps[0].stage", first + "step[0] (Compute): stage must be of type number, got string"}},
		},
		"a step without a type": {
			yamlStep("component_type: '', timeout: x"),
			Problems{{"rules[0].steps[0].timeout", first + "step[0]: invalid timeout ('x'): no duration such as 90s or 1h30m"}},
		},
		"a rule that makes no sense, in all its steps": {
			oneRule("steps:\n- {component_type: Compute, stage: 0, main_operation: {name: PowerControl}}\n- {component_type: CDU, stage: 1}"),
			Problems{
				{"rules[0].steps[0].stage", invalid + "step 0: stage must be >= 1, got 0"},
				{"rules[0].steps[1].main_operation", invalid + "step 1: main_operation is required"},
			},
		},
		"the legacy form without a main operation": {
			yamlStep("delay_after: 10s, main_operation: {}"),
			Problems{{"rules[0].steps[0].main_operation", invalid + "step 0: main_operation is required"}},
		},
		"a sleep that is no duration": {
			yamlStep("main_operation: {name: Sleep, parameters: {duration: '5'}}"),
			Problems{{"rules[0].steps[0].main_operation.parameters.duration",
				invalid + "step 0: main_operation: action Sleep parameter duration '5' is no duration such as 90s or 1h30m"}},
		},
		"an action that is reserved": {
			yamlStep("main_operation: {name: BringUpControl}"),
			Problems{{"rules[0].steps[0].main_operation.name", invalid + "step 0: main_operation: unknown action: BringUpControl"}},
		},
		"a firmware rule that inherits a power operation": {
			oneRule("operation_type: firmware_control\noperation: upgrade\nsteps: [{component_type: CDU, stage: 1, main_operation: {name: PowerControl}}]"),
			Problems{{"rules[0].steps[0].main_operation.parameters.operation", invalid + "step 0: main_operation: action PowerControl " +
				"missing required parameter: operation, only a power_control rule has one to inherit"}},
		},
		"two defaults for an operation": {
			minimalBatch + strings.TrimPrefix(oneRule("is_default: true\noperation: power_off"), "rules:\n"),
			Problems{{"rules[2]", "duplicate rule night for operation type power_control: there is another default rule for power_off"}},
		},
		"two rules of one name for an operation": {
			oneRule("") + strings.TrimPrefix(oneRule("description: again"), "rules:\n"),
			Problems{{"rules[1].name", "duplicate rule night for operation type power_control: rule 0 has the same name and is for power_on as well"}},
		},
		"the name of a default": {
			minimalBatch + strings.TrimPrefix(oneRule("name: site power on"), "rules:\n"),
			Problems{{"rules[2].name", "duplicate rule site power on for operation type power_control: rule 0 has the same name and is for power_on as well"}},
		},
		"a default without those it needs": {
			oneRule("is_default: true\noperation: restart"),
			Problems{missing("power_on", TaskPowerControl), missing("power_off", TaskPowerControl)},
		},
		"needed rules that are no defaults": {
			"rules:\n- {name: a, operation_type: firmware_control, operation: rollback}\n" +
				"- {name: b, operation_type: firmware_control, operation: upgrade, is_default: false}\n",
			Problems{missing("upgrade", TaskFirmwareControl)},
		},
		"what several rules have wrong, in their order": {
			"version: v3\nrules:\n- {name: a, operation_type: power_control, operation: on}\n" +
				"- {name: b, operation_type: power_control, operation: power_off, steps: [{timeout: 1}]}\n",
			Problems{
				{"version", "unsupported version 'v3', want 'v1'"},
				{"rules[0].operation", "invalid rule 0 from YAML file: a: invalid operation code 'on' for operation type 'power_control'"},
				{"rules[1].steps[0].timeout", "rule 1 (b) from YAML file: step[0]: invalid timeout ('1'): no duration such as 90s or 1h30m"},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseBatch([]byte(tt.doc))
			got, ok := errors.AsType[Problems](err)
			if !ok {
				t.Fatalf("got %v, want Problems", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseBatchStrictNamesUnknownKeysAndWhatElseIsWrong(t *testing.T) {
	t.Parallel()
	doc := "site: x\n" + oneRule("nmae: y\nsteps: [{stage: 0, component_type: CDU, main_operation: {name: PowerControl, wait: 3, parameters: {any: 1}}}]")
	_, err := ParseBatchStrict([]byte(doc))
	want := Problems{
		{"site", "unknown key 'site'"},
		{"rules[0].nmae", "rule 0 (night) from YAML file: unknown key 'nmae'"},
		{"rules[0].steps[0].main_operation.wait", "rule 0 (night) from YAML file: step[0] (CDU): main_operation: unknown key 'wait'"},
		{"rules[0].steps[0].stage", "invalid rule 0 from YAML file: night: step 0: stage must be >= 1, got 0"},
	}
	got, _ := errors.AsType[Problems](err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestAliasesOfAliasesAreBounded(t *testing.T) {
	t.Parallel()
	doc := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		doc += fmt.Sprintf("%c: &%c [", c, c) + strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10) + "]\n"
	}
	_, err := ParseBatch([]byte(doc))
	if err == nil || !strings.Contains(err.Error(), "with its aliases written out the document has more than") {
		t.Errorf("got %v", err)
	}
}

func TestProblemsOfABatchAreBounded(t *testing.T) {
	t.Parallel()
	_, err := ParseBatch([]byte("rules:\n" + strings.Repeat("- {operation_type: power_control, steps: [3, 4]}\n", 3000)))
	_, same := ParseBatch([]byte("rules:\n" + strings.Repeat("- {name: a, operation_type: power_control, operation: restart}\n", 3000)))
	for _, err := range []error{err, same} {
		problems, _ := errors.AsType[Problems](err)
		if n := len(problems); n < maxOfBatch || n > maxOfBatch+10 {
			t.Errorf("%d problems", n)
		}
	}
}

// FuzzParseBatch holds: nothing panics, and what was read is valid, and reads back from its canonical form as the same.
func FuzzParseBatch(f *testing.F) {
	f.Add([]byte(minimalBatch))
	f.Add([]byte(oneRule("description: |\n  a\nname: &a !!str 5")))
	f.Add([]byte("rules:\n- &a {name: x, operation_type: power_control, operation: power_on, is_default: false}\n- {<<: [*a, {b: 1}], ? name : y}\n"))
	f.Add([]byte("%YAML 1.1\n---\nrules: ['a', \"b\\0\", 0x1F, .5, 1., .nan, ~, yes]\n...\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		drafts, err := ParseBatch(doc)
		if err != nil {
			if text := err.Error(); strings.Contains(text, "\n") {
				t.Errorf("more than a line: %q", text)
			}
			return
		}
		for _, d := range drafts {
			if err := d.Definition.Validate(d.Operation); err != nil {
				t.Error(err)
			}
			canonical, err := json.Marshal(d.Definition)
			if err != nil {
				t.Fatal(err)
			}
			again, err := ParseStrict(canonical)
			if err != nil {
				t.Fatalf("%s: %v", canonical, err)
			}
			if diff := cmp.Diff(d.Definition, again); diff != "" {
				t.Errorf("read again (-first +second):\n%s", diff)
			}
		}
	})
}
