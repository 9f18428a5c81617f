package virtual

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestTimePassesOnlyWhenEverybodyWaits(t *testing.T) {
	t.Parallel()
	for range 50 { // whatever the scheduler does
		c := New(noon)
		var told []string
		worker := func(name string, naps ...time.Duration) func() {
			return func() {
				for _, nap := range naps {
					if !c.Sleep(context.Background(), c.Now().Add(nap)) {
						t.Errorf("%s: the time has not passed", name)
					}
					told = append(told, fmt.Sprint(name, " ", c.Now().Sub(noon)))
				}
			}
		}
		c.Run(worker("a", 3*time.Hour, time.Hour), worker("b", time.Hour, time.Hour, 2*time.Hour), worker("c"))
		want := []string{"b 1h0m0s", "b 2h0m0s", "a 3h0m0s", "b 4h0m0s", "a 4h0m0s"}
		if !slices.Equal(told, want) {
			t.Fatalf("got %q, want %q", told, want)
		}
	}
}

func TestADeadlineEndsAWait(t *testing.T) {
	t.Parallel()
	late, never := errors.New("late"), noon.Add(1000*time.Hour)
	for name, c := range map[string]struct {
		limits []time.Duration // outermost first
		err    error
		cause  error
		took   time.Duration
	}{
		"its own":             {[]time.Duration{time.Hour}, context.DeadlineExceeded, late, time.Hour},
		"that of its parent":  {[]time.Duration{time.Hour, 2 * time.Hour}, context.DeadlineExceeded, late, time.Hour},
		"the earlier of two":  {[]time.Duration{2 * time.Hour, time.Hour}, context.DeadlineExceeded, late, time.Hour},
		"one that has passed": {[]time.Duration{-time.Hour}, context.DeadlineExceeded, late, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := New(noon)
			clock.Run(func() {
				ctx := t.Context()
				for _, limit := range c.limits {
					var cancel context.CancelFunc
					ctx, cancel = clock.WithDeadline(ctx, noon.Add(limit), late)
					defer cancel()
				}
				if clock.Sleep(ctx, never) {
					t.Error("the moment has come")
				}
				if !errors.Is(ctx.Err(), c.err) || context.Cause(ctx) != c.cause || clock.Now().Sub(noon) != c.took {
					t.Errorf("%v because of %v after %s", ctx.Err(), context.Cause(ctx), clock.Now().Sub(noon))
				}
			})
		})
	}
}

func TestACancelledWaitIsNoDeadline(t *testing.T) {
	t.Parallel()
	clock := New(noon)
	clock.Run(func() {
		ctx, cancel := clock.WithDeadline(t.Context(), noon.Add(time.Hour), nil)
		cancel()
		if clock.Sleep(ctx, noon.Add(time.Minute)) || ctx.Err() != context.Canceled || clock.Now() != noon {
			t.Errorf("%v at %s", ctx.Err(), clock.Now())
		}
	})
}
