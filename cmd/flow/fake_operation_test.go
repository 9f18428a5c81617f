package main

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// ruleTwo is the id of another rule than ruleOne.
const ruleTwo = "33333333-0000-4000-8000-000000000002"

func (f *fake) CreateOperationRule(_ context.Context, r *flowv1.CreateOperationRuleRequest) (*flowv1.CreateOperationRuleResponse, error) {
	return changed(f, r, &flowv1.CreateOperationRuleResponse{Id: &flowv1.UUID{Id: ruleOne}})
}

func (f *fake) UpdateOperationRule(_ context.Context, r *flowv1.UpdateOperationRuleRequest) (*emptypb.Empty, error) {
	return changed(f, r, &emptypb.Empty{})
}

func (f *fake) DeleteOperationRule(_ context.Context, r *flowv1.DeleteOperationRuleRequest) (*emptypb.Empty, error) {
	return changed(f, r, &emptypb.Empty{})
}

func (f *fake) SetRuleAsDefault(_ context.Context, r *flowv1.SetRuleAsDefaultRequest) (*emptypb.Empty, error) {
	return changed(f, r, &emptypb.Empty{})
}

func (f *fake) AssociateRuleWithRack(_ context.Context, r *flowv1.AssociateRuleWithRackRequest) (*emptypb.Empty, error) {
	return changed(f, r, &emptypb.Empty{})
}

func (f *fake) DisassociateRuleFromRack(_ context.Context, r *flowv1.DisassociateRuleFromRackRequest) (*emptypb.Empty, error) {
	return changed(f, r, &emptypb.Empty{})
}

func (f *fake) GetOperationRule(_ context.Context, r *flowv1.GetOperationRuleRequest) (*flowv1.OperationRule, error) {
	for _, rule := range f.rules {
		if rule.GetId().GetId() == r.GetRuleId().GetId() {
			return rule, nil
		}
	}
	if f.lax {
		return &flowv1.OperationRule{}, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("operation rule %s not found", r.GetRuleId().GetId()))
}

func (f *fake) ListOperationRules(_ context.Context, r *flowv1.ListOperationRulesRequest) (*flowv1.ListOperationRulesResponse, error) {
	f.note(r)
	return &flowv1.ListOperationRulesResponse{Rules: f.rules, TotalCount: int32(len(f.rules))}, nil
}

func (f *fake) ListRackRuleAssociations(
	_ context.Context, r *flowv1.ListRackRuleAssociationsRequest,
) (*flowv1.ListRackRuleAssociationsResponse, error) {
	f.note(r)
	return &flowv1.ListRackRuleAssociationsResponse{Associations: f.associations}, nil
}

func (f *fake) ReplaceOperationRules(
	_ context.Context, r *flowopsv1.ReplaceOperationRulesRequest,
) (*flowopsv1.ReplaceOperationRulesResponse, error) {
	return changed(f, r, &flowopsv1.ReplaceOperationRulesResponse{Rules: f.replaced})
}

func (f *fake) BringUpRack(ctx context.Context, r *flowv1.BringUpRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return f.submitted(ctx, r)
}

func (f *fake) IngestRack(ctx context.Context, r *flowv1.IngestRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return f.submitted(ctx, r)
}

func (f *fake) DecommissionRack(ctx context.Context, r *flowv1.DecommissionRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return f.submitted(ctx, r)
}

func (f *fake) Explain(_ context.Context, r *flowopsv1.ExplainRequest) (*flowopsv1.ExplainResponse, error) {
	return changed(f, r, &flowopsv1.ExplainResponse{Racks: f.explained})
}

func (f *fake) GetTaskPlan(_ context.Context, r *flowopsv1.GetTaskPlanRequest) (*flowopsv1.GetTaskPlanResponse, error) {
	if f.links == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("GetTaskPlan is not implemented"))
	}
	if link, ok := f.links[r.GetTaskId().GetId()]; ok {
		return link, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("task %s not found", r.GetTaskId().GetId()))
}

func (f *fake) RetryTask(_ context.Context, r *flowopsv1.RetryTaskRequest) (*flowopsv1.RetryTaskResponse, error) {
	return changed(f, r, &flowopsv1.RetryTaskResponse{TaskId: &flowv1.UUID{Id: taskOne}, Stage: 2})
}
