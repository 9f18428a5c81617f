package rules

import (
	"time"

	"rackflow.dev/flow/hardware"
)

// ActionName names an act a step can do. Names are case-sensitive.
type ActionName string

// The actions. VerifyFirmwareVersion is a reserved name that nothing carries out, so it is not one of them.
const (
	ActionSleep                     ActionName = "Sleep"
	ActionPowerControl              ActionName = "PowerControl"
	ActionVerifyPowerStatus         ActionName = "VerifyPowerStatus"
	ActionVerifyReachability        ActionName = "VerifyReachability"
	ActionGetPowerStatus            ActionName = "GetPowerStatus"
	ActionFirmwareControl           ActionName = "FirmwareControl"
	ActionVerifyFirmwareConsistency ActionName = "VerifyFirmwareConsistency"
	ActionBringUpControl            ActionName = "BringUpControl"
	ActionWaitBringUp               ActionName = "WaitBringUp"
	ActionInjectExpectation         ActionName = "InjectExpectation"
	ActionDecommissionControl       ActionName = "DecommissionControl"
	ActionWaitDecommissioned        ActionName = "WaitDecommissioned"
)

// Batched reports whether the action runs once for each chunk of max_parallel components. Otherwise it runs once for
// all components of the step.
func (n ActionName) Batched() bool { return actions[n].batched }

// Disruptive reports whether the action changes what a device does, so that it has to wait until components are ready.
func (n ActionName) Disruptive() bool {
	return n == ActionPowerControl || n == ActionFirmwareControl || n == ActionBringUpControl
}

// actionSpec is what the chapter's table says of one action.
type actionSpec struct {
	stored   bool // operators may use it; the others are for built-in rules
	batched  bool
	calls    bool // sends a command or a query that is repeated by the retry policy
	once     bool // ... except that this one is never repeated
	polls    bool // asks again until a state is reached or time is up
	attempts bool // the timeout field bounds one call, not the poll loop

	needsTimeout      bool
	needsPollInterval bool
	needsParameter    string

	attempt      time.Duration // bounds one call whatever the step says
	timeout      time.Duration // of the poll loop, when the rule gives none
	pollInterval time.Duration // when the rule gives none

	capabilities []hardware.Capability // of the step's own component type
}

// actions is the one table of what can be done in a step.
var actions = map[ActionName]actionSpec{
	ActionSleep: {stored: true, needsParameter: "duration"},
	ActionPowerControl: {
		stored: true, batched: true, calls: true, attempts: true,
		capabilities: []hardware.Capability{hardware.CapPowerControl},
	},
	ActionVerifyPowerStatus: {
		stored: true, batched: true, polls: true,
		needsTimeout: true, needsPollInterval: true, needsParameter: "expected_status",
		capabilities: []hardware.Capability{hardware.CapPowerStatus},
	},
	ActionVerifyReachability: {
		stored: true, polls: true,
		needsTimeout: true, needsPollInterval: true, needsParameter: "component_types",
		capabilities: []hardware.Capability{hardware.CapPowerStatus},
	},
	ActionGetPowerStatus: {
		stored: true, batched: true, calls: true, attempts: true, needsTimeout: true,
		capabilities: []hardware.Capability{hardware.CapPowerStatus},
	},
	ActionFirmwareControl: {
		stored: true, batched: true, calls: true, polls: true, attempts: true,
		timeout: 30 * time.Minute, pollInterval: 2 * time.Minute,
		capabilities: []hardware.Capability{hardware.CapFirmwareControl, hardware.CapFirmwareStatus},
	},
	ActionVerifyFirmwareConsistency: {
		calls:        true,
		capabilities: []hardware.Capability{hardware.CapFirmwareConsistencyCheck},
	},
	ActionBringUpControl: {
		batched: true, calls: true,
		capabilities: []hardware.Capability{hardware.CapBringUpControl},
	},
	ActionWaitBringUp: {
		batched: true, polls: true,
		timeout: 15 * time.Minute, pollInterval: 30 * time.Second,
		capabilities: []hardware.Capability{hardware.CapBringUpStatus},
	},
	ActionInjectExpectation: {
		batched: true, calls: true,
		capabilities: []hardware.Capability{hardware.CapInjectExpectation},
	},
	ActionDecommissionControl: {
		batched: true, calls: true, once: true, attempt: 5 * time.Minute,
		capabilities: []hardware.Capability{hardware.CapDecommissionControl},
	},
	ActionWaitDecommissioned: {
		batched: true, polls: true, attempt: 30 * time.Second,
		needsTimeout: true, needsPollInterval: true,
		capabilities: []hardware.Capability{hardware.CapDecommissionStatus},
	},
}
