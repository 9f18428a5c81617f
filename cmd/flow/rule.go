package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/rules"
)

func (c *cli) ruleCommand() *cobra.Command {
	const long = `Say how operations are carried out: in which stages, on which components, by which actions. Of the rules for an
operation, the one counts that the operation names by --rule-id, else the one that is associated with the rack, else the
default rule of the operation, else the rule that Flow brings along.`
	return parent("rule", "Rules by which operations are carried out", long,
		c.ruleCreateCommand(), c.ruleUpdateCommand(), c.ruleListCommand(), c.ruleGetCommand(), c.ruleDeleteCommand(),
		c.ruleSetDefaultCommand(), c.ruleAssociateCommand(), c.ruleDisassociateCommand(),
		c.ruleLintCommand(), c.ruleExplainCommand(), c.ruleTestCommand())
}

var ruleTypeWords = []word[flowv1.OperationType]{
	{string(rules.TaskPowerControl), flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL},
	{string(rules.TaskFirmwareControl), flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL},
}

// ruleTypeName is the name of an operation type in rules, reports and files.
func ruleTypeName(t flowv1.OperationType) string {
	return strings.ToLower(strings.TrimPrefix(t.String(), "OPERATION_TYPE_"))
}

// ruleOperation is the flags that name the operation of a rule.
type ruleOperation struct {
	typ, code string
}

func (o *ruleOperation) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.typ, "operation-type", "", "kind of operation: "+accepted(ruleTypeWords))
	f.StringVar(&o.code, "operation", "", "operation, such as power_on or upgrade")
	must(cmd.RegisterFlagCompletionFunc("operation-type", completeWords(ruleTypeWords)))
	must(cmd.RegisterFlagCompletionFunc("operation", o.complete))
}

// complete offers the operations of the type that was typed, or of all.
func (o *ruleOperation) complete(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var codes []cobra.Completion
	for _, t := range rules.StoredTypes {
		if o.typ == "" || o.typ == string(t) {
			codes = append(codes, t.Codes()...)
		}
	}
	return codes, cobra.ShellCompDirectiveNoFileComp
}

// read checks the operation that was named.
func (o *ruleOperation) read() (flowv1.OperationType, rules.Operation, error) {
	t, err := parseWord(ruleTypeWords, "operation type", o.typ)
	if err != nil {
		return t, rules.Operation{}, err
	}
	op := rules.Operation{Type: rules.TaskType(ruleTypeName(t)), Code: o.code}
	if err := op.Validate(); err != nil {
		return t, op, fmt.Errorf("%w: must be one of %s", err, strings.Join(op.Type.Codes(), ", "))
	}
	return t, op, nil
}

// requiredFlags refuses a command without one of its flags. Why is said after the names, as in "for single rule mode".
func requiredFlags(cmd *cobra.Command, why string, names ...string) error {
	var missing []string
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	verb := "is"
	if len(missing) > 1 {
		verb = "are"
	}
	text := fmt.Sprintf("%s: %s %s required %s", commandName(cmd), strings.Join(missing, ", "), verb, why)
	return &usageError{cmd: cmd, err: errors.New(strings.TrimSpace(text))}
}

// ruleIDArgument is the id of a rule as the one argument of a command.
func ruleIDArgument(cmd *cobra.Command, args []string) (*flowv1.UUID, error) {
	id, err := uuidOf("rule id", args[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", commandName(cmd), err)
	}
	return id, nil
}

// idFlag is the value of a flag that names something by its id.
func idFlag(cmd *cobra.Command, name string) (*flowv1.UUID, error) {
	id, err := uuidOf("--"+name, cmd.Flags().Lookup(name).Value.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", commandName(cmd), err)
	}
	return id, nil
}

// readRule reads a rule document as it is to be sent. Strict is to refuse what the server would ignore.
func (c *cli) readRule(path string, strict bool) (string, error) {
	doc, name, err := readDocument(c.in, path)
	if err != nil {
		return "", err
	}
	var object map[string]json.RawMessage
	err = json.Unmarshal(doc, &object)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other), err == nil && object == nil:
		return "", fmt.Errorf("%s: a rule is a JSON object", name)
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, syntaxError(doc, err))
	case strict:
		if _, err := rules.ParseStrict(doc); err != nil {
			return "", problemsIn(name, err)
		}
	}
	return string(doc), nil
}

// problemsIn puts each problem of a rule document on a line of its own, with the name of the document.
func problemsIn(name string, err error) error {
	var problems rules.Problems
	if !errors.As(err, &problems) {
		return fmt.Errorf("%s: %w", name, err)
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = name + ": " + line(p.Reason)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// says prints what was done in the words given, a line each, or with --output the object.
func (c *cli) says(object map[string]string, lines ...string) error {
	return c.printValue(object, func(w io.Writer) error {
		for _, text := range lines {
			if _, err := fmt.Fprintln(w, line(text)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ruleTime is a time in what the rule commands print.
func ruleTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format("2006-01-02 15:04:05")
}

// completeRule offers the ids of rules as the one argument of a command.
func (c *cli) completeRule(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeRules(cmd, args, typed)
}

// completeRules offers the ids of rules, newest first.
func (c *cli) completeRules(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	return c.complete(cmd, func(ctx context.Context, s *client, first *flowv1.Pagination) (list []cobra.Completion, err error) {
		resp, err := s.flow.ListOperationRules(ctx, &flowv1.ListOperationRulesRequest{Limit: &first.Limit})
		for _, r := range resp.GetRules() {
			about := fmt.Sprintf("%s %s/%s", r.GetName(), ruleTypeName(r.GetOperationType()), r.GetOperationCode())
			list = append(list, cobra.CompletionWithDesc(r.GetId().GetId(), line(about)))
		}
		return list, err
	}), directive
}

// stages is how many stages a rule has.
func stages(d rules.Definition) int {
	var numbers []int
	for _, s := range d.Steps {
		numbers = append(numbers, s.Stage)
	}
	slices.Sort(numbers)
	return len(slices.Compact(numbers))
}
