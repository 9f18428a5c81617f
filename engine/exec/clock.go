package exec

import (
	"context"
	"time"

	"rackflow.dev/flow/engine/exec/virtual"
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

// virtualClock is the time of a rehearsal.
type virtualClock struct{ *virtual.Clock }

func (c virtualClock) now() time.Time { return c.Now() }

func (c virtualClock) sleep(ctx context.Context, until time.Time, _ <-chan struct{}) bool {
	return c.Sleep(ctx, until)
}

func (c virtualClock) withDeadline(ctx context.Context, at time.Time, cause error) (context.Context, context.CancelFunc) {
	return c.WithDeadline(ctx, at, cause)
}

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
