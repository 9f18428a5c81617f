package fault

import (
	"errors"
	"fmt"
	"io"
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
