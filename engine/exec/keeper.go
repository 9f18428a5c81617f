package exec

import (
	"context"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// keeper is what a drive needs beside hardware and time: a place for what it has learned, and what others know. The stored
// one is the database; a rehearsal has its own.
type keeper interface {
	// checkpoint records where a step is. announce tells the watchers which action made progress.
	checkpoint(ctx context.Context, d *drive, a rules.PlanAction, announce bool) error
	// ready holds a disruptive call back until the components it depends on are ready.
	ready(ctx context.Context, d *drive, a rules.PlanAction, batch []hardware.Component) error
	// expectations reads what the inventory has of components; those that are gone are missing.
	expectations(ctx context.Context, d *drive, list []hardware.Component) (map[componentID]hardware.Expectation, error)
}

// stored keeps in the database.
type stored struct{}

func (d *drive) checkpoint(ctx context.Context, a rules.PlanAction, announce bool) error {
	return d.x.keeper.checkpoint(ctx, d, a, announce)
}

func (d *drive) ready(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	return d.x.keeper.ready(ctx, d, a, batch)
}

func (d *drive) expectations(ctx context.Context, list []hardware.Component) (map[componentID]hardware.Expectation, error) {
	return d.x.keeper.expectations(ctx, d, list)
}
