package rules

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
)

var update = flag.Bool("update", false, "rewrite the expected plans in testdata/rules")

// TestPlansAreThoseOfTheGoldenFiles plans the rule.json of each file, or the built-in rule where there is none, for
// its operation and components, and compares the stored form of the plan.
func TestPlansAreThoseOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../testdata/rules/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files := sections(string(text))
			got := goldenPlan(t, files)
			if *update {
				head := strings.TrimSuffix(string(text), files["plan.json"])
				if err := os.WriteFile(path, []byte(head+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(files["plan.json"], got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

var marker = regexp.MustCompile(`(?m)^-- (.+) --\n`)

// sections are the files of a txtar archive by name. The plan has to be the last one.
func sections(text string) map[string]string {
	files := map[string]string{}
	at := marker.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		files[text[m[2]:m[3]]] = text[m[1]:end]
	}
	return files
}

func goldenPlan(t *testing.T, files map[string]string) string {
	t.Helper()
	typ, code, _ := strings.Cut(strings.TrimSpace(files["operation"]), "/")
	in := Input{Operation: Operation{TaskType(typ), code}}
	in.Rule, _ = Builtin(in.Operation)
	if doc, ok := files["rule.json"]; ok {
		d, err := ParseStrict([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Validate(in.Operation); err != nil {
			t.Fatal(err)
		}
		in.Rule = Rule{ID: component("", "rule").ID, Name: "stored", Definition: d}
	}
	for line := range strings.Lines(files["components"]) { // type, name, slot, tray, host
		var typ, name string
		var c Component
		if _, err := fmt.Sscan(line, &typ, &name, &c.Slot, &c.Tray, &c.Host); err != nil {
			t.Fatalf("component %q: %v", line, err)
		}
		c.Component = component(hardware.ComponentType(typ), name)
		in.Components = append(in.Components, c)
	}
	p, err := NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return indented(t, doc)
}

// leaf is an array or object of an indented document that holds no other.
var leaf = regexp.MustCompile(`[\[{]\n[^\[\]{}]*\n\s*[\]}]`)

// indented is the document with each of its leaves on one line.
func indented(t *testing.T, doc []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, doc, "", "  "); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	return leaf.ReplaceAllStringFunc(b.String(), func(l string) string {
		l = strings.Join(strings.Fields(l), " ")
		return l[:1] + strings.TrimSpace(l[1:len(l)-1]) + l[len(l)-1:]
	})
}
