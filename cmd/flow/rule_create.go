package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// newRule is the flags of rule create.
type newRule struct {
	op                        ruleOperation
	name, description, file   string
	isDefault                 bool
	yaml                      string
	overwrite, dryRun, strict bool
}

func (c *cli) ruleCreateCommand() *cobra.Command {
	var r newRule
	cmd := &cobra.Command{
		Use:   "create (--name NAME --operation-type TYPE --operation CODE --rule-file FILE | --from-yaml FILE)",
		Short: "Store one rule, or those of a file",
		Long: `Store one rule, or all rules of a YAML file.

One rule is described by flags, and its definition is a JSON document. The server checks it and says all that is wrong.

A file has version, which is v1, and rules; each with name, description, operation_type, operation, is_default and
steps. A rule is the default of its operation unless it says is_default: false. The file is checked as a whole first;
its rules are then stored in one piece: all of them or none. A default rule stands for the default of its operation that
is stored already, any other rule for the stored one of the same operation and name. Such a rule is left as it is, or
with --overwrite takes over name, description and definition, and keeps its id and the racks it is associated with.
--dry-run checks the file and says what would be created, without asking a server.

--strict refuses keys that Flow does not know, which are ignored otherwise.`,
		Example: `  flow rule create --name 'one shelf at a time' --operation-type power_control --operation power_on --rule-file rule.json
  flow rule create --from-yaml rules.yaml --dry-run --strict
  flow rule create --from-yaml rules.yaml --overwrite`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.check(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("from-yaml") {
				return c.createRules(cmd, r)
			}
			return c.createRule(cmd, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.name, "name", "", "name of the rule")
	f.StringVar(&r.description, "description", "", "what the rule is for")
	r.op.register(cmd)
	f.StringVar(&r.file, "rule-file", "", "`FILE` with the definition as a JSON document, - for standard input")
	f.BoolVar(&r.isDefault, "is-default", false, "make it the default rule of its operation")
	f.StringVar(&r.yaml, "from-yaml", "", "YAML `FILE` with rules, - for standard input")
	f.BoolVar(&r.overwrite, "overwrite", false, "with --from-yaml: replace rules that are stored already")
	f.BoolVar(&r.dryRun, "dry-run", false, "with --from-yaml: check the file only")
	f.BoolVar(&r.strict, "strict", false, "refuse unknown keys")
	must(cmd.MarkFlagFilename("rule-file", "json"))
	must(cmd.MarkFlagFilename("from-yaml", "yaml", "yml"))
	return cmd
}

// check refuses flags that do not go together.
func (r *newRule) check(cmd *cobra.Command) error {
	f := cmd.Flags()
	refuse := func(format string, args ...any) error {
		return &usageError{cmd: cmd, err: fmt.Errorf("rule create: "+format, args...)}
	}
	if !f.Changed("from-yaml") {
		for _, name := range []string{"overwrite", "dry-run"} {
			if f.Changed(name) {
				return refuse("--%s goes with --from-yaml", name)
			}
		}
		return requiredFlags(cmd, "for single rule mode", "name", "operation-type", "operation", "rule-file")
	}
	for _, name := range []string{"name", "rule-file", "operation-type", "operation", "is-default", "description"} {
		if f.Changed(name) {
			return refuse("--from-yaml and --%s are mutually exclusive", name)
		}
	}
	if r.overwrite && r.dryRun {
		return refuse("--overwrite and --dry-run are mutually exclusive")
	}
	return nil
}

// createRule stores the one rule of the flags.
func (c *cli) createRule(cmd *cobra.Command, r newRule) error {
	kind, op, err := r.op.read()
	if err != nil {
		return fmt.Errorf("rule create: %w", err)
	}
	definition, err := c.readRule(r.file, r.strict)
	if err != nil {
		return fmt.Errorf("rule create: %w", err)
	}
	req := &flowv1.CreateOperationRuleRequest{
		Name: r.name, Description: r.description, OperationType: kind, OperationCode: op.Code,
		RuleDefinitionJson: definition, IsDefault: r.isDefault,
	}
	if err := fits(documentName(r.file), req); err != nil {
		return fmt.Errorf("rule create: %w", err)
	}
	var resp *flowv1.CreateOperationRuleResponse
	err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
		resp, err = s.flow.CreateOperationRule(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	id := resp.GetId().GetId()
	return c.says(map[string]string{"id": id, "name": r.name}, "Successfully created rule", "ID:   "+id, "Name: "+r.name)
}
