package exec

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"rackflow.dev/flow/engine/exec/virtual"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// Rehearsal carries a plan out in a time of its own: the steps are driven as those of tasks are, but nothing is stored, no
// status of components is known, and what the steps wait for is over at once.
type Rehearsal struct {
	Plan     rules.Plan
	Managers hardware.Managers // of a simulated site that lives in the time of Clock
	Clock    *virtual.Clock
	Expected map[componentID]hardware.Expectation // what the inventory has of the plan's components
}

// Moment is something that happened in a rehearsal.
type Moment struct {
	From, To  time.Duration // since the start
	Stage     int           // the rule's number
	Type      hardware.ComponentType
	Action    rules.PlanAction
	Batch     int // from 1
	Batches   int
	Total     int    // components of the step
	Completed int    // of those that the step's last counting action has left
	Failed    int    //
	Retry     string // why an attempt failed that is made again, the most frequent reason first
	Error     string // why the step failed
	Started   bool   // what the components do by themselves has begun, and is waited for
	Progress  bool   // the action goes on
}

// Rehearsed is how a rehearsal went.
type Rehearsed struct {
	Report  task.Report
	Moments []Moment // in the order they ended
	Took    time.Duration
	State   db.TaskState // completed or failed
	Message string
}

// Run carries the plan out. An error is not the plan's: ctx ended, or the plan has nothing to do.
func (r Rehearsal) Run(ctx context.Context) (Rehearsed, error) {
	start := r.Clock.Now()
	log := &rehearsal{Rehearsal: r, start: start}
	x := &Executor{
		managers: r.Managers, log: slog.New(slog.DiscardHandler), now: r.Clock.Now, clock: virtualClock{r.Clock}, keeper: log,
		speed: 1, inline: math.MaxInt64, segment: math.MaxInt64, draining: make(chan struct{}),
	}
	t := db.Task{State: db.TaskStateRunning, Message: task.MessageRunning, StartedAt: &start}
	var steps []db.TaskStep
	last := &drive{x: x, plan: r.Plan, deadline: start.Add(time.Duration(r.Plan.Budget))}
	for o, more := last.open(0, r.Clock.Now()); more && t.StageError == nil; o, more = last.open(o.stage+1, r.Clock.Now()) {
		rows := make([]db.TaskStep, len(o.steps))
		work := make([]func(), len(o.steps))
		interrupted := false
		for i := range o.steps {
			d := &drive{x: x, plan: r.Plan, deadline: last.deadline}
			work[i] = func() {
				err := d.perform(ctx, o, i)
				interrupted = interrupted || handedOver(err)
				rows[i] = log.ended(d, o, i, err)
				if err != nil && t.StageError == nil { // one runs at a time, so this one failed first
					text := fmt.Sprintf("component type %s failed: %v", d.stepPlan().ComponentType, err)
					t.StageError = &text
				}
			}
		}
		x.clock.(virtualClock).Run(work...)
		if interrupted {
			return Rehearsed{}, context.Cause(ctx)
		}
		steps = append(steps, rows...)
		last.at.stage = o.stage
	}
	if len(steps) == 0 {
		return Rehearsed{}, fmt.Errorf("rule %q: the plan has nothing to do", r.Plan.RuleName)
	}
	end := r.Clock.Now()
	var err error
	if t.State, t.Message, err = last.verdict(t.StageError, end); err != nil {
		return Rehearsed{}, err
	}
	t.FinishedAt = &end
	return Rehearsed{
		Report: task.NewReport(t, r.Plan, steps, true), Moments: log.moments, Took: end.Sub(start), State: t.State, Message: t.Message,
	}, nil
}

// perform drives one step of an opened stage to its end.
func (d *drive) perform(ctx context.Context, o opening, i int) error {
	d.began = d.x.now()
	d.at = cursor{stage: o.stage, step: int(o.steps[i]), deadline: o.deadlines[i], actionStarted: d.began}
	d.lastMoment = d.began
	return d.runStep(ctx)
}

// rehearsal keeps what a rehearsal learns.
type rehearsal struct {
	Rehearsal
	start   time.Time
	moments []Moment
}

// checkpoint implements keeper.
func (r *rehearsal) checkpoint(_ context.Context, d *drive, a rules.PlanAction, announce bool) error {
	m := r.moment(d, a)
	switch {
	case announce && d.at.attempt == 0: // the cursor is at what comes next
		if d.at.batch > 0 {
			m.Batch = d.at.batch
		} else {
			m.Batch = m.Batches
		}
	case announce:
		m.Progress = true
	case d.at.attempt > 0:
		reasons, marked := reasons(d)
		switch {
		case reasons != "":
			m.Retry = reasons
		case d.at.intent:
			return nil
		case marked:
			m.Started = true
		default: // a query, of which nothing is noted
			m.Retry = "the call failed"
		}
	default: // an intent
		return nil
	}
	r.add(d, m)
	return nil
}

// ready implements keeper: nobody reports a status.
func (r *rehearsal) ready(context.Context, *drive, rules.PlanAction, []hardware.Component) error {
	return nil
}

// expectations implements keeper.
func (r *rehearsal) expectations(_ context.Context, _ *drive, list []hardware.Component) (map[componentID]hardware.Expectation, error) {
	known := make(map[componentID]hardware.Expectation, len(list))
	for _, c := range list {
		if e, ok := r.Expected[c.ID]; ok {
			known[c.ID] = e
		}
	}
	return known, nil
}

// ended notes the end of a step and returns its row.
func (r *rehearsal) ended(d *drive, o opening, i int, failure error) db.TaskStep {
	p := d.endParams(failure)
	now := r.Clock.Now()
	step := d.stepPlan()
	m := r.moment(d, step.Actions[min(d.at.action, len(step.Actions)-1)])
	m.Batch = m.Batches
	if failure != nil {
		m.Batch, m.Error = d.at.batch+1, failure.Error()
	}
	r.add(d, m)
	return db.TaskStep{
		Stage: p.Stage, Step: p.Step, State: p.State, Action: p.Action, Batch: p.Batch, Total: o.totals[i], Completed: p.Completed,
		Failed: p.Failed, Results: p.Results, Error: p.Error, StartedAt: d.began, FinishedAt: &now,
	}
}

func (r *rehearsal) moment(d *drive, a rules.PlanAction) Moment {
	step := d.stepPlan()
	return Moment{
		From: d.lastMoment.Sub(r.start), To: r.Clock.Now().Sub(r.start),
		Stage: d.plan.Stages[d.at.stage].Number, Type: step.ComponentType, Action: a,
		Batch: d.at.batch + 1, Batches: len(d.plan.Batches(step, a)),
		Total: d.total(), Completed: d.at.completed, Failed: d.at.failed,
	}
}

func (r *rehearsal) add(d *drive, m Moment) {
	d.lastMoment = r.Clock.Now()
	r.moments = append(r.moments, m)
}

// reasons is why the last attempt failed, with the number of components for each reason. Marks are none; the second result
// tells whether there are any.
func reasons(d *drive) (text string, marked bool) {
	failed := map[string]int{}
	for _, c := range d.plan.Components[d.stepPlan().ComponentType] {
		text := d.at.results[c.ID]
		_, started := d.at.marked(c.ID, markStarted)
		_, silent := d.at.marked(c.ID, markSilent)
		switch {
		case started || silent:
			marked = true
		case text != "":
			// What is said of many is the same but for their names.
			failed[strings.TrimPrefix(text, fmt.Sprintf("%s %s is ", c.Type, c.Label()))]++
		}
	}
	parts := slices.SortedFunc(maps.Keys(failed), func(a, b string) int {
		return cmp.Or(cmp.Compare(failed[b], failed[a]), cmp.Compare(a, b))
	})
	for i, reason := range parts {
		if n := failed[reason]; n > 1 {
			parts[i] = fmt.Sprintf("%d components: %s", n, reason)
		}
	}
	return list(parts, "; "), marked
}
