package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/rules"
)

// explain asks the server what a request would do.
func (c *cli) explain(cmd *cobra.Command, request *flowopsv1.ExplainRequest) error {
	var resp *flowopsv1.ExplainResponse
	err := c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
		resp, err = s.ops.Explain(ctx, request)
		return err
	})
	if err != nil {
		return err
	}
	return c.print(resp, func(w io.Writer) error {
		for i, r := range resp.GetRacks() {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := rackExplanation(w, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// ruleSources say why a rule applies.
var ruleSources = map[flowopsv1.RuleSource]string{
	flowopsv1.RuleSource_RULE_SOURCE_REQUEST:     "named by the request",
	flowopsv1.RuleSource_RULE_SOURCE_ASSOCIATION: "associated with the rack",
	flowopsv1.RuleSource_RULE_SOURCE_DEFAULT:     "the default of the operation",
	flowopsv1.RuleSource_RULE_SOURCE_BUILTIN:     "brought along by Flow",
}

// admissions say what would become of a task.
var admissions = map[flowopsv1.Admission]string{
	flowopsv1.Admission_ADMISSION_STARTED: "would start now",
	flowopsv1.Admission_ADMISSION_QUEUED:  "would wait",
	flowopsv1.Admission_ADMISSION_REFUSED: "would be refused",
}

// rackExplanation prints what would be done to one rack.
func rackExplanation(w io.Writer, r *flowopsv1.RackExplanation) error {
	rack := r.GetRackId().GetId()
	if name := r.GetRackName(); name != "" {
		rack = fmt.Sprintf("%s (%s)", name, rack)
	}
	err := facts(w, append([][2]string{
		{"Rack", line(rack)},
		{"Task", admissions[r.GetAdmission()]},
		{"Reason", line(r.GetReason())},
	}, planFacts(r.GetPlan(), ruleSources[r.GetRuleSource()])...))
	if err != nil {
		return err
	}
	if len(r.GetConflicts()) > 0 {
		fmt.Fprintln(w, "\nIn the way:")
		rows := make([][]string, len(r.GetConflicts()))
		for i, t := range r.GetConflicts() {
			rows[i] = []string{t.GetTaskId().GetId(), statusWord(t.GetStatus()), t.GetOperation(), t.GetRule()}
		}
		if err := grid(w, []string{"TASK", "STATUS", "OPERATION", "CONFLICT"}, rows); err != nil {
			return err
		}
	}
	if len(r.GetBlockedComponents()) > 0 {
		fmt.Fprintln(w, "\nNot known to be ready:")
		rows := make([][]string, len(r.GetBlockedComponents()))
		for i, b := range r.GetBlockedComponents() {
			blocks := "no"
			if b.GetBlocks() {
				blocks = "yes"
			}
			rows[i] = []string{b.GetComponentType(), cmp.Or(line(b.GetName()), b.GetComponentId().GetId()), blocks, line(b.GetReason())}
		}
		if err := grid(w, []string{"TYPE", "COMPONENT", "HOLDS UP", "REASON"}, rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return planTable(w, r.GetPlan())
}

// planFacts are the lines about a plan as a whole.
func planFacts(p *flowopsv1.TaskPlan, source string) [][2]string {
	var rule []string
	for _, text := range []string{line(p.GetRuleName()), p.GetRuleId().GetId(), source} {
		if text != "" {
			rule = append(rule, text)
		}
	}
	return [][2]string{
		{"Operation", p.GetOperation()},
		{"Rule", strings.Join(rule, ", ")},
		{"Takes", between(p.GetShortest(), p.GetLongest())},
	}
}

// planTable prints the stages of a plan, a row an action.
func planTable(w io.Writer, p *flowopsv1.TaskPlan) error {
	const same = " " // as in the row above
	var rows [][]string
	for _, stage := range p.GetStages() {
		number := strconv.Itoa(int(stage.GetNumber()))
		for _, s := range stage.GetSteps() {
			what, takes := plannedComponents(s), between(s.GetShortest(), s.GetLongest())
			switch {
			case s.GetDone():
				rows = append(rows, []string{number, what, "done already", "", "", "", ""})
			case s.GetSkipped():
				rows = append(rows, []string{number, what, "skipped", "", "", "", ""})
			default:
				for _, a := range s.GetActions() {
					action := strings.TrimSpace(a.GetName() + " " + a.GetDetail())
					rows = append(rows, []string{number, what, takes, a.GetPhase(), action, strconv.Itoa(int(a.GetBatches())), limits(a)})
					number, what, takes = same, same, same
				}
			}
			number = same
		}
	}
	return grid(w, []string{"STAGE", "COMPONENTS", "TAKES", "PHASE", "ACTION", "TIMES", "LIMITS"}, rows)
}

// plannedComponents says how many components a step works on, and how many of them at a time.
func plannedComponents(s *flowopsv1.PlannedStep) string {
	if s.GetSkipped() {
		return s.GetComponentType()
	}
	text := fmt.Sprintf("%d %s", s.GetTotalComponents(), s.GetComponentType())
	if n := s.GetMaxParallel(); n > 0 && n < s.GetTotalComponents() {
		text += fmt.Sprintf(", %d at a time", n)
	}
	return text
}

// limits says how long an action may try.
func limits(a *flowopsv1.PlannedAction) string {
	var parts []string
	if a.GetMaxAttempts() > 0 && a.GetAttemptTimeout() != nil {
		parts = append(parts, brief(a.GetAttemptTimeout())+" a call")
	}
	if n := a.GetMaxAttempts(); n > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", n))
	}
	if a.GetTimeout() != nil {
		parts = append(parts, "within "+brief(a.GetTimeout()))
	}
	if a.GetPollInterval() != nil {
		parts = append(parts, "every "+brief(a.GetPollInterval()))
	}
	return strings.Join(parts, ", ")
}

// between says how long something takes at least, and when it is given up.
func between(shortest, longest *durationpb.Duration) string {
	text := "given up after " + brief(longest)
	if shortest.AsDuration() > 0 {
		text = "at least " + brief(shortest) + ", " + text
	}
	return text
}

// brief is a duration without the parts at its end that are zero.
func brief(m *durationpb.Duration) string {
	text := rules.Duration(m.AsDuration()).String()
	for _, part := range [][2]string{{"m0s", "m"}, {"h0m", "h"}} {
		if short, ok := strings.CutSuffix(text, part[0]); ok {
			text = short + part[1]
		}
	}
	return text
}
