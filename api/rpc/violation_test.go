package rpc

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
)

func TestViolationsAreAttached(t *testing.T) {
	t.Parallel()
	var many []fault.Violation
	for i := range 500 {
		many = append(many, fault.Violation{Field: fmt.Sprintf("f%d", i), Reason: "r"})
	}
	long := strings.Repeat("x", maxViolationBytes)
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"a field":                         {fault.Invalid("name", "is required"), 1},
		"no field":                        {fault.Invalid("", "is wrong"), 0},
		"a field behind other words":      {fmt.Errorf("rack 7: %w", fault.Invalid("name", "is required")), 1},
		"a list":                          {fault.Invalid("doc", "two").With([]fault.Violation{{Field: "a", Reason: "b"}, {Field: "c", Reason: "d"}}), 2},
		"a list that is too long":         {fault.Invalid("doc", "many").With(many), maxViolations},
		"a reason that is too long":       {fault.Invalid("doc", "%s", long), 0},
		"what fits before one that isn't": {fault.Invalid("doc", "two").With([]fault.Violation{{Field: "a", Reason: "b"}, {Field: "c", Reason: long}}), 1},
		"what is not the request's fault": {fault.Exists("taken").On("name"), 0},
		"an error of ours":                {errors.New("broken"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if fields, _ := violations(t, toConnect(t.Context(), c.err)); len(fields) != c.want {
				t.Errorf("%d violations, want %d: %q", len(fields), c.want, fields)
			}
		})
	}
}

// TestRefusalsFitIntoHeaders sends as many mistakes as one can make: clients in Java read 8 KiB of headers.
func TestRefusalsFitIntoHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	step := `{"component_type": "` + strings.Repeat("x", 100) + `", "stage": 1.5, "main_operation": {"name": 1}, "timeout": "` + strings.Repeat("y", 100) + `"},`
	doc := `{"steps": [` + strings.TrimSuffix(strings.Repeat(step, 5000), ",") + `]}`
	var batch []*flowopsv1.OperationRuleDraft
	for range 20 {
		batch = append(batch, &flowopsv1.OperationRuleDraft{RuleDefinitionJson: `{"steps": [` + strings.TrimSuffix(strings.Repeat(step, 50), ",") + `]}`})
	}
	calls := map[string]func() error{
		"a rule": func() error {
			_, err := s.grpc.CreateOperationRule(t.Context(), &flowv1.CreateOperationRuleRequest{RuleDefinitionJson: doc})
			return err
		},
		"a batch": func() error {
			_, err := s.ops.ReplaceOperationRules(t.Context(), &flowopsv1.ReplaceOperationRulesRequest{Rules: batch})
			return err
		},
	}
	for name, call := range calls {
		err := call()
		refused(t, err, connect.CodeInvalidArgument, "more")
		fields, _ := violations(t, err)
		if len(fields) < 15 {
			t.Errorf("%s: only %d violations", name, len(fields))
		}
		ce, _ := errors.AsType[*connect.Error](err)
		if n := size(ce.Meta()); n > 8<<10 || n < 4<<10 {
			t.Errorf("%s: %d bytes of headers", name, n)
		}
	}
}

// size is what HTTP/2 counts for headers.
func size(h http.Header) int {
	n := 0
	for key, values := range h {
		for _, v := range values {
			n += len(key) + len(v) + 32
		}
	}
	return n
}
