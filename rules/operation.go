package rules

import (
	"fmt"
	"slices"

	"rackflow.dev/flow/hardware"
)

// TaskType is what kind of operation a task is.
type TaskType string

// The task types. Only rules for power and firmware control are stored; the others run by built-in rules.
const (
	TaskPowerControl      TaskType = "power_control"
	TaskFirmwareControl   TaskType = "firmware_control"
	TaskBringUp           TaskType = "bring_up"
	TaskDecommission      TaskType = "decommission"
	TaskInjectExpectation TaskType = "inject_expectation" // internal: no request asks for it
)

// The operation codes beside those of power control, which are hardware.PowerOperations.
const (
	CodeUpgrade           = "upgrade"
	CodeDowngrade         = "downgrade"
	CodeRollback          = "rollback"
	CodeBringUp           = "bring_up"
	CodeIngest            = "ingest"
	CodeDecommission      = "decommission"
	CodeInjectExpectation = "inject_expectation"
)

// Operation is one thing that can be done to a rack.
type Operation struct {
	Type TaskType `json:"type"`
	Code string   `json:"code"` // case-sensitive
}

// Codes lists the operation codes of a task type in the order of their numbers on the wire; nil for an unknown type.
func (t TaskType) Codes() []string {
	switch t {
	case TaskPowerControl:
		codes := make([]string, len(hardware.PowerOperations))
		for i, op := range hardware.PowerOperations {
			codes[i] = string(op)
		}
		return codes
	case TaskFirmwareControl:
		return []string{CodeUpgrade, CodeDowngrade, CodeRollback}
	case TaskBringUp:
		return []string{CodeBringUp, CodeIngest}
	case TaskDecommission:
		return []string{CodeDecommission}
	case TaskInjectExpectation:
		return []string{CodeInjectExpectation}
	default:
		return nil
	}
}

// Validate refuses a type or a code that does not exist.
func (o Operation) Validate() error {
	codes := o.Type.Codes()
	if codes == nil {
		return fmt.Errorf("unknown operation type '%s'", shown(string(o.Type)))
	}
	if !slices.Contains(codes, o.Code) {
		return fmt.Errorf("invalid operation code '%s' for operation type '%s'", shown(o.Code), o.Type)
	}
	return nil
}

// String gives type and code as "power_control/power_on".
func (o Operation) String() string { return string(o.Type) + "/" + o.Code }
