package exec

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

type componentID = uuid.UUID

// verifyPowerStatus polls until every component of the batch answers with the expected state.
func (d *drive) verifyPowerStatus(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	status := func(ctx context.Context, limit time.Duration) (map[componentID]hardware.PowerReading, error) {
		return d.powerStatus(ctx, d.target(batch), limit)
	}
	return awaitAll(ctx, d, a, batch, status, func(r hardware.PowerReading) string {
		if r.State == a.ExpectedStatus {
			return ""
		}
		return shown(r.State)
	}, func(missing []string) error {
		return fmt.Errorf("timeout after %s waiting for power status %s (attempts: %d): %s",
			a.Timeout, a.ExpectedStatus, d.at.attempt, list(missing, "; "))
	})
}

// awaitAll polls until, in one answer, nothing is missing of any component of the batch. lacks says what is, "" for
// nothing. When time is up each component is noted with it, and late makes the error. A query that fails is an answer
// without any component.
func awaitAll[T any](ctx context.Context, d *drive, a rules.PlanAction, batch []hardware.Component,
	status func(ctx context.Context, limit time.Duration) (map[componentID]T, error), lacks func(T) string, late func(missing []string) error,
) error {
	reasons := map[componentID]string{}
	look := func(ctx context.Context, limit time.Duration) bool {
		readings, err := status(ctx, limit)
		clear(reasons)
		for _, c := range batch {
			r, known := readings[c.ID]
			switch {
			case err != nil:
				reasons[c.ID] = err.Error()
			case !known:
				reasons[c.ID] = "no answer"
			default:
				if why := lacks(r); why != "" {
					reasons[c.ID] = why
				}
			}
		}
		return len(reasons) == 0
	}
	return d.poll(ctx, a, look, func() error {
		var missing []string
		for _, c := range batch {
			reason := reasons[c.ID]
			d.at.note(c.ID, reason)
			if reason != "" {
				missing = append(missing, c.Label()+": "+reason)
			}
		}
		return late(missing)
	})
}

// verifyReachability polls the types it was given, over the whole task, until each has been found reachable once.
func (d *drive) verifyReachability(ctx context.Context, a rules.PlanAction, _ []hardware.Component) error {
	// A type that was found is remembered by its components, also while the step is parked.
	found := func(t hardware.ComponentType) bool {
		list := d.plan.Components[t]
		if len(list) == 0 {
			return true
		}
		_, known := d.at.results[list[0].ID]
		return known
	}
	open := slices.DeleteFunc(slices.Clone(a.Types), found)
	absent := map[hardware.ComponentType]map[componentID]string{}
	deadline := d.at.actionStarted.Add(d.x.scaled(time.Duration(a.Timeout)))
	look := func(ctx context.Context, _ time.Duration) bool {
		// A round is many queries, which have the time of one between them (D-31.16).
		end := latest(d.x.now(), deadline).Add(d.x.scaled(time.Duration(a.PollInterval)))
		open = slices.DeleteFunc(open, func(t hardware.ComponentType) bool {
			absent[t] = d.unreachable(ctx, t, func() time.Duration { return min(d.x.limit(a), end.Sub(d.x.now())) })
			if n := len(absent[t]); n > 0 && (a.RequireAll || n == len(d.plan.Components[t])) {
				return false
			}
			for _, c := range d.plan.Components[t] {
				d.at.confirm(c.ID)
			}
			return true
		})
		return len(open) == 0
	}
	return d.poll(ctx, a, look, func() error {
		for _, t := range open {
			for _, c := range d.plan.Components[t] {
				d.at.note(c.ID, absent[t][c.ID])
			}
		}
		return fmt.Errorf("timeout after %s waiting for components to become reachable: %v", a.Timeout, open)
	})
}

// unreachable asks for a type in chunks of the step's size and says of which components there is no answer, and why. An
// error ends the round for the type: none of it has been found then.
func (d *drive) unreachable(ctx context.Context, t hardware.ComponentType, left func() time.Duration) map[componentID]string {
	absent := map[componentID]string{}
	for _, chunk := range rules.Batches(d.plan.Components[t], d.stepPlan().MaxParallel) {
		readings, err := d.powerStatus(ctx, hardware.Target{Type: t, Components: chunk}, left())
		if err != nil {
			for _, c := range d.plan.Components[t] {
				absent[c.ID] = err.Error()
			}
			return absent
		}
		for _, c := range chunk {
			if r, known := readings[c.ID]; !known {
				absent[c.ID] = "no answer"
			} else if !r.Reachable {
				absent[c.ID] = "not reachable"
			}
		}
	}
	return absent
}
