package rpc

import (
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// PlanMessage is a plan as it is shown. The command line shows plans that no server has seen by the same function.
func PlanMessage(p rules.Plan) *flowopsv1.TaskPlan {
	m := &flowopsv1.TaskPlan{
		Operation: p.Operation.String(),
		RuleName:  p.RuleName,
		Shortest:  durationMessage(p.Shortest()),
		Longest:   durationMessage(p.Longest()),
	}
	if p.RuleID != uuid.Nil {
		m.RuleId = idMessage(p.RuleID)
	}
	for _, t := range hardware.ComponentTypes {
		if list := p.Components[t]; len(list) > 0 {
			m.Components = append(m.Components, &flowopsv1.PlannedComponents{
				ComponentType: string(t),
				ComponentIds:  each(hardware.Target{Type: t, Components: list}.IDs(), idMessage),
			})
		}
	}
	for _, stage := range p.Stages {
		m.Stages = append(m.Stages, &flowopsv1.PlannedStage{
			Number: int32(stage.Number),
			Steps:  each(stage.Steps, func(s rules.PlanStep) *flowopsv1.PlannedStep { return stepMessage(p, s) }),
		})
	}
	return m
}

func stepMessage(p rules.Plan, s rules.PlanStep) *flowopsv1.PlannedStep {
	return &flowopsv1.PlannedStep{
		ComponentType:   string(s.ComponentType),
		Skipped:         s.Skipped && !s.Done,
		Done:            s.Done,
		TotalComponents: int32(len(p.Components[s.ComponentType])),
		MaxParallel:     int32(s.MaxParallel),
		Actions: each(s.Actions, func(a rules.PlanAction) *flowopsv1.PlannedAction {
			return &flowopsv1.PlannedAction{
				Phase:          string(a.Phase),
				Name:           string(a.Name),
				Detail:         a.Detail(),
				Batches:        int32(len(p.Batches(s, a))),
				AttemptTimeout: optionalDuration(a.AttemptTimeout),
				MaxAttempts:    int32(a.Retry.MaxAttempts),
				Timeout:        optionalDuration(a.Timeout),
				PollInterval:   optionalDuration(a.PollInterval),
			}
		}),
		Shortest: durationMessage(s.Shortest()),
		Longest:  durationMessage(s.Longest()),
	}
}

func durationMessage(d rules.Duration) *durationpb.Duration { return durationpb.New(time.Duration(d)) }

// optionalDuration leaves out what there is none of.
func optionalDuration(d rules.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationMessage(d)
}
