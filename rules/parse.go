package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"rackflow.dev/flow/hardware"
)

// The keys of a rule document.
const (
	keyVersion = "version"
	keySteps   = "steps"

	keyComponentType = "component_type"
	keyStage         = "stage"
	keyMaxParallel   = "max_parallel"
	keyTimeout       = "timeout"
	keyRetry         = "retry"
	keyPre           = "pre_operation"
	keyMain          = "main_operation"
	keyPost          = "post_operation"
	keyDelayAfter    = "delay_after"

	keyName         = "name"
	keyPollInterval = "poll_interval"
	keyParameters   = "parameters"

	keyMaxAttempts        = "max_attempts"
	keyInitialInterval    = "initial_interval"
	keyBackoffCoefficient = "backoff_coefficient"
	keyMaxInterval        = "max_interval"
)

// unsupportedVersion is what parsing and validation say of one.
const unsupportedVersion = "unsupported rule definition version '%s', want '%s'"

var (
	definitionKeys = []string{keyVersion, keySteps}
	stepKeys       = []string{
		keyComponentType, keyStage, keyMaxParallel, keyTimeout, keyRetry, keyPre, keyMain, keyPost, keyDelayAfter,
	}
	actionKeys = []string{keyName, keyTimeout, keyPollInterval, keyParameters}
	retryKeys  = []string{keyMaxAttempts, keyInitialInterval, keyBackoffCoefficient, keyMaxInterval}
)

// Parse reads a rule document of schema v1 and returns Problems with everything that has the wrong form. Whether the
// rule makes sense is for Definition.Validate.
//
// Keys match in any letter case; an unknown key is ignored and lost, except among an action's parameters. A key that
// stands twice in one object is refused, because readers disagree which one counts. Null means absent, except for
// the document itself and among parameters. Whole numbers are those of 32 bits.
func Parse(doc []byte) (Definition, error) { return parse(doc, false) }

// ParseStrict is Parse for authors: an unknown key is a problem too, as it is most likely a misspelt one.
func ParseStrict(doc []byte) (Definition, error) { return parse(doc, true) }

// Lint says everything that is wrong with a document to the author of a rule for an operation, as Problems: its form,
// unknown keys included, and where the form is right otherwise, whether it makes sense.
func Lint(doc []byte, op Operation) error {
	_, err := ParseStrict(doc)
	var problems Problems
	errors.As(err, &problems)
	if d, err := Parse(doc); err == nil {
		var wrong Problems
		errors.As(d.Validate(op), &wrong)
		problems = append(problems, wrong...)
	}
	return problems.err()
}

func parse(doc []byte, strict bool) (Definition, error) {
	v, err := readJSON(doc)
	if err != nil {
		return Definition{}, Problems{{Reason: syntaxReason(err)}}
	}
	p := parser{strict: strict}
	d := p.definition(v)
	if err := p.problems.err(); err != nil {
		return Definition{}, err
	}
	return d, nil
}

func syntaxReason(err error) string {
	reason := "not valid JSON: " + err.Error()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		reason += fmt.Sprintf(" (at byte %d)", syntax.Offset)
	}
	return reason
}

// parser walks a document and notes what has the wrong form.
type parser struct {
	strict   bool
	problems Problems
	unknown  int // how many of them are unknown keys, without which the rest of the document can be read

	yaml  bool   // a rule of a batch: scalars are text where text is wanted
	path  string // of the rule in its batch, with the dot
	words string // what the reasons begin with then
	kind  string // component type of the step that is read
}

// add notes a problem with a key of the value at a place.
func (p *parser) add(at place, key, format string, args ...any) {
	if !p.yaml {
		p.problems.add(at, key, format, args...)
		return
	}
	if len(p.problems) < maxOfBatch {
		reason := p.words + at.yamlWords(p.kind) + fmt.Sprintf(format, args...)
		p.problems = append(p.problems, Problem{Path: strings.TrimSuffix(p.path+at.key(key), "."), Reason: reason})
	}
}

func (p *parser) definition(v value) Definition {
	var at place
	m, ok := p.object(at, "rule definition", v, definitionKeys)
	if !ok {
		return Definition{}
	}
	d := Definition{Version: p.text(at, m, keyVersion)}
	switch d.Version {
	case "", SchemaVersion:
		d.Version = SchemaVersion
	default:
		p.add(at, keyVersion, unsupportedVersion, shown(d.Version), SchemaVersion)
	}
	for i, e := range p.array(at, m, keySteps) {
		d.Steps = append(d.Steps, p.step(stepPlace(i), e.value))
	}
	return d
}

func (p *parser) step(at place, v value) Step {
	p.kind = v.scalar(keyComponentType)
	m, _ := p.object(at, "step", v, stepKeys)
	main, _ := m.get(keyMain)
	return Step{
		ComponentType: p.componentType(at, m, keyComponentType),
		Stage:         p.whole(at, m, keyStage),
		MaxParallel:   p.whole(at, m, keyMaxParallel),
		Timeout:       p.duration(at, m, keyTimeout),
		Retry:         p.retry(at, m),
		Pre:           p.actions(at, m, keyPre),
		Main:          p.action(at.in(keyMain, 0), main),
		Post:          p.actions(at, m, keyPost),
		DelayAfter:    p.duration(at, m, keyDelayAfter),
	}
}

func (p *parser) retry(at place, step members) *Retry {
	v, ok := step.get(keyRetry)
	if !ok {
		return nil
	}
	at = at.in(keyRetry, 0)
	m, _ := p.object(at, "retry", v, retryKeys)
	return &Retry{
		MaxAttempts:        p.whole(at, m, keyMaxAttempts),
		InitialInterval:    p.duration(at, m, keyInitialInterval),
		BackoffCoefficient: p.number(at, m, keyBackoffCoefficient),
		MaxInterval:        p.duration(at, m, keyMaxInterval),
	}
}

func (p *parser) actions(at place, step members, key string) []Action {
	var list []Action
	for i, e := range p.array(at, step, key) {
		list = append(list, p.action(at.in(key, i), e.value))
	}
	return list
}

func (p *parser) action(at place, v value) Action {
	m, _ := p.object(at, "action", v, actionKeys)
	return Action{
		Name:         ActionName(p.text(at, m, keyName)),
		Timeout:      p.duration(at, m, keyTimeout),
		PollInterval: p.duration(at, m, keyPollInterval),
		Parameters:   p.parameters(at, m),
	}
}

// parameters keeps an action's parameters as they are, as far as the database can keep them.
func (p *parser) parameters(at place, action members) Parameters {
	v, ok := p.get(at, action, keyParameters, kindObject)
	if !ok {
		return nil
	}
	at.parameters = true
	params := make(Parameters, len(v.members))
	for _, m := range v.members {
		if _, ok := params[m.key]; ok {
			p.add(at, shown(m.key), "duplicate parameter '%s'", shown(m.key))
		}
		decoded := m.value.decoded()
		if reason := unstorable(m.key, decoded); reason != "" {
			p.add(at, shown(m.key), "parameter '%s' %s", shown(m.key), reason)
		}
		params[m.key] = decoded
	}
	return params
}

// object returns the members of an object under the names of its keys, without those that are null. An element of a
// list that is null is an object without members, but a null document is refused.
func (p *parser) object(at place, what string, v value, keys []string) (members, bool) {
	if v.kind != kindObject {
		if v.kind == kindNull && at != (place{}) {
			return nil, true
		}
		p.add(at, "", "%s must be an object, got %s", what, v.kind)
		return nil, false
	}
	known := v.members[:0] // in place: nobody else reads the value
	for _, m := range v.members {
		i := slices.IndexFunc(keys, func(k string) bool { return strings.EqualFold(k, m.key) })
		if i < 0 {
			if p.strict {
				p.add(at, shown(m.key), "unknown key '%s'", shown(m.key))
				p.unknown++
			}
			continue
		}
		if _, ok := known.get(keys[i]); ok {
			p.add(at, keys[i], "duplicate key '%s'", keys[i])
		}
		known = append(known, member{keys[i], m.value})
	}
	return slices.DeleteFunc(known, func(m member) bool { return m.value.kind == kindNull }), true
}

// get returns the value under a key when it is there and of the wanted kind.
func (p *parser) get(at place, m members, key string, want kind) (value, bool) {
	v, ok := m.get(key)
	if p.yaml && want == kindString && (v.kind == kindNumber || v.kind == kindBool) {
		v = value{kind: kindString, text: v.written()}
	}
	if ok && v.kind != want {
		p.add(at, key, "%s must be of type %s, got %s", key, want, v.kind)
		return value{}, false
	}
	return v, ok
}

func (p *parser) array(at place, m members, key string) members {
	v, _ := p.get(at, m, key, kindArray)
	return v.members
}

func (p *parser) text(at place, m members, key string) string {
	v, _ := p.get(at, m, key, kindString)
	return v.text
}

func (p *parser) truth(at place, m members, key string, absent bool) bool {
	if v, ok := p.get(at, m, key, kindBool); ok {
		return v.text == "true"
	}
	return absent
}

func (p *parser) number(at place, m members, key string) float64 {
	v, ok := p.get(at, m, key, kindNumber)
	if !ok {
		return 0
	}
	f, err := json.Number(v.text).Float64()
	if err != nil {
		p.add(at, key, "%s: %s is no number that can be stored", key, shown(v.text))
		return 0
	}
	return f
}

func (p *parser) whole(at place, m members, key string) int {
	v, ok := p.get(at, m, key, kindNumber)
	if !ok {
		return 0
	}
	i, ok := wholeNumber(json.Number(v.text))
	if !ok || i < math.MinInt32 || i > math.MaxInt32 {
		p.add(at, key, "%s must be a whole number of 32 bits, got %s", key, shown(v.text))
		return 0
	}
	return int(i)
}

func (p *parser) duration(at place, m members, key string) Duration {
	text := p.text(at, m, key)
	d, err := ParseDuration(text)
	switch {
	case err == nil:
	case p.yaml:
		p.add(at, key, "invalid %s ('%s'): no duration such as 90s or 1h30m", key, shown(text))
	default:
		p.add(at, key, "invalid %s: %v", key, err)
	}
	return d
}

// componentType leaves absence, and the reference's name for it, to validation.
func (p *parser) componentType(at place, m members, key string) hardware.ComponentType {
	s := p.text(at, m, key)
	if s == "" || strings.EqualFold(s, "Unknown") {
		return ""
	}
	t, err := hardware.ParseComponentType(s)
	if err != nil {
		p.add(at, key, "component type '%s' is unknown or invalid", shown(s))
	}
	return t
}
