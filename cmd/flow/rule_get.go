package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) ruleGetCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a stored rule with its definition",
		Long: `Show a stored rule with its definition. --file writes the definition to a file instead, in the form that create and
update take by --rule-file.`,
		Example: `  flow rule get 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11
  flow rule get 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 --file rule.json
  flow rule get 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 -o json`,
		Args:              arguments(1, 1, "the id of a rule"),
		ValidArgsFunction: c.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := ruleIDArgument(cmd, args)
			if err != nil {
				return err
			}
			var r *flowv1.OperationRule
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				r, err = s.flow.GetOperationRule(ctx, &flowv1.GetOperationRuleRequest{RuleId: id})
				if err == nil && r.GetId().GetId() == "" { // NICo Flow's answer
					err = fmt.Errorf("operation rule %s not found", id.GetId())
				}
				return err
			})
			switch {
			case err != nil:
				return err
			case cmd.Flags().Changed("file"):
				return c.writeDefinition(r, file)
			}
			return c.print(r, func(w io.Writer) error { return ruleReport(w, r) })
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "write the definition to this `FILE`, - for standard output")
	must(cmd.MarkFlagFilename("file", "json"))
	return cmd
}

// writeDefinition puts the definition of a rule where create can read it.
func (c *cli) writeDefinition(r *flowv1.OperationRule, path string) error {
	doc := append(definitionText(r), '\n')
	if path == "-" {
		_, err := c.out.Write(doc)
		return err
	}
	if err := os.WriteFile(path, doc, 0o644); err != nil {
		return fmt.Errorf("rule get: %w", err)
	}
	return c.says(map[string]string{"id": r.GetId().GetId(), "file": path}, "Definition written to "+path)
}

// definitionText is the definition of a rule in lines, or as it is when it is no JSON.
func definitionText(r *flowv1.OperationRule) []byte {
	var b bytes.Buffer
	if json.Indent(&b, []byte(r.GetRuleDefinitionJson()), "", "  ") != nil {
		return []byte(r.GetRuleDefinitionJson())
	}
	return b.Bytes()
}

func ruleReport(w io.Writer, r *flowv1.OperationRule) error {
	tw := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	for _, f := range [][2]string{
		{"ID", r.GetId().GetId()},
		{"Name", r.GetName()},
		{"Description", r.GetDescription()},
		{"Operation Type", ruleTypeName(r.GetOperationType())},
		{"Operation Code", r.GetOperationCode()},
		{"Is Default", fmt.Sprint(r.GetIsDefault())},
		{"Created At", ruleTime(r.GetCreatedAt())},
		{"Updated At", ruleTime(r.GetUpdatedAt())},
	} {
		fmt.Fprintf(tw, "%s:\t%s\n", f[0], line(f[1]))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nRule Definition (JSON):\n%s\n", clean(string(definitionText(r))))
	return err
}
