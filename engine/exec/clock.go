package exec

import (
	"context"
	"time"
)

// clock is the time that actions live in: that of the world, or that of a rehearsal.
type clock interface {
	now() time.Time
	// sleep passes the time until then, less when ctx ends or stop is closed; it reports whether it has passed.
	sleep(ctx context.Context, until time.Time, stop <-chan struct{}) bool
	// withDeadline is context.WithDeadlineCause in this time.
	withDeadline(ctx context.Context, at time.Time, cause error) (context.Context, context.CancelFunc)
}

// worldClock is the time of the world, as the process is told of it.
type worldClock struct{ tell func() time.Time }

func (c worldClock) now() time.Time { return c.tell() }

func (c worldClock) sleep(ctx context.Context, until time.Time, stop <-chan struct{}) bool {
	timer := time.NewTimer(until.Sub(c.tell()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	case <-ctx.Done():
		return false
	}
}

func (c worldClock) withDeadline(ctx context.Context, at time.Time, cause error) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, at, cause)
}
