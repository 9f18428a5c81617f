package main

import (
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// The operations of a rack's life, a command each.
var (
	bringUp = operation{
		hasReadiness: true,
		request: func(o submission) *flowopsv1.ExplainRequest {
			return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_BringUp{BringUp: &flowv1.BringUpRackRequest{
				TargetSpec: o.target, Description: o.description, RuleId: o.rule, OverrideReadinessCheck: o.overrideReadiness,
			}}}
		},
	}
	ingest = operation{
		filters: true,
		request: func(o submission) *flowopsv1.ExplainRequest {
			return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_Ingest{Ingest: &flowv1.IngestRackRequest{
				TargetSpec: o.target, Filters: o.filters, Description: o.description, RuleId: o.rule,
			}}}
		},
	}
	decommission = operation{
		canQueue:  true,
		racksOnly: true,
		question:  "This takes the components of %s out of service, which nothing here can undo.",
		request: func(o submission) *flowopsv1.ExplainRequest {
			return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_Decommission{Decommission: &flowv1.DecommissionRackRequest{
				TargetSpec: o.target, Description: o.description, QueueOptions: o.queue, RuleId: o.rule,
			}}}
		},
	}
)

func (c *cli) bringUpCommand() *cobra.Command {
	var r operationRequest
	cmd := &cobra.Command{
		Use:   "bring-up (" + scopeUsage + ")",
		Short: "Bring new racks up",
		Long: `Bring racks up: power shelves, compute trays with their firmware, NVSwitches, and a power cycle of the trays at the end,
unless --rule-id names another rule. A rack that is in other hands is refused.

` + scopeHelp,
		Example: `  flow bring-up rack-1 --wait
  flow bring-up --domain nvl-1 --description 'hall 2'
  flow bring-up rack-1 --explain`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.operate(cmd, args, bringUp, &r) },
	}
	r.register(c, cmd, bringUp)
	return cmd
}

func (c *cli) ingestCommand() *cobra.Command {
	var r operationRequest
	cmd := &cobra.Command{
		Use:   "ingest (" + scopeUsage + ")",
		Short: "Tell Core which components to expect",
		Long: `Tell Core which compute trays and NVSwitches of racks to expect, as the inventory has them. A rack that is in other
hands is refused.

` + scopeHelp + `

` + plateFilterHelp,
		Example: `  flow ingest rack-1 --wait
  flow ingest --rack-names rack-1,rack-2 --description 'hall 2'
  flow ingest rack-1 --type compute --model GB200`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.operate(cmd, args, ingest, &r) },
	}
	r.register(c, cmd, ingest)
	return cmd
}

func (c *cli) decommissionCommand() *cobra.Command {
	var r operationRequest
	cmd := &cobra.Command{
		Use:   "decommission (" + rackScopeUsage + ")",
		Short: "Take racks out of service",
		Long: `Take racks out of service: compute trays first, then NVSwitches, then power shelves, unless --rule-id names another rule.

On a terminal it asks before it begins, unless --yes is given; elsewhere --yes must be.

` + scopeHelp,
		Example: `  flow decommission rack-1 --explain
  flow decommission rack-1 --wait
  flow decommission --rack-names rack-1,rack-2 --yes --queue --queue-timeout 4h`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.operate(cmd, args, decommission, &r) },
	}
	r.register(c, cmd, decommission)
	return cmd
}
