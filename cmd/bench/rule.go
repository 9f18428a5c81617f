package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"rackflow.dev/flow/api/gen/flowv1"
)

// ruleKind is what a stage does beside sending its command to every component.
type ruleKind struct {
	verify bool          // it reads the state back
	hold   time.Duration // it goes on for this long, so that tasks overlap
}

// String is how the report names it.
func (k ruleKind) String() string {
	switch {
	case k.hold > 0:
		return fmt.Sprintf("%s a stage", k.hold)
	case k.verify:
		return "with verify"
	}
	return "no verify"
}

// rule is a pair of stored rules of one kind.
type rule struct {
	kind    ruleKind
	on, off string // ids
}

// createRule stores the three-stage rules of a kind: shelves, switches, trays to power on, and back to power off.
func (b *bench) createRule(ctx context.Context, kind ruleKind) (rule, error) {
	r := rule{kind: kind}
	kinds := []string{"PowerShelf", "NVSwitch", "Compute"}
	var err error
	if r.on, err = b.storeRule(ctx, kind, "on", kinds); err != nil {
		return r, err
	}
	slices.Reverse(kinds)
	r.off, err = b.storeRule(ctx, kind, "off", kinds)
	return r, err
}

func (b *bench) storeRule(ctx context.Context, kind ruleKind, state string, kinds []string) (string, error) {
	doc, err := json.Marshal(ruleDocument(kind, state, kinds))
	if err != nil {
		return "", err
	}
	res, err := b.client.flow.CreateOperationRule(ctx, &flowv1.CreateOperationRuleRequest{
		Name:               fmt.Sprintf("bench power %s, %s, %d", state, kind, time.Now().UnixNano()),
		OperationType:      flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL,
		OperationCode:      "power_" + state,
		RuleDefinitionJson: string(doc),
	})
	if err != nil {
		return "", fmt.Errorf("create rule: %w", err)
	}
	return res.GetId().GetId(), nil
}

// deleteRule is for servers that live on; what it leaves behind does no harm.
func (b *bench) deleteRule(ctx context.Context, r rule) {
	for _, id := range []string{r.on, r.off} {
		_, _ = b.client.flow.DeleteOperationRule(ctx, &flowv1.DeleteOperationRuleRequest{RuleId: &flowv1.UUID{Id: id}})
	}
}

// ruleDocument is a rule of schema v1, a stage for each kind of component.
func ruleDocument(kind ruleKind, state string, kinds []string) map[string]any {
	var after []any
	if kind.verify {
		after = append(after, map[string]any{
			"name": "VerifyPowerStatus", "timeout": "5m", "poll_interval": "10s",
			"parameters": map[string]any{"expected_status": state},
		})
	}
	if kind.hold > 0 {
		after = append(after, map[string]any{"name": "Sleep", "parameters": map[string]any{"duration": kind.hold.String()}})
	}
	var steps []any
	for i, k := range kinds {
		step := map[string]any{
			"component_type": k, "stage": i + 1, "timeout": "15m",
			"retry":          map[string]any{"max_attempts": 3, "initial_interval": "5s", "backoff_coefficient": 2.0},
			"main_operation": map[string]any{"name": "PowerControl"},
		}
		if len(after) > 0 {
			step["post_operation"] = after
		}
		steps = append(steps, step)
	}
	return map[string]any{"version": "v1", "steps": steps}
}

// compareRules orders the rows of the report: without verify, with it, then the slow ones.
func compareRules(x, y ruleKind) int {
	rank := func(k ruleKind) int64 {
		if k.verify {
			return 1
		}
		return int64(k.hold)
	}
	return cmp.Compare(rank(x), rank(y))
}
