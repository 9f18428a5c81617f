package rules

import (
	"math"
	"time"
)

// Retry says how often a hardware call is made and how long is waited in between.
type Retry struct {
	MaxAttempts        int      `json:"max_attempts"` // the first one included
	InitialInterval    Duration `json:"initial_interval,omitzero"`
	BackoffCoefficient float64  `json:"backoff_coefficient,omitempty"`
	MaxInterval        Duration `json:"max_interval,omitzero"` // 0: a hundred times InitialInterval
}

// defaultRetry is the policy of a step that has none.
var defaultRetry = Retry{
	MaxAttempts:        3,
	InitialInterval:    Duration(time.Second),
	BackoffCoefficient: 2,
	MaxInterval:        Duration(time.Minute),
}

// singleAttempt is for commands that must not be sent twice.
var singleAttempt = Retry{MaxAttempts: 1}

// Wait is how long to wait after attempt n, counted from 1, before the next one.
func (r Retry) Wait(n int) time.Duration {
	limit := r.MaxInterval
	if limit == 0 {
		limit = 100 * r.InitialInterval
	}
	// In floating point: the power may be beyond every duration, and is then cut to the limit.
	wait := float64(r.InitialInterval) * math.Pow(r.BackoffCoefficient, float64(n-1))
	if wait >= float64(limit) {
		return time.Duration(limit)
	}
	return time.Duration(wait)
}
