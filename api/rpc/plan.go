package rpc

import (
	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/rules"
)

// PlanMessage is a plan as clients see it.
func PlanMessage(p rules.Plan) *flowopsv1.TaskPlan {
	return &flowopsv1.TaskPlan{Operation: p.Operation.String(), RuleName: p.RuleName}
}
