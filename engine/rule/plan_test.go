package rule

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

// TestQueriesUseTheirIndexes explains what was really sent to a site with far more rules than any will have. Counts and
// the look-up of a batch read the table, and may.
func TestQueriesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	plans := &storetest.Plans{}
	st, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), Tracer: plans})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	_, err = st.API.Exec(t.Context(), `
		INSERT INTO operation_rule (id, name, operation_type, operation_code, definition, is_default, created_at)
			SELECT gen_random_uuid(), 'rule-' || i, 'power_control', 'power_on', '{}', i = 5000, now() + i * interval '1 s'
			FROM generate_series(1, 5000) AS i;
		INSERT INTO rack (id, name) SELECT gen_random_uuid(), 'rack-' || i FROM generate_series(1, 5000) AS i;
		INSERT INTO rack_rule (rack_id, operation_type, operation_code, rule_id)
			SELECT rack.id, operation_type, operation_code, operation_rule.id
			FROM rack JOIN operation_rule ON replace(rack.name, 'rack', 'rule') = operation_rule.name;
		ANALYZE`)
	if err != nil {
		t.Fatal(err)
	}
	var rule, rack uuid.UUID
	if err := st.API.QueryRow(t.Context(), "SELECT rule_id, rack_id FROM rack_rule LIMIT 1").Scan(&rule, &rack); err != nil {
		t.Fatal(err)
	}
	q := db.New(st.API)
	op := powerOn
	for name, c := range map[string]struct {
		call func(ctx context.Context) error
		want map[string][]string // indexes by query
	}{
		"rules of a page": {
			func(ctx context.Context) error {
				_, err := q.RuleList(ctx, db.RuleListParams{OperationType: new(string(op.Type)), Max: 100, Skip: 200})
				return err
			},
			map[string][]string{"RuleList": {"operation_rule_created_idx"}},
		},
		"a new default": {
			func(ctx context.Context) error { return SetDefault(ctx, st, rule) },
			map[string][]string{
				"RuleGet": {"operation_rule_pkey"}, "RuleClearDefault": {"operation_rule_default_key"}, "RuleSetDefault": {"operation_rule_pkey"},
			},
		},
		"a second default": {
			func(ctx context.Context) error {
				if _, err := Create(ctx, st, Draft{Name: "x", Operation: op, Definition: one, IsDefault: true}); err == nil {
					t.Error("created")
				}
				return nil
			},
			map[string][]string{"RuleGetDefault": {"operation_rule_default_key"}},
		},
		"a change": {
			func(ctx context.Context) error { return Update(ctx, st, rule, Change{Name: new("x")}) },
			map[string][]string{"RuleUpdate": {"operation_rule_pkey"}},
		},
		"a batch": {
			func(ctx context.Context) error {
				_, err := Replace(ctx, st, []Draft{{Name: "rule-7", Operation: op, Definition: one}}, true)
				return err
			},
			map[string][]string{"RuleUpdateMany": {"operation_rule_pkey"}},
		},
		"an association": {
			func(ctx context.Context) error { return Associate(ctx, st, rack, rule) },
			map[string][]string{"RackRuleSet": {"operation_rule_pkey", "rack_pkey"}},
		},
		"what a rack has": {
			func(ctx context.Context) error {
				if _, err := q.RackRuleList(ctx, db.RackRuleListParams{RackID: rack}); err != nil {
					return err
				}
				_, err := q.RackRuleGet(ctx, db.RackRuleGetParams{RackID: rack, OperationType: string(op.Type), OperationCode: op.Code})
				return err
			},
			map[string][]string{"RackRuleList": {"rack_rule_pkey"}, "RackRuleGet": {"rack_rule_pkey"}},
		},
		"what racks have": {
			func(ctx context.Context) error {
				_, err := q.RuleListByRacks(ctx, db.RuleListByRacksParams{
					RackIds: []uuid.UUID{rack}, OperationType: string(op.Type), OperationCode: op.Code,
				})
				return err
			},
			map[string][]string{"RuleListByRacks": {"rack_rule_pkey", "operation_rule_pkey"}},
		},
		"an association that is not there": {
			func(ctx context.Context) error { return Disassociate(ctx, st, uuid.New(), op) },
			map[string][]string{"RackRuleDelete": {"rack_rule_pkey"}},
		},
		"a rule that is gone": {
			func(ctx context.Context) error { return Delete(ctx, st, uuid.New()) },
			map[string][]string{"RuleDelete": {"operation_rule_pkey"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.call(t.Context()); err != nil {
				t.Fatal(err)
			}
			for query, indexes := range c.want {
				t.Run(query, func(t *testing.T) { plans.Check(t, st.API, query, indexes...) })
			}
		})
	}
}
