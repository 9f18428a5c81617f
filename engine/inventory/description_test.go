package inventory

import "testing"

func TestDescriptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, component, rack string }{
		"nothing":                           {"", "", ""},
		"plain text":                        {"by the door", "by the door", "by the door"},
		"plain text with spaces":            {" a\tb\n", " a\tb\n", " a\tb\n"},
		"an object":                         {` {"b": 1, "a": {"d": 1, "c": 2}} `, `{"a":{"c":2,"d":1},"b":1}`, `{"a":{"c":2,"d":1},"b":1}`},
		"an object of long numbers":         {`{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10}`},
		"an object of markup":               {`{"a":"<&>"}`, `{"a":"<&>"}`, `{"a":"<&>"}`},
		"an object with a key twice":        {`{"a":1,"a":2}`, `{"a":2}`, `{"a":2}`},
		"an object that wraps text":         {`{"text":"x"}`, `{"text":"x"}`, "x"},
		"an object that wraps a word":       {`{"description":" x "}`, `{"description":" x "}`, " x "},
		"an object that wraps no text":      {`{"text":""}`, `{"text":""}`, ""},
		"an object that wraps a NUL":        {`{"text":"\u0000"}`, `{"text":"\u0000"}`, `{"text":"\u0000"}`},
		"an object that wraps another kind": {`{"text":["x"]}`, `{"text":["x"]}`, `{"text":["x"]}`},
		"an object with two wraps":          {`{"text":"x","description":"y"}`, `{"description":"y","text":"x"}`, `{"description":"y","text":"x"}`},
		"an empty object":                   {`{}`, `{}`, ""},
		"an array":                          {`[{"a":1}]`, `[{"a":1}]`, `[{"a":1}]`},
		"a string":                          {`"x"`, `"x"`, `"x"`},
		"null":                              {`null`, `null`, `null`},
		"an object and more":                {`{"a":1} {}`, `{"a":1} {}`, `{"a":1} {}`},
		"half an object":                    {`{"a":`, `{"a":`, `{"a":`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ComponentDescription(c.text); got != c.component {
				t.Errorf("of a component %q, want %q", got, c.component)
			}
			if got := RackDescription(c.text); got != c.rack {
				t.Errorf("of a rack %q, want %q", got, c.rack)
			}
			if again := ComponentDescription(c.component); again != c.component {
				t.Errorf("%q of a component becomes %q when sent again", c.component, again)
			}
		})
	}
}

func TestPatchedDescriptions(t *testing.T) {
	t.Parallel()
	const owned = `"expected_description":{"a":1},"nvos_ip":"10.0.0.1"`
	const all = `{"description":"old",` + owned + `,"z":1}`
	for name, c := range map[string]struct{ stored, text, part, whole string }{
		"text where there is none":           {"", "new", "new", "new"},
		"text for text":                      {"old", "new", "new", "new"},
		"nothing for text":                   {"old", "", "", ""},
		"text for an object":                 {`{"a":1}`, "new", `{"a":1,"description":"new"}`, "new"},
		"nothing for an object":              {`{"a":1}`, "", `{"a":1}`, ""},
		"text for a wrapped text":            {`{"description":"old"}`, "new", "new", "new"},
		"text for one of several keys":       {all, "new", `{"description":"new",` + owned + `,"z":1}`, `{"description":"new",` + owned + `}`},
		"nothing for one of several keys":    {all, "", `{` + owned + `,"z":1}`, `{` + owned + `}`},
		"text next to owned keys":            {`{` + owned + `}`, "new", `{"description":"new",` + owned + `}`, `{"description":"new",` + owned + `}`},
		"text that looks like JSON":          {all, `["new"]`, `{"description":"[\"new\"]",` + owned + `,"z":1}`, `{"description":"[\"new\"]",` + owned + `}`},
		"an object where there is none":      {"", `{"b":1,"a":2}`, `{"a":2,"b":1}`, `{"a":2,"b":1}`},
		"an object for text":                 {"old", `{"a":1}`, `{"a":1}`, `{"a":1}`},
		"an object for an object":            {`{"a":1,"b":2}`, `{"a":3}`, `{"a":3}`, `{"a":3}`},
		"an object next to owned keys":       {all, `{"a":1}`, `{"a":1,` + owned + `}`, `{"a":1,` + owned + `}`},
		"an empty object next to owned keys": {all, `{}`, `{` + owned + `}`, `{` + owned + `}`},
		"an object that has owned keys":      {all, `{"nvos_ip":"10.9.9.9","expected_description":null}`, `{` + owned + `}`, `{` + owned + `}`},
		"what was read":                      {all, all, all, all},
		"numbers as they are":                {`{"nvos_ip":1.50}`, "new", `{"description":"new","nvos_ip":1.50}`, `{"description":"new","nvos_ip":1.50}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := patchDescription(c.stored, c.text, false); got != c.part {
				t.Errorf("in part %s, want %s", got, c.part)
			}
			if got := patchDescription(c.stored, c.text, true); got != c.whole {
				t.Errorf("as a whole %s, want %s", got, c.whole)
			}
		})
	}
}
