package hardware

import "fmt"

// PowerOperation is an operation code of a power task.
type PowerOperation string

// The power operations, in the order of their numbers on the wire (1 to 8).
const (
	PowerOn       PowerOperation = "power_on"
	ForcePowerOn  PowerOperation = "force_power_on"
	PowerOff      PowerOperation = "power_off"
	ForcePowerOff PowerOperation = "force_power_off"
	Restart       PowerOperation = "restart"
	ForceRestart  PowerOperation = "force_restart"
	WarmReset     PowerOperation = "warm_reset"
	ColdReset     PowerOperation = "cold_reset"
)

// PowerOperations lists every operation in the order of its wire number.
var PowerOperations = []PowerOperation{
	PowerOn, ForcePowerOn, PowerOff, ForcePowerOff, Restart, ForceRestart, WarmReset, ColdReset,
}

// ParsePowerOperation reads an operation code; codes are case-sensitive.
func ParsePowerOperation(s string) (PowerOperation, error) {
	for _, op := range PowerOperations {
		if s == string(op) {
			return op, nil
		}
	}
	return "", fmt.Errorf("unrecognized power operation %q", s)
}

// WantedState is the power state an operation leads to when it may be sent again until it is reached. Resets have
// none: whether a reset has happened cannot be read back from the power state, so they are never sent twice.
func (op PowerOperation) WantedState() (PowerState, bool) {
	switch op {
	case PowerOn, ForcePowerOn:
		return PowerStateOn, true
	case PowerOff, ForcePowerOff:
		return PowerStateOff, true
	default:
		return PowerStateUnknown, false
	}
}

// Supports reports whether a component type knows the operation: only compute trays can be AC power cycled.
func (op PowerOperation) Supports(t ComponentType) bool {
	return op != ColdReset || t == Compute
}

// PowerState is what a device says of its power.
type PowerState string

// Power states. Unknown is also what an adapter reports when a device answers something else.
const (
	PowerStateUnknown   PowerState = "Unknown"
	PowerStateOn        PowerState = "On"
	PowerStateOff       PowerState = "Off"
	PowerStateRebooting PowerState = "Rebooting"
)

// PowerReading is the power state of one component and whether the component itself could be reached for it: a tray
// whose shelves are off is known to be off and is not reachable.
type PowerReading struct {
	State     PowerState
	Reachable bool
}
