package rules

import (
	"errors"
	"fmt"
)

// ErrNoRule means that an operation has neither a stored nor a built-in rule.
var ErrNoRule = errors.New("no operation rule")

// Source says why a rule applies.
type Source string

// The sources in the order they win.
const (
	SourceRequest     Source = "request"     // named by the request
	SourceAssociation Source = "association" // associated with the rack
	SourceDefault     Source = "default"     // the stored default of the operation
	SourceBuiltin     Source = "builtin"
)

// Candidates are the stored rules that could govern an operation on one rack; nil where there is none.
type Candidates struct {
	Request     *Rule
	Association *Rule
	Default     *Rule
}

// Resolve picks the rule that governs the operation, or ErrNoRule. A rule without steps is a match as well: somebody
// stored it in place of the next one.
func (c Candidates) Resolve(op Operation) (Rule, Source, error) {
	switch {
	case c.Request != nil:
		return *c.Request, SourceRequest, nil
	case c.Association != nil:
		return *c.Association, SourceAssociation, nil
	case c.Default != nil:
		return *c.Default, SourceDefault, nil
	}
	if r, ok := Builtin(op); ok {
		return r, SourceBuiltin, nil
	}
	return Rule{}, "", fmt.Errorf("%s: %w", op, ErrNoRule)
}
