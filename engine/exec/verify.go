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
	target := hardware.Target{Type: d.stepPlan().ComponentType, Components: batch}
	before := d.at.completed
	var missing []string
	look := func(ctx context.Context, limit time.Duration) bool {
		readings, err := d.powerStatus(ctx, target, limit)
		missing = missing[:0]
		for _, c := range batch {
			r, known := readings[c.ID]
			switch {
			case err != nil:
				missing = append(missing, fmt.Sprintf("%s: %v", c.Label(), err))
			case !known:
				missing = append(missing, c.Label()+": no answer")
			case r.State != a.ExpectedStatus:
				missing = append(missing, fmt.Sprintf("%s: %s", c.Label(), r.State))
			}
		}
		return len(missing) == 0
	}
	return d.poll(ctx, a, look, func() error {
		d.at.failed = len(missing)
		d.at.completed = before + len(batch) - len(missing)
		return fmt.Errorf("timeout after %s waiting for power status %s (attempts: %d): %s",
			a.Timeout, a.ExpectedStatus, d.at.attempt, list(missing, "; "))
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
	look := func(ctx context.Context, limit time.Duration) bool {
		open = slices.DeleteFunc(open, func(t hardware.ComponentType) bool {
			if !d.reachable(ctx, t, a.RequireAll, limit) {
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
		d.at.failed = d.total()
		return fmt.Errorf("timeout after %s waiting for components to become reachable: %v", a.Timeout, open)
	})
}

// reachable asks for a type in chunks of the step's size; an error ends the round for it.
func (d *drive) reachable(ctx context.Context, t hardware.ComponentType, all bool, limit time.Duration) bool {
	found := 0
	for _, chunk := range rules.Batches(d.plan.Components[t], d.stepPlan().MaxParallel) {
		readings, err := d.powerStatus(ctx, hardware.Target{Type: t, Components: chunk}, limit)
		if err != nil {
			return false
		}
		for _, c := range chunk {
			if r, known := readings[c.ID]; known && r.Reachable {
				found++
			}
		}
	}
	return found == len(d.plan.Components[t]) || !all && found > 0
}
