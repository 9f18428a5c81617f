package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) ruleUpdateCommand() *cobra.Command {
	var name, description, file string
	var strict bool
	cmd := &cobra.Command{
		Use:   "update ID",
		Short: "Replace the name, description or definition of a rule",
		Long: `Replace the name, the description or the definition of a stored rule, in one piece. What is not given stays as it is, and
so do the id of the rule, its operation, the racks it is associated with, and whether it is a default. An empty
--description clears it. Tasks that run go on with the rule as it was, waiting ones take the new one.`,
		Example: `  flow rule update 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 --rule-file rule.json --strict
  flow rule update 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 --name 'one shelf at a time'`,
		Args:              arguments(1, 1, "the id of a rule"),
		ValidArgsFunction: c.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			f := cmd.Flags()
			if !f.Changed("name") && !f.Changed("description") && !f.Changed("rule-file") {
				return &usageError{cmd: cmd, err: fmt.Errorf("rule update: needs --name, --description or --rule-file")}
			}
			id, err := ruleIDArgument(cmd, args)
			if err != nil {
				return err
			}
			req := &flowv1.UpdateOperationRuleRequest{RuleId: id}
			if f.Changed("name") {
				req.Name = &name
			}
			if f.Changed("description") {
				req.Description = &description
			}
			if f.Changed("rule-file") {
				definition, err := c.readRule(file, strict)
				if err != nil {
					return fmt.Errorf("rule update: %w", err)
				}
				req.RuleDefinitionJson = &definition
				if err := fits(documentName(file), req); err != nil {
					return fmt.Errorf("rule update: %w", err)
				}
			}
			err = c.onServer(cmd, func(ctx context.Context, s *client) error {
				_, err := s.flow.UpdateOperationRule(ctx, req)
				return err
			})
			if err != nil {
				return err
			}
			return c.says(map[string]string{"id": id.GetId()}, "Successfully updated rule "+id.GetId())
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "new name")
	f.StringVar(&description, "description", "", "new description")
	f.StringVar(&file, "rule-file", "", "`FILE` with the new definition as a JSON document, - for standard input")
	f.BoolVar(&strict, "strict", false, "refuse unknown keys")
	must(cmd.MarkFlagFilename("rule-file", "json"))
	return cmd
}

func (c *cli) ruleDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID",
		Short: "Remove a stored rule",
		Long: `Remove a stored rule and its associations with racks. Where it was the default of its operation, the rule that Flow
brings along counts again. Removing a rule that is gone is no error.`,
		Example:           `  flow rule delete 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		Args:              arguments(1, 1, "the id of a rule"),
		ValidArgsFunction: c.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := ruleIDArgument(cmd, args)
			if err != nil {
				return err
			}
			err = c.onServer(cmd, func(ctx context.Context, s *client) error {
				_, err := s.flow.DeleteOperationRule(ctx, &flowv1.DeleteOperationRuleRequest{RuleId: id})
				return err
			})
			if err != nil {
				return err
			}
			return c.says(map[string]string{"id": id.GetId()}, "Successfully deleted rule "+id.GetId())
		},
	}
}

func (c *cli) ruleSetDefaultCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set-default --id ID",
		Short:   "Make a rule the default of its operation",
		Long:    `Make a rule the default of its operation, instead of the one that is.`,
		Example: `  flow rule set-default --id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		Args:    arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requiredFlags(cmd, "", "id"); err != nil {
				return err
			}
			id, err := idFlag(cmd, "id")
			if err != nil {
				return err
			}
			err = c.onServer(cmd, func(ctx context.Context, s *client) error {
				_, err := s.flow.SetRuleAsDefault(ctx, &flowv1.SetRuleAsDefaultRequest{RuleId: id})
				return err
			})
			if err != nil {
				return err
			}
			return c.says(map[string]string{"id": id.GetId()}, "Successfully set rule as default", "Rule ID: "+id.GetId())
		},
	}
	cmd.Flags().String("id", "", "id of the rule")
	must(cmd.RegisterFlagCompletionFunc("id", c.completeRules))
	return cmd
}

func (c *cli) ruleAssociateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "associate --rack-id ID --rule-id ID",
		Short: "Make a rule the one that counts for a rack",
		Long: `Make a rule the one that counts for a rack when the operation of the rule is done to it. It replaces the rule that was
associated with the rack for the same operation.`,
		Example: `  flow rule associate --rack-id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 --rule-id 6f2c91d0-3b7e-4d7a-9d55-2f6f4f1d8a10`,
		Args:    arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requiredFlags(cmd, "", "rack-id", "rule-id"); err != nil {
				return err
			}
			rack, err := idFlag(cmd, "rack-id")
			if err != nil {
				return err
			}
			rule, err := idFlag(cmd, "rule-id")
			if err != nil {
				return err
			}
			err = c.onServer(cmd, func(ctx context.Context, s *client) error {
				_, err := s.flow.AssociateRuleWithRack(ctx, &flowv1.AssociateRuleWithRackRequest{RackId: rack, RuleId: rule})
				return err
			})
			if err != nil {
				return err
			}
			return c.says(map[string]string{"rack_id": rack.GetId(), "rule_id": rule.GetId()},
				fmt.Sprintf("Successfully associated rule %s with rack %s", rule.GetId(), rack.GetId()))
		},
	}
	cmd.Flags().String("rack-id", "", "id of the rack")
	cmd.Flags().String("rule-id", "", "id of the rule")
	must(cmd.RegisterFlagCompletionFunc("rack-id", c.completeRackIDs))
	must(cmd.RegisterFlagCompletionFunc("rule-id", c.completeRules))
	return cmd
}

func (c *cli) ruleDisassociateCommand() *cobra.Command {
	var op ruleOperation
	cmd := &cobra.Command{
		Use:   "disassociate --rack-id ID --operation-type TYPE --operation CODE",
		Short: "Take a rack's own rule for an operation away",
		Long: `Take the rule away that is associated with a rack for an operation. The rule itself stays. It is no error when there is
none.`,
		Example: `  flow rule disassociate --rack-id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 --operation-type power_control --operation power_on`,
		Args:    arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requiredFlags(cmd, "", "rack-id", "operation-type", "operation"); err != nil {
				return err
			}
			rack, err := idFlag(cmd, "rack-id")
			if err != nil {
				return err
			}
			kind, o, err := op.read()
			if err != nil {
				return fmt.Errorf("rule disassociate: %w", err)
			}
			err = c.onServer(cmd, func(ctx context.Context, s *client) error {
				_, err := s.flow.DisassociateRuleFromRack(ctx, &flowv1.DisassociateRuleFromRackRequest{
					RackId: rack, OperationType: kind, OperationCode: o.Code,
				})
				return err
			})
			if err != nil {
				return err
			}
			return c.says(map[string]string{"rack_id": rack.GetId(), "operation_type": string(o.Type), "operation_code": o.Code},
				fmt.Sprintf("Successfully removed rule association from rack %s for %s", rack.GetId(), o))
		},
	}
	cmd.Flags().String("rack-id", "", "id of the rack")
	op.register(cmd)
	must(cmd.RegisterFlagCompletionFunc("rack-id", c.completeRackIDs))
	return cmd
}
