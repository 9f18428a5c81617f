package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/rpc"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// explained are the operations that a server can be asked about, by the codes that rules are stored for.
var explained = []word[func(o submission) *flowopsv1.ExplainRequest]{
	{"power_on", powerOperations[0].request},
	{"power_off", powerOperations[1].request},
	{"force_power_off", forced(powerOperations[1])},
	{"restart", powerOperations[2].request},
	{"force_restart", forced(powerOperations[2])},
	{"cold_reset", powerOperations[3].request},
	{"upgrade", func(o submission) *flowopsv1.ExplainRequest {
		return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_UpgradeFirmware{
			UpgradeFirmware: &flowv1.UpgradeFirmwareRequest{TargetSpec: o.target, RuleId: o.rule},
		}}
	}},
	{"bring_up", bringUp.request},
	{"ingest", ingest.request},
	{"decommission", decommission.request},
}

// forced is the request of an operation that does not ask the operating system.
func forced(op operation) func(o submission) *flowopsv1.ExplainRequest {
	return func(o submission) *flowopsv1.ExplainRequest {
		o.forced = true
		return op.request(o)
	}
}

// ruleTrial is the flags of rule explain.
type ruleTrial struct {
	scope  selector
	ruleID string
	file   string // the rule to try
	rack   string // the document of a rack to try it on
	op     ruleOperation
}

func (c *cli) ruleExplainCommand() *cobra.Command {
	t := ruleTrial{scope: selector{external: flowv1.ComponentType_COMPONENT_TYPE_COMPUTE}}
	cmd := &cobra.Command{
		Use:   "explain (OPERATION RACK... | -f FILE --rack FILE)",
		Short: "Show what a rule makes of an operation on a rack",
		Long: `Show what becomes of an operation on racks: which rule counts for each rack and why, its stages, steps and actions, and
how long it takes. Nothing is done. OPERATION is one of ` + accepted(explained) + `.

With --file and --rack a rule that need not be stored is tried on a rack that need not be in inventory, without a
server: --file is the JSON document of the rule, or a YAML file of rules with one for the operation, --rack that of a rack as rack create takes it. The rule is tried for
power_control/power_on, unless --operation-type and --operation say else.`,
		Example: `  flow rule explain power_on rack-1
  flow rule explain upgrade --domain nvl-1 --rule-id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11
  flow rule explain -f rule.json --rack rack.json
  flow rule explain -f rule.json --rack rack.json --operation-type firmware_control --operation upgrade -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f := cmd.Flags()
			if f.Changed("file") || f.Changed("rack") {
				return c.tryRule(cmd, args, t)
			}
			if f.Changed("operation-type") || f.Changed("operation") {
				return &usageError{cmd: cmd, err: fmt.Errorf("rule explain: --operation-type and --operation go with --file")}
			}
			if len(args) == 0 {
				return &usageError{cmd: cmd, err: fmt.Errorf("rule explain: needs an operation: %s", accepted(explained))}
			}
			request, err := parseWord(explained, "operation", args[0])
			if err != nil {
				for _, t := range rules.StoredTypes {
					if slices.Contains(t.Codes(), strings.ToLower(args[0])) { // rules are stored for it, but no request asks for it
						return fmt.Errorf("rule explain: operation %s can't be requested by itself: -f and --rack try a rule for it", line(args[0]))
					}
				}
				return fmt.Errorf("rule explain: %w", err)
			}
			var o submission
			if o.target, err = t.scope.target(cmd, args[1:]); err != nil {
				return err
			}
			if f.Changed("rule-id") {
				if o.rule, err = idFlag(cmd, "rule-id"); err != nil {
					return err
				}
			}
			return c.explain(cmd, request(o))
		},
	}
	t.scope.register(c, cmd)
	cmd.ValidArgsFunction = c.completeExplained
	f := cmd.Flags()
	f.StringVar(&t.ruleID, "rule-id", "", "id of the rule to follow instead of the one that applies")
	f.StringVarP(&t.file, "file", "f", "", "`FILE` with a rule to try, - for standard input")
	f.StringVar(&t.rack, "rack", "", "`FILE` with a rack to try it on, - for standard input")
	t.op.register(cmd)
	must(cmd.RegisterFlagCompletionFunc("rule-id", c.completeRules))
	must(cmd.MarkFlagFilename("file", "json"))
	must(cmd.MarkFlagFilename("rack", "json"))
	return cmd
}

// completeExplained offers an operation, and then racks.
func (c *cli) completeExplained(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return texts(explained), cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeRacks(cmd, args, typed)
}

// tryRule plans a rule for the components of a rack, both from files.
func (c *cli) tryRule(cmd *cobra.Command, args []string, t ruleTrial) error {
	f := cmd.Flags()
	if err := requiredFlags(cmd, "to try a rule without a server", "file", "rack"); err != nil {
		return err
	}
	for _, way := range append(t.scope.ways(), args) {
		if len(way) > 0 || f.Changed("rule-id") || f.Changed("type") {
			return &usageError{cmd: cmd, err: fmt.Errorf("rule explain: --file and --rack take no operation, racks or rule of a server")}
		}
	}
	if t.file == "-" && t.rack == "-" {
		return &usageError{cmd: cmd, err: fmt.Errorf("rule explain: only one of --file and --rack can be standard input")}
	}
	op, err := trialOperation(cmd, t.op)
	if err != nil {
		return err
	}
	tried, _, err := c.trialPlan(t.file, t.rack, op)
	if err != nil {
		return fmt.Errorf("rule explain: %w", err)
	}
	plan := rpc.PlanMessage(tried)
	return c.print(plan, func(w io.Writer) error {
		if err := facts(w, planFacts(plan, "")); err != nil {
			return err
		}
		fmt.Fprintln(w)
		return planTable(w, plan)
	})
}

// trialPlan reads both files and makes the plan.
func (c *cli) trialPlan(file, rackFile string, op rules.Operation) (rules.Plan, *flowv1.Rack, error) {
	rule, name, err := c.trialRule(file, op)
	if err != nil {
		return rules.Plan{}, nil, err
	}
	doc, rackName, err := readDocument(c.in, rackFile)
	if err != nil {
		return rules.Plan{}, nil, err
	}
	rack, warnings, err := parseRack(doc, asNew)
	c.warn(rackName, warnings)
	if err != nil {
		return rules.Plan{}, nil, inDocument(rackName, err)
	}
	plan, err := rules.NewPlan(rules.Input{Operation: op, Rule: rule, Components: plannable(rack)})
	if err != nil {
		// It calls a rule without an id built-in.
		return plan, nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "rule "+rule.String()+": "))
	}
	return plan, rack, nil
}

// trialRule reads a rule from its JSON document, or from a YAML file the rule for the operation: the default one, else the
// only one.
func (c *cli) trialRule(file string, op rules.Operation) (rules.Rule, string, error) {
	doc, name, err := readDocument(c.in, file)
	if err != nil {
		return rules.Rule{}, name, err
	}
	if isBatch(name, doc) {
		drafts, err := rules.ParseBatch(doc)
		if err != nil {
			return rules.Rule{}, name, problemsIn(name, err)
		}
		var fit []rules.Draft
		for _, d := range drafts {
			if d.Operation == op {
				fit = append(fit, d)
			}
		}
		if i := slices.IndexFunc(fit, func(d rules.Draft) bool { return d.IsDefault }); i >= 0 {
			fit = fit[i : i+1]
		}
		if len(fit) != 1 {
			return rules.Rule{}, name, fmt.Errorf("%s: has %d rules for %s, and none of them is its default: name the operation of another one, "+
				"or try a file with one rule", name, len(fit), op)
		}
		return rules.Rule{Name: fit[0].Name, Definition: fit[0].Definition}, name, nil
	}
	definition, err := rules.Parse(doc)
	if err == nil {
		err = definition.Validate(op)
	}
	if err != nil {
		return rules.Rule{}, name, problemsIn(name, err)
	}
	return rules.Rule{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), Definition: definition}, name, nil
}

// trialOperation is what a rule is tried for: power_control/power_on, unless the flags say else.
func trialOperation(cmd *cobra.Command, o ruleOperation) (rules.Operation, error) {
	f := cmd.Flags()
	if !f.Changed("operation-type") && !f.Changed("operation") {
		return rules.Operation{Type: rules.TaskPowerControl, Code: string(hardware.PowerOn)}, nil
	}
	for flag, other := range map[string]string{"operation-type": "operation", "operation": "operation-type"} {
		if err := requiredFlags(cmd, "with --"+other, flag); err != nil {
			return rules.Operation{}, err
		}
	}
	_, op, err := o.read()
	if err != nil {
		return op, fmt.Errorf("%s: %w", commandName(cmd), err)
	}
	return op, nil
}

// plannable are the components of a rack that was read from a document, as the planner takes them.
func plannable(rack *flowv1.Rack) []rules.Component {
	list := make([]rules.Component, len(rack.GetComponents()))
	for i, m := range rack.GetComponents() {
		list[i] = rules.Component{
			Component: hardware.Component{
				ID:         uuid.MustParse(m.GetInfo().GetId().GetId()), // checked or generated
				RackID:     uuid.MustParse(rack.GetInfo().GetId().GetId()),
				Type:       hardware.ComponentType(typeName(m.GetType())),
				Name:       m.GetInfo().GetName(),
				ExternalID: m.GetComponentId(),
			},
			Slot: int(m.GetPosition().GetSlotId()),
			Tray: int(m.GetPosition().GetTrayIdx()),
			Host: int(m.GetPosition().GetHostId()),
		}
	}
	return list
}
