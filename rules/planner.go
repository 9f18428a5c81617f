package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"rackflow.dev/flow/hardware"
)

// Why a rule cannot be planned. The errors that wrap these name the rule and what is missing.
var (
	ErrNoSteps          = errors.New("rule has no steps")
	ErrNoApplicableStep = errors.New("no step applies to the targeted component types")
	ErrInheritedPower   = errors.New("PowerControl without an operation, and the task has no power operation to inherit") // D-30.8
)

// defaultAttemptTimeout bounds a hardware call when neither action nor step does. The reference has the same.
const defaultAttemptTimeout = Duration(20 * time.Minute)

// Component is a targeted component and where it sits in the rack. A negative position is unknown and sorts last.
type Component struct {
	hardware.Component
	Slot, Tray, Host int
}

// Input is what a plan is made of.
type Input struct {
	Operation  Operation
	Rule       Rule
	Components []Component // of one rack, in any order; the steps of types that are left out are skipped
}

// NewPlan applies a rule to components. It refuses a definition that does not validate with Problems, and otherwise
// with ErrNoSteps, ErrInheritedPower or ErrNoApplicableStep.
func NewPlan(in Input) (Plan, error) {
	if err := in.Operation.Validate(); err != nil {
		return Plan{}, err
	}
	d := in.Rule.Definition
	if len(d.Steps) == 0 {
		return Plan{}, fmt.Errorf("rule %s: %w", in.Rule, ErrNoSteps)
	}
	// The operation is left to inheritedPower: a rule made for another operation may be asked for by name.
	if err := d.validateBuiltin(Operation{Type: TaskPowerControl}); err != nil {
		return Plan{}, fmt.Errorf("rule %s: %w", in.Rule, err)
	}
	if err := inheritedPower(in); err != nil {
		return Plan{}, err
	}
	p := Plan{
		Version: PlanVersion, Operation: in.Operation,
		RuleID: in.Rule.ID, RuleName: in.Rule.Name,
		Components: make(map[hardware.ComponentType][]hardware.Component),
	}
	for i, c := range slices.SortedFunc(slices.Values(in.Components), compareComponents) {
		if i == 0 {
			p.RackID = c.RackID
		}
		if c.RackID != p.RackID {
			return Plan{}, fmt.Errorf("component %s is in rack %s, not in rack %s", c.Label(), c.RackID, p.RackID)
		}
		p.Components[c.Type] = append(p.Components[c.Type], c.Component)
	}
	p.planStages(d)
	if p.Empty() {
		return Plan{}, fmt.Errorf("rule %s: %w: %s", in.Rule, ErrNoApplicableStep, typeList(p.Components))
	}
	p.Budget = p.taskBudget()
	return p, nil
}

// planStages sorts the steps into their stages. The order of the rule is kept within a stage.
func (p *Plan) planStages(d Definition) {
	steps := slices.Clone(d.Steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Stage, b.Stage) })
	for _, s := range steps {
		if n := len(p.Stages); n == 0 || p.Stages[n-1].Number != s.Stage {
			p.Stages = append(p.Stages, PlanStage{Number: s.Stage})
		}
		stage := &p.Stages[len(p.Stages)-1]
		stage.Steps = append(stage.Steps, p.planStep(s))
	}
}

func (p *Plan) planStep(s Step) PlanStep {
	n := len(p.Components[s.ComponentType])
	if n == 0 {
		return PlanStep{ComponentType: s.ComponentType, Skipped: true}
	}
	out := PlanStep{ComponentType: s.ComponentType, MaxParallel: s.MaxParallel}
	for i, a := range s.Pre {
		out.Actions = append(out.Actions, p.planAction(s, a, PhasePre, i))
	}
	out.Actions = append(out.Actions, p.planAction(s, s.Main, PhaseMain, 0))
	for i, a := range s.Post {
		out.Actions = append(out.Actions, p.planAction(s, a, PhasePost, i))
	}
	if s.DelayAfter > 0 {
		out.Actions = append(out.Actions, PlanAction{Phase: PhaseDelay, Name: ActionSleep, SleepFor: s.DelayAfter})
	}
	out.Budget = stepBudget(s, out, n)
	return out
}

// planAction resolves everything an action takes from its step, its task and the defaults.
func (p *Plan) planAction(s Step, a Action, phase Phase, index int) PlanAction {
	spec := actions[a.Name]
	set, _ := a.settings() // validated
	out := PlanAction{
		Phase: phase, Index: index, Name: a.Name,
		SleepFor:       set.duration,
		ExpectedStatus: set.expectedStatus,
		RequireAll:     set.requireAll,
	}
	if spec.calls || spec.polls {
		out.AttemptTimeout = attemptTimeout(spec, s, a)
	}
	if spec.polls {
		timeout, interval := a.Timeout, a.PollInterval
		if a.Name == ActionFirmwareControl {
			timeout, interval = set.pollTimeout, set.pollInterval
		}
		out.Timeout = cmp.Or(timeout, Duration(spec.timeout))
		out.PollInterval = cmp.Or(interval, Duration(spec.pollInterval))
	}
	if a.Name == ActionPowerControl {
		out.Operation = cmp.Or(set.operation, hardware.PowerOperation(p.Operation.Code))
	}
	for _, t := range set.types {
		if len(p.Components[t]) > 0 {
			out.Types = append(out.Types, t)
		}
	}
	if spec.calls {
		out.Retry = retryOf(s, out)
	}
	return out
}

// attemptTimeout bounds one hardware call of an action.
func attemptTimeout(spec actionSpec, s Step, a Action) Duration {
	own := Duration(spec.attempt)
	if spec.attempts {
		own = a.Timeout
	}
	return cmp.Or(own, s.Timeout, defaultAttemptTimeout)
}

// retryOf is the step's policy, except for commands of which nobody can tell afterwards whether they were carried
// out: those are never sent twice (H-04).
func retryOf(s Step, a PlanAction) Retry {
	if actions[a.Name].once {
		return singleAttempt
	}
	if a.Name == ActionPowerControl {
		if _, repeatable := a.Operation.WantedState(); !repeatable {
			return singleAttempt
		}
	}
	if s.Retry != nil {
		return *s.Retry
	}
	return defaultRetry
}

// inheritedPower refuses a rule whose PowerControl would take its power operation from a task that is about something
// else. Skipped steps count: the rule is wrong for such a task, whatever it targets.
func inheritedPower(in Input) error {
	if in.Operation.Type == TaskPowerControl {
		return nil
	}
	for i, s := range in.Rule.Definition.Steps {
		for _, a := range slices.Concat(s.Pre, []Action{s.Main}, s.Post) {
			if _, ok := a.Parameters[paramOperation]; !ok && a.Name == ActionPowerControl {
				return fmt.Errorf("rule %s: step %d: %s: %w", in.Rule, i, in.Operation, ErrInheritedPower)
			}
		}
	}
	return nil
}

// compareComponents is the order components are worked on (D-31.12).
func compareComponents(a, b Component) int {
	return cmp.Or(
		cmp.Compare(position(a.Slot), position(b.Slot)),
		cmp.Compare(position(a.Tray), position(b.Tray)),
		cmp.Compare(position(a.Host), position(b.Host)),
		strings.Compare(a.Name, b.Name),
		bytes.Compare(a.ID[:], b.ID[:]),
	)
}

// position puts what is not known behind what is, so that it does not move the batches of the rest.
func position(n int) int {
	if n < 0 {
		return math.MaxInt
	}
	return n
}

func typeList(m map[hardware.ComponentType][]hardware.Component) string {
	types := slices.Sorted(maps.Keys(m))
	if len(types) == 0 {
		return "none"
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}
