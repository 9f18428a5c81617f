package rules

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"
)

//go:embed builtin/*.json
var builtinFiles embed.FS

// builtins are the rules that apply where nothing is stored, by operation. They are read once, on first use.
var builtins = sync.OnceValue(func() map[Operation]Rule {
	table, err := readBuiltins(builtinFiles)
	if err != nil {
		panic("rules: built-in " + err.Error()) // the documents are part of the binary, and a test reads them
	}
	return table
})

// Builtin returns the rule Flow brings along for an operation. Warm resets have none, nor has the internal
// injection of expectations. All callers share the rule's steps: read them only.
func Builtin(op Operation) (Rule, bool) {
	r, ok := builtins()[op]
	return r, ok
}

// builtinDocument is a file of builtin: a rule as an operator would submit it, for one or more codes.
type builtinDocument struct {
	Name           string     `json:"name"`
	OperationType  TaskType   `json:"operation_type"`
	OperationCodes []string   `json:"operation_codes"`
	RuleDefinition Definition `json:"rule_definition"`
}

// readBuiltins holds our rules to the checks of everybody's.
func readBuiltins(files fs.FS) (map[Operation]Rule, error) {
	names, err := fs.Glob(files, "builtin/*.json")
	if err != nil {
		return nil, err
	}
	table := make(map[Operation]Rule)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		var doc builtinDocument
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, code := range doc.OperationCodes {
			op := Operation{Type: doc.OperationType, Code: code}
			if err := op.Validate(); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if err := doc.RuleDefinition.validateBuiltin(op); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if _, ok := table[op]; ok {
				return nil, fmt.Errorf("%s: second rule for %s", name, op)
			}
			table[op] = Rule{Name: doc.Name, Definition: doc.RuleDefinition}
		}
	}
	return table, nil
}
