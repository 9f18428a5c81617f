package rules

import (
	"errors"
	"fmt"
	"slices"

	"rackflow.dev/flow/hardware"
)

// The parameters actions know.
const (
	paramDuration       = "duration"
	paramOperation      = "operation"
	paramExpectedStatus = "expected_status"
	paramComponentTypes = "component_types"
	paramRequireAll     = "require_all"
	paramPollInterval   = "poll_interval"
	paramPollTimeout    = "poll_timeout"
)

// settings are an action's parameters in their own types; what is absent is zero.
type settings struct {
	duration       Duration
	operation      hardware.PowerOperation
	expectedStatus hardware.PowerState
	types          []hardware.ComponentType // each once, in the order of the list
	requireAll     bool
	pollInterval   Duration
	pollTimeout    Duration
}

// wrongParameter is a parameter that is there and cannot be used.
type wrongParameter struct {
	key string
	err error
}

// settings reads the parameters the action knows. Validation reports what is wrong, the planner works with the rest.
func (a Action) settings() (settings, []wrongParameter) {
	var s settings
	var wrong []wrongParameter
	// Null is a value like any other here: a rule that says "operation: null" may mean anything.
	read := func(key string, convert func(v any) error) {
		if v, ok := a.Parameters[key]; ok {
			if err := convert(v); err != nil {
				wrong = append(wrong, wrongParameter{key, err})
			}
		}
	}
	duration := func(into *Duration) func(any) error {
		return func(v any) (err error) {
			*into, err = parameterDuration(v)
			return err
		}
	}
	switch a.Name {
	case ActionSleep:
		read(paramDuration, duration(&s.duration))
	case ActionPowerControl:
		read(paramOperation, s.readOperation)
	case ActionVerifyPowerStatus:
		read(paramExpectedStatus, s.readExpectedStatus)
	case ActionVerifyReachability:
		read(paramComponentTypes, s.readComponentTypes)
		read(paramRequireAll, s.readRequireAll)
	case ActionFirmwareControl:
		read(paramPollInterval, duration(&s.pollInterval))
		read(paramPollTimeout, duration(&s.pollTimeout))
	}
	return s, wrong
}

func (s *settings) readOperation(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("must be of type string, got %s", kindOf(v))
	}
	op, err := hardware.ParsePowerOperation(text)
	if err != nil {
		return fmt.Errorf("is no power operation: '%s'", shown(text))
	}
	s.operation = op
	return nil
}

func (s *settings) readExpectedStatus(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("must be of type string, got %s", kindOf(v))
	}
	switch text {
	case "on":
		s.expectedStatus = hardware.PowerStateOn
	case "off":
		s.expectedStatus = hardware.PowerStateOff
	default:
		return fmt.Errorf("must be 'on' or 'off', got '%s'", shown(text))
	}
	return nil
}

func (s *settings) readComponentTypes(v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("must be of type array, got %s", kindOf(v))
	}
	if len(list) == 0 {
		return errors.New("must name at least one component type") // D-31.10: nothing to reach is always reached
	}
	for i, e := range list {
		text, ok := e.(string)
		if !ok {
			return fmt.Errorf("[%d] must be of type string, got %s", i, kindOf(e))
		}
		t, err := hardware.ParseComponentType(text)
		if err != nil {
			return fmt.Errorf("[%d]: component type '%s' is unknown or invalid", i, shown(text))
		}
		if !slices.Contains(s.types, t) {
			s.types = append(s.types, t)
		}
	}
	return nil
}

func (s *settings) readRequireAll(v any) error {
	all, ok := v.(bool)
	if !ok {
		return fmt.Errorf("must be of type bool, got %s", kindOf(v))
	}
	s.requireAll = all
	return nil
}
