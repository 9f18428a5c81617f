package exec

import (
	"context"
	"fmt"
	"time"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// bringUpControl opens the gate behind which the components of a batch wait to be powered on and ingested.
func (d *drive) bringUpControl(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	t := d.stepPlan().ComponentType
	controller, err := hardware.As[hardware.BringUpController](d.x.managers, t, hardware.CapBringUpControl)
	if err != nil {
		return err
	}
	return d.insist(ctx, a, batch, "bring-up failed for",
		func(open []hardware.Component) error { return d.ready(ctx, a, open) },
		func(ctx context.Context, open []hardware.Component) (hardware.Results, error) {
			return controller.BringUp(ctx, d.target(open))
		})
}

// waitBringUp polls until the site has made a machine of every component of the batch.
func (d *drive) waitBringUp(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	t := d.stepPlan().ComponentType
	reader, err := hardware.As[hardware.BringUpReader](d.x.managers, t, hardware.CapBringUpStatus)
	if err != nil {
		return err
	}
	status := func(ctx context.Context, limit time.Duration) (map[componentID]hardware.BringUpState, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return reader.BringUpStatus(ctx, d.target(batch))
	}
	return awaitAll(ctx, d, a, batch, status, func(s hardware.BringUpState) string {
		if s == hardware.BringUpMachineCreated {
			return ""
		}
		return shown(s)
	}, func(missing []string) error {
		return fmt.Errorf("timeout after %s waiting for bring-up (attempts: %d): %s", a.Timeout, d.at.attempt, list(missing, "; "))
	})
}
