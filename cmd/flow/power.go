package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) powerCommand() *cobra.Command {
	const long = `Switch racks, or some of their components, on and off. Each rack becomes one task; its id is printed, one a line, and
the command returns. With --wait it follows the tasks until all have ended: exit code 0 when all completed, 2 when one
did not. With --explain nothing is done: the plan is shown, and what stands in its way.`
	return parent("power", "Switch racks on and off", long,
		c.powerCommands()...)
}

func (c *cli) powerCommands() []*cobra.Command {
	list := []*cobra.Command{c.powerControlCommand()}
	for _, op := range powerOperations {
		list = append(list, c.powerOperation(op))
	}
	return list
}

// powerOperations has a command each.
var powerOperations = []operation{
	{
		word:         "on",
		short:        "Power racks on",
		long:         "Power racks on: power shelves first, then NVSwitches, then compute trays, unless a rule says else.",
		canQueue:     true,
		hasReadiness: true,
		request: func(o submission) *flowopsv1.ExplainRequest {
			return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOn{PowerOn: &flowv1.PowerOnRackRequest{
				TargetSpec: o.target, Description: o.description, QueueOptions: o.queue, RuleId: o.rule,
				OverrideReadinessCheck: o.overrideReadiness,
			}}}
		},
	},
	{
		word:         "off",
		short:        "Power racks off",
		long:         "Power racks off: compute trays first, then NVSwitches, then power shelves, unless a rule says else.",
		canForce:     true,
		forceHelp:    "do not ask the operating system to shut down",
		canQueue:     true,
		hasReadiness: true,
		request: func(o submission) *flowopsv1.ExplainRequest {
			return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOff{PowerOff: &flowv1.PowerOffRackRequest{
				TargetSpec: o.target, Forced: o.forced, Description: o.description, QueueOptions: o.queue, RuleId: o.rule,
				OverrideReadinessCheck: o.overrideReadiness,
			}}}
		},
	},
	{
		word:         "reset",
		short:        "Power racks off and on again",
		long:         "Power racks off and on again.",
		canForce:     true,
		forceHelp:    "do not ask the operating system to shut down",
		canQueue:     true,
		hasReadiness: true,
		request: func(o submission) *flowopsv1.ExplainRequest {
			return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerReset{PowerReset: &flowv1.PowerResetRackRequest{
				TargetSpec: o.target, Forced: o.forced, Description: o.description, QueueOptions: o.queue, RuleId: o.rule,
				OverrideReadinessCheck: o.overrideReadiness,
			}}}
		},
	},
	{
		word:         "ac-cycle",
		short:        "Cut and restore the AC power of compute trays",
		long:         "Cut and restore the AC power of the compute trays of racks.",
		canQueue:     true,
		hasReadiness: true,
		request: func(o submission) *flowopsv1.ExplainRequest {
			return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_AcPowerCycle{AcPowerCycle: &flowv1.ACPowerCycleRackRequest{
				TargetSpec: o.target, Description: o.description, QueueOptions: o.queue, RuleId: o.rule,
				OverrideReadinessCheck: o.overrideReadiness,
			}}}
		},
	},
}

// powerOperation makes the command of one operation.
func (c *cli) powerOperation(op operation) *cobra.Command {
	var r operationRequest
	cmd := &cobra.Command{
		Use:   op.word + " (" + scopeUsage + ")",
		Short: op.short,
		Long: op.long + `

` + scopeHelp,
		Example: fmt.Sprintf(`  flow power %[1]s rack-1 --wait
  flow power %[1]s --rack-names rack-1,rack-2 --type compute,nvswitch --queue
  flow power %[1]s --domain nvl-1 --explain
  flow power %[1]s --rack-ids 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 -o json`, op.word),
		RunE: func(cmd *cobra.Command, args []string) error { return c.operate(cmd, args, op, &r) },
	}
	r.register(c, cmd, op)
	return cmd
}
