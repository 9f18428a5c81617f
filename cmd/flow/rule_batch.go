package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/rules"
)

// maxBatch is how many rules a server takes at once.
const maxBatch = 1000

// batchedRule is a rule of a batch and what became of it, for scripts.
type batchedRule struct {
	ID            string `json:"id,omitempty"`
	Name          string `json:"name"`
	OperationType string `json:"operation_type"`
	OperationCode string `json:"operation_code"`
	IsDefault     bool   `json:"is_default"`
	Stages        int    `json:"stages"`
	Outcome       string `json:"outcome,omitempty"` // created, overwritten or skipped; empty in a dry run

	description string
	result      flowopsv1.RuleOutcome
}

// operation is type and code as the lines about the rule have it.
func (r *batchedRule) operation() string { return r.OperationType + "/" + r.OperationCode }

// batchResult is what is printed of a batch.
type batchResult struct {
	Rules []batchedRule `json:"rules"`
}

// createRules stores the rules of a YAML file in one piece.
func (c *cli) createRules(cmd *cobra.Command, r newRule) error {
	if c.output == formatTable {
		fmt.Fprintf(c.out, "Loading rules from: %s\n", line(documentName(r.yaml)))
	}
	drafts, name, err := c.readBatch(r.yaml, r.strict)
	if err != nil {
		return fmt.Errorf("rule create: %w", err)
	}
	req, err := batchRequest(drafts, r.overwrite)
	if err == nil {
		err = fits(name, req)
	}
	if err != nil {
		return fmt.Errorf("rule create: %w", err)
	}
	result := batchResult{Rules: make([]batchedRule, len(drafts))}
	for i, d := range drafts {
		result.Rules[i] = batchedRule{
			Name: d.Name, OperationType: string(d.Operation.Type), OperationCode: d.Operation.Code,
			IsDefault: d.IsDefault, Stages: stages(d.Definition), description: d.Description,
		}
	}
	if r.dryRun {
		run := "flow rule create" + connectionFlags(cmd) + " --from-yaml " + shellWord(r.yaml)
		switch {
		case r.yaml == "-": // it has been read
			run = ""
		case r.strict:
			run += " --strict"
		}
		return c.printValue(result, func(w io.Writer) error { return result.preview(w, run) })
	}
	if len(drafts) > 0 {
		if err := c.replaceRules(cmd, req, result.Rules); err != nil {
			return err
		}
	}
	return c.printValue(result, result.summary)
}

// readBatch reads a YAML file of rules.
func (c *cli) readBatch(path string, strict bool) (drafts []rules.Draft, name string, err error) {
	text, name, err := readDocument(c.in, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, name, fmt.Errorf("YAML file not found: %s", path)
	case err != nil:
		return nil, name, err
	}
	parse := rules.ParseBatch
	if strict {
		parse = rules.ParseBatchStrict
	}
	drafts, err = parse(text)
	switch {
	case err != nil:
		return nil, name, problemsIn(name, err)
	case len(drafts) > maxBatch:
		return nil, name, fmt.Errorf("%s: has %d rules, at most %d can be stored in one piece", name, len(drafts), maxBatch)
	}
	return drafts, name, nil
}

// batchRequest is what is sent of a batch.
func batchRequest(drafts []rules.Draft, overwrite bool) (*flowopsv1.ReplaceOperationRulesRequest, error) {
	req := &flowopsv1.ReplaceOperationRulesRequest{Overwrite: overwrite}
	for _, d := range drafts {
		doc, err := d.Definition.MarshalJSON()
		if err != nil {
			return nil, err
		}
		kind, err := parseWord(ruleTypeWords, "operation type", string(d.Operation.Type))
		if err != nil {
			return nil, err
		}
		req.Rules = append(req.Rules, &flowopsv1.OperationRuleDraft{
			Name: d.Name, Description: d.Description, OperationType: kind, OperationCode: d.Operation.Code,
			RuleDefinitionJson: string(doc), IsDefault: d.IsDefault,
		})
	}
	return req, nil
}

// replaceRules sends a batch and notes what became of each rule.
func (c *cli) replaceRules(cmd *cobra.Command, req *flowopsv1.ReplaceOperationRulesRequest, list []batchedRule) error {
	return c.onServer(cmd, func(ctx context.Context, s *client) error {
		resp, err := s.ops.ReplaceOperationRules(ctx, req)
		if err != nil {
			return err
		}
		if len(resp.GetRules()) != len(list) {
			return fmt.Errorf("the server stored the batch, but answers for %d of %d rules", len(resp.GetRules()), len(list))
		}
		for i, stored := range resp.GetRules() {
			list[i].ID = stored.GetId().GetId()
			list[i].result = stored.GetOutcome()
			list[i].Outcome = plainWord(stored.GetOutcome(), "RULE_OUTCOME_")
		}
		return nil
	})
}

// summary says what became of each rule, and how many there were of each kind.
func (b batchResult) summary(w io.Writer) error {
	count := make(map[flowopsv1.RuleOutcome]int)
	for _, r := range b.Rules {
		count[r.result]++
		name := line(r.Name)
		switch r.result {
		case flowopsv1.RuleOutcome_RULE_OUTCOME_CREATED:
			fmt.Fprintf(w, "Created: %s (%s)\n", name, r.operation())
		case flowopsv1.RuleOutcome_RULE_OUTCOME_OVERWRITTEN:
			fmt.Fprintf(w, "Overwriting: %s (%s)\n", name, r.operation())
		case flowopsv1.RuleOutcome_RULE_OUTCOME_SKIPPED:
			fmt.Fprintf(w, "Skipped: %s (%s) - already exists\n", name, r.operation())
		}
	}
	if len(b.Rules) == 0 {
		_, err := fmt.Fprintln(w, "No rules in the file")
		return err
	}
	fmt.Fprintln(w)
	for _, l := range []struct {
		outcome flowopsv1.RuleOutcome
		format  string
	}{
		{flowopsv1.RuleOutcome_RULE_OUTCOME_CREATED, "Created: %d rules\n"},
		{flowopsv1.RuleOutcome_RULE_OUTCOME_OVERWRITTEN, "Overwritten: %d rules\n"},
		{flowopsv1.RuleOutcome_RULE_OUTCOME_SKIPPED, "Skipped: %d rules (already exist)\n"},
	} {
		if n := count[l.outcome]; n > 0 {
			if _, err := fmt.Fprintf(w, l.format, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// preview says what a dry run has found, and with which command it is done.
func (b batchResult) preview(w io.Writer, run string) error {
	fmt.Fprint(w, "\nValidation successful!\n")
	for _, t := range rules.StoredTypes {
		head := fmt.Sprintf("\n%s:\n", t)
		for _, r := range b.Rules {
			if r.OperationType != string(t) {
				continue
			}
			fmt.Fprint(w, head+"  "+r.preview()+"\n")
			head = ""
		}
	}
	_, err := fmt.Fprintf(w, "\nWould create: %d rules\n", len(b.Rules))
	if err == nil && run != "" {
		_, err = fmt.Fprintf(w, "\nTo create them, run:\n  %s\n", line(run))
	}
	return err
}

func (r *batchedRule) preview() string {
	var b strings.Builder
	b.WriteString(r.OperationCode + ": " + line(r.Name))
	if r.description != "" {
		b.WriteString(" - " + line(strings.TrimSpace(r.description)))
	}
	fmt.Fprintf(&b, " (%d stages", r.Stages)
	if r.IsDefault {
		b.WriteString(", default")
	}
	return b.String() + ")"
}
