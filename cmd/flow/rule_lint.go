package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/rules"
)

// lintProblem is one thing wrong with a file.
type lintProblem struct {
	File   string `json:"file"`
	Path   string `json:"path"` // JSON path of the value; empty for the file as a whole
	Reason string `json:"reason"`
}

func (c *cli) ruleLintCommand() *cobra.Command {
	var files []string
	var op ruleOperation
	cmd := &cobra.Command{
		Use:   "lint -f FILE...",
		Short: "Check rule files without a server",
		Long: `Check files with rules as strictly as can be, without a server: each key must be known. A file is the JSON document of one
rule, or a YAML file of rules; *.json, *.yaml and *.yml say which, and in any other file a brace at the beginning.

Each problem is on a line of its own, with the file, the path of the value and the reason, or with -o json an object.
The exit code is 1 when there is one.

A JSON document does not say what it is for: --operation-type and --operation do, and without them it is checked as a
rule for power control, whose PowerControl actions take the power operation from the task.`,
		Example: `  flow rule lint -f rule.json --operation-type firmware_control --operation upgrade
  flow rule lint -f rules.yaml
  flow rule lint -f rules/*.json`,
		Args: arguments(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			files := append(files, args...)
			if len(files) == 0 {
				return &usageError{cmd: cmd, err: fmt.Errorf("rule lint: --file is required")}
			}
			operation := rules.Operation{Type: rules.TaskPowerControl}
			switch typ, code := cmd.Flags().Changed("operation-type"), cmd.Flags().Changed("operation"); {
			case code && !typ:
				return requiredFlags(cmd, "with --operation", "operation-type")
			case typ && !code:
				t, err := parseWord(ruleTypeWords, "operation type", op.typ)
				if err != nil {
					return fmt.Errorf("rule lint: %w", err)
				}
				operation.Type = rules.TaskType(ruleTypeName(t))
			case typ:
				var err error
				if _, operation, err = op.read(); err != nil {
					return fmt.Errorf("rule lint: %w", err)
				}
			}
			return c.lint(files, operation)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`FILE` with a rule or rules, - for standard input; may be repeated")
	op.register(cmd)
	must(cmd.MarkFlagFilename("file", "json", "yaml", "yml"))
	return cmd
}

// lint checks all files.
func (c *cli) lint(files []string, op rules.Operation) error {
	problems := []lintProblem{}
	bad := 0
	for _, path := range files {
		found := c.lintFile(path, op)
		problems = append(problems, found...)
		if len(found) > 0 {
			bad++
		}
	}
	err := c.printValue(problems, func(w io.Writer) error {
		for _, p := range problems {
			where := line(p.File)
			if p.Path != "" {
				where += ": " + line(p.Path)
			}
			if _, err := fmt.Fprintf(w, "%s: %s\n", where, line(p.Reason)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || bad == 0 {
		return err
	}
	return fmt.Errorf("rule lint: %s in %d of %s", counted(len(problems), "problem"), bad, counted(len(files), "file"))
}

func (c *cli) lintFile(path string, op rules.Operation) []lintProblem {
	text, name, err := readDocument(c.in, path)
	if err == nil {
		if isBatch(name, text) {
			_, err = rules.ParseBatchStrict(text)
		} else {
			err = rules.Lint(text, op)
		}
	}
	if err == nil {
		return nil
	}
	var problems rules.Problems
	if !errors.As(err, &problems) {
		return []lintProblem{{File: name, Reason: err.Error()}}
	}
	list := make([]lintProblem, len(problems))
	for i, p := range problems {
		list[i] = lintProblem{File: name, Path: p.Path, Reason: p.Reason}
	}
	return list
}

// isBatch reports whether a file is one of YAML with rules, and not the JSON document of one.
func isBatch(name string, text []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return false
	case ".yaml", ".yml":
		return true
	}
	return !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
}
