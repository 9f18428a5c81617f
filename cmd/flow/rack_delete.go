package main

import (
	"context"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) rackDeleteCommand() *cobra.Command {
	return c.objectCommand(objectCommand{
		use:   "delete (RACK | --id ID)",
		short: "Take a rack out of inventory",
		long: `Take a rack out of inventory, with its components. RACK is its id, its external id, or its name.

Running tasks finish on their plan, waiting ones are terminated. The rack can be brought back by rack restore until
rack purge removes it for good.`,
		example: `  flow rack delete rack-1
  flow rack delete --id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		noun: "rack", done: "deleted",
		find: func(ctx context.Context, s *client, key string) (*flowv1.UUID, error) { return s.rackID(ctx, key) },
		call: func(ctx context.Context, s *client, id *flowv1.UUID) error {
			_, err := s.flow.DeleteRack(ctx, &flowv1.DeleteRackRequest{Id: id})
			return err
		},
		complete: c.completeRacks,
	})
}

func (c *cli) rackPurgeCommand() *cobra.Command {
	return c.objectCommand(objectCommand{
		use:   "purge (ID | --id ID)",
		short: "Remove a deleted rack for good",
		long: `Remove a deleted rack for good, with its components. It is known by its id only: names are those of live racks.

It is refused while a task of the rack is active, or a live component points at it. Nothing is asked.`,
		example: `  flow rack purge 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		noun:    "rack", done: "purged", idOnly: true,
		call: func(ctx context.Context, s *client, id *flowv1.UUID) error {
			_, err := s.flow.PurgeRack(ctx, &flowv1.PurgeRackRequest{Id: id})
			return err
		},
		complete: cobra.NoFileCompletions,
	})
}

func (c *cli) rackRestoreCommand() *cobra.Command {
	return c.objectCommand(objectCommand{
		use:   "restore (ID | --id ID)",
		short: "Bring a deleted rack back",
		long: `Bring a deleted rack back, with the components that were deleted with it. It is known by its id only: names are those
of live racks.

It is refused when another object has one of their serial numbers or external ids meanwhile. MAC addresses that others
have taken over stay with them.`,
		example: `  flow rack restore 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		noun:    "rack", done: "restored", idOnly: true,
		call: func(ctx context.Context, s *client, id *flowv1.UUID) error {
			_, err := s.ops.RestoreRack(ctx, &flowopsv1.RestoreRackRequest{Id: id})
			return err
		},
		complete: cobra.NoFileCompletions,
	})
}
