package main

import (
	"context"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// rackErrorTrailer has one entry for each rack that got no task although others did.
const rackErrorTrailer = "flow-rack-error"

func (c *cli) powerCommand() *cobra.Command {
	const long = `Switch racks, or some of their components, on and off. Each rack becomes one task; its id is printed, one a line, and
the command returns. With --wait it follows the tasks until all have ended: exit code 0 when all completed, 2 when one
did not.`
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

// powerRequest is what all power operations have in common.
type powerRequest struct {
	selector
	forced            bool
	description       string
	ruleID            string
	overrideReadiness bool
	wait              bool
}

func (r *powerRequest) register(c *cli, cmd *cobra.Command) {
	r.external = flowv1.ComponentType_COMPONENT_TYPE_COMPUTE
	r.selector.register(c, cmd)
	f := cmd.Flags()
	f.StringVar(&r.description, "description", "", "text to keep with the tasks")
	f.StringVar(&r.ruleID, "rule-id", "", "id of the operation rule to follow instead of the one that applies")
	f.BoolVar(&r.overrideReadiness, "override-readiness", false, "do not wait until the components are ready for the operation")
	f.BoolVar(&r.wait, "wait", false, "follow the tasks until all have ended")
}

// submitFunc sends one operation.
type submitFunc func(ctx context.Context, s *client, o submission) (*flowv1.SubmitTaskResponse, error)

// submission is a powerRequest that has been checked.
type submission struct {
	target            *flowv1.OperationTargetSpec
	rule              *flowv1.UUID
	description       string
	forced            bool
	overrideReadiness bool
}

// operation is a power operation as the command line has it.
type operation struct {
	word      string
	short     string
	long      string
	canForce  bool
	forceHelp string
	submit    submitFunc
}

// powerOperations has a command each.
var powerOperations = []operation{
	{
		word:  "on",
		short: "Power racks on",
		long:  "Power racks on: power shelves first, then NVSwitches, then compute trays, unless a rule says else.",
		submit: func(ctx context.Context, s *client, o submission) (*flowv1.SubmitTaskResponse, error) {
			return s.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{
				TargetSpec: o.target, Description: o.description, RuleId: o.rule, OverrideReadinessCheck: o.overrideReadiness,
			})
		},
	},
	{
		word:      "off",
		short:     "Power racks off",
		long:      "Power racks off: compute trays first, then NVSwitches, then power shelves, unless a rule says else.",
		canForce:  true,
		forceHelp: "do not ask the operating system to shut down",
		submit: func(ctx context.Context, s *client, o submission) (*flowv1.SubmitTaskResponse, error) {
			return s.flow.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{
				TargetSpec: o.target, Forced: o.forced, Description: o.description, RuleId: o.rule, OverrideReadinessCheck: o.overrideReadiness,
			})
		},
	},
	{
		word:      "reset",
		short:     "Power racks off and on again",
		long:      "Power racks off and on again.",
		canForce:  true,
		forceHelp: "do not ask the operating system to shut down",
		submit: func(ctx context.Context, s *client, o submission) (*flowv1.SubmitTaskResponse, error) {
			return s.flow.PowerResetRack(ctx, &flowv1.PowerResetRackRequest{
				TargetSpec: o.target, Forced: o.forced, Description: o.description, RuleId: o.rule, OverrideReadinessCheck: o.overrideReadiness,
			})
		},
	},
	{
		word:  "ac-cycle",
		short: "Cut and restore the AC power of compute trays",
		long:  "Cut and restore the AC power of the compute trays of racks.",
		submit: func(ctx context.Context, s *client, o submission) (*flowv1.SubmitTaskResponse, error) {
			return s.flow.ACPowerCycleRack(ctx, &flowv1.ACPowerCycleRackRequest{
				TargetSpec: o.target, Description: o.description, RuleId: o.rule, OverrideReadinessCheck: o.overrideReadiness,
			})
		},
	},
}

// powerOperation makes the command of one operation.
func (c *cli) powerOperation(op operation) *cobra.Command {
	var r powerRequest
	cmd := &cobra.Command{
		Use:   op.word + " (" + scopeUsage + ")",
		Short: op.short,
		Long: op.long + `

RACK is the id or the name of a rack, and --domain stands for the racks of an NVLink domain. --type narrows racks to
components of some types.`,
		Example: fmt.Sprintf(`  flow power %[1]s rack-1 --wait
  flow power %[1]s --rack-names rack-1,rack-2 --type compute,nvswitch
  flow power %[1]s --domain nvl-1
  flow power %[1]s --rack-ids 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 -o json`, op.word),
		RunE: func(cmd *cobra.Command, args []string) error { return c.power(cmd, args, op, &r) },
	}
	r.register(c, cmd)
	if op.canForce {
		cmd.Flags().BoolVar(&r.forced, "forced", false, op.forceHelp)
	}
	return cmd
}

// power checks, submits, prints the ids, and follows the tasks when asked to.
func (c *cli) power(cmd *cobra.Command, args []string, op operation, r *powerRequest) error {
	doing := commandName(cmd)
	target, err := r.target(cmd, args)
	if err != nil {
		return err
	}
	o := submission{target: target, description: r.description, forced: r.forced, overrideReadiness: r.overrideReadiness}
	if cmd.Flags().Changed("rule-id") {
		if o.rule, err = uuidOf("--rule-id", r.ruleID); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	s, err := c.dial(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(cmd.Context())
	defer cancel()
	call, info := connect.NewClientContext(ctx)
	resp, err := op.submit(call, s, o)
	if err != nil {
		return c.callError(ctx, doing+" "+r.selector.String(), err)
	}
	refused := info.ResponseTrailer().Values(rackErrorTrailer)
	for _, text := range refused {
		fmt.Fprintf(c.err, "Warning: no task for rack %s\n", line(text))
	}
	if !r.wait || c.output == formatTable {
		// Before waiting: the ids are out even when the wait is cut short.
		if err := c.printTaskIDs(resp); err != nil {
			return err
		}
	}
	if r.wait {
		if err := c.waitFor(cmd, s, resp.GetTaskIds()); err != nil {
			return err
		}
	}
	if n := len(refused); n > 0 {
		return fmt.Errorf("%s: %d of %d racks got no task", doing, n, n+len(resp.GetTaskIds()))
	}
	return nil
}

// printTaskIDs prints the ids of new tasks.
func (c *cli) printTaskIDs(resp *flowv1.SubmitTaskResponse) error {
	ids := struct {
		TaskIDs []string `json:"task_ids"`
	}{TaskIDs: idTexts(resp.GetTaskIds())}
	return c.printValue(ids, func(w io.Writer) error {
		for _, id := range ids.TaskIDs {
			if _, err := fmt.Fprintln(w, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func idTexts(ids []*flowv1.UUID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.GetId()
	}
	return texts
}
