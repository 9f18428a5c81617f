// Package fault says what is wrong with a request in the caller's words, and which kind of wrong it is.
//
// It owns the few kinds every engine package refuses requests with; it knows no protocol, so the API decides what a
// kind is called there. An error without a kind is nobody's answer: the API hides it and logs it.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Kind is what a caller can do about a refusal.
type Kind int

// The kinds of refusal. The zero Kind is that of every other error.
const (
	KindUnknown       Kind = iota // not a refusal: a fault of ours or of what we depend on
	KindInvalid                   // the request is wrong whatever the state: change it
	KindNotFound                  // something it names does not exist
	KindExists                    // something it makes exists already
	KindPrecondition              // the state does not allow it: change that first
	KindExhausted                 // a limit is reached: later, or less
	KindUnimplemented             // not built, or not by the configured hardware
)

// Kinds lists every kind, so that tests can hold tables of them complete.
var Kinds = []Kind{
	KindUnknown, KindInvalid, KindNotFound, KindExists, KindPrecondition, KindExhausted, KindUnimplemented,
}

func (k Kind) String() string {
	switch k {
	case KindInvalid:
		return "invalid"
	case KindNotFound:
		return "not found"
	case KindExists:
		return "exists"
	case KindPrecondition:
		return "precondition"
	case KindExhausted:
		return "exhausted"
	case KindUnimplemented:
		return "unimplemented"
	default:
		return "unknown"
	}
}

// Error is a refusal. Its text goes to the caller as it stands, so it names ids and fields and nothing from inside.
type Error struct {
	Kind  Kind
	Field string // path of the offending field as in rack.components[3].info.id; empty when no single field is
	Text  string
	Cause error // never part of the text; for logs and errors.Is

	// Violations are all that is wrong, the first one first, where Field and Text cannot say it one by one.
	Violations []Violation
}

// Violation is one of the things wrong with a request.
type Violation struct {
	Field  string // as that of Error; inside a document it goes on with ":" and the path there
	Reason string
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Text
	}
	return e.Text
}

func (e *Error) Unwrap() error { return e.Cause }

// Because returns a copy of the refusal that unwraps to its cause.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.Cause = cause
	return &c
}

// On returns a copy of the refusal that names a field.
func (e *Error) On(field string) *Error {
	c := *e
	c.Field = field
	return &c
}

// With returns a copy of the refusal that lists all that is wrong.
func (e *Error) With(all []Violation) *Error {
	c := *e
	c.Violations = all
	return &c
}

// Within returns a copy of a refusal that names a field, in a part of the request such as rules[2].
func (e *Error) Within(part string) *Error {
	c := *e
	c.Field = part + "." + e.Field
	c.Violations = make([]Violation, len(e.Violations))
	for i, v := range e.Violations {
		c.Violations[i] = Violation{part + "." + v.Field, v.Reason}
	}
	return &c
}

// Wrong lists what is wrong, field by field. It is empty when no field is named.
func (e *Error) Wrong() []Violation {
	if len(e.Violations) == 0 && e.Field != "" {
		return []Violation{{e.Field, e.Text}}
	}
	return e.Violations
}

// maxNamed is how many fields a text about several refusals names.
const maxNamed = 5

// All makes one refusal of several of one request, or nil of none. It says what the first one says, names the fields of
// the others and lists all that is wrong.
func All(refusals []*Error) *Error {
	switch len(refusals) {
	case 0:
		return nil
	case 1:
		return refusals[0]
	}
	all := *refusals[0]
	all.Violations = nil
	var names []string
	for i, e := range refusals {
		all.Violations = append(all.Violations, e.Wrong()...)
		if i > 0 && i <= maxNamed {
			names = append(names, e.Field)
		}
	}
	all.Text += "; also wrong: " + strings.Join(names, ", ")
	if more := len(refusals) - 1 - maxNamed; more > 0 {
		all.Text += fmt.Sprintf(" and %d more", more)
	}
	return &all
}

// Invalid refuses a malformed request; field is the path of what is wrong in it, or "".
func Invalid(field, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Field: field, Text: fmt.Sprintf(format, args...)}
}

// NotFound says that something named does not exist; the text must name it.
func NotFound(format string, args ...any) *Error { return refuse(KindNotFound, format, args) }

// Exists says that something to be made exists already; the text names the key and its holder.
func Exists(format string, args ...any) *Error { return refuse(KindExists, format, args) }

// Precondition says that the present state does not allow the request.
func Precondition(format string, args ...any) *Error { return refuse(KindPrecondition, format, args) }

// Exhausted says that a limit is reached.
func Exhausted(format string, args ...any) *Error { return refuse(KindExhausted, format, args) }

// Unimplemented says that nothing here can do what is asked.
func Unimplemented(format string, args ...any) *Error { return refuse(KindUnimplemented, format, args) }

// KindOf finds the kind of an error, through whatever wraps it.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindUnknown
}

func refuse(k Kind, format string, args []any) *Error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}
