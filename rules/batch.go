package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The keys of a batch, beside those of a definition.
const (
	keyRules         = "rules"
	keyDescription   = "description"
	keyOperationType = "operation_type"
	keyOperation     = "operation"
	keyIsDefault     = "is_default"
)

var (
	batchKeys = []string{keyVersion, keyRules}
	draftKeys = []string{keyName, keyDescription, keyOperationType, keyOperation, keyIsDefault, keySteps}
)

// maxOfBatch is how many problems of a batch are noted, about.
const maxOfBatch = 1000

// maxName is the longest name of a rule, in characters.
const maxName = 128

// StoredTypes are the task types that rules are stored for.
var StoredTypes = []TaskType{TaskPowerControl, TaskFirmwareControl}

// required are the operations that a batch must have a default rule for when it has one for any operation of the type:
// a site that starts to say how its racks are powered says how they are switched on and off.
var required = map[TaskType][]string{
	TaskPowerControl:    {"power_on", "power_off"},
	TaskFirmwareControl: {CodeUpgrade},
}

// Draft is a rule to be stored.
type Draft struct {
	Name        string
	Description string
	Operation   Operation
	Definition  Definition // valid for the operation
	IsDefault   bool       // true unless the batch says else (D-31.22)
}

// ParseBatch reads a YAML document of rules, checks each of them and all together, and returns them in their order. A
// batch that is wrong in any way is refused with Problems, all of them where one does not hide the other.
//
// Keys are treated as Parse does. Where text is wanted, a number or a truth value counts as it is written.
func ParseBatch(text []byte) ([]Draft, error) { return parseBatch(text, false) }

// ParseBatchStrict is ParseBatch for authors: an unknown key is a problem too.
func ParseBatchStrict(text []byte) ([]Draft, error) { return parseBatch(text, true) }

func parseBatch(text []byte, strict bool) ([]Draft, error) {
	v, err := readYAML(text)
	if err != nil {
		return nil, Problems{{Reason: "failed to parse YAML: " + err.Error()}}
	}
	p := parser{strict: strict, yaml: true}
	if v.kind == kindObject && len(v.members) > 0 && !slices.ContainsFunc(v.members, func(m member) bool { return strings.EqualFold(m.key, keyRules) }) {
		// Most likely it is misspelt: nobody writes a file to say nothing.
		p.add(place{}, keyRules, "the file has no key '%s'", keyRules)
	}
	m, _ := p.object(place{}, "batch of rules", v, batchKeys)
	if version := p.text(place{}, m, keyVersion); version != "" && version != SchemaVersion {
		p.add(place{}, keyVersion, "unsupported version '%s', want '%s'", shown(version), SchemaVersion)
	}
	list := p.array(place{}, m, keyRules)
	b := batch{problems: p.problems}
	for i, e := range list {
		if len(b.problems) >= maxOfBatch {
			b.unclear = true
			break
		}
		b.rule(i, e.value, strict)
	}
	b.together()
	if err := b.problems.err(); err != nil {
		return nil, err
	}
	return b.drafts, nil
}

// namedOperation is what a rule that is no default is known by.
type namedOperation struct {
	operation Operation
	name      string
}

// batch is what has been read of a document.
type batch struct {
	drafts   []Draft
	problems Problems
	unclear  bool // a rule has an operation that there is none of, or no form: what is missing can't be told
}

// rule reads one rule, and checks it as far as it has the right form.
func (b *batch) rule(i int, v value, strict bool) {
	name := cmp.Or(shown(v.scalar(keyName)), "no name")
	p := parser{
		strict: strict, yaml: true,
		path:  fmt.Sprintf("%s[%d].", keyRules, i),
		words: fmt.Sprintf("rule %d (%s) from YAML file: ", i, name),
	}
	var at place
	m, _ := p.object(at, "rule", v, draftKeys)
	d := Draft{
		Name:        p.text(at, m, keyName),
		Description: p.text(at, m, keyDescription),
		Operation:   Operation{Type: TaskType(p.text(at, m, keyOperationType)), Code: p.text(at, m, keyOperation)},
		Definition:  Definition{Version: SchemaVersion},
		IsDefault:   p.truth(at, m, keyIsDefault, true),
	}
	for j, e := range p.array(at, m, keySteps) {
		d.Definition.Steps = append(d.Definition.Steps, p.step(stepPlace(j), e.value))
	}
	b.problems = append(b.problems, p.problems...)
	b.drafts = append(b.drafts, d)
	if len(p.problems) > p.unknown {
		b.unclear = true
		return
	}
	b.check(i, name, d)
}

// check says what is wrong with a rule that has the right form.
func (b *batch) check(i int, name string, d Draft) {
	add := func(key, reason string) {
		b.problems = append(b.problems, Problem{
			Path:   fmt.Sprintf("%s[%d].%s", keyRules, i, key),
			Reason: fmt.Sprintf("invalid rule %d from YAML file: %s: %s", i, name, reason),
		})
	}
	if err := CheckName(d.Name); err != nil {
		add(keyName, err.Error())
	}
	for _, text := range []struct{ key, text string }{{keyName, d.Name}, {keyDescription, d.Description}} {
		if strings.ContainsRune(text.text, 0) {
			add(text.key, text.key+" contains a NUL character")
		}
	}
	op := d.Operation
	if !slices.Contains(StoredTypes, op.Type) {
		op = Operation{Type: TaskPowerControl} // the one that forgives most: what follows from the type is no mistake of its own
		add(keyOperationType, fmt.Sprintf("operation type '%s' has no stored rules: use %s or %s",
			shown(string(d.Operation.Type)), TaskPowerControl, TaskFirmwareControl))
		b.unclear = true
	} else if err := d.Operation.Validate(); err != nil {
		add(keyOperation, err.Error())
		b.unclear = true
	}
	var wrong Problems
	if errors.As(d.Definition.Validate(op), &wrong) {
		for _, w := range wrong {
			add(w.Path, w.Reason)
		}
	}
}

// CheckName refuses what is no name of a rule.
func CheckName(name string) error {
	switch n := utf8.RuneCountInString(name); {
	case strings.TrimSpace(name) == "":
		return errors.New("rule name is required")
	case n > maxName:
		return fmt.Errorf("rule name has %d characters, at most %d are allowed", n, maxName)
	}
	return nil
}

// together checks the rules against each other: an operation has one default at most, and one at least where that is
// required, and no two rules of the same name, which is what stored ones are found by.
func (b *batch) together() {
	defaults := make(map[Operation]bool)
	names := make(map[namedOperation]int)
	types := make(map[TaskType]bool)
	for i, d := range b.drafts {
		if len(b.problems) >= maxOfBatch {
			return
		}
		key := namedOperation{d.Operation, d.Name}
		other, twice := names[key]
		switch {
		case !twice:
			names[key] = i
		case d.IsDefault && b.drafts[other].IsDefault: // said below
		case d.Operation.Validate() == nil && CheckName(d.Name) == nil:
			b.problems = append(b.problems, Problem{
				Path: fmt.Sprintf("%s[%d].%s", keyRules, i, keyName),
				Reason: fmt.Sprintf("duplicate rule %s for operation type %s: rule %d has the same name and is for %s as well",
					shown(d.Name), d.Operation.Type, other, d.Operation.Code),
			})
		}
		if !d.IsDefault {
			continue
		}
		if defaults[d.Operation] && d.Operation.Validate() == nil {
			b.problems = append(b.problems, Problem{
				Path: fmt.Sprintf("%s[%d]", keyRules, i),
				Reason: fmt.Sprintf("duplicate rule %s for operation type %s: there is another default rule for %s",
					shown(d.Name), d.Operation.Type, d.Operation.Code),
			})
		}
		defaults[d.Operation], types[d.Operation.Type] = true, true
	}
	if b.unclear {
		return
	}
	for _, t := range StoredTypes {
		for _, code := range required[t] {
			if types[t] && !defaults[Operation{Type: t, Code: code}] {
				b.problems = append(b.problems, Problem{
					Path:   keyRules,
					Reason: fmt.Sprintf("required operation '%s' missing for operation type %s", code, t),
				})
			}
		}
	}
}
