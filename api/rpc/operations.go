package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// rackErrorTrailer has one entry for each rack of a submission that got no task: "<rack> <code> <text>".
const rackErrorTrailer = "flow-rack-error"

// idempotencyHeader is the request metadata by which a client that asks again gets the tasks it has asked for.
const idempotencyHeader = "idempotency-key"

// operationRequest is what the requests of all operations share.
type operationRequest interface {
	GetTargetSpec() *flowv1.OperationTargetSpec
	GetDescription() string
	GetRuleId() *flowv1.UUID
}

// PowerOnRack implements flowv1connect.FlowHandler.
func (s *service) PowerOnRack(ctx context.Context, m *flowv1.PowerOnRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// PowerOffRack implements flowv1connect.FlowHandler.
func (s *service) PowerOffRack(ctx context.Context, m *flowv1.PowerOffRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// PowerResetRack implements flowv1connect.FlowHandler.
func (s *service) PowerResetRack(ctx context.Context, m *flowv1.PowerResetRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// ACPowerCycleRack implements flowv1connect.FlowHandler.
func (s *service) ACPowerCycleRack(ctx context.Context, m *flowv1.ACPowerCycleRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// BringUpRack implements flowv1connect.FlowHandler.
func (s *service) BringUpRack(ctx context.Context, m *flowv1.BringUpRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// IngestRack implements flowv1connect.FlowHandler.
func (s *service) IngestRack(ctx context.Context, m *flowv1.IngestRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// DecommissionRack implements flowv1connect.FlowHandler.
func (s *service) DecommissionRack(ctx context.Context, m *flowv1.DecommissionRackRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// UpgradeFirmware implements flowv1connect.FlowHandler.
func (s *service) UpgradeFirmware(ctx context.Context, m *flowv1.UpgradeFirmwareRequest) (*flowv1.SubmitTaskResponse, error) {
	return s.submit(ctx, m)
}

// taskRequest checks the shape of a request for an operation, in the order clients know.
func taskRequest(m operationRequest) (task.Request, error) {
	var req task.Request
	if m.GetTargetSpec() == nil {
		return req, fault.Invalid("target_spec", "is required")
	}
	rule, err := optionalID("rule_id", m.GetRuleId())
	if err != nil {
		return req, err
	}
	if rule != uuid.Nil {
		req.RuleID = &rule
	}
	if m, ok := m.(*flowv1.UpgradeFirmwareRequest); ok {
		if err := checkFirmware(m); err != nil {
			return req, err
		}
	}
	req.Description = m.GetDescription()
	if req.Scope, err = scopeOf(m.GetTargetSpec()); err != nil {
		return req, err
	}
	if err := req.Scope.Check(); err != nil {
		return req, err
	}
	if m, ok := m.(interface {
		GetQueueOptions() *flowv1.QueueOptions
	}); ok {
		req.Queue = queueTimeout(m.GetQueueOptions())
	}
	if m, ok := m.(interface{ GetOverrideReadinessCheck() bool }); ok {
		req.Options.OverrideReadiness = m.GetOverrideReadinessCheck()
	}
	return req, describe(m, &req)
}

// describe says which operation a request is for, and what is particular to it.
func describe(m operationRequest, req *task.Request) error {
	switch m := m.(type) {
	case *flowv1.PowerOnRackRequest:
		req.Operation = power(hardware.PowerOn)
	case *flowv1.PowerOffRackRequest:
		req.Operation = power(hardware.PowerOff)
		if req.Options.Forced = m.GetForced(); m.GetForced() {
			req.Operation = power(hardware.ForcePowerOff)
		}
	case *flowv1.PowerResetRackRequest:
		req.Operation = power(hardware.Restart)
		if req.Options.Forced = m.GetForced(); m.GetForced() {
			req.Operation = power(hardware.ForceRestart)
		}
	case *flowv1.ACPowerCycleRackRequest:
		req.Operation = power(hardware.ColdReset)
	case *flowv1.BringUpRackRequest:
		req.Operation = rules.Operation{Type: rules.TaskBringUp, Code: rules.CodeBringUp}
	case *flowv1.IngestRackRequest:
		req.Operation = rules.Operation{Type: rules.TaskBringUp, Code: rules.CodeIngest}
		var err error
		req.Filter.Matches, err = componentMatches(m.GetFilters())
		return err
	case *flowv1.DecommissionRackRequest:
		req.Operation = rules.Operation{Type: rules.TaskDecommission, Code: rules.CodeDecommission}
		if len(req.Scope.Components) > 0 {
			return fault.Invalid("target_spec.components", "racks are decommissioned as a whole: name racks or NVLink domains")
		}
	case *flowv1.UpgradeFirmwareRequest:
		return fault.Unimplemented("firmware updates are not built into this server yet")
	}
	return nil
}

func power(op hardware.PowerOperation) rules.Operation {
	return rules.Operation{Type: rules.TaskPowerControl, Code: string(op)}
}

// queueTimeout is how long a task may wait for its rack; 0: it is refused instead.
func queueTimeout(o *flowv1.QueueOptions) time.Duration {
	switch seconds := o.GetQueueTimeoutSeconds(); {
	case o.GetConflictStrategy() != flowv1.ConflictStrategy_CONFLICT_STRATEGY_QUEUE:
		return 0
	case seconds <= 0:
		return task.DefaultQueueTimeout
	default:
		return min(time.Duration(seconds)*time.Second, task.MaxQueueTimeout)
	}
}

// checkFirmware checks what only a firmware request has: credential before window.
func checkFirmware(m *flowv1.UpgradeFirmwareRequest) error {
	if err := checkCredential(m); err != nil {
		return err
	}
	const start, end = "start_time", "end_time"
	for _, t := range []struct {
		field string
		at    *timestamppb.Timestamp
	}{{start, m.GetStartTime()}, {end, m.GetEndTime()}} {
		switch {
		case t.at == nil:
		case t.at.CheckValid() != nil:
			return fault.Invalid(t.field, "is not a time: %v", t.at.CheckValid())
		case t.at.GetSeconds() <= 0:
			return fault.Invalid(t.field, "%s is not after 1970-01-01T00:00:00Z", t.at.AsTime().Format(time.RFC3339))
		}
	}
	if m.GetStartTime() != nil && m.GetEndTime() != nil && m.GetEndTime().GetSeconds() <= m.GetStartTime().GetSeconds() {
		return fault.Invalid(end, "must be after start_time")
	}
	return nil
}

// checkCredential refuses a credential that is malformed, that nothing would use, or that cannot be kept.
func checkCredential(m *flowv1.UpgradeFirmwareRequest) error {
	const field = "authentication_data"
	auth := m.GetAuthenticationData()
	if auth == nil {
		return nil
	}
	given := false
	switch v := auth.GetValue().(type) {
	case *flowv1.FirmwareAuthenticationData_Shared:
		given = v.Shared != ""
	case *flowv1.FirmwareAuthenticationData_PerComponent:
		if v.PerComponent == nil {
			return fault.Invalid(field+".per_component", "must not be null")
		}
		given = v.PerComponent.GetCompute() != "" || v.PerComponent.GetNvswitch() != "" || v.PerComponent.GetPowershelf() != ""
	default:
		return fault.Invalid(field, "needs shared or per_component")
	}
	dpuOnly := len(m.GetSubTargets()) > 0 && !slices.ContainsFunc(m.GetSubTargets(), func(name string) bool {
		return !strings.EqualFold(strings.TrimSpace(name), "dpu")
	})
	switch {
	case given && dpuOnly:
		return fault.Invalid(field, "an update of DPUs alone takes no credential")
	case given:
		return fault.Precondition("%s: this server has no data encryption key, so it keeps no credentials", field)
	}
	return nil
}

// submit hands a request to the engine.
func (s *service) submit(ctx context.Context, m operationRequest) (*flowv1.SubmitTaskResponse, error) {
	req, err := taskRequest(m)
	if err != nil {
		return nil, err
	}
	call, inCall := connect.CallInfoForHandlerContext(ctx)
	if inCall {
		req.IdempotencyKey = call.RequestHeader().Get(idempotencyHeader)
	}
	sub, err := s.tasks.Submit(ctx, req)
	if err != nil {
		return nil, err
	}
	if inCall {
		for _, r := range sub.Refusals {
			leaves := toConnect(ctx, r.Err)
			call.ResponseTrailer().Add(rackErrorTrailer, fmt.Sprintf("%s %s %s", r.RackID, leaves.Code(), leaves.Message()))
		}
	}
	return &flowv1.SubmitTaskResponse{TaskIds: each(sub.TaskIDs, idMessage)}, nil
}
