package rpc

import (
	"context"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/engine/rule"
)

var ruleOutcomes = map[rule.Outcome]flowopsv1.RuleOutcome{
	rule.Created:     flowopsv1.RuleOutcome_RULE_OUTCOME_CREATED,
	rule.Overwritten: flowopsv1.RuleOutcome_RULE_OUTCOME_OVERWRITTEN,
	rule.Skipped:     flowopsv1.RuleOutcome_RULE_OUTCOME_SKIPPED,
}

// ReplaceOperationRules implements flowopsv1connect.FlowOpsHandler.
func (s *opsService) ReplaceOperationRules(ctx context.Context, m *flowopsv1.ReplaceOperationRulesRequest) (*flowopsv1.ReplaceOperationRulesResponse, error) {
	drafts := each(m.GetRules(), func(d *flowopsv1.OperationRuleDraft) rule.Draft { return draft(d) })
	done, err := rule.Replace(ctx, s.store, drafts, m.GetOverwrite())
	if err != nil {
		return nil, err
	}
	return &flowopsv1.ReplaceOperationRulesResponse{Rules: each(done, func(r rule.Replaced) *flowopsv1.ReplacedRule {
		return &flowopsv1.ReplacedRule{Id: idMessage(r.ID), Outcome: ruleOutcomes[r.Outcome]}
	})}, nil
}
