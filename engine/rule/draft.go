package rule

import (
	"encoding/json"
	"errors"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
)

// The names of a rule's fields in requests.
const (
	fieldName       = "name"
	fieldType       = "operation_type"
	fieldCode       = "operation_code"
	fieldDefinition = "rule_definition_json"
	fieldDefault    = "is_default"
)

// Draft is a rule to be stored.
type Draft struct {
	Name        string
	Description string
	Operation   rules.Operation
	Definition  string // JSON document
	IsDefault   bool
}

// check returns the definition in the form it is stored, or all that is wrong with the draft.
func (d Draft) check() (json.RawMessage, *fault.Error) {
	def, unread := parse(d.Definition)
	operation := checkOperation(d.Operation)
	wrong := collect(unread, checkName(d.Name), operation)
	if unread == nil && operation == nil {
		wrong = append(wrong, collect(validate(def, d.Operation))...)
	}
	return stored(def, wrong)
}

// check is that of a draft, for the fields that are there. Without a type, which an unknown rule has none of, it says what
// would be wrong for every type.
func (c Change) check(typ rules.TaskType) (json.RawMessage, *fault.Error) {
	var name *fault.Error
	if c.Name != nil {
		name = checkName(*c.Name)
	}
	if c.Definition == nil {
		return nil, name
	}
	if typ == "" {
		typ = rules.TaskPowerControl // the one that forgives most
	}
	def, unread := parse(*c.Definition)
	wrong := collect(unread, name)
	if unread == nil {
		wrong = append(wrong, collect(validate(def, rules.Operation{Type: typ}))...)
	}
	return stored(def, wrong)
}

func stored(def rules.Definition, wrong []*fault.Error) (json.RawMessage, *fault.Error) {
	if err := fault.All(wrong); err != nil {
		return nil, err
	}
	doc, err := json.Marshal(def)
	if err != nil { // nothing that was parsed fails here
		return nil, fault.Invalid(fieldDefinition, "cannot be stored: %v", err)
	}
	return doc, nil
}

// collect leaves out what is not wrong.
func collect(checks ...*fault.Error) []*fault.Error {
	var wrong []*fault.Error
	for _, c := range checks {
		if c != nil {
			wrong = append(wrong, c)
		}
	}
	return wrong
}

func checkName(name string) *fault.Error {
	if err := rules.CheckName(name); err != nil {
		return fault.Invalid(fieldName, "rule validation failed: %v", err)
	}
	return nil
}

// checkOperation also refuses the operations that only built-in rules are for.
func checkOperation(op rules.Operation) *fault.Error {
	switch op.Type {
	case rules.TaskPowerControl, rules.TaskFirmwareControl:
	default:
		return fault.Invalid(fieldType, "rules are stored for POWER_CONTROL and FIRMWARE_CONTROL only")
	}
	if err := op.Validate(); err != nil {
		return fault.Invalid(fieldCode, "%v", err)
	}
	return nil
}

func parse(doc string) (rules.Definition, *fault.Error) {
	def, err := rules.Parse([]byte(doc))
	return def, definitionFault("invalid rule definition", err)
}

func validate(def rules.Definition, op rules.Operation) *fault.Error {
	return definitionFault("rule validation failed", def.Validate(op))
}

// definitionFault lists the problems of a definition by their path in it.
func definitionFault(what string, err error) *fault.Error {
	if err == nil {
		return nil
	}
	refusal := fault.Invalid(fieldDefinition, "%s: %v", what, err)
	problems, _ := errors.AsType[rules.Problems](err)
	all := make([]fault.Violation, len(problems))
	for i, p := range problems {
		all[i] = fault.Violation{Field: fieldDefinition, Reason: p.Reason}
		if p.Path != "" {
			all[i].Field += ":" + p.Path
		}
	}
	return refusal.With(all)
}
