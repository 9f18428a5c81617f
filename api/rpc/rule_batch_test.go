package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// batchRule is a good rule of a batch.
func batchRule(name, code string, isDefault bool) *flowopsv1.OperationRuleDraft {
	return &flowopsv1.OperationRuleDraft{
		Name: name, Description: "about " + name, OperationType: powerRule, OperationCode: code,
		RuleDefinitionJson: onlyStep(`"timeout": "7m"`), IsDefault: isDefault,
	}
}

// replace sends a batch and returns what became of each rule, as "CREATED".
func (s *site) replace(overwrite bool, batch ...*flowopsv1.OperationRuleDraft) (ids []*flowv1.UUID, outcomes []string, err error) {
	res, err := s.ops.ReplaceOperationRules(s.t.Context(), &flowopsv1.ReplaceOperationRulesRequest{Rules: batch, Overwrite: overwrite})
	for _, r := range res.GetRules() {
		ids = append(ids, r.GetId())
		outcomes = append(outcomes, strings.TrimPrefix(r.GetOutcome().String(), "RULE_OUTCOME_"))
	}
	return ids, outcomes, err
}

// TestABatchOfRulesIsStored also is D-31.23: what is overwritten keeps its id, its associations and its flag.
func TestABatchOfRulesIsStored(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 1))
		usual := s.storeRule(newRule("usual", func(r *flowv1.CreateOperationRuleRequest) { r.Description, r.IsDefault = "old", true }))
		special := s.storeRule(newRule("special", nil))
		s.storeRule(newRule("special", func(r *flowv1.CreateOperationRuleRequest) { r.OperationCode = "restart" })) // of another operation
		s.associate(t, 1, usual)
		batch := []*flowopsv1.OperationRuleDraft{
			batchRule("better", "power_on", true), batchRule("special", "power_on", false),
			batchRule("off", "power_off", true), batchRule("special", "power_off", false),
		}
		bound, before := s.associations(t, 1), s.storedRule(usual)

		ids, outcomes, err := s.replace(false, batch...)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"SKIPPED", "SKIPPED", "CREATED", "CREATED"}; !slices.Equal(outcomes, want) {
			t.Errorf("outcomes %q, want %q", outcomes, want)
		}
		if ids[0].GetId() != usual.GetId() || ids[1].GetId() != special.GetId() {
			t.Errorf("skipped %v and %v, want %v and %v", ids[0], ids[1], usual, special)
		}
		if d := diff(before, s.storedRule(usual)); d != "" {
			t.Errorf("a skipped rule has changed (-before +after):\n%s", d)
		}
		off := s.storedRule(ids[2])
		want := &flowv1.OperationRule{
			Id: ids[2], Name: "off", Description: "about off", OperationType: powerRule, OperationCode: "power_off", IsDefault: true,
			RuleDefinitionJson: `{"version":"v1","steps":[{"component_type":"Compute","stage":1,"max_parallel":0,"timeout":"7m0s","main_operation":{"name":"PowerControl"}}]}`,
			CreatedAt:          off.GetCreatedAt(), UpdatedAt: off.GetCreatedAt(),
		}
		if d := diff(want, off); d != "" {
			t.Errorf("created (-want +got):\n%s", d)
		}

		again, outcomes, err := s.replace(true, batch...)
		if err != nil {
			t.Fatal(err)
		}
		if want := slices.Repeat([]string{"OVERWRITTEN"}, 4); !slices.Equal(outcomes, want) {
			t.Errorf("outcomes %q, want %q", outcomes, want)
		}
		if d := cmp.Diff(each(ids, (*flowv1.UUID).GetId), each(again, (*flowv1.UUID).GetId)); d != "" {
			t.Errorf("ids (-before +after):\n%s", d)
		}
		got := s.storedRule(usual)
		if !got.GetUpdatedAt().AsTime().After(before.GetUpdatedAt().AsTime()) {
			t.Error("updated_at of an overwritten rule has not changed")
		}
		before.Name, before.Description, before.RuleDefinitionJson, before.UpdatedAt = "better", "about better", want.GetRuleDefinitionJson(), got.GetUpdatedAt()
		if d := diff(before, got); d != "" {
			t.Errorf("overwritten (-want +got):\n%s", d)
		}
		if d := cmp.Diff(bound, s.associations(t, 1)); d != "" {
			t.Errorf("associations (-before +after):\n%s", d)
		}
		if n := s.value("SELECT count(*)::text FROM operation_rule"); n != "5" {
			t.Errorf("%s rules are stored, want 5", n)
		}
		if ids, _, err := s.replace(true); err != nil || len(ids) != 0 {
			t.Errorf("an empty batch: %v, %v", ids, err)
		}
	})
}

func TestBatchesOfRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.storeRule(newRule("usual", func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault = true }))
		type draft = flowopsv1.OperationRuleDraft
		changed := func(name string, change func(*draft)) *draft {
			d := batchRule(name, "power_on", false)
			change(d)
			return d
		}
		good := batchRule("good", "power_off", true)
		for name, c := range map[string]struct {
			batch  []*draft
			words  []string
			fields []string
		}{
			"no name":             {[]*draft{good, changed("", func(*draft) {})}, []string{"rules[1].name: rule validation failed: rule name is required"}, []string{"rules[1].name"}},
			"a name with a NUL":   {[]*draft{good, changed("\x00", func(*draft) {})}, []string{"rules[1].name: ", "NUL"}, []string{"rules[1].name"}},
			"a type without them": {[]*draft{changed("x", func(d *draft) { d.OperationType = 0 })}, []string{"rules[0].operation_type"}, []string{"rules[0].operation_type"}},
			"a foreign code":      {[]*draft{changed("x", func(d *draft) { d.OperationCode = "upgrade" })}, []string{"rules[0].operation_code", "'upgrade'"}, []string{"rules[0].operation_code"}},
			"no rule at all":      {[]*draft{good, {}}, []string{"rules[1].rule_definition_json"}, []string{"rules[1].rule_definition_json", "rules[1].name", "rules[1].operation_type"}},
			"wrong definitions": {
				[]*draft{
					changed("a", func(d *draft) { d.RuleDefinitionJson = onlyStep(`"stage": 0, "max_parallel": -1`) }), good,
					changed("b", func(d *draft) { d.RuleDefinitionJson = `{"version": "v2"}` }),
				},
				[]string{"rules[0].rule_definition_json: rule validation failed: step 0: stage must be >= 1, got 0; step 0: max_parallel", "also wrong: rules[2].rule_definition_json"},
				[]string{"rules[0].rule_definition_json:steps[0].stage", "rules[0].rule_definition_json:steps[0].max_parallel", "rules[2].rule_definition_json:version"},
			},
			"two defaults of an operation": {
				[]*draft{good, batchRule("x", "power_on", true), batchRule("y", "power_on", true)},
				[]string{"rules[1]", "rules[2].is_default", "power_control/power_on"}, []string{"rules[2].is_default"},
			},
			"two rules of a name": {
				[]*draft{batchRule("x", "power_on", true), good, batchRule("x", "power_on", false)},
				[]string{"rules[0]", "rules[2].name", "power_control/power_on"}, []string{"rules[2].name"},
			},
			"too many": {
				upTo(1001, func(i int) *draft { return batchRule(fmt.Sprint(i), "power_on", false) }), []string{"rules", "1000", "1001"}, []string{"rules"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				for _, overwrite := range []bool{false, true} {
					var err error
					s.refuses(t, func() error { _, _, err = s.replace(overwrite, c.batch...); return err }, connect.CodeInvalidArgument, c.words...)
					if fields, _ := violations(t, err); !slices.Equal(fields, c.fields) {
						t.Errorf("violations of %q, want %q", fields, c.fields)
					}
				}
			})
		}
		if _, outcomes, err := s.replace(true, upTo(1000, func(i int) *draft { return batchRule(fmt.Sprint(i), "power_on", false) })...); err != nil || len(outcomes) != 1000 {
			t.Errorf("1000 rules: %d outcomes, %v", len(outcomes), err)
		}
	})
}

// TestBatchesMeetOtherWriters has 50 batches, single rules and defaults at the same time: nobody is told of a fault of ours,
// and each operation has one default in the end.
func TestBatchesMeetOtherWriters(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	codes := []string{"power_on", "power_off", "restart", "cold_reset"}
	seed := s.storeRule(newRule("seed", nil))
	for _, err := range s.together(func(ctx context.Context, n int) error {
		switch n % 3 {
		case 0:
			batch := upTo(len(codes), func(i int) *flowopsv1.OperationRuleDraft { return batchRule("batch", codes[(i+n)%len(codes)], true) })
			_, err := s.ops.ReplaceOperationRules(ctx, &flowopsv1.ReplaceOperationRulesRequest{Rules: batch, Overwrite: n%2 == 0})
			return err
		case 1:
			_, err := s.grpc.CreateOperationRule(ctx, newRule("single", func(r *flowv1.CreateOperationRuleRequest) {
				r.OperationCode, r.IsDefault = codes[n%len(codes)], true
			}))
			if connect.CodeOf(err) == connect.CodeAlreadyExists {
				return nil
			}
			return err
		default:
			_, err := s.grpc.SetRuleAsDefault(ctx, &flowv1.SetRuleAsDefaultRequest{RuleId: seed})
			return err
		}
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if got := s.value("SELECT count(*) || ' ' || count(DISTINCT operation_code) FROM operation_rule WHERE is_default"); got != "4 4" {
		t.Errorf("defaults and operations that have one: %s, want 4 4", got)
	}
}
