package rpc

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/rules"
)

// associate binds a rule to rack n, which must not be refused.
func (s *site) associate(t *testing.T, n int, rule *flowv1.UUID) {
	t.Helper()
	if _, err := s.flow.AssociateRuleWithRack(t.Context(), &flowv1.AssociateRuleWithRackRequest{RackId: testID(1, n, 0), RuleId: rule}); err != nil {
		t.Fatal(err)
	}
}

// associations are those of rack n, as "power_control/power_on <rule>".
func (s *site) associations(t *testing.T, n int) []string {
	t.Helper()
	res, err := s.flow.ListRackRuleAssociations(t.Context(), &flowv1.ListRackRuleAssociationsRequest{RackId: testID(1, n, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return each(res.GetAssociations(), func(a *flowv1.RackRuleAssociation) string {
		if a.GetRackId().GetId() != testID(1, n, 0).GetId() || a.GetCreatedAt() == nil || a.GetUpdatedAt() == nil {
			t.Errorf("association %v", a)
		}
		return fmt.Sprintf("%s/%s %s", ruleTypes[a.GetOperationType()], a.GetOperationCode(), a.GetRuleId().GetId())
	})
}

func (s *site) disassociate(n int, typ flowv1.OperationType, code string) error {
	_, err := s.flow.DisassociateRuleFromRack(s.t.Context(), &flowv1.DisassociateRuleFromRackRequest{
		RackId: testID(1, n, 0), OperationType: typ, OperationCode: code,
	})
	return err
}

// bound is the rule that rack n has for an operation.
func (s *site) bound(t *testing.T, n int, typ flowv1.OperationType, code string) string {
	t.Helper()
	res, err := s.flow.GetRackRuleAssociation(t.Context(), &flowv1.GetRackRuleAssociationRequest{
		RackId: testID(1, n, 0), OperationType: typ, OperationCode: code,
	})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetRuleId().GetId()
}

func TestARackHasOneRuleForEachOperation(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 1))
		s.create(testRack(2, 1))
		rule := func(name string, typ flowv1.OperationType, code string) *flowv1.UUID {
			return s.storeRule(newRule(name, func(r *flowv1.CreateOperationRuleRequest) {
				r.OperationType, r.OperationCode, r.RuleDefinitionJson = typ, code, `{}`
			}))
		}
		on, other := rule("on", powerRule, "power_on"), rule("other", powerRule, "power_on")
		if got := s.bound(t, 1, powerRule, "power_on"); got != zeroID {
			t.Errorf("a rack without rules has %s", got)
		}
		s.associate(t, 1, on)
		s.associate(t, 2, on)
		if got := s.bound(t, 1, powerRule, "power_on"); got != on.GetId() {
			t.Errorf("the rack has %s, want %s", got, on)
		}
		if got := s.bound(t, 1, powerRule, "power_off"); got != zeroID {
			t.Errorf("for another operation the rack has %s", got)
		}

		times := func() (created, updated string) {
			return s.value("SELECT created_at::text FROM rack_rule WHERE rack_id = $1", testID(1, 1, 0).GetId()),
				s.value("SELECT updated_at::text FROM rack_rule WHERE rack_id = $1", testID(1, 1, 0).GetId())
		}
		created, updated := times()
		s.associate(t, 1, other)
		if got := s.bound(t, 1, powerRule, "power_on"); got != other.GetId() {
			t.Errorf("after another association the rack has %s, want %s", got, other)
		}
		if c, u := times(); c != created || u <= updated {
			t.Errorf("created %s and %s, updated %s and %s", created, c, updated, u)
		}

		// The order is that of the numbers of types, and then that of bytes.
		var want []string
		for _, typ := range []flowv1.OperationType{firmwareRule, powerRule} {
			for _, code := range ruleTypes[typ].Codes() {
				id := rule(code, typ, code)
				s.associate(t, 1, id)
				want = append(want, fmt.Sprintf("%s/%s %s", ruleTypes[typ], code, id.GetId()))
			}
		}
		slices.Sort(want)
		want = slices.Concat(want[3:], want[:3]) // power_control sorts last and comes first
		if got := s.associations(t, 1); !slices.Equal(got, want) {
			t.Errorf("associations %q, want %q", got, want)
		}
		if got := s.associations(t, 9); len(got) != 0 {
			t.Errorf("an unknown rack has %q", got)
		}

		for range 2 { // removing what is gone is no error
			if err := s.disassociate(1, powerRule, "power_on"); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.bound(t, 1, powerRule, "power_on"); got != zeroID {
			t.Errorf("after the end of the association the rack has %s", got)
		}
		if got := s.associations(t, 1); len(got) != len(want)-1 {
			t.Errorf("%d associations are left", len(got))
		}
		if got := s.associations(t, 2); !slices.Equal(got, []string{"power_control/power_on " + on.GetId()}) {
			t.Errorf("the other rack has %q", got)
		}
		// A code that no rule can have is just not there.
		if err := s.disassociate(1, powerRule, "upgrade"); err != nil || s.bound(t, 1, powerRule, "upgrade") != zeroID {
			t.Errorf("a code of another type: %v", err)
		}
	})
}

func TestAssociationsThatAreRefused(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 1))
		s.create(testRack(2, 1))
		rule := s.storeRule(newRule("on", nil))
		s.associate(t, 2, rule)
		if err := s.deleteRack(testID(1, 2, 0)); err != nil {
			t.Fatal(err)
		}
		invalid := connect.CodeInvalidArgument
		associate := func(rack, rule *flowv1.UUID) func() error {
			return func() error {
				_, err := s.flow.AssociateRuleWithRack(t.Context(), &flowv1.AssociateRuleWithRackRequest{RackId: rack, RuleId: rule})
				return err
			}
		}
		get := func(typ flowv1.OperationType, code string) func() error {
			return func() error {
				_, err := s.flow.GetRackRuleAssociation(t.Context(), &flowv1.GetRackRuleAssociationRequest{
					RackId: testID(1, 1, 0), OperationType: typ, OperationCode: code,
				})
				return err
			}
		}
		remove := func(typ flowv1.OperationType, code string) func() error {
			return func() error { return s.disassociate(1, typ, code) }
		}
		for name, c := range map[string]struct {
			call func() error
			code connect.Code
			word string
		}{
			"an unknown rule":                {associate(testID(1, 1, 0), testID(9, 9, 9)), connect.CodeNotFound, testID(9, 9, 9).GetId()},
			"an unknown rack":                {associate(testID(1, 9, 0), rule), connect.CodeNotFound, testID(1, 9, 0).GetId()},
			"a deleted rack":                 {associate(testID(1, 2, 0), rule), connect.CodeNotFound, testID(1, 2, 0).GetId()},
			"removing for no code":           {remove(powerRule, ""), invalid, "operation_code"},
			"removing for type 0":            {remove(0, "power_on"), invalid, "operation_type"},
			"removing for an unknown type":   {remove(42, "power_on"), invalid, "operation_type"},
			"removing with a NUL":            {remove(powerRule, "\x00"), invalid, "operation_code"},
			"asking for no code":             {get(powerRule, ""), invalid, "operation_code"},
			"asking for type 0":              {get(0, "power_on"), invalid, "operation_type"},
			"asking for an unknown type":     {get(42, "power_on"), invalid, "operation_type"},
			"asking for a NUL":               {get(powerRule, "power\x00on"), invalid, "operation_code"},
			"asking for type 0 and no code":  {get(0, ""), invalid, "operation_type"},
			"removing for type 0, and no id": {func() error { return s.disassociateFrom(&flowv1.DisassociateRuleFromRackRequest{}) }, invalid, "rack_id"},
		} {
			t.Run(name, func(t *testing.T) { s.refuses(t, c.call, c.code, c.word) })
		}
	})
}

func (s *site) disassociateFrom(req *flowv1.DisassociateRuleFromRackRequest) error {
	_, err := s.flow.DisassociateRuleFromRack(s.t.Context(), req)
	return err
}

func TestAssociationsStayWithADeletedRackAndGoWithAPurgedOne(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		s.create(testRack(1, 1))
		rule := s.storeRule(newRule("on", nil))
		s.associate(t, 1, rule)
		want := s.associations(t, 1)
		if err := s.deleteRack(testID(1, 1, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.restoreRack(testID(1, 1, 0)); err != nil {
			t.Fatal(err)
		}
		if got := s.associations(t, 1); !slices.Equal(got, want) {
			t.Errorf("the restored rack has %q, want %q", got, want)
		}
		if err := s.deleteRack(testID(1, 1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := s.purgeRack(testID(1, 1, 0)); err != nil {
			t.Fatal(err)
		}
		if got := s.associations(t, 1); len(got) != 0 {
			t.Errorf("the purged rack has %q", got)
		}
		s.storedRule(rule) // the rule itself stays
	})
}

func TestManyAssociateTheirRuleWithARack(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 1))
	ids := upTo(5, func(i int) *flowv1.UUID { return s.storeRule(newRule(fmt.Sprint(i), nil)) })
	for _, err := range s.together(func(ctx context.Context, n int) error {
		_, err := s.grpc.AssociateRuleWithRack(ctx, &flowv1.AssociateRuleWithRackRequest{RackId: testID(1, 1, 0), RuleId: ids[n%len(ids)]})
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if got := s.associations(t, 1); len(got) != 1 {
		t.Errorf("associations %q are left", got)
	}
	s.associate(t, 1, ids[3])
	if got := s.bound(t, 1, powerRule, "power_on"); got != ids[3].GetId() {
		t.Errorf("the last one is %s, want %s", got, ids[3])
	}
}

// TestRulesApplyInTheirOrder submits power-ons of two racks and reads which rule they use.
func TestRulesApplyInTheirOrder(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		name := t.Name()
		mine, plain := p.rack(name+" mine", map[flowv1.ComponentType]int{compute: 1}), p.rack(name+" plain", map[flowv1.ComponentType]int{compute: 1})
		store := func(name string) *flowv1.UUID { return p.storeRule(newRule(name, nil)) }
		asked, bound, usual, empty := store("asked for"), store("bound"), store("usual"), p.storeRule(newRule("empty", func(r *flowv1.CreateOperationRuleRequest) { r.RuleDefinitionJson = `{}` }))
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		associate := func(rule *flowv1.UUID) {
			t.Helper()
			_, err := flow.AssociateRuleWithRack(t.Context(), &flowv1.AssociateRuleWithRackRequest{RackId: mine, RuleId: rule})
			must(err)
		}
		// applied are the rules of the tasks on mine and plain; "" is the built-in one.
		applied := func(rule *flowv1.UUID) [2]string {
			t.Helper()
			res, err := flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byID(mine), byID(plain)), RuleId: rule})
			must(err)
			var got [2]string
			for _, task := range p.finished(res.GetTaskIds()) {
				if task.GetRackId().GetId() == mine.GetId() {
					got[0] = task.GetAppliedRuleId().GetId()
				} else {
					got[1] = task.GetAppliedRuleId().GetId()
				}
			}
			return got
		}
		same := func(when string, got [2]string, mine, plain *flowv1.UUID) {
			t.Helper()
			if got != [2]string{mine.GetId(), plain.GetId()} {
				t.Errorf("%s: %q apply, want %q and %q", when, got, mine.GetId(), plain.GetId())
			}
		}
		same("nothing stored", applied(nil), nil, nil)
		_, err := flow.SetRuleAsDefault(t.Context(), &flowv1.SetRuleAsDefaultRequest{RuleId: usual})
		must(err)
		same("a default", applied(nil), usual, usual)
		associate(bound)
		same("an association", applied(nil), bound, usual)
		same("a rule in the request", applied(asked), asked, asked)
		associate(empty)
		_, err = flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byID(mine))})
		refused(t, err, connect.CodeFailedPrecondition, "empty", empty.GetId()) // it is a match: nothing below it counts
		_, err = flow.DisassociateRuleFromRack(t.Context(), &flowv1.DisassociateRuleFromRackRequest{RackId: mine, OperationType: powerRule, OperationCode: "power_on"})
		must(err)
		same("no association any more", applied(nil), usual, usual)
		_, err = flow.DeleteOperationRule(t.Context(), &flowv1.DeleteOperationRuleRequest{RuleId: usual})
		must(err)
		same("no default any more", applied(nil), nil, nil)
	})
}

func TestRuleEnumsAreComplete(t *testing.T) {
	t.Parallel()
	covers(t, ruleTypes, flowv1.OperationType_OPERATION_TYPE_UNKNOWN)
	covers(t, inverse(ruleOutcomes), 0)
	for typ, stored := range ruleTypes {
		if len(stored.Codes()) == 0 || ruleTypeMessages[stored] != typ || stored == rules.TaskBringUp {
			t.Errorf("%v stands for %q", typ, stored)
		}
	}
}
