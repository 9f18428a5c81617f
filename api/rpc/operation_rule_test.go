package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

const (
	powerRule    = flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL
	firmwareRule = flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL
)

// newRule is a request for a rule of power_control/power_on that is good before the change.
func newRule(name string, change func(*flowv1.CreateOperationRuleRequest)) *flowv1.CreateOperationRuleRequest {
	req := &flowv1.CreateOperationRuleRequest{Name: name, OperationType: powerRule, OperationCode: "power_on", RuleDefinitionJson: onlyStep("")}
	if change != nil {
		change(req)
	}
	return req
}

// storeRule stores a rule, which must not be refused.
func (s *site) storeRule(req *flowv1.CreateOperationRuleRequest) *flowv1.UUID {
	s.t.Helper()
	res, err := s.flow.CreateOperationRule(s.t.Context(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.GetId()
}

func (s *site) storedRule(id *flowv1.UUID) *flowv1.OperationRule {
	s.t.Helper()
	r, err := s.flow.GetOperationRule(s.t.Context(), &flowv1.GetOperationRuleRequest{RuleId: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *site) updateRule(req *flowv1.UpdateOperationRuleRequest) error {
	_, err := s.flow.UpdateOperationRule(s.t.Context(), req)
	return err
}

func (s *site) deleteRule(id *flowv1.UUID) error {
	_, err := s.flow.DeleteOperationRule(s.t.Context(), &flowv1.DeleteOperationRuleRequest{RuleId: id})
	return err
}

func (s *site) setDefault(id *flowv1.UUID) error {
	_, err := s.flow.SetRuleAsDefault(s.t.Context(), &flowv1.SetRuleAsDefaultRequest{RuleId: id})
	return err
}

func TestRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	holder := s.storeRule(newRule("holder", func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault = true }))
	invalid := connect.CodeInvalidArgument
	type request = flowv1.CreateOperationRuleRequest
	for name, c := range map[string]struct {
		change func(*request)
		code   connect.Code
		words  []string
	}{
		"no definition":           {func(r *request) { r.RuleDefinitionJson = "" }, invalid, []string{"rule_definition_json: invalid rule definition"}},
		"text after it":           {func(r *request) { r.RuleDefinitionJson = "{} x" }, invalid, []string{"rule_definition_json: invalid rule definition"}},
		"a bare null":             {func(r *request) { r.RuleDefinitionJson = "null" }, invalid, []string{"rule_definition_json: invalid rule definition"}},
		"a version that is not 1": {func(r *request) { r.RuleDefinitionJson = `{"version": "1"}` }, invalid, []string{"'1'", "'v1'"}},
		"no name":                 {func(r *request) { r.Name = "" }, invalid, []string{"name: rule validation failed: rule name is required"}},
		"a name that is too long": {func(r *request) { r.Name = strings.Repeat("é", 129) }, invalid, []string{"name: ", "129"}},
		"a name with a NUL":       {func(r *request) { r.Name = "a\x00b" }, invalid, []string{"name: ", "NUL"}},
		"a description with one":  {func(r *request) { r.Description = "\x00" }, invalid, []string{"description: ", "NUL"}},
		"a definition with one":   {func(r *request) { r.RuleDefinitionJson = "{}\x00" }, invalid, []string{"rule_definition_json: ", "NUL"}},
		"a parameter with one":    {func(r *request) { r.RuleDefinitionJson = mainAction("PowerControl", `, "parameters": {"x": "\u0000"}`) }, invalid, []string{"parameter 'x' contains a NUL"}},
		"the key of a parameter":  {func(r *request) { r.RuleDefinitionJson = mainAction("PowerControl", `, "parameters": {"\u0000": 1}`) }, invalid, []string{"contains a NUL"}},
		"type 0":                  {func(r *request) { r.OperationType = 0 }, invalid, []string{"operation_type: "}},
		"an unknown type":         {func(r *request) { r.OperationType = 77 }, invalid, []string{"operation_type: "}},
		"no code":                 {func(r *request) { r.OperationCode = "" }, invalid, []string{"operation_code: ", "''"}},
		"a code in capitals":      {func(r *request) { r.OperationCode = "Power_On" }, invalid, []string{"invalid operation code 'Power_On' for operation type 'power_control'"}},
		"a power code for firmware": {
			func(r *request) { r.OperationType = firmwareRule }, invalid, []string{"invalid operation code 'power_on' for operation type 'firmware_control'"},
		},
		"bring-up":              {func(r *request) { r.OperationCode = "bring_up" }, invalid, []string{"bring_up"}},
		"an action in capitals": {func(r *request) { r.RuleDefinitionJson = mainAction("powercontrol", ``) }, invalid, []string{"unknown action: powercontrol"}},
		"a second default": {
			func(r *request) { r.IsDefault = true }, connect.CodeAlreadyExists, []string{"a default rule already exists", "power_control/power_on", "holder", holder.GetId()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				s.refuses(t, func() error {
					_, err := flow.CreateOperationRule(t.Context(), newRule("new", c.change))
					return err
				}, c.code, c.words...)
			})
		})
	}
}

// TestTextThatIsNoUTF8 sends what no client of ours can: a JSON body and a message with a broken name.
func TestTextThatIsNoUTF8(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	before := s.contents()
	for contentType, body := range map[string]string{
		"application/json":  `{"name": "a` + "\xff" + `"}`,
		"application/proto": "\x0a\x02a\xff",
	} {
		res, answer := s.post("/v1.Flow/CreateOperationRule", contentType, body)
		if answeredCode(res, answer) != connect.CodeInvalidArgument || !strings.Contains(answer, "UTF-8") {
			t.Errorf("%s: %s %s", contentType, res.Status, answer)
		}
	}
	if s.contents() != before {
		t.Error("something is stored")
	}
}

func TestARuleIsReadAsItWasStored(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		for _, typ := range []flowv1.OperationType{powerRule, firmwareRule} {
			for _, code := range ruleTypes[typ].Codes() {
				for _, isDefault := range []bool{false, true} {
					id := s.storeRule(newRule(strings.Repeat("n", 128), func(r *flowv1.CreateOperationRuleRequest) {
						r.Description, r.OperationType, r.OperationCode, r.IsDefault = "über\n", typ, code, isDefault
						r.RuleDefinitionJson = mainAction("Sleep", `, "parameters": {"duration": "90s", "note": {"x": [1.50, null]}}`)
					}))
					got := s.storedRule(id)
					want := &flowv1.OperationRule{
						Id: id, Name: strings.Repeat("n", 128), Description: "über\n", OperationType: typ, OperationCode: code, IsDefault: isDefault,
						RuleDefinitionJson: `{"version":"v1","steps":[{"component_type":"Compute","stage":1,"max_parallel":0,` +
							`"main_operation":{"name":"Sleep","parameters":{"duration":"90s","note":{"x":[1.50,null]}}}}]}`,
						CreatedAt: got.GetCreatedAt(), UpdatedAt: got.GetCreatedAt(),
					}
					if d := diff(want, got); d != "" || got.GetCreatedAt() == nil {
						t.Errorf("%s (-want +got):\n%s", code, d)
					}
				}
			}
		}
		s.refuses(t, func() error {
			_, err := s.flow.GetOperationRule(t.Context(), &flowv1.GetOperationRuleRequest{RuleId: testID(9, 9, 9)})
			return err
		}, connect.CodeNotFound, testID(9, 9, 9).GetId())
	})
}

// TestIDsOfRules has the UUID fields of every call on rules.
func TestIDsOfRules(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	good := testID(9, 9, 9)
	for name, call := range map[string]func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error{
		"UpdateOperationRule rule_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.UpdateOperationRule(ctx, &flowv1.UpdateOperationRuleRequest{RuleId: id})
			return err
		},
		"DeleteOperationRule rule_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.DeleteOperationRule(ctx, &flowv1.DeleteOperationRuleRequest{RuleId: id})
			return err
		},
		"GetOperationRule rule_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.GetOperationRule(ctx, &flowv1.GetOperationRuleRequest{RuleId: id})
			return err
		},
		"SetRuleAsDefault rule_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.SetRuleAsDefault(ctx, &flowv1.SetRuleAsDefaultRequest{RuleId: id})
			return err
		},
		"AssociateRuleWithRack rack_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.AssociateRuleWithRack(ctx, &flowv1.AssociateRuleWithRackRequest{RackId: id, RuleId: good})
			return err
		},
		"AssociateRuleWithRack rule_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.AssociateRuleWithRack(ctx, &flowv1.AssociateRuleWithRackRequest{RackId: good, RuleId: id})
			return err
		},
		"DisassociateRuleFromRack rack_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.DisassociateRuleFromRack(ctx, &flowv1.DisassociateRuleFromRackRequest{RackId: id, OperationType: powerRule, OperationCode: "power_on"})
			return err
		},
		"GetRackRuleAssociation rack_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.GetRackRuleAssociation(ctx, &flowv1.GetRackRuleAssociationRequest{RackId: id, OperationType: powerRule, OperationCode: "power_on"})
			return err
		},
		"ListRackRuleAssociations rack_id": func(ctx context.Context, flow flowv1connect.FlowClient, id *flowv1.UUID) error {
			_, err := flow.ListRackRuleAssociations(ctx, &flowv1.ListRackRuleAssociationsRequest{RackId: id})
			return err
		},
	} {
		_, field, _ := strings.Cut(name, " ")
		for kind, id := range map[string]*flowv1.UUID{
			"missing": nil, "empty": {}, "malformed": {Id: "zz"}, "in braces": {Id: "{" + good.GetId() + "}"}, "nil": {Id: zeroID},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
					err := call(t.Context(), flow, id)
					refused(t, err, connect.CodeInvalidArgument, field)
					if fields, _ := violations(t, err); !slices.Equal(fields, []string{field}) {
						t.Errorf("violations of %q, want %q", fields, field)
					}
				})
			})
		}
	}
}

func TestAnUpdateKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 1))
		id := s.storeRule(newRule("old", func(r *flowv1.CreateOperationRuleRequest) { r.Description, r.IsDefault = "as it was", true }))
		s.associate(t, 1, id)
		bound := s.associations(t, 1)
		type request = flowv1.UpdateOperationRuleRequest
		for _, c := range []struct {
			name   string
			update *request
			change func(want *flowv1.OperationRule)
		}{
			{"a name", &request{Name: new("new")}, func(r *flowv1.OperationRule) { r.Name = "new" }},
			{"a description", &request{Description: new("better")}, func(r *flowv1.OperationRule) { r.Description = "better" }},
			{"no description any more", &request{Description: new("")}, func(r *flowv1.OperationRule) { r.Description = "" }},
			{"a definition", &request{RuleDefinitionJson: new(`{}`)}, func(r *flowv1.OperationRule) { r.RuleDefinitionJson = `{"version":"v1","steps":[]}` }},
			{
				"everything", &request{Name: new(strings.Repeat("ä", 128)), Description: new("d"), RuleDefinitionJson: new(onlyStep(""))},
				func(r *flowv1.OperationRule) {
					r.Name, r.Description = strings.Repeat("ä", 128), "d"
					r.RuleDefinitionJson = `{"version":"v1","steps":[{"component_type":"Compute","stage":1,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`
				},
			},
		} {
			want := s.storedRule(id)
			before := want.GetUpdatedAt().AsTime()
			c.change(want)
			c.update.RuleId = id
			if err := s.updateRule(c.update); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			got := s.storedRule(id)
			if !got.GetUpdatedAt().AsTime().After(before) {
				t.Errorf("%s: updated_at has not changed", c.name)
			}
			want.UpdatedAt = got.GetUpdatedAt()
			if d := diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, d)
			}
		}
		before := s.contents()
		if err := s.updateRule(&request{RuleId: id}); err != nil {
			t.Errorf("nothing to change: %v", err)
		}
		if s.contents() != before {
			t.Error("an update of nothing has changed something")
		}
		if d := cmp.Diff(bound, s.associations(t, 1)); d != "" {
			t.Errorf("associations (-before +after):\n%s", d)
		}
	})
}

func TestUpdatesThatAreRefused(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		type request = flowv1.UpdateOperationRuleRequest
		on, firmware := s.storeRule(newRule("power", nil)), s.storeRule(newRule("firmware", func(r *flowv1.CreateOperationRuleRequest) {
			upgradeRule(r)
			r.RuleDefinitionJson = `{}`
		}))
		unknown := testID(9, 9, 9)
		invalid, notFound := connect.CodeInvalidArgument, connect.CodeNotFound
		for name, c := range map[string]struct {
			update *request
			code   connect.Code
			words  []string
		}{
			"an unknown rule":                         {&request{RuleId: unknown, Name: new("n")}, notFound, []string{unknown.GetId()}},
			"an unknown rule and nothing to change":   {&request{RuleId: unknown}, notFound, []string{unknown.GetId()}},
			"an unknown rule and a bad name":          {&request{RuleId: unknown, Name: new("")}, invalid, []string{"name"}},
			"an unknown rule and a bad definition":    {&request{RuleId: unknown, RuleDefinitionJson: new(onlyStep(`"stage": 0`))}, invalid, []string{"stage"}},
			"an unknown rule that might inherit":      {&request{RuleId: unknown, RuleDefinitionJson: new(onlyStep(""))}, notFound, []string{unknown.GetId()}},
			"an empty name":                           {&request{RuleId: on, Name: new("")}, invalid, []string{"rule name is required"}},
			"a long name":                             {&request{RuleId: on, Name: new(strings.Repeat("x", 129))}, invalid, []string{"name: ", "129"}},
			"a name with a NUL":                       {&request{RuleId: on, Name: new("\x00")}, invalid, []string{"name: "}},
			"a description with a NUL":                {&request{RuleId: on, Description: new("\x00")}, invalid, []string{"description: "}},
			"an empty definition":                     {&request{RuleId: on, RuleDefinitionJson: new("")}, invalid, []string{"invalid rule definition"}},
			"another version":                         {&request{RuleId: on, RuleDefinitionJson: new(`{"version": "v0"}`)}, invalid, []string{"v0", "v1"}},
			"a definition that is wrong":              {&request{RuleId: on, RuleDefinitionJson: new(onlyStep(`"stage": -1`))}, invalid, []string{"rule validation failed", "stage"}},
			"a good name and a bad definition":        {&request{RuleId: on, Name: new("good"), RuleDefinitionJson: new("[]")}, invalid, []string{"invalid rule definition"}},
			"power to inherit in a rule for firmware": {&request{RuleId: firmware, RuleDefinitionJson: new(onlyStep(""))}, invalid, []string{"missing required parameter: operation"}},
		} {
			t.Run(name, func(t *testing.T) {
				s.refuses(t, func() error { return s.updateRule(c.update) }, c.code, c.words...)
			})
		}
		named := `"main_operation": {"name": "PowerControl", "parameters": {"operation": "power_off"}}`
		if err := s.updateRule(&request{RuleId: firmware, RuleDefinitionJson: new(onlyStep(named))}); err != nil {
			t.Errorf("a power operation by name in a rule for firmware: %v", err)
		}
	})
}

func TestADeletedRuleIsGoneWithItsAssociations(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 1))
		id := s.storeRule(newRule("mine", func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault = true }))
		other := s.storeRule(newRule("other", func(r *flowv1.CreateOperationRuleRequest) { r.OperationCode = "power_off" }))
		s.associate(t, 1, id)
		s.associate(t, 1, other)
		task := s.task(1, 0, "completed", testID(2, 1, 0))
		s.exec("UPDATE task SET applied_rule_id = $1", id.GetId())
		for range 2 { // what is gone can be deleted again
			if err := s.deleteRule(id); err != nil {
				t.Fatal(err)
			}
		}
		if left := s.associations(t, 1); !slices.Equal(left, []string{"power_control/power_off " + other.GetId()}) {
			t.Errorf("associations %q are left", left)
		}
		res, err := s.flow.GetTasksByIDs(t.Context(), &flowv1.GetTasksByIDsRequest{TaskIds: []*flowv1.UUID{task}})
		if err != nil || len(res.GetTasks()) != 1 || res.GetTasks()[0].AppliedRuleId != nil {
			t.Errorf("the task has the rule %v: %v", res.GetTasks(), err)
		}
		s.refuses(t, func() error {
			_, err := s.flow.GetOperationRule(t.Context(), &flowv1.GetOperationRuleRequest{RuleId: id})
			return err
		}, connect.CodeNotFound, id.GetId())
		// The place of the default is free again.
		s.storeRule(newRule("next", func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault = true }))
	})
}

func TestListsOfRules(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec(`INSERT INTO operation_rule (id, name, operation_type, operation_code, definition, is_default, created_at)
		SELECT ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, 'rule-' || i, CASE i % 3 WHEN 0 THEN 'firmware_control' ELSE 'power_control' END,
			CASE i % 3 WHEN 0 THEN 'upgrade' ELSE 'power_on' END, '{}', i IN (1, 3), '2026-01-01'::timestamptz + (i / 2) * interval '1 h'
		FROM generate_series(1, 1203) AS i`)
	s.exec(`UPDATE operation_rule SET definition = '{"steps": "none", "old": true}' WHERE name = 'rule-1203'`)
	type request = flowv1.ListOperationRulesRequest
	for name, c := range map[string]struct {
		req   *request
		first []string // the first names, in order
		page  int
		total int32
	}{
		"by default the newest hundred, ties by id downwards": {&request{}, []string{"rule-1203", "rule-1202", "rule-1201", "rule-1200"}, 100, 1203},
		"power rules":             {&request{OperationType: new(powerRule)}, []string{"rule-1202", "rule-1201", "rule-1199"}, 100, 802},
		"firmware rules":          {&request{OperationType: new(firmwareRule)}, []string{"rule-1203", "rule-1200"}, 100, 401},
		"type 0 is no filter":     {&request{OperationType: new(flowv1.OperationType(0))}, []string{"rule-1203"}, 100, 1203},
		"nor is an unknown one":   {&request{OperationType: new(flowv1.OperationType(9))}, []string{"rule-1203"}, 100, 1203},
		"defaults":                {&request{IsDefault: new(true)}, []string{"rule-3", "rule-1"}, 2, 2},
		"all but defaults":        {&request{IsDefault: new(false)}, []string{"rule-1203"}, 100, 1201},
		"the power default":       {&request{IsDefault: new(true), OperationType: new(powerRule)}, []string{"rule-1"}, 1, 1},
		"a page":                  {&request{Offset: new(int32(2)), Limit: new(int32(3))}, []string{"rule-1201", "rule-1200", "rule-1199"}, 3, 1203},
		"the last page":           {&request{Offset: new(int32(1202)), Limit: new(int32(50))}, []string{"rule-1"}, 1, 1203},
		"behind the end":          {&request{Offset: new(int32(5000))}, nil, 0, 1203},
		"more than a page may be": {&request{Limit: new(int32(5000))}, []string{"rule-1203"}, 1000, 1203},
	} {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				res, err := flow.ListOperationRules(t.Context(), c.req)
				if err != nil {
					t.Fatal(err)
				}
				names := each(res.GetRules(), (*flowv1.OperationRule).GetName)
				if len(names) != c.page || res.GetTotalCount() != c.total || !slices.Equal(names[:min(len(c.first), len(names))], c.first) {
					t.Errorf("%d of %d rules: %q", len(names), res.GetTotalCount(), names)
				}
			})
		})
	}
	for field, req := range map[string]*request{
		"offset": {Offset: new(int32(-1))}, "limit": {Limit: new(int32(0))}, "limit ": {Limit: new(int32(-5))},
	} {
		s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
			_, err := flow.ListOperationRules(t.Context(), req)
			refused(t, err, connect.CodeInvalidArgument, strings.TrimSpace(field))
		})
	}
	// What no version of ours can read is shown as it is, and keeps nothing else from being read.
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		res, err := flow.ListOperationRules(t.Context(), &request{Limit: new(int32(2))})
		if err != nil {
			t.Fatal(err)
		}
		var raw map[string]any
		if err := json.Unmarshal([]byte(res.GetRules()[0].GetRuleDefinitionJson()), &raw); err != nil || raw["steps"] != "none" || raw["old"] != true {
			t.Errorf("an unreadable definition is shown as %v: %v", raw, err)
		}
		if next := res.GetRules()[1].GetRuleDefinitionJson(); next != `{"version":"v1","steps":[]}` {
			t.Errorf("the next one is shown as %s", next)
		}
	})
}

// TestOneRuleIsTheDefault also is D-31.20: a rule whose flag changes is updated.
func TestOneRuleIsTheDefault(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		first := s.storeRule(newRule("first", func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault = true }))
		second, third := s.storeRule(newRule("second", nil)), s.storeRule(newRule("third", nil))
		off := s.storeRule(newRule("off", func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault, r.OperationCode = true, "power_off" }))
		state := func() (defaults string, updated map[string]string) {
			updated = map[string]string{}
			for _, id := range []*flowv1.UUID{first, second, third, off} {
				r := s.storedRule(id)
				if r.GetIsDefault() {
					defaults += r.GetName() + " "
				}
				updated[r.GetName()] = r.GetUpdatedAt().AsTime().String()
			}
			return defaults, updated
		}
		changed := func(before, after map[string]string) string {
			var names []string
			for name := range after {
				if before[name] != after[name] {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return strings.Join(names, " ")
		}
		_, before := state()
		for _, c := range []struct {
			set               *flowv1.UUID
			defaults, changed string
		}{
			{second, "second off ", "first second"},
			{second, "second off ", ""},
			{third, "third off ", "second third"},
			{off, "third off ", ""},
		} {
			if err := s.setDefault(c.set); err != nil {
				t.Fatal(err)
			}
			defaults, after := state()
			if got := changed(before, after); defaults != c.defaults || got != c.changed {
				t.Errorf("defaults %q, want %q; updated %q, want %q", defaults, c.defaults, got, c.changed)
			}
			before = after
		}
		// Where there is none, the rule is simply made the default.
		if err := s.deleteRule(third); err != nil {
			t.Fatal(err)
		}
		if err := s.setDefault(first); err != nil {
			t.Fatal(err)
		}
		if !s.storedRule(first).GetIsDefault() {
			t.Error("the rule is not the default")
		}
		s.refuses(t, func() error { return s.setDefault(third) }, connect.CodeNotFound, third.GetId())
	})
}

// TestManyMakeTheirRuleTheDefault has 50 requests at the same time.
func TestManyMakeTheirRuleTheDefault(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	ids := upTo(5, func(i int) *flowv1.UUID { return s.storeRule(newRule(fmt.Sprint(i), nil)) })
	for _, err := range s.together(func(ctx context.Context, n int) error {
		_, err := s.grpc.SetRuleAsDefault(ctx, &flowv1.SetRuleAsDefaultRequest{RuleId: ids[n%len(ids)]})
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := s.value("SELECT count(*)::text FROM operation_rule WHERE is_default"); n != "1" {
		t.Errorf("%s defaults are left", n)
	}
}
