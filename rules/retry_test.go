package rules

import (
	"math"
	"testing"
	"time"
)

func TestRetryWait(t *testing.T) {
	t.Parallel()
	second := Duration(time.Second)
	tests := map[string]struct {
		retry Retry
		n     int
		want  time.Duration
	}{
		"the first wait is the initial interval":                   {Retry{3, second, 2, 0}, 1, time.Second},
		"each wait grows by the coefficient":                       {Retry{5, second, 1.5, 0}, 3, 2250 * time.Millisecond},
		"coefficient 1 keeps the wait":                             {Retry{5, second, 1, 0}, 4, time.Second},
		"max_interval caps it":                                     {Retry{9, second, 2, 3 * second}, 4, 3 * time.Second},
		"without max_interval the cap is a hundredfold":            {Retry{99, second, 10, 0}, 9, 100 * time.Second},
		"a step without a policy waits one second":                 {defaultRetry, 1, time.Second},
		"a step without a policy waits two next":                   {defaultRetry, 2, 2 * time.Second},
		"a step without a policy never waits longer than a minute": {defaultRetry, 50, time.Minute},
		"a power beyond every number is capped":                    {Retry{100, second, math.MaxFloat64, 0}, 99, 100 * time.Second},
		"the longest interval does not overflow":                   {Retry{100, MaxDuration, 10, 0}, 99, 100 * 168 * time.Hour},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.retry.Wait(tt.n); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
