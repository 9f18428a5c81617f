package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// PlanVersion is the version of the plans this Flow writes.
const PlanVersion = 1

// Plan is a rule applied to the components of one task, with everything resolved that could change later. It is
// stored as JSON with the task and is all that carrying the task out needs.
type Plan struct {
	Version   int       `json:"version"`
	Operation Operation `json:"operation"`
	RuleID    uuid.UUID `json:"rule_id,omitzero"` // nil for a built-in rule
	RuleName  string    `json:"rule_name"`
	RackID    uuid.UUID `json:"rack_id"`

	// Components are the task's targets by type, in the order they are worked on; a type without targets is absent.
	Components map[hardware.ComponentType][]hardware.Component `json:"components"`

	Stages []PlanStage `json:"stages"` // ascending number
	Budget Duration    `json:"budget"` // time for the whole task (D-30.27)
}

// PlanStage is a barrier: it ends when all of its steps have ended.
type PlanStage struct {
	Number int        `json:"number"`
	Steps  []PlanStep `json:"steps"` // in the order of the rule; at most one a component type
}

// PlanStep is what happens to the components of one type in a stage.
type PlanStep struct {
	ComponentType hardware.ComponentType `json:"component_type"`
	Skipped       bool                   `json:"skipped,omitempty"`      // no component of the type is targeted; the rest is empty
	Done          bool                   `json:"done,omitempty"`         // skipped because the task this one goes on from has completed it
	MaxParallel   int                    `json:"max_parallel,omitempty"` // 0 is no limit
	Budget        Duration               `json:"budget,omitzero"`        // time for the step, readiness waits not counted
	Actions       []PlanAction           `json:"actions,omitempty"`      // in the order they run
}

// Phase is the part of a step an action belongs to.
type Phase string

// The phases of a step in the order they run.
const (
	PhasePre   Phase = "pre"
	PhaseMain  Phase = "main"
	PhasePost  Phase = "post"
	PhaseDelay Phase = "delay" // the step's delay_after, planned as a Sleep
)

// PlanAction is one act with its effective settings. What does not concern the action is zero.
type PlanAction struct {
	Phase Phase      `json:"phase"`
	Index int        `json:"index,omitempty"` // within the phase, from 0
	Name  ActionName `json:"name"`

	AttemptTimeout Duration `json:"attempt_timeout,omitzero"` // bounds one hardware call, command or status query
	Retry          Retry    `json:"retry,omitzero"`           // for commands; zero (polls, sleeps): one attempt

	Timeout      Duration `json:"timeout,omitzero"`       // bounds a poll loop, for each batch anew
	PollInterval Duration `json:"poll_interval,omitzero"` // between two polls

	SleepFor       Duration                 `json:"sleep_for,omitzero"`        // Sleep
	Operation      hardware.PowerOperation  `json:"operation,omitempty"`       // PowerControl
	ExpectedStatus hardware.PowerState      `json:"expected_status,omitempty"` // VerifyPowerStatus
	Types          []hardware.ComponentType `json:"types,omitempty"`           // VerifyReachability: the targeted ones of its list
	RequireAll     bool                     `json:"require_all,omitempty"`     // VerifyReachability
}

// Detail says in words for people what the action is about; "" when its name says it all.
func (a PlanAction) Detail() string {
	switch a.Name {
	case ActionSleep:
		return a.SleepFor.String()
	case ActionPowerControl:
		return string(a.Operation)
	case ActionVerifyPowerStatus:
		return "until " + string(a.ExpectedStatus)
	case ActionVerifyReachability:
		names := make([]string, len(a.Types))
		for i, t := range a.Types {
			names[i] = string(t)
		}
		switch {
		case len(names) == 0:
			return "of none"
		case a.RequireAll:
			return "of every " + strings.Join(names, ", ")
		default:
			return "of any " + strings.Join(names, ", ")
		}
	default:
		return ""
	}
}

// Skipped reports whether the stage has nothing to do.
func (s PlanStage) Skipped() bool {
	return !slices.ContainsFunc(s.Steps, func(st PlanStep) bool { return !st.Skipped })
}

// Shortest is what the step waits for in any case. Calls to the hardware are not counted: they may be over at once.
func (s PlanStep) Shortest() Duration {
	var sum Duration
	if s.Skipped {
		return 0
	}
	for _, a := range s.Actions {
		sum = plus(sum, a.SleepFor)
	}
	return sum
}

// Longest is the budget of the step, the time after which it is given up, waiting for readiness not counted.
func (s PlanStep) Longest() Duration {
	if s.Skipped {
		return 0
	}
	return s.Budget
}

// Shortest is what the plan waits for in any case: that of the longest step of each stage.
func (p Plan) Shortest() Duration { return p.sum(PlanStep.Shortest) }

// Longest is the time after which the plan is given up for good: each stage at the budget of its longest step, waiting for
// readiness not counted.
func (p Plan) Longest() Duration { return p.sum(PlanStep.Longest) }

// sum adds up the longest step of each stage.
func (p Plan) sum(of func(PlanStep) Duration) Duration {
	var sum Duration
	for _, stage := range p.Stages {
		var longest Duration
		for _, s := range stage.Steps {
			longest = max(longest, of(s))
		}
		sum = plus(sum, longest)
	}
	return sum
}

// Rest is the plan of what is left: steps that are done are skipped, the others begin anew.
func (p Plan) Rest(done func(stage, step int) bool) Plan {
	p.Stages = slices.Clone(p.Stages)
	for i, stage := range p.Stages {
		steps := slices.Clone(stage.Steps)
		for j, s := range steps {
			if done(i, j) && !s.Skipped {
				steps[j] = PlanStep{ComponentType: s.ComponentType, Skipped: true, Done: true}
			}
		}
		p.Stages[i].Steps = steps
	}
	p.Budget = p.taskBudget()
	return p
}

// Empty reports whether the plan has nothing to do.
func (p Plan) Empty() bool {
	return !slices.ContainsFunc(p.Stages, func(s PlanStage) bool { return !s.Skipped() })
}

// Batches cuts the components of a step for one of its actions: chunks of MaxParallel, or all of them at once for an
// action that concerns the step as a whole.
func (p Plan) Batches(s PlanStep, a PlanAction) [][]hardware.Component {
	limit := s.MaxParallel
	if !a.Name.Batched() {
		limit = 0
	}
	return Batches(p.Components[s.ComponentType], limit)
}

// Batches cuts a list into consecutive chunks of at most limit; 0 is no limit. An empty list has no batches.
func Batches(list []hardware.Component, limit int) [][]hardware.Component {
	if limit <= 0 {
		limit = max(len(list), 1)
	}
	return slices.Collect(slices.Chunk(list, limit))
}

// planComponent is a component in a stored plan: id, name, external id and MAC in a row. A rack has dozens of them, and
// their keys alone, with the rack and type that the plan says once for all, would make the plan half again as large.
type planComponent hardware.Component

// MarshalJSON writes the row.
func (c planComponent) MarshalJSON() ([]byte, error) {
	return json.Marshal([4]string{c.ID.String(), c.Name, c.ExternalID, c.MAC})
}

// UnmarshalJSON reads the row.
func (c *planComponent) UnmarshalJSON(doc []byte) error {
	var row [4]string
	if err := json.Unmarshal(doc, &row); err != nil {
		return err
	}
	id, err := uuid.Parse(row[0])
	*c = planComponent{ID: id, Name: row[1], ExternalID: row[2], MAC: row[3]}
	return err
}

type plainPlan Plan

type storedPlan struct {
	plainPlan
	Components map[hardware.ComponentType][]planComponent `json:"components"`
}

// MarshalJSON writes the stored form.
func (p Plan) MarshalJSON() ([]byte, error) {
	out := storedPlan{plainPlan: plainPlan(p), Components: make(map[hardware.ComponentType][]planComponent, len(p.Components))}
	for t, list := range p.Components {
		for _, c := range list {
			out.Components[t] = append(out.Components[t], planComponent(c))
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads a stored plan and refuses one that a newer Flow has written.
func (p *Plan) UnmarshalJSON(doc []byte) error {
	var in storedPlan
	if err := json.Unmarshal(doc, &in); err != nil {
		return err
	}
	if in.Version != PlanVersion {
		return fmt.Errorf("plan version %d is not supported, want %d", in.Version, PlanVersion)
	}
	*p = Plan(in.plainPlan)
	p.Components = make(map[hardware.ComponentType][]hardware.Component, len(in.Components))
	for t, list := range in.Components {
		for _, c := range list {
			c.RackID, c.Type = p.RackID, t
			p.Components[t] = append(p.Components[t], hardware.Component(c))
		}
	}
	return nil
}
