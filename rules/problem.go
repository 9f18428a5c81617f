package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// Problem is one thing wrong with a document.
type Problem struct {
	Path   string // JSON path of the value, "steps[0].main_operation.name"; empty for the document itself
	Reason string // in words that say where as well: "step 0: main_operation: unknown action: X"
}

// Problems are all things wrong with a document, in the order of the document, as far as anybody reads on. As an error value
// it is never empty.
type Problems []Problem

const (
	// maxText keeps an error text, in bytes, within what fits into the headers of an answer.
	maxText = 1000
	// maxProblems keeps a document with millions of mistakes from filling the memory.
	maxProblems = 1000
)

// Error lists the reasons, the first one first and at least that one.
func (p Problems) Error() string {
	var b strings.Builder
	for i, problem := range p {
		if i > 0 && b.Len()+len(problem.Reason) > maxText {
			fmt.Fprintf(&b, "; and %d more", len(p)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(problem.Reason)
	}
	return b.String()
}

// err keeps an empty list from becoming an error that is not nil.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// add notes a problem with a key of the value at a place; an empty key is the value itself. Past maxProblems nothing is
// noted any more.
func (p *Problems) add(at place, key, format string, args ...any) {
	if len(*p) == maxProblems {
		return
	}
	*p = append(*p, Problem{Path: at.key(key), Reason: at.words() + fmt.Sprintf(format, args...)})
}

// place is where in a document a value stands; zero is the document itself. It is put into words only for a problem,
// as most documents have none.
type place struct {
	inStep     bool
	step       int
	part       string // retry or one of the operations; empty is the step itself
	index      int    // of an action among the pre or post ones
	parameters bool   // those of the action
}

func stepPlace(i int) place { return place{inStep: true, step: i} }

// in is the place of a part of the step, with the index of an action among several.
func (p place) in(part string, index int) place {
	p.part, p.index = part, index
	return p
}

// key is the JSON path of a key of the object there; the empty key is the object itself.
func (p place) key(key string) string {
	var path []string
	if p.inStep {
		path = append(path, fmt.Sprintf("%s[%d]", keySteps, p.step))
	}
	if p.part != "" {
		path = append(path, p.element())
	}
	if p.parameters {
		path = append(path, keyParameters)
	}
	if key != "" {
		path = append(path, key)
	}
	return strings.Join(path, ".")
}

// words is the beginning of a sentence about what is there.
func (p place) words() string {
	switch {
	case !p.inStep:
		return ""
	case p.part == "":
		return fmt.Sprintf("step %d: ", p.step)
	case p.part == keyRetry:
		return fmt.Sprintf("step %d: invalid retry policy: ", p.step)
	default:
		return fmt.Sprintf("step %d: %s: ", p.step, p.element())
	}
}

// yamlWords is words for a rule of a batch, with the component type of the step.
func (p place) yamlWords(kind string) string {
	if !p.inStep {
		return ""
	}
	words := fmt.Sprintf("step[%d]", p.step)
	if kind != "" {
		words += " (" + shown(kind) + ")"
	}
	words += ": "
	switch p.part {
	case "":
		return words
	case keyPre, keyPost:
		return words + fmt.Sprintf("%s: action[%d]: ", p.part, p.index)
	default:
		return words + p.part + ": "
	}
}

func (p place) element() string {
	if p.part == keyPre || p.part == keyPost {
		return fmt.Sprintf("%s[%d]", p.part, p.index)
	}
	return p.part
}

// maxShown is how much of a caller's text an error repeats, in characters.
const maxShown = 64

// shown makes a caller's text fit for an error of one line.
func shown(s string) string {
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown]) + "..."
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}
