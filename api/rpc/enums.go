package rpc

import (
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
)

// Values that mean "unknown" on the wire have no row where nothing unknown may be stored.

var componentTypes = map[flowv1.ComponentType]hardware.ComponentType{
	flowv1.ComponentType_COMPONENT_TYPE_COMPUTE:    hardware.Compute,
	flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH:   hardware.NVSwitch,
	flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF: hardware.PowerShelf,
	flowv1.ComponentType_COMPONENT_TYPE_TORSWITCH:  hardware.ToRSwitch,
	flowv1.ComponentType_COMPONENT_TYPE_UMS:        hardware.UMS,
	flowv1.ComponentType_COMPONENT_TYPE_CDU:        hardware.CDU,
}

var componentTypeMessages = inverse(componentTypes)

var bmcTypes = map[flowv1.BMCType]string{
	flowv1.BMCType_BMC_TYPE_HOST: inventory.BMCHost,
	flowv1.BMCType_BMC_TYPE_DPU:  inventory.BMCDPU,
}

var bmcTypeMessages = inverse(bmcTypes)

var phases = map[inventory.Phase]flowv1.Phase{
	inventory.PhaseUnknown:      flowv1.Phase_PHASE_UNKNOWN,
	inventory.PhaseInitializing: flowv1.Phase_PHASE_INITIALIZING,
	inventory.PhaseReady:        flowv1.Phase_PHASE_READY,
	inventory.PhaseInUse:        flowv1.Phase_PHASE_IN_USE,
	inventory.PhaseError:        flowv1.Phase_PHASE_ERROR,
	inventory.PhaseDeleting:     flowv1.Phase_PHASE_DELETING,
}

// leakStatuses are read by the values the table component allows.
var leakStatuses = map[string]flowv1.LeakStatus{
	"UNKNOWN":      flowv1.LeakStatus_LEAK_STATUS_UNKNOWN,
	"DETECTED":     flowv1.LeakStatus_LEAK_STATUS_DETECTED,
	"NOT_DETECTED": flowv1.LeakStatus_LEAK_STATUS_NOT_DETECTED,
}

var leakHandlings = map[inventory.LeakHandling]flowv1.LeakHandlingStatus{
	inventory.LeakNone:         flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_NONE,
	inventory.LeakShuttingDown: flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_SHUTTING_DOWN,
	inventory.LeakDown:         flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_DOWN,
	inventory.LeakFailed:       flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_FAILED,
}

// diffTypes are read by the kinds the table drift allows.
var diffTypes = map[string]flowv1.DiffType{
	inventory.DriftMissing:    flowv1.DiffType_DIFF_TYPE_MISSING,
	inventory.DriftUnexpected: flowv1.DiffType_DIFF_TYPE_UNEXPECTED,
	inventory.DriftMismatch:   flowv1.DiffType_DIFF_TYPE_MISMATCH,
}

func inverse[K, V comparable](m map[K]V) map[V]K {
	out := make(map[V]K, len(m))
	for k, v := range m {
		out[v] = k
	}
	return out
}
