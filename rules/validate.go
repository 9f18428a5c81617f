package rules

import (
	"slices"

	"rackflow.dev/flow/hardware"
)

// maxAttempts bounds max_attempts of a retry policy (D-31.3).
const maxAttempts = 100

// Validate checks the rule of an operator for an operation and returns Problems with everything wrong in it: each step
// in itself, each action by its own table, and that a component type occurs once in a stage. Actions reserved for
// built-in rules are unknown here.
func (d Definition) Validate(op Operation) error {
	v := validator{inherits: op.Type == TaskPowerControl}
	return v.definition(d)
}

// validateBuiltin is Validate for a rule of ours, which may use every action.
func (d Definition) validateBuiltin(op Operation) error {
	v := validator{internal: true, inherits: op.Type == TaskPowerControl}
	return v.definition(d)
}

// validator notes what is wrong with a rule.
type validator struct {
	internal bool // reserved actions are known
	inherits bool // PowerControl without an operation has the task's to inherit
	problems Problems
}

func (v *validator) definition(d Definition) error {
	if d.Version != "" && d.Version != SchemaVersion {
		v.problems.add(place{}, keyVersion, unsupportedVersion, shown(d.Version), SchemaVersion)
	}
	type slot struct {
		stage int
		kind  hardware.ComponentType
	}
	taken := make(map[slot]bool, len(d.Steps))
	for i, s := range d.Steps {
		at := stepPlace(i)
		v.step(at, s)
		if s.ComponentType == "" {
			continue
		}
		here := slot{s.Stage, s.ComponentType}
		if taken[here] {
			v.problems.add(at, keyComponentType, "duplicate component type %s in stage %d", s.ComponentType, s.Stage)
		}
		taken[here] = true
	}
	return v.problems.err()
}

// step checks in the order of the chapter, so that the first problem is the one the reference reports.
func (v *validator) step(at place, s Step) {
	if !slices.Contains(hardware.ComponentTypes, s.ComponentType) {
		v.problems.add(at, keyComponentType, "component type is unknown or invalid")
	}
	if s.Stage < 1 {
		v.problems.add(at, keyStage, "stage must be >= 1, got %d", s.Stage)
	}
	if s.MaxParallel < 0 {
		v.problems.add(at, keyMaxParallel, "max_parallel must be >= 0, got %d", s.MaxParallel)
	}
	v.duration(at, keyDelayAfter, s.DelayAfter)
	v.duration(at, keyTimeout, s.Timeout)
	if s.Retry != nil {
		v.retry(at.in(keyRetry, 0), *s.Retry)
	}
	for i, a := range s.Pre {
		v.action(at.in(keyPre, i), a)
	}
	if s.Main.Name == "" {
		v.problems.add(at, keyMain, "main_operation is required")
	} else {
		v.action(at.in(keyMain, 0), s.Main)
	}
	for i, a := range s.Post {
		v.action(at.in(keyPost, i), a)
	}
}

func (v *validator) retry(at place, r Retry) {
	switch {
	case r.MaxAttempts < 1:
		v.problems.add(at, keyMaxAttempts, "max_attempts must be >= 1, got %d", r.MaxAttempts)
	case r.MaxAttempts > maxAttempts:
		v.problems.add(at, keyMaxAttempts, "max_attempts must be <= %d, got %d", maxAttempts, r.MaxAttempts)
	}
	if r.InitialInterval <= 0 {
		v.problems.add(at, keyInitialInterval, "initial_interval is required and must be positive")
	} else {
		v.duration(at, keyInitialInterval, r.InitialInterval)
	}
	if !(r.BackoffCoefficient >= 1) {
		v.problems.add(at, keyBackoffCoefficient, "backoff_coefficient must be >= 1.0, got %v", r.BackoffCoefficient)
	}
	v.duration(at, keyMaxInterval, r.MaxInterval)
	if r.MaxInterval > 0 && r.MaxInterval < r.InitialInterval {
		v.problems.add(at, keyMaxInterval, "max_interval must be 0 or >= initial_interval, got %s", r.MaxInterval)
	}
}

func (v *validator) action(at place, a Action) {
	spec, ok := actions[a.Name]
	if !ok || !spec.stored && !v.internal {
		v.problems.add(at, keyName, "unknown action: %s", shown(string(a.Name)))
		return
	}
	if _, ok := a.Parameters[spec.needsParameter]; !ok && spec.needsParameter != "" {
		v.parameter(at, spec.needsParameter, "action %s missing required parameter: %s", a.Name, spec.needsParameter)
	}
	if _, ok := a.Parameters[paramOperation]; !ok && a.Name == ActionPowerControl && !v.inherits {
		v.parameter(at, paramOperation,
			"action %s missing required parameter: %s, only a power_control rule has one to inherit", a.Name, paramOperation)
	}
	if spec.needsTimeout && a.Timeout == 0 {
		v.problems.add(at, keyTimeout, "action %s requires timeout", a.Name)
	}
	v.duration(at, keyTimeout, a.Timeout)
	if spec.needsPollInterval && a.PollInterval == 0 {
		v.problems.add(at, keyPollInterval, "action %s requires poll_interval", a.Name)
	}
	v.duration(at, keyPollInterval, a.PollInterval)
	_, wrong := a.settings()
	for _, w := range wrong {
		v.parameter(at, w.key, "action %s parameter %s %v", a.Name, w.key, w.err)
	}
}

func (v *validator) parameter(at place, key, format string, args ...any) {
	at.parameters = true
	v.problems.add(at, key, format, args...)
}

func (v *validator) duration(at place, key string, d Duration) {
	if err := d.bounds(); err != nil {
		v.problems.add(at, key, "%s %v", key, err)
	}
}
