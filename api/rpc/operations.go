package rpc

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// rackErrorTrailer has one entry for each rack of a submission that got no task: "<rack> <code> <text>".
const rackErrorTrailer = "flow-rack-error"

// operationRequest is what the requests of all operations share.
type operationRequest interface {
	GetTargetSpec() *flowv1.OperationTargetSpec
	GetDescription() string
	GetRuleId() *flowv1.UUID
}

// PowerOnRack implements flowv1connect.FlowHandler.
func (s *service) PowerOnRack(ctx context.Context, m *flowv1.PowerOnRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m, power(hardware.PowerOn), task.Options{OverrideReadiness: m.GetOverrideReadinessCheck()})
}

// PowerOffRack implements flowv1connect.FlowHandler.
func (s *service) PowerOffRack(ctx context.Context, m *flowv1.PowerOffRackRequest) (*flowv1.SubmitTaskResponse, error) {
	op := hardware.PowerOff
	if m.GetForced() {
		op = hardware.ForcePowerOff
	}
	return s.submit(ctx, m, power(op), task.Options{Forced: m.GetForced(), OverrideReadiness: m.GetOverrideReadinessCheck()})
}

// PowerResetRack implements flowv1connect.FlowHandler.
func (s *service) PowerResetRack(ctx context.Context, m *flowv1.PowerResetRackRequest) (*flowv1.SubmitTaskResponse, error) {
	op := hardware.Restart
	if m.GetForced() {
		op = hardware.ForceRestart
	}
	return s.submit(ctx, m, power(op), task.Options{Forced: m.GetForced(), OverrideReadiness: m.GetOverrideReadinessCheck()})
}

// ACPowerCycleRack implements flowv1connect.FlowHandler.
func (s *service) ACPowerCycleRack(ctx context.Context, m *flowv1.ACPowerCycleRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m, power(hardware.ColdReset), task.Options{OverrideReadiness: m.GetOverrideReadinessCheck()})
}

func power(op hardware.PowerOperation) rules.Operation {
	return rules.Operation{Type: rules.TaskPowerControl, Code: string(op)}
}

// submit checks the shape of a request in the order clients know, and hands it to the engine.
func (s *service) submit(ctx context.Context, m operationRequest, op rules.Operation, opt task.Options) (*flowv1.SubmitTaskResponse, error) {
	if m.GetTargetSpec() == nil {
		return nil, fault.Invalid("target_spec", "is required")
	}
	rule, err := optionalID("rule_id", m.GetRuleId())
	if err != nil {
		return nil, err
	}
	scope, err := scopeOf(m.GetTargetSpec())
	if err != nil {
		return nil, err
	}
	req := task.Request{Operation: op, Scope: scope, Description: m.GetDescription(), Options: opt}
	if rule != uuid.Nil {
		req.RuleID = &rule
	}
	sub, err := s.tasks.Submit(ctx, req)
	if err != nil {
		return nil, err
	}
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		for _, r := range sub.Refusals {
			leaves := toConnect(ctx, r.Err)
			call.ResponseTrailer().Add(rackErrorTrailer, fmt.Sprintf("%s %s %s", r.RackID, leaves.Code(), leaves.Message()))
		}
	}
	return &flowv1.SubmitTaskResponse{TaskIds: each(sub.TaskIDs, idMessage)}, nil
}
