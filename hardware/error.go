package hardware

import (
	"context"
	"errors"
)

// Outcome says what is known of a command that did not succeed. It decides whether the command may be sent again.
type Outcome int

const (
	// OutcomeRefused: nothing was done and asking again gives the same answer.
	OutcomeRefused Outcome = iota + 1
	// OutcomeNotDone: nothing was done; it may work later.
	OutcomeNotDone
	// OutcomeUncertain: the command may or may not have reached the device.
	OutcomeUncertain
)

// Error is a failed call or the failed part of one, in the device's or the manager's own words.
type Error struct {
	Outcome Outcome
	Text    string
	Cause   error
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Cause }

// Refused makes an error for a command that will never be carried out as asked.
func Refused(text string) error { return &Error{Outcome: OutcomeRefused, Text: text} }

// NotDone makes an error for a command that did not reach the device.
func NotDone(text string) error { return &Error{Outcome: OutcomeNotDone, Text: text} }

// Uncertain makes an error for a command whose effect is not known.
func Uncertain(text string) error { return &Error{Outcome: OutcomeUncertain, Text: text} }

// OutcomeOf classifies any error of a call. What is not ours is uncertain: a lost connection or a deadline says
// nothing about the device.
func OutcomeOf(err error) Outcome {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Outcome
	}
	return OutcomeUncertain
}

// IsTimeout reports whether the call ran into its deadline.
func IsTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
