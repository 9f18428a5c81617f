package rpc

import (
	"context"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/rules"
)

var ruleSources = map[rules.Source]flowopsv1.RuleSource{
	rules.SourceRequest:     flowopsv1.RuleSource_RULE_SOURCE_REQUEST,
	rules.SourceAssociation: flowopsv1.RuleSource_RULE_SOURCE_ASSOCIATION,
	rules.SourceDefault:     flowopsv1.RuleSource_RULE_SOURCE_DEFAULT,
	rules.SourceBuiltin:     flowopsv1.RuleSource_RULE_SOURCE_BUILTIN,
}

// Explain implements flowopsv1connect.FlowOpsHandler.
func (s *opsService) Explain(ctx context.Context, m *flowopsv1.ExplainRequest) (*flowopsv1.ExplainResponse, error) {
	op := explained(m)
	if op == nil {
		return nil, fault.Invalid("operation", "is required")
	}
	req, err := taskRequest(op)
	if err != nil {
		return nil, err
	}
	list, err := s.tasks.Explain(ctx, req)
	if err != nil {
		return nil, err
	}
	return &flowopsv1.ExplainResponse{Racks: each(list, s.explanationMessage)}, nil
}

// explained is the request inside; nil when there is none.
func explained(m *flowopsv1.ExplainRequest) operationRequest {
	switch op := m.GetOperation().(type) {
	case *flowopsv1.ExplainRequest_PowerOn:
		return op.PowerOn
	case *flowopsv1.ExplainRequest_PowerOff:
		return op.PowerOff
	case *flowopsv1.ExplainRequest_PowerReset:
		return op.PowerReset
	case *flowopsv1.ExplainRequest_AcPowerCycle:
		return op.AcPowerCycle
	case *flowopsv1.ExplainRequest_UpgradeFirmware:
		return op.UpgradeFirmware
	case *flowopsv1.ExplainRequest_BringUp:
		return op.BringUp
	case *flowopsv1.ExplainRequest_Ingest:
		return op.Ingest
	case *flowopsv1.ExplainRequest_Decommission:
		return op.Decommission
	default:
		return nil
	}
}

func (s *opsService) explanationMessage(e task.Explanation) *flowopsv1.RackExplanation {
	m := &flowopsv1.RackExplanation{
		RackId: idMessage(e.RackID), RackName: e.RackName, Plan: PlanMessage(e.Plan), RuleSource: ruleSources[e.Source],
		Admission: flowopsv1.Admission_ADMISSION_STARTED,
		Conflicts: each(e.Conflicts, func(c task.Conflict) *flowopsv1.TaskConflict {
			return &flowopsv1.TaskConflict{
				TaskId: idMessage(c.TaskID), Status: taskStatuses[c.State], Operation: c.Operation.String(), Rule: c.Rule,
			}
		}),
		BlockedComponents: each(e.Unready, func(u task.Unready) *flowopsv1.BlockedComponent {
			return &flowopsv1.BlockedComponent{
				ComponentId: idMessage(u.ID), Name: u.Name, ComponentType: string(u.Type), Reason: u.Reason(),
				Blocks: s.tasks.Settings.Readiness.Blocks(u),
			}
		}),
	}
	switch {
	case e.Refusal != nil:
		m.Admission, m.Reason = flowopsv1.Admission_ADMISSION_REFUSED, e.Refusal.Error()
	case len(e.Conflicts) > 0:
		m.Admission, m.Reason = flowopsv1.Admission_ADMISSION_QUEUED, e.Conflicts[0].String()
	}
	return m
}

// GetTaskPlan implements flowopsv1connect.FlowOpsHandler.
func (s *opsService) GetTaskPlan(ctx context.Context, m *flowopsv1.GetTaskPlanRequest) (*flowopsv1.GetTaskPlanResponse, error) {
	id, err := requiredID("task_id", m.GetTaskId())
	if err != nil {
		return nil, err
	}
	p, err := s.tasks.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	res := &flowopsv1.GetTaskPlanResponse{Plan: PlanMessage(p.Plan)}
	if p.RetryOf != nil {
		res.RetryOf = idMessage(*p.RetryOf)
	}
	if p.RetriedBy != nil {
		res.RetriedBy = idMessage(*p.RetriedBy)
	}
	return res, nil
}

// RetryTask implements flowopsv1connect.FlowOpsHandler.
func (s *opsService) RetryTask(ctx context.Context, m *flowopsv1.RetryTaskRequest) (*flowopsv1.RetryTaskResponse, error) {
	id, err := requiredID("task_id", m.GetTaskId())
	if err != nil {
		return nil, err
	}
	retry, stage, err := s.tasks.Retry(ctx, task.Retry{
		TaskID: id, Description: m.Description, OverrideReadiness: m.OverrideReadinessCheck, Queue: queueTimeout(m.GetQueueOptions()),
	})
	if err != nil {
		return nil, err
	}
	return &flowopsv1.RetryTaskResponse{TaskId: idMessage(retry), Stage: int32(stage)}, nil
}
