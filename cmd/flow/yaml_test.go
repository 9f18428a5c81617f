package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

func TestYAMLQuotesWhatReadersWouldTakeForSomethingElse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "~", "-", "1", "0x1F", "1e3", "1_000", ".5", ".inf", "10:20:30:40:50:10", "2026-03-04", "2026-03-04T09:15:00Z",
		"y", "N", "yes", "Off", "TRUE", "null", "a: b", "a #b", "a ", " a", "- a", "a:", "#", "&a", "*a", "!a", "%a", "@a", "`a`",
		"[a]", "{a}", "a,b", "'a'", `"a"`, `a\b`, "a\tb", "a\nb", "\n", "a\r\nb", "\x1b[2Jrack", "\x00", "\x7f", "\u0085", "\u009b31m",
		"\u202eabc", "\u2028", "\ufeff", "grün", "😀", "\U000e0041", "---", "...", "<<", "=",
	} {
		doc, err := json.Marshal(map[string]any{"key": text, "list": []string{text}, text: "x"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := toYAML(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range strings.ReplaceAll(string(got), "\n", "") {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%q: %U in %q", text, r, got)
			}
		}
		if quoted := yamlText(text); quoted[0] != '"' || !strings.Contains(string(got), "\n- "+quoted+"\n") {
			t.Errorf("%q is not quoted: %s", text, got)
		}
		var back map[string]any
		if err := yaml.Unmarshal(got, &back); err != nil {
			t.Errorf("%q: %v in %q", text, err, got)
			continue
		}
		if diff := cmp.Diff(map[string]any{"key": text, "list": []any{text}, text: "x"}, back); diff != "" {
			t.Errorf("%q: %s%s", text, diff, got)
		}
	}
}

func TestYAMLLaysOutEveryShape(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{}`:       "{}\n",
		`[]`:       "[]\n",
		`"a"`:      "a\n",
		`7`:        "7\n",
		`[1, [2]]`: "- 1\n- - 2\n",
		`{"z": 1, "a": {"b": null, "c": [], "d": {}}, "id": "e1"}`: "z: 1\na:\n  b: null\n  c: []\n  d: {}\nid: e1\n",
		`{"list": [{"a": true, "b": {"c": -1.50}}, {"d": ["x y", [1e3, 2]]}], "end": "10:20:30:40:50:10"}`: `list:
- a: true
  b:
    c: -1.50
- d:
  - x y
  - - 1e3
    - 2
end: "10:20:30:40:50:10"
`,
	} {
		got, err := toYAML([]byte(doc))
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Error(doc, err, diff)
		}
	}
	for _, doc := range []string{"", "{", `{"a"`, `[1`, `{} {}`, "x"} {
		if got, err := toYAML([]byte(doc)); err == nil {
			t.Errorf("%s gives %s", doc, got)
		}
	}
}
