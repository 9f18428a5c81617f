package task

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
)

// The message of a task in each state that has a fixed one; clients compare them.
const (
	MessagePending   = "Pending"
	MessageQueued    = "Queued: waiting for rack to become available"
	MessagePromoted  = "Promoted: no conflicting active tasks"
	MessageExpired   = "Expired: queue timeout reached"
	MessageRunning   = "Running"
	MessageSucceeded = "Succeeded"
	MessageCancelled = "Cancelled by user"

	// What these say of goes on behind them.
	messageUnlinked        = "Waiting for target linkage: "
	messageUnlinkedExpired = "Expired: target linkage unavailable before queue timeout: "
	messageUnlinkedFull    = "Terminated: rack waiting queue is full while target linkage is unavailable (%d/%d tasks): %v"
	messageRackDeleted     = "Terminated: rack %s was deleted"
)

// maxMessage is the limit of Task.message and of errors in a report, in bytes.
const maxMessage = 512

// FailureMessage makes a message of an error's text: its first line, cut to what the field holds.
func FailureMessage(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimSpace(line)
	if line == "" {
		return "Failed"
	}
	return cut(line, maxMessage)
}

// cut shortens to at most n bytes at the end of a whole character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

var powerNames = map[hardware.PowerOperation]string{
	hardware.PowerOn:       "PowerOn",
	hardware.ForcePowerOn:  "ForcePowerOn",
	hardware.PowerOff:      "PowerOff",
	hardware.ForcePowerOff: "ForcePowerOff",
	hardware.Restart:       "Restart",
	hardware.ForceRestart:  "ForceRestart",
	hardware.WarmReset:     "WarmReset",
	hardware.ColdReset:     "ColdReset",
}

var firmwareNames = map[string]string{
	rules.CodeUpgrade:   "FirmwareUpgrade",
	rules.CodeDowngrade: "FirmwareDowngrade",
	rules.CodeRollback:  "FirmwareRollback",
}

// OperationText is the text form of a task's operation as clients of the API know it.
func OperationText(op rules.Operation, req Options) string {
	switch op.Type {
	case rules.TaskPowerControl:
		return fmt.Sprintf("%s, forced %t", powerNames[hardware.PowerOperation(op.Code)], req.Forced)
	case rules.TaskFirmwareControl:
		return firmwareNames[op.Code]
	case rules.TaskBringUp:
		if op.Code == rules.CodeIngest {
			return "rack ingest"
		}
		return "rack bring-up"
	case rules.TaskDecommission:
		return "rack decommission"
	default:
		return string(op.Type)
	}
}
