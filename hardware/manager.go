package hardware

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Capability names one thing an adapter can do.
type Capability string

// The capabilities; the names are part of error texts and of the configuration's vocabulary.
const (
	CapInjectExpectation        Capability = "InjectExpectation"
	CapPowerControl             Capability = "PowerControl"
	CapPowerStatus              Capability = "PowerStatus"
	CapFirmwareControl          Capability = "FirmwareControl"
	CapFirmwareStatus           Capability = "FirmwareStatus"
	CapBringUpControl           Capability = "BringUpControl"
	CapBringUpStatus            Capability = "BringUpStatus"
	CapFirmwareConsistencyCheck Capability = "FirmwareConsistencyCheck"
	CapDecommissionControl      Capability = "DecommissionControl"
	CapDecommissionStatus       Capability = "DecommissionStatus"
)

// Results tells for each component of a target what became of a command: nil is success. A component that is
// missing from the map was not confirmed and counts as failed.
type Results map[uuid.UUID]error

// The capability interfaces. Every call honours its context; none retries. A returned error concerns the whole call;
// what concerns single components is in the Results. Use OutcomeOf to tell what may be sent again.
type (
	// PowerController changes the power state of all components of the target. It returns once the command is
	// accepted, not once the state is reached. On and off are safe to repeat, the resets are not.
	PowerController interface {
		PowerControl(ctx context.Context, target Target, op PowerOperation, opt PowerOptions) (Results, error)
	}

	// PowerReader reads the power state. A component it knows nothing about is absent from the answer.
	PowerReader interface {
		PowerStatus(ctx context.Context, target Target) (map[uuid.UUID]PowerReading, error)
	}

	// FirmwareController starts a firmware update and returns once it is accepted. Not safe to repeat while one runs.
	// Where nothing needs to be done the start succeeds, and the readings that follow say Completed.
	FirmwareController interface {
		StartFirmware(ctx context.Context, target Target, req FirmwareRequest) (Results, error)
	}

	// FirmwareReader reads how far updates are. Absent components are unknown. The time of a reading tells the end of this
	// update from that of an earlier one, so an adapter leaves it out where it does not know it.
	FirmwareReader interface {
		FirmwareStatus(ctx context.Context, target Target) (map[uuid.UUID]FirmwareReading, error)
	}

	// FirmwareComparer fails unless all components of the target run the same firmware.
	FirmwareComparer interface {
		CheckFirmwareConsistency(ctx context.Context, target Target) error
	}

	// BringUpController opens the gate behind which a device waits to be ingested and powered on. Safe to repeat.
	BringUpController interface {
		BringUp(ctx context.Context, target Target) (Results, error)
	}

	// BringUpReader reads how far ingestion is.
	BringUpReader interface {
		BringUpStatus(ctx context.Context, target Target) (map[uuid.UUID]BringUpState, error)
	}

	// ExpectationInjector tells the site controller which devices of the manager's type to expect, at least one. Safe to
	// repeat: what is known already counts as told.
	ExpectationInjector interface {
		InjectExpectation(ctx context.Context, expected []Expectation) (Results, error)
	}

	// Decommissioner starts decommissioning. Not safe to repeat without looking first.
	Decommissioner interface {
		Decommission(ctx context.Context, target Target) (Results, error)
	}

	// DecommissionReader reads the site controller's state text of devices being decommissioned.
	DecommissionReader interface {
		DecommissionStatus(ctx context.Context, target Target) (map[uuid.UUID]string, error)
	}
)

// PowerOptions modify a power command.
type PowerOptions struct {
	// Bypass skips the site controller's own state machine; set when the operator overrode the readiness check.
	Bypass bool
}

// FirmwareRequest says which firmware to install.
type FirmwareRequest struct {
	Version    string   // empty: the site controller's desired version
	SubTargets []string // parts within a device; empty: all of them
	Force      bool     // also when the version is installed already or older
}

// FirmwareState is a stage of a firmware update.
type FirmwareState string

// Firmware states.
const (
	FirmwareUnknown   FirmwareState = "Unknown"
	FirmwareQueued    FirmwareState = "Queued"
	FirmwareVerifying FirmwareState = "Verifying"
	FirmwareCompleted FirmwareState = "Completed"
	FirmwareFailed    FirmwareState = "Failed"
)

// FirmwareReading is how far one component's update is.
type FirmwareReading struct {
	State     FirmwareState
	Version   string    // installed now, where known
	Error     string    // set when State is FirmwareFailed
	UpdatedAt time.Time // when State was reached; zero when unknown
}

// BringUpState is how far a device's ingestion is.
type BringUpState string

// Bring-up states.
const (
	BringUpNotDiscovered       BringUpState = "NotDiscovered"
	BringUpWaitingForIngestion BringUpState = "WaitingForIngestion"
	BringUpMachineNotCreated   BringUpState = "MachineNotCreated"
	BringUpMachineCreated      BringUpState = "MachineCreated"
)

// Manager is an adapter for one component type. The capability interfaces it implements are what it can do.
type Manager interface {
	Type() ComponentType
	Implementation() string // adapter variant, for people: "sim"
}

// Managers holds the active adapter of each component type.
type Managers map[ComponentType]Manager

// Capabilities lists what a manager can do, sorted.
func Capabilities(m Manager) []Capability {
	var caps []Capability
	add := func(c Capability, ok bool) {
		if ok {
			caps = append(caps, c)
		}
	}
	_, ok := m.(ExpectationInjector)
	add(CapInjectExpectation, ok)
	_, ok = m.(PowerController)
	add(CapPowerControl, ok)
	_, ok = m.(PowerReader)
	add(CapPowerStatus, ok)
	_, ok = m.(FirmwareController)
	add(CapFirmwareControl, ok)
	_, ok = m.(FirmwareReader)
	add(CapFirmwareStatus, ok)
	_, ok = m.(BringUpController)
	add(CapBringUpControl, ok)
	_, ok = m.(BringUpReader)
	add(CapBringUpStatus, ok)
	_, ok = m.(FirmwareComparer)
	add(CapFirmwareConsistencyCheck, ok)
	_, ok = m.(Decommissioner)
	add(CapDecommissionControl, ok)
	_, ok = m.(DecommissionReader)
	add(CapDecommissionStatus, ok)
	slices.Sort(caps)
	return caps
}

// Check tells whether components of a type can be asked for a capability, in words an operator can act on.
func (ms Managers) Check(t ComponentType, c Capability) error {
	m, ok := ms[t]
	if !ok {
		return Refused(fmt.Sprintf("no active component manager configured for component type %s", t))
	}
	caps := Capabilities(m)
	if slices.Contains(caps, c) {
		return nil
	}
	names := make([]string, len(caps))
	for i, have := range caps {
		names[i] = string(have)
	}
	return Refused(fmt.Sprintf("component manager %s for %s lacks capability %s (available: %s)",
		m.Implementation(), t, c, strings.Join(names, ", ")))
}

// As returns the manager of a type as one capability interface.
func As[C any](ms Managers, t ComponentType, c Capability) (C, error) {
	var zero C
	if err := ms.Check(t, c); err != nil {
		return zero, err
	}
	return ms[t].(C), nil
}
