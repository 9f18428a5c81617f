package fault

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		kind Kind
		text string
	}{
		"a refused field is named first":       {Invalid("rack.info.id", "%q is no UUID", "x"), KindInvalid, `rack.info.id: "x" is no UUID`},
		"a refused request may name no field":  {Invalid("", "nothing to do"), KindInvalid, "nothing to do"},
		"a kind is found through wrapping":     {fmt.Errorf("task 7: %w", NotFound("rack 8 not found")), KindNotFound, "task 7: rack 8 not found"},
		"a cause is not part of the text":      {Exists("id taken").Because(io.EOF), KindExists, "id taken"},
		"any refusal may name a field":         {Exists("id taken").On("rack.info.id"), KindExists, "rack.info.id: id taken"},
		"precondition":                         {Precondition("rack is busy"), KindPrecondition, "rack is busy"},
		"exhausted":                            {Exhausted("queue is full"), KindExhausted, "queue is full"},
		"unimplemented":                        {Unimplemented("no such act"), KindUnimplemented, "no such act"},
		"an error of another make has no kind": {io.EOF, KindUnknown, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := KindOf(c.err); got != c.kind {
				t.Errorf("kind %v, want %v", got, c.kind)
			}
			if c.err.Error() != c.text {
				t.Errorf("text %q, want %q", c.err, c.text)
			}
		})
	}
}

func TestCauseIsFound(t *testing.T) {
	t.Parallel()
	if !errors.Is(Exists("id taken").Because(io.EOF), io.EOF) {
		t.Error("cause is lost")
	}
}

func TestAllThatIsWrongIsListed(t *testing.T) {
	t.Parallel()
	name := Invalid("name", "is required")
	doc := Invalid("doc", "two mistakes").With([]Violation{{"doc:a", "first"}, {"doc:b", "second"}})
	var many []*Error
	for range 12 {
		many = append(many, name)
	}
	for title, c := range map[string]struct {
		err  *Error
		text string
		want []Violation
	}{
		"a field is one violation":      {name, "name: is required", []Violation{{"name", "is required"}}},
		"no field is none":              {Invalid("", "nothing to do"), "nothing to do", nil},
		"violations come before fields": {doc, "doc: two mistakes", []Violation{{"doc:a", "first"}, {"doc:b", "second"}}},
		"a part comes before the fields": {
			doc.Within("rules[2]"), "rules[2].doc: two mistakes",
			[]Violation{{"rules[2].doc:a", "first"}, {"rules[2].doc:b", "second"}},
		},
		"several refusals are one": {
			All([]*Error{name, doc}), "name: is required; also wrong: doc",
			[]Violation{{"name", "is required"}, {"doc:a", "first"}, {"doc:b", "second"}},
		},
		"one refusal is itself": {All([]*Error{name}), "name: is required", []Violation{{"name", "is required"}}},
		"only some of many are named": {
			All(many), "name: is required; also wrong: " + strings.Repeat("name, ", 4) + "name and 6 more",
			slices.Repeat([]Violation{{"name", "is required"}}, 12),
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if c.err.Error() != c.text {
				t.Errorf("text %q, want %q", c.err, c.text)
			}
			if got := c.err.Wrong(); !slices.Equal(got, c.want) {
				t.Errorf("violations %q, want %q", got, c.want)
			}
		})
	}
	if err := All(nil); err != nil {
		t.Errorf("nothing wrong is %v", err)
	}
	if doc.Violations[0].Field != "doc:a" {
		t.Error("a copy has changed the original")
	}
}

func TestKindsAreNamed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range Kinds {
		if seen[k.String()] {
			t.Errorf("kind %d shares the name %s", k, k)
		}
		seen[k.String()] = true
	}
}
