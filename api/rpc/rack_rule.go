package rpc

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/rule"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// AssociateRuleWithRack implements flowv1connect.FlowHandler.
func (s *service) AssociateRuleWithRack(ctx context.Context, m *flowv1.AssociateRuleWithRackRequest) (*emptypb.Empty, error) {
	rack, err := requiredID("rack_id", m.GetRackId())
	if err != nil {
		return nil, err
	}
	id, err := requiredID("rule_id", m.GetRuleId())
	if err != nil {
		return nil, err
	}
	if err := rule.Associate(ctx, s.store, rack, id); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// DisassociateRuleFromRack implements flowv1connect.FlowHandler. Removing what is not there is no error.
func (s *service) DisassociateRuleFromRack(ctx context.Context, m *flowv1.DisassociateRuleFromRackRequest) (*emptypb.Empty, error) {
	rack, op, err := association(m)
	if err != nil {
		return nil, err
	}
	if err := rule.Disassociate(ctx, s.store, rack, op); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// GetRackRuleAssociation implements flowv1connect.FlowHandler. Without an association the answer is the nil UUID.
func (s *service) GetRackRuleAssociation(ctx context.Context, m *flowv1.GetRackRuleAssociationRequest) (*flowv1.GetRackRuleAssociationResponse, error) {
	rack, op, err := association(m)
	if err != nil {
		return nil, err
	}
	row, err := db.New(s.store.API).RackRuleGet(ctx, db.RackRuleGetParams{
		RackID: rack, OperationType: string(op.Type), OperationCode: op.Code,
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return &flowv1.GetRackRuleAssociationResponse{RuleId: idMessage(row.RuleID)}, nil
}

// ListRackRuleAssociations implements flowv1connect.FlowHandler. A rack that does not exist has none.
func (s *service) ListRackRuleAssociations(ctx context.Context, m *flowv1.ListRackRuleAssociationsRequest) (*flowv1.ListRackRuleAssociationsResponse, error) {
	rack, err := requiredID("rack_id", m.GetRackId())
	if err != nil {
		return nil, err
	}
	rows, err := db.New(s.store.API).RackRuleList(ctx, db.RackRuleListParams{RackID: rack})
	if err != nil {
		return nil, err
	}
	return &flowv1.ListRackRuleAssociationsResponse{Associations: each(rows, associationMessage)}, nil
}

// associationRequest names an association: a rack has one for each operation at most.
type associationRequest interface {
	GetRackId() *flowv1.UUID
	GetOperationType() flowv1.OperationType
	GetOperationCode() string
}

// association takes any code: for one that no rule can have, there is just no association.
func association(m associationRequest) (uuid.UUID, rules.Operation, error) {
	var op rules.Operation
	rack, err := requiredID("rack_id", m.GetRackId())
	if err != nil {
		return rack, op, err
	}
	typ, ok := ruleTypes[m.GetOperationType()]
	if !ok {
		return rack, op, fault.Invalid("operation_type", "%s has no stored rules: use POWER_CONTROL or FIRMWARE_CONTROL", m.GetOperationType())
	}
	if m.GetOperationCode() == "" {
		return rack, op, fault.Invalid("operation_code", "is required")
	}
	return rack, rules.Operation{Type: typ, Code: m.GetOperationCode()}, nil
}

func associationMessage(r db.RackRule) *flowv1.RackRuleAssociation {
	return &flowv1.RackRuleAssociation{
		RackId:        idMessage(r.RackID),
		OperationType: ruleTypeMessages[rules.TaskType(r.OperationType)],
		OperationCode: r.OperationCode,
		RuleId:        idMessage(r.RuleID),
		CreatedAt:     timestamppb.New(r.CreatedAt),
		UpdatedAt:     timestamppb.New(r.UpdatedAt),
	}
}
