package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
)

// oneStep puts members into a step that is valid without them.
func oneStep(members string) string {
	if !strings.Contains(members, `"main_operation"`) {
		members += `, "main_operation": {"name": "PowerControl"}`
	}
	if !strings.Contains(members, `"component_type"`) {
		members += `, "component_type": "Compute"`
	}
	if !strings.Contains(members, `"stage"`) {
		members += `, "stage": 1`
	}
	return `{"steps": [{` + strings.TrimPrefix(members, ",") + `}]}`
}

func TestParseRefusesWhatHasTheWrongForm(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		doc  string
		want Problems
	}{
		"empty text":                  {``, Problems{{"", "not valid JSON: unexpected end of JSON input (at byte 0)"}}},
		"text that is not JSON":       {`{"steps": [}`, Problems{{"", "not valid JSON: invalid character '}' looking for beginning of value (at byte 12)"}}},
		"trailing text":               {`{} x`, Problems{{"", "not valid JSON: invalid character 'x' after top-level value (at byte 4)"}}},
		"a second document":           {`{}{}`, Problems{{"", "not valid JSON: invalid character '{' after top-level value (at byte 3)"}}},
		"a bare null":                 {` null `, Problems{{"", "rule definition must be an object, got null"}}},
		"an array":                    {`[]`, Problems{{"", "rule definition must be an object, got array"}}},
		"another version":             {`{"version":"v2","steps":[]}`, Problems{{"version", "unsupported rule definition version 'v2', want 'v1'"}}},
		"a version that is no string": {`{"version":1}`, Problems{{"version", "version must be of type string, got number"}}},
		"steps that are no array":     {`{"steps":{}}`, Problems{{"steps", "steps must be of type array, got object"}}},
		"a step that is no object":    {`{"steps":[true]}`, Problems{{"steps[0]", "step 0: step must be an object, got bool"}}},
		"a key that stands twice": {
			oneStep(`"stage": 1, "Stage": 2`),
			Problems{{"steps[0].stage", "step 0: duplicate key 'stage'"}},
		},
		"a parameter that stands twice": {
			oneStep(`"main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on", "operation": "power_off"}}`),
			Problems{{"steps[0].main_operation.parameters.operation", "step 0: main_operation: duplicate parameter 'operation'"}},
		},
		"a component type in another spelling": {
			oneStep(`"component_type": "power_shelf"`),
			Problems{{"steps[0].component_type", "step 0: component type 'power_shelf' is unknown or invalid"}},
		},
		"a component type that is no string": {
			oneStep(`"component_type": 3`),
			Problems{{"steps[0].component_type", "step 0: component_type must be of type string, got number"}},
		},
		"a stage in text": {
			oneStep(`"stage": "1"`),
			Problems{{"steps[0].stage", "step 0: stage must be of type number, got string"}},
		},
		"a stage with a fraction": {
			oneStep(`"stage": 1.5`),
			Problems{{"steps[0].stage", "step 0: stage must be a whole number of 32 bits, got 1.5"}},
		},
		"a stage beyond 32 bits": {
			oneStep(`"stage": 3000000000`),
			Problems{{"steps[0].stage", "step 0: stage must be a whole number of 32 bits, got 3000000000"}},
		},
		"a timeout as a number": {
			oneStep(`"timeout": 600`),
			Problems{{"steps[0].timeout", "step 0: timeout must be of type string, got number"}},
		},
		"a timeout without a unit": {
			oneStep(`"timeout": "600"`),
			Problems{{"steps[0].timeout", "step 0: invalid timeout: '600' is no duration such as 90s or 1h30m"}},
		},
		"a timeout in days": {
			oneStep(`"timeout": "1d"`),
			Problems{{"steps[0].timeout", "step 0: invalid timeout: '1d' is no duration such as 90s or 1h30m"}},
		},
		"an interval that is no duration": {
			oneStep(`"retry": {"initial_interval": "abc"}`),
			Problems{{"steps[0].retry.initial_interval", "step 0: invalid retry policy: invalid initial_interval: 'abc' is no duration such as 90s or 1h30m"}},
		},
		"a retry that is no object": {
			oneStep(`"retry": 3`),
			Problems{{"steps[0].retry", "step 0: invalid retry policy: retry must be an object, got number"}},
		},
		"a coefficient beyond every number": {
			oneStep(`"retry": {"backoff_coefficient": 1e999}`),
			Problems{{"steps[0].retry.backoff_coefficient", "step 0: invalid retry policy: backoff_coefficient: 1e999 is no number that can be stored"}},
		},
		"an action that is no object": {
			oneStep(`"post_operation": ["Sleep"]`),
			Problems{{"steps[0].post_operation[0]", "step 0: post_operation[0]: action must be an object, got string"}},
		},
		"parameters that are no object": {
			oneStep(`"main_operation": {"name": "PowerControl", "parameters": []}`),
			Problems{{"steps[0].main_operation.parameters", "step 0: main_operation: parameters must be of type object, got array"}},
		},
		"a parameter the database cannot hold": {
			oneStep(`"main_operation": {"name": "PowerControl", "parameters": {"note": [{"a": "\u0000"}]}}`),
			Problems{{"steps[0].main_operation.parameters.note", "step 0: main_operation: parameter 'note' contains a NUL character"}},
		},
		"a parameter beyond every number": {
			oneStep(`"main_operation": {"name": "PowerControl", "parameters": {"note": 1e999}}`),
			Problems{{"steps[0].main_operation.parameters.note", "step 0: main_operation: parameter 'note' holds a number out of range, 1e999"}},
		},
		"a parameter below every number": {
			oneStep(`"main_operation": {"name": "PowerControl", "parameters": {"note": 0e-20000}}`),
			Problems{{"steps[0].main_operation.parameters.note", "step 0: main_operation: parameter 'note' holds a number out of range, 0e-20000"}},
		},
		"a parameter of more digits than anybody reads": {
			oneStep(`"main_operation": {"name": "PowerControl", "parameters": {"note": 0.` + strings.Repeat("1", 1000) + `}}`),
			Problems{{"steps[0].main_operation.parameters.note", "step 0: main_operation: parameter 'note' holds a number out of range, 0." + strings.Repeat("1", 62) + "..."}},
		},
		"several mistakes at once, in the order of the document": {
			`{"version": 1, "steps": [
				{"component_type": "tray", "stage": "x", "pre_operation": [{"name": 1}, {"timeout": 5}]},
				{"retry": {"max_attempts": true}}]}`,
			Problems{
				{"version", "version must be of type string, got number"},
				{"steps[0].component_type", "step 0: component type 'tray' is unknown or invalid"},
				{"steps[0].stage", "step 0: stage must be of type number, got string"},
				{"steps[0].pre_operation[0].name", "step 0: pre_operation[0]: name must be of type string, got number"},
				{"steps[0].pre_operation[1].timeout", "step 0: pre_operation[1]: timeout must be of type string, got number"},
				{"steps[1].retry.max_attempts", "step 1: invalid retry policy: max_attempts must be of type number, got bool"},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tt.doc))
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

func TestParseReads(t *testing.T) {
	t.Parallel()
	minimal := func(change func(*Step)) Definition {
		s := Step{ComponentType: hardware.Compute, Stage: 1, Main: Action{Name: ActionPowerControl}}
		change(&s)
		return Definition{Version: "v1", Steps: []Step{s}}
	}
	tests := map[string]struct {
		doc  string
		want Definition
	}{
		"an empty object as version v1 without steps": {`{}`, Definition{Version: "v1"}},
		"null for optional keys as absent": {
			`{"version": null, "steps": [{"component_type": "Compute", "stage": 1, "max_parallel": null, "timeout": null,
				"retry": null, "pre_operation": null, "post_operation": null, "delay_after": null,
				"main_operation": {"name": "PowerControl", "timeout": null, "poll_interval": null, "parameters": null}}]}`,
			minimal(func(*Step) {}),
		},
		"an empty version as v1":               {`{"version": "", "steps": []}`, Definition{Version: "v1"}},
		"component types in any letter case":   {oneStep(`"component_type": "cOMPUTE"`), minimal(func(*Step) {})},
		"keys in any letter case":              {strings.ToUpper(`{"steps":[{"component_type":"compute","stage":1,"main_operation":{`) + `"NAME":"PowerControl"}}]}`, minimal(func(*Step) {})},
		"unknown keys as nothing":              {oneStep(`"comment": "later", "retries": 3`), minimal(func(*Step) {})},
		"the reference's name for no type":     {oneStep(`"component_type": "unknown"`), minimal(func(s *Step) { s.ComponentType = "" })},
		"an empty duration as zero":            {oneStep(`"timeout": ""`), minimal(func(*Step) {})},
		"a bare zero as zero":                  {oneStep(`"timeout": "0"`), minimal(func(*Step) {})},
		"durations with decimals and in parts": {oneStep(`"timeout": "1h1.5s", "delay_after": "3µs"`), minimal(func(s *Step) { s.Timeout, s.DelayAfter = Duration(time.Hour+1500*time.Millisecond), 3000 })},
		"whole numbers in another form":        {oneStep(`"stage": 1.0, "max_parallel": 1e1`), minimal(func(s *Step) { s.MaxParallel = 10 })},
		"a retry policy": {
			oneStep(`"retry": {"max_attempts": 2, "initial_interval": "5s", "backoff_coefficient": 1.5, "max_interval": "1m"}`),
			minimal(func(s *Step) { s.Retry = &Retry{2, Duration(5 * time.Second), 1.5, Duration(time.Minute)} }),
		},
		"parameters as they are": {
			oneStep(`"main_operation": {"name": "PowerControl", "parameters": {"operation": "power_on", "x": [1.50, 1e3, null, {"Y": true}], "": 12345678901234567890}}`),
			minimal(func(s *Step) {
				s.Main.Parameters = Parameters{
					"operation": "power_on",
					"x":         []any{json.Number("1.50"), json.Number("1e3"), nil, map[string]any{"Y": true}},
					"":          json.Number("12345678901234567890"),
				}
			}),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseStrictNamesUnknownKeysByPath(t *testing.T) {
	t.Parallel()
	doc := `{"Steps": [{"component_type": "Compute", "stage": 1, "comment": "x",
		"retry": {"max_atempts": 3},
		"main_operation": {"name": "PowerControl", "params": {}, "parameters": {"anything": 1}}}], "name": "y"}`
	want := Problems{
		{"name", "unknown key 'name'"},
		{"steps[0].comment", "step 0: unknown key 'comment'"},
		{"steps[0].retry.max_atempts", "step 0: invalid retry policy: unknown key 'max_atempts'"},
		{"steps[0].main_operation.params", "step 0: main_operation: unknown key 'params'"},
	}
	_, err := ParseStrict([]byte(doc))
	got, _ := errors.AsType[Problems](err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestLintNamesUnknownKeysAndWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]Problems{
		oneStep(``): nil,
		oneStep(`"stage": 0, "comment": "x"`): {
			{"steps[0].comment", "step 0: unknown key 'comment'"},
			{"steps[0].stage", "step 0: stage must be >= 1, got 0"},
		},
		oneStep(`"stage": 0, "timeout": 5`): {{"steps[0].timeout", "step 0: timeout must be of type string, got number"}},
		`{`:                                 {{"", "not valid JSON: unexpected end of JSON input (at byte 1)"}},
	} {
		got, _ := errors.AsType[Problems](Lint([]byte(doc), Operation{TaskPowerControl, "power_on"}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", doc, diff)
		}
	}
}

func TestDefinitionIsWrittenInItsCanonicalForm(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ doc, want string }{
		"version and steps are always there": {`{}`, `{"version":"v1","steps":[]}`},
		"max_parallel is always there, what is unset is not": {
			oneStep(`"component_type": "powershelf", "timeout": "0", "pre_operation": []`),
			`{"version":"v1","steps":[{"component_type":"PowerShelf","stage":1,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`,
		},
		"durations are in Go's form, parameters are not touched": {
			oneStep(`"timeout": "300s", "delay_after": "90m",
				"retry": {"max_attempts": 2, "initial_interval": "1000ms", "backoff_coefficient": 2.0},
				"main_operation": {"name": "Sleep", "parameters": {"duration": "300s", "n": 1.0}}`),
			`{"version":"v1","steps":[{"component_type":"Compute","stage":1,"max_parallel":0,"timeout":"5m0s",` +
				`"retry":{"max_attempts":2,"initial_interval":"1s","backoff_coefficient":2},` +
				`"main_operation":{"name":"Sleep","parameters":{"duration":"300s","n":1.0}},"delay_after":"1h30m0s"}]}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Parse([]byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("canonical form (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnmarshalingADefinitionIsParsingIt(t *testing.T) {
	t.Parallel()
	var d Definition
	err := json.Unmarshal([]byte(`{"steps": [{"timeout": "soon"}]}`), &d)
	if want := "step 0: invalid timeout: 'soon' is no duration such as 90s or 1h30m"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestErrorTextsStayWithinBounds(t *testing.T) {
	t.Parallel()
	step := `{"component_type": "` + strings.Repeat("x", 1000) + `\n"},`
	for steps, most := range map[int]int{30: 30, 2000: maxProblems} {
		_, err := Parse([]byte(`{"steps": [` + strings.TrimSuffix(strings.Repeat(step, steps), ",") + `]}`))
		problems, _ := errors.AsType[Problems](err)
		if len(problems) != most {
			t.Errorf("%d problems of %d are noted, want %d", len(problems), steps, most)
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, problems[0].Reason+"; "+problems[1].Reason) || len(text) > maxText+20 || strings.Contains(text, "\n") ||
			!strings.HasSuffix(text, fmt.Sprintf("; and %d more", most-strings.Count(text, "; "))) {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
}

// FuzzParse holds: nothing panics, and the canonical form of what was read reads back as the same.
func FuzzParse(f *testing.F) {
	for _, r := range builtins() {
		doc, err := json.Marshal(r.Definition)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	for _, v := range vectors {
		f.Add([]byte(v.doc))
	}
	f.Add([]byte(oneStep(`"main_operation": {"name": "Sleep", "parameters": {"duration": 5e9, "\ud800": {"<": [null, "\ufffd"]}}}`)))
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, err := Parse(doc)
		if err != nil {
			return
		}
		_ = d.Validate(Operation{TaskPowerControl, "power_on"})
		canonical, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseStrict(canonical)
		if err != nil {
			t.Fatalf("%s: %v", canonical, err)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("parsed again (-first +second):\n%s", diff)
		}
	})
}
