package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) ruleListCommand() *cobra.Command {
	var kind, rack string
	var defaultOnly bool
	var limit, offset int32
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List stored rules, newest first, or those of a rack",
		Long: `List the rules that are stored, newest first. The rules that Flow brings along are not stored.

--rack-id lists the rules that are associated with a rack instead, one an operation at most.`,
		Example: `  flow rule list --operation-type power_control --default-only
  flow rule list --rack-id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11
  flow rule list -o json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("rack-id") {
				return c.listAssociations(cmd)
			}
			pagination, err := page(limit, offset)
			if err != nil {
				return &usageError{cmd: cmd, err: fmt.Errorf("rule list: %w", err)}
			}
			req := &flowv1.ListOperationRulesRequest{Offset: &pagination.Offset, Limit: &pagination.Limit}
			if cmd.Flags().Changed("operation-type") {
				t, err := parseWord(ruleTypeWords, "operation type", kind)
				if err != nil {
					return fmt.Errorf("rule list: %w", err)
				}
				req.OperationType = &t
			}
			if defaultOnly {
				req.IsDefault = &defaultOnly
			}
			var resp *flowv1.ListOperationRulesResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				resp, err = s.flow.ListOperationRules(ctx, req)
				return err
			})
			if err != nil {
				return err
			}
			return c.print(resp, func(w io.Writer) error { return ruleTable(w, resp) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&kind, "operation-type", "", "only rules for this kind of operation: "+accepted(ruleTypeWords))
	f.BoolVar(&defaultOnly, "default-only", false, "only default rules")
	f.StringVar(&rack, "rack-id", "", "the rules that are associated with this rack")
	pageFlags(f, &limit, &offset)
	must(cmd.RegisterFlagCompletionFunc("operation-type", completeWords(ruleTypeWords)))
	must(cmd.RegisterFlagCompletionFunc("rack-id", c.completeRackIDs))
	return cmd
}

func ruleTable(w io.Writer, resp *flowv1.ListOperationRulesResponse) error {
	if len(resp.GetRules()) == 0 {
		_, err := fmt.Fprintln(w, "No rules found")
		return err
	}
	rows := make([][]string, len(resp.GetRules()))
	for i, r := range resp.GetRules() {
		isDefault := "no"
		if r.GetIsDefault() {
			isDefault = "yes"
		}
		rows[i] = []string{
			r.GetId().GetId(), line(r.GetName()), ruleTypeName(r.GetOperationType()), r.GetOperationCode(), isDefault, ruleTime(r.GetCreatedAt()),
		}
	}
	if err := ruledGrid(w, []string{"ID", "NAME", "OPERATION TYPE", "OPERATION CODE", "DEFAULT", "CREATED AT"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nTotal: %d rules\n", resp.GetTotalCount())
	return err
}

// ruledGrid is grid with a dashed line under the head, as NICo Flow prints rules.
func ruledGrid(w io.Writer, head []string, rows [][]string) error {
	var b bytes.Buffer
	if err := grid(&b, head, rows); err != nil {
		return err
	}
	width := 0
	for l := range strings.Lines(b.String()) {
		width = max(width, utf8.RuneCountInString(strings.TrimSpace(l)))
	}
	first, rest, _ := strings.Cut(b.String(), "\n")
	_, err := fmt.Fprintf(w, "%s\n%s\n%s", first, strings.Repeat("-", width), rest)
	return err
}

// listAssociations lists the rules of one rack.
func (c *cli) listAssociations(cmd *cobra.Command) error {
	for _, name := range []string{"operation-type", "default-only", "offset", "limit"} {
		if cmd.Flags().Changed(name) {
			return &usageError{cmd: cmd, err: fmt.Errorf("rule list: --rack-id and --%s are mutually exclusive", name)}
		}
	}
	rack, err := idFlag(cmd, "rack-id")
	if err != nil {
		return err
	}
	var resp *flowv1.ListRackRuleAssociationsResponse
	names := make(map[string]string)
	err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
		resp, err = s.flow.ListRackRuleAssociations(ctx, &flowv1.ListRackRuleAssociationsRequest{RackId: rack})
		if err != nil || c.output != formatTable {
			return err
		}
		for _, a := range resp.GetAssociations() { // an operation each, so there are few
			id := a.GetRuleId()
			if _, ok := names[id.GetId()]; ok {
				continue
			}
			rule, err := s.flow.GetOperationRule(ctx, &flowv1.GetOperationRuleRequest{RuleId: id})
			var ce *connect.Error
			if err != nil && !(errors.As(err, &ce) && ce.Code() == connect.CodeNotFound) {
				return err
			}
			names[id.GetId()] = rule.GetName()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.print(resp, func(w io.Writer) error { return associationTable(w, resp, names) })
}

func associationTable(w io.Writer, resp *flowv1.ListRackRuleAssociationsResponse, names map[string]string) error {
	if len(resp.GetAssociations()) == 0 {
		_, err := fmt.Fprintln(w, "No rules found")
		return err
	}
	rows := make([][]string, len(resp.GetAssociations()))
	for i, a := range resp.GetAssociations() {
		rows[i] = []string{
			ruleTypeName(a.GetOperationType()), a.GetOperationCode(), a.GetRuleId().GetId(), line(names[a.GetRuleId().GetId()]),
			ruleTime(a.GetCreatedAt()),
		}
	}
	if err := ruledGrid(w, []string{"OPERATION TYPE", "OPERATION CODE", "RULE ID", "NAME", "CREATED AT"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nTotal: %d rules\n", len(rows))
	return err
}
