package rules

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// SchemaVersion is the only version of rule documents there is.
const SchemaVersion = "v1"

// Definition is a rule document: what runs, in which order, on which kinds of components. Read one with Parse; its
// JSON form is canonical.
type Definition struct {
	Version string `json:"version"` // SchemaVersion; empty means the same
	Steps   []Step `json:"steps"`   // none: can be stored, never runs
}

// Step is the work on one component type within a stage.
type Step struct {
	ComponentType hardware.ComponentType `json:"component_type"`
	Stage         int                    `json:"stage"`        // >= 1; stages run in ascending order
	MaxParallel   int                    `json:"max_parallel"` // components at a time; 0 is no limit
	Timeout       Duration               `json:"timeout,omitzero"`
	Retry         *Retry                 `json:"retry,omitempty"` // nil: 3 attempts, 1s, doubled up to 1m
	Pre           []Action               `json:"pre_operation,omitempty"`
	Main          Action                 `json:"main_operation"`
	Post          []Action               `json:"post_operation,omitempty"`
	DelayAfter    Duration               `json:"delay_after,omitzero"` // waited after the post actions
}

// Action is one named act of a step.
type Action struct {
	Name         ActionName `json:"name"`
	Timeout      Duration   `json:"timeout,omitzero"`
	PollInterval Duration   `json:"poll_interval,omitzero"`
	Parameters   Parameters `json:"parameters,omitzero"`
}

// Parameters are an action's own settings exactly as they were submitted, unknown ones included. Numbers are
// json.Number, so that they come back in the form they were written.
type Parameters map[string]any

// Rule is a named definition. A nil ID is a built-in rule: it has no row.
type Rule struct {
	ID         uuid.UUID
	Name       string
	Definition Definition
}

// String names the rule in messages: by name and id.
func (r Rule) String() string {
	if r.ID == uuid.Nil {
		return strconv.Quote(r.Name) + " (built-in)"
	}
	return strconv.Quote(r.Name) + " (" + r.ID.String() + ")"
}

// Only reports whether the steps use no other actions than these.
func (d Definition) Only(names ...ActionName) bool {
	for _, s := range d.Steps {
		for _, a := range slices.Concat(s.Pre, []Action{s.Main}, s.Post) {
			if !slices.Contains(names, a.Name) {
				return false
			}
		}
	}
	return true
}

// MarshalJSON writes the canonical form, which Parse reads back to an equal value.
func (d Definition) MarshalJSON() ([]byte, error) {
	type plain Definition
	d.Version = SchemaVersion
	if d.Steps == nil {
		d.Steps = []Step{}
	}
	return json.Marshal(plain(d))
}

// UnmarshalJSON is Parse, so that no way of reading a document gets around its checks.
func (d *Definition) UnmarshalJSON(doc []byte) error {
	var err error
	*d, err = Parse(doc)
	return err
}
