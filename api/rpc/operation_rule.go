package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/rule"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// ruleTypes are the operations that stored rules are for.
var ruleTypes = map[flowv1.OperationType]rules.TaskType{
	flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL:    rules.TaskPowerControl,
	flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL: rules.TaskFirmwareControl,
}

var ruleTypeMessages = inverse(ruleTypes)

// CreateOperationRule implements flowv1connect.FlowHandler.
func (s *service) CreateOperationRule(ctx context.Context, m *flowv1.CreateOperationRuleRequest) (*flowv1.CreateOperationRuleResponse, error) {
	id, err := rule.Create(ctx, s.store, draft(m))
	if err != nil {
		return nil, err
	}
	return &flowv1.CreateOperationRuleResponse{Id: idMessage(id)}, nil
}

// ruleRequest is what a rule to be stored is given as, alone or in a batch.
type ruleRequest interface {
	GetName() string
	GetDescription() string
	GetOperationType() flowv1.OperationType
	GetOperationCode() string
	GetRuleDefinitionJson() string
	GetIsDefault() bool
}

// draft leaves the type out that has no stored rules.
func draft(m ruleRequest) rule.Draft {
	return rule.Draft{
		Name:        m.GetName(),
		Description: m.GetDescription(),
		Operation:   rules.Operation{Type: ruleTypes[m.GetOperationType()], Code: m.GetOperationCode()},
		Definition:  m.GetRuleDefinitionJson(),
		IsDefault:   m.GetIsDefault(),
	}
}

// UpdateOperationRule implements flowv1connect.FlowHandler.
func (s *service) UpdateOperationRule(ctx context.Context, m *flowv1.UpdateOperationRuleRequest) (*emptypb.Empty, error) {
	id, err := requiredID("rule_id", m.GetRuleId())
	if err != nil {
		return nil, err
	}
	change := rule.Change{Name: m.Name, Description: m.Description, Definition: m.RuleDefinitionJson}
	if err := rule.Update(ctx, s.store, id, change); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// GetOperationRule implements flowv1connect.FlowHandler.
func (s *service) GetOperationRule(ctx context.Context, m *flowv1.GetOperationRuleRequest) (*flowv1.OperationRule, error) {
	id, err := requiredID("rule_id", m.GetRuleId())
	if err != nil {
		return nil, err
	}
	row, err := rule.Get(ctx, s.store, id)
	if err != nil {
		return nil, err
	}
	return ruleMessage(row), nil
}

// ListOperationRules implements flowv1connect.FlowHandler.
func (s *service) ListOperationRules(ctx context.Context, m *flowv1.ListOperationRulesRequest) (*flowv1.ListOperationRulesResponse, error) {
	limit := int32(defaultPage)
	switch {
	case m.GetOffset() < 0:
		return nil, fault.Invalid("offset", "%d must not be negative", m.GetOffset())
	case m.Limit != nil && *m.Limit <= 0:
		return nil, fault.Invalid("limit", "%d must be greater than 0", *m.Limit)
	case m.Limit != nil:
		limit = min(*m.Limit, maxPage)
	}
	var typ *string
	if t, ok := ruleTypes[m.GetOperationType()]; ok {
		text := string(t)
		typ = &text
	}
	q := db.New(s.store.API)
	total, err := q.RuleCount(ctx, db.RuleCountParams{OperationType: typ, IsDefault: m.IsDefault})
	if err != nil {
		return nil, err
	}
	rows, err := q.RuleList(ctx, db.RuleListParams{OperationType: typ, IsDefault: m.IsDefault, Max: limit, Skip: m.GetOffset()})
	if err != nil {
		return nil, err
	}
	return &flowv1.ListOperationRulesResponse{Rules: each(rows, ruleMessage), TotalCount: total}, nil
}

// DeleteOperationRule implements flowv1connect.FlowHandler. Deleting what is not there is no error.
func (s *service) DeleteOperationRule(ctx context.Context, m *flowv1.DeleteOperationRuleRequest) (*emptypb.Empty, error) {
	id, err := requiredID("rule_id", m.GetRuleId())
	if err != nil {
		return nil, err
	}
	if err := rule.Delete(ctx, s.store, id); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// SetRuleAsDefault implements flowv1connect.FlowHandler.
func (s *service) SetRuleAsDefault(ctx context.Context, m *flowv1.SetRuleAsDefaultRequest) (*emptypb.Empty, error) {
	id, err := requiredID("rule_id", m.GetRuleId())
	if err != nil {
		return nil, err
	}
	if err := rule.SetDefault(ctx, s.store, id); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func ruleMessage(r db.OperationRule) *flowv1.OperationRule {
	return &flowv1.OperationRule{
		Id:                 idMessage(r.ID),
		Name:               r.Name,
		Description:        r.Description,
		OperationType:      ruleTypeMessages[rules.TaskType(r.OperationType)],
		OperationCode:      r.OperationCode,
		RuleDefinitionJson: definitionText(r.Definition),
		IsDefault:          r.IsDefault,
		CreatedAt:          timestamppb.New(r.CreatedAt),
		UpdatedAt:          timestamppb.New(r.UpdatedAt),
	}
}

// definitionText gives a stored definition in its canonical form, and one that can't be read as it is.
func definitionText(doc []byte) string {
	def, err := rules.Parse(doc)
	if err != nil {
		return string(doc)
	}
	text, err := def.MarshalJSON()
	if err != nil {
		return string(doc)
	}
	return string(text)
}
