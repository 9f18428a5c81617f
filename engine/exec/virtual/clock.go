// Package virtual is a time that passes only when everybody waits for it, so that hours of work are over in milliseconds.
//
// It owns the clock of a rehearsal. Everyone who works in its time is a goroutine that the clock knows; one of them runs at
// a time, and when it waits, the clock goes to the next moment that anyone waits for. What happens is therefore the same
// every time. It must not be used by goroutines that the clock does not know, and a goroutine that waits for anything but
// the clock stops it for all.
package virtual

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Clock is a time of its own. Make one with New.
type Clock struct {
	mu    sync.Mutex
	at    time.Time
	seq   int
	queue sleepers
}

// New makes a clock that stands at a moment.
func New(at time.Time) *Clock { return &Clock{at: at} }

// Now is the moment the clock stands at.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Run runs functions side by side in the clock's time, in their order where the time is the same, and returns when all have
// returned. They and nobody else may use the clock meanwhile.
func (c *Clock) Run(work ...func()) {
	var group sync.WaitGroup
	for _, fn := range work {
		s := c.add(c.Now())
		group.Go(func() {
			<-s.wake
			fn()
			c.next()
		})
	}
	c.next()
	group.Wait()
}

// Sleep passes the time until a moment, or until ctx ends; it reports whether the moment has come.
func (c *Clock) Sleep(ctx context.Context, until time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	limit, limited := ctx.Deadline()
	due := until
	if limited && limit.Before(until) {
		due = limit
	}
	s := c.add(due)
	c.next()
	<-s.wake
	expire(ctx, c.Now())
	return !due.Before(until)
}

// WithDeadline is context.WithDeadlineCause in the clock's time.
func (c *Clock) WithDeadline(parent context.Context, at time.Time, cause error) (context.Context, context.CancelFunc) {
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	inner, cancel := context.WithCancelCause(parent)
	ctx := &deadline{Context: inner, at: at, end: func() { cancel(cause) }}
	if earlier, ok := parent.Deadline(); ok && earlier.Before(at) {
		ctx.at, ctx.end = earlier, func() {} // it ends with its parent, and for the parent's cause
	}
	expire(ctx, c.Now())
	return ctx, func() { cancel(nil) }
}

// add notes that someone waits.
func (c *Clock) add(due time.Time) *sleeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	s := &sleeper{due: due, seq: c.seq, wake: make(chan struct{})}
	heap.Push(&c.queue, s)
	return s
}

// next lets the one run who waits for the next moment.
func (c *Clock) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.Len() == 0 {
		return // the last one has returned
	}
	s := heap.Pop(&c.queue).(*sleeper)
	if s.due.After(c.at) {
		c.at = s.due
	}
	close(s.wake)
}

// deadline is a context that ends at a moment of the clock.
type deadline struct {
	context.Context
	at  time.Time
	end func()
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Err implements context.Context.
func (d *deadline) Err() error {
	if d.Context.Err() != nil && d.over() {
		return context.DeadlineExceeded
	}
	return d.Context.Err()
}

// Value implements context.Context; it finds the innermost deadline.
func (d *deadline) Value(key any) any {
	if key == (deadlineKey{}) {
		return d
	}
	return d.Context.Value(key)
}

func (d *deadline) over() bool { return context.Cause(d.Context) != context.Canceled }

type deadlineKey struct{}

// expire ends the contexts around ctx whose time has come.
func expire(ctx context.Context, now time.Time) {
	for {
		d, ok := ctx.Value(deadlineKey{}).(*deadline)
		if !ok {
			return
		}
		if !now.Before(d.at) {
			d.end()
		}
		ctx = d.Context
	}
}

// sleeper is someone who waits for a moment.
type sleeper struct {
	due  time.Time
	seq  int // of those who wait for the same moment the first goes on first
	wake chan struct{}
}

type sleepers []*sleeper

func (s sleepers) Len() int { return len(s) }
func (s sleepers) Less(i, j int) bool {
	return s[i].due.Before(s[j].due) || s[i].due.Equal(s[j].due) && s[i].seq < s[j].seq
}
func (s sleepers) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *sleepers) Push(x any)   { *s = append(*s, x.(*sleeper)) }
func (s *sleepers) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
