package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// MaxDuration is the longest any duration in a rule may be, inclusive (D-31.5): longer ones overflow a step's budget.
const MaxDuration = Duration(168 * time.Hour)

// Duration is a time.Duration that documents and plans write in Go's form, "5m0s".
type Duration time.Duration

// ParseDuration reads a duration with units, such as "1h30m". Empty text is zero.
func ParseDuration(s string) (Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("'%s' is no duration such as 90s or 1h30m", shown(s))
	}
	return Duration(d), nil
}

// String is the canonical form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the canonical form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	var err error
	*d, err = ParseDuration(string(text))
	return err
}

// bounds refuses what no duration of a rule may be.
func (d Duration) bounds() error {
	switch {
	case d < 0:
		return fmt.Errorf("must be non-negative, got %s", d)
	case d > MaxDuration:
		return fmt.Errorf("must be at most %s, got %s", MaxDuration, d)
	default:
		return nil
	}
}

// parameterDuration reads a duration among an action's parameters, where a number is nanoseconds and where, unlike in
// the fields of a step, empty text is not zero: it would silently take the wait out of a rule (D-31.4).
func parameterDuration(v any) (Duration, error) {
	var d Duration
	switch v := v.(type) {
	case string:
		if v == "" {
			return 0, errors.New("must not be empty")
		}
		var err error
		if d, err = ParseDuration(v); err != nil {
			return 0, err
		}
	case json.Number:
		ns, ok := wholeNumber(v)
		if !ok {
			return 0, fmt.Errorf("must be a whole number of nanoseconds, got %s", shown(v.String()))
		}
		d = Duration(ns)
	default:
		return 0, fmt.Errorf("must be a duration, got %s", kindOf(v))
	}
	return d, d.bounds()
}

// wholeNumber also takes 5e9 and 5.0, which are the same JSON number as their plain form. What is too large comes out
// as the largest number there is; the bounds refuse it in words of their own.
func wholeNumber(n json.Number) (int64, bool) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, true
	}
	f, err := n.Float64()
	switch {
	case err != nil || f != math.Trunc(f):
		return 0, false
	case f >= math.MaxInt64:
		return math.MaxInt64, true
	case f <= math.MinInt64:
		return math.MinInt64, true
	default:
		return int64(f), true
	}
}
