package rules

import (
	"cmp"
	"math"
	"time"
)

const (
	budgetBase     = Duration(30 * time.Minute) // a step without a timeout
	budgetOverhead = Duration(2 * time.Minute)  // a step's own work between its calls
)

// leastTaskBudget is the reference's fixed limit for a whole task.
func leastTaskBudget(t TaskType) Duration {
	switch t {
	case TaskBringUp:
		return Duration(120 * time.Minute)
	case TaskDecommission:
		return Duration(4 * time.Hour)
	default:
		return Duration(60 * time.Minute)
	}
}

// taskBudget is the time of the longest step of each stage and a tenth on top, never below the reference's.
func (p Plan) taskBudget() Duration {
	sum := p.Longest()
	return max(plus(sum, sum/10), leastTaskBudget(p.Operation.Type))
}

// stepBudget is the time a step for n components may take: everything its actions are allowed to take (D-31.14), and
// never less than the reference grants. Waiting for readiness is not part of it.
func stepBudget(s Step, planned PlanStep, n int) Duration {
	sum := budgetOverhead
	for _, a := range planned.Actions {
		sum = plus(sum, actionBudget(s, a, batchCount(a.Name, s.MaxParallel, n)))
	}
	return max(sum, referenceBudget(s, n))
}

func actionBudget(s Step, a PlanAction, batches int) Duration {
	sum := a.SleepFor
	spec := actions[a.Name]
	if spec.calls {
		attempt := a.AttemptTimeout
		// The reference grants the main action the step's timeout whatever its own is, and any call without a limit
		// more time than it lets it run.
		if a.Phase == PhaseMain || s.Timeout == 0 && attempt == defaultAttemptTimeout {
			attempt = max(attempt, cmp.Or(s.Timeout, budgetBase))
		}
		sum = plus(sum, times(attempt, max(a.Retry.MaxAttempts, 1)))
		for n := 1; n < a.Retry.MaxAttempts; n++ {
			sum = plus(sum, Duration(a.Retry.Wait(n)))
		}
	}
	if spec.polls {
		sum = plus(sum, plus(a.Timeout, a.PollInterval)) // the last query may end one interval late
	}
	return times(sum, batches)
}

// referenceBudget is the reference's formula. It knows nothing of sleeps, firmware polls, the default retry and
// growing waits, and would cut short a step that needs them.
func referenceBudget(s Step, n int) Duration {
	base := cmp.Or(s.Timeout, budgetBase)
	main := base
	if s.Retry != nil && s.Retry.MaxAttempts > 1 {
		backoff := cmp.Or(s.Retry.MaxInterval, s.Retry.InitialInterval)
		main = plus(times(base, s.Retry.MaxAttempts), times(backoff, s.Retry.MaxAttempts-1))
	}
	sum := plus(times(main, batchCount(s.Main.Name, s.MaxParallel, n)), budgetOverhead)
	for _, list := range [][]Action{s.Pre, s.Post} {
		for _, a := range list {
			sum = plus(sum, times(a.Timeout, batchCount(a.Name, s.MaxParallel, n)))
		}
	}
	return sum
}

// batchCount is how often an action runs for n components.
func batchCount(name ActionName, maxParallel, n int) int {
	if !name.Batched() || maxParallel == 0 || n <= maxParallel {
		return 1
	}
	return (n + maxParallel - 1) / maxParallel
}

// plus and times stop at the longest duration there is: a hundred attempts of a week each in a few hundred batches
// are past it.
func plus(a, b Duration) Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(d Duration, n int) Duration {
	if n > 0 && d > math.MaxInt64/Duration(n) {
		return math.MaxInt64
	}
	return d * Duration(n)
}
