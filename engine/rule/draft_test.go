package rule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
)

var (
	powerOn  = rules.Operation{Type: rules.TaskPowerControl, Code: "power_on"}
	powerOff = rules.Operation{Type: rules.TaskPowerControl, Code: "power_off"}
	upgrade  = rules.Operation{Type: rules.TaskFirmwareControl, Code: rules.CodeUpgrade}
)

// one is a definition that only a power rule may have.
const one = `{"steps": [{"component_type": "Compute", "stage": 1, "main_operation": {"name": "PowerControl"}}]}`

func TestAllThatIsWrongWithADraftIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	const (
		definition = "rule_definition_json"
		typeText   = "rules are stored for POWER_CONTROL and FIRMWARE_CONTROL only"
		nameText   = "rule validation failed: rule name is required"
	)
	for name, c := range map[string]struct {
		draft Draft
		text  string
		want  []fault.Violation
	}{
		"a good one": {Draft{Name: "n", Operation: powerOn, Definition: one}, "", nil},
		"a name of 128 characters of several bytes": {
			Draft{Name: strings.Repeat("ä", 128), Operation: powerOn, Definition: `{}`}, "", nil,
		},
		"a name of 129 characters": {
			Draft{Name: strings.Repeat("x", 129), Operation: powerOn, Definition: `{}`},
			"name: rule validation failed: rule name has 129 characters, at most 128 are allowed",
			[]fault.Violation{{Field: "name", Reason: "rule validation failed: rule name has 129 characters, at most 128 are allowed"}},
		},
		"a name of spaces": {
			Draft{Name: " \t", Operation: powerOn, Definition: `{}`},
			"name: " + nameText, []fault.Violation{{Field: "name", Reason: nameText}},
		},
		"a document that is none": {
			Draft{Name: "n", Operation: powerOn, Definition: `[]`},
			definition + ": invalid rule definition: rule definition must be an object, got array",
			[]fault.Violation{{Field: definition, Reason: "rule definition must be an object, got array"}},
		},
		"a type that only built-in rules are for": {
			Draft{Name: "n", Operation: rules.Operation{Type: rules.TaskBringUp, Code: rules.CodeIngest}, Definition: `{}`},
			"operation_type: " + typeText, []fault.Violation{{Field: "operation_type", Reason: typeText}},
		},
		"everything, in the order of the chapter": {
			Draft{Definition: `{"version": 2, "steps": [{"stage": "x"}]}`},
			definition + ": invalid rule definition: version must be of type string, got number; " +
				"step 0: stage must be of type number, got string; also wrong: name, operation_type",
			[]fault.Violation{
				{Field: definition + ":version", Reason: "version must be of type string, got number"},
				{Field: definition + ":steps[0].stage", Reason: "step 0: stage must be of type number, got string"},
				{Field: "name", Reason: nameText},
				{Field: "operation_type", Reason: typeText},
			},
		},
		"a name and what is in the document": {
			Draft{Operation: upgrade, Definition: one},
			"name: " + nameText + "; also wrong: " + definition,
			[]fault.Violation{
				{Field: "name", Reason: nameText},
				{
					Field: definition + ":steps[0].main_operation.parameters.operation",
					Reason: "step 0: main_operation: action PowerControl missing required parameter: operation, " +
						"only a power_control rule has one to inherit",
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := c.draft.check()
			if err == nil {
				if c.text != "" || len(doc) == 0 {
					t.Errorf("not refused, stored as %s; want %q", doc, c.text)
				}
				return
			}
			if err.Error() != c.text || err.Kind != fault.KindInvalid {
				t.Errorf("%v %q, want %q", err.Kind, err, c.text)
			}
			if d := cmp.Diff(c.want, err.Wrong()); d != "" {
				t.Errorf("violations (-want +got):\n%s", d)
			}
		})
	}
}

// TestAChangeIsCheckedForTheTypeOfItsRule also has a rule that does not exist: what no type forgives is wrong with it.
func TestAChangeIsCheckedForTheTypeOfItsRule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change Change
		typ    rules.TaskType
		want   []string
	}{
		"nothing":                    {Change{}, rules.TaskPowerControl, nil},
		"a description":              {Change{Description: new("")}, "", nil},
		"an empty name":              {Change{Name: new("")}, rules.TaskPowerControl, []string{"name"}},
		"an empty document":          {Change{Definition: new("")}, rules.TaskPowerControl, []string{"rule_definition_json"}},
		"what a power rule inherits": {Change{Definition: new(one)}, rules.TaskPowerControl, nil},
		"what a firmware rule does not": {
			Change{Definition: new(one)}, rules.TaskFirmwareControl,
			[]string{"rule_definition_json:steps[0].main_operation.parameters.operation"},
		},
		"what an unknown rule may inherit": {Change{Definition: new(one)}, "", nil},
		"what is wrong for every type": {
			Change{Name: new(""), Definition: new(`{"steps": [{}]}`)}, "",
			[]string{"name", "rule_definition_json:steps[0].component_type", "rule_definition_json:steps[0].stage", "rule_definition_json:steps[0].main_operation"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := c.change.check(c.typ)
			var got []string
			if err != nil {
				for _, v := range err.Wrong() {
					got = append(got, v.Field)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("violations (-want +got):\n%s", d)
			}
			if (doc != nil) != (c.change.Definition != nil && err == nil) {
				t.Errorf("stored as %s", doc)
			}
		})
	}
}
