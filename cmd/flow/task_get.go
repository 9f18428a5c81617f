package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

// timelineWidth is the room of the timeline in a task's report, in characters.
const timelineWidth = 30

func (c *cli) taskGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID...",
		Short: "Show tasks with what became of each stage",
		Long: `Show tasks: the operation, how it stands, and for each stage and step how many components are done and how long it
took. The timeline has one row a step; its ends are the start of the task and its end, or now. Of a step that failed, the
components are shown one by one where the server tells.`,
		Example: `  flow task get 6f2c91d0-3b7e-4d7a-9d55-2f6f4f1d8a10
  flow task get $(flow power on rack-1 --wait)
  flow task get 6f2c91d0-3b7e-4d7a-9d55-2f6f4f1d8a10 -o json`,
		Args:              arguments(1, -1, "the id of a task"),
		ValidArgsFunction: c.completeTasks(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := taskIDs(cmd, args)
			if err != nil {
				return err
			}
			var resp *flowv1.GetTasksByIDsResponse
			var d taskDetails
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				resp, err = s.flow.GetTasksByIDs(ctx, &flowv1.GetTasksByIDsRequest{TaskIds: ids})
				if err == nil && c.output == formatTable {
					d, err = s.taskDetails(ctx, resp.GetTasks())
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.print(resp, func(w io.Writer) error {
				for i, t := range resp.GetTasks() {
					if i > 0 {
						fmt.Fprintln(w)
					}
					if err := c.taskReport(w, t, d); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// taskReport prints a task for people.
func (c *cli) taskReport(w io.Writer, t *flowv1.Task, d taskDetails) error {
	rack := t.GetRackId().GetId()
	if name := d.racks[rack]; name != "" {
		rack = fmt.Sprintf("%s (%s)", name, rack)
	}
	finished := when(t.GetFinishedAt())
	if finished != "" && t.GetStartedAt() != nil {
		finished += " (took " + wholeSeconds(t.GetFinishedAt().AsTime().Sub(t.GetStartedAt().AsTime())) + ")"
	}
	err := facts(w, [][2]string{
		{"Task", t.GetId().GetId()},
		{"Operation", t.GetOperation()},
		{"Status", statusWord(t.GetStatus())},
		{"Message", line(t.GetMessage())},
		{"Description", line(t.GetDescription())},
		{"Rack", rack},
		{"Components", strconv.Itoa(len(t.GetComponentUuids()))},
		{"Rule", cmp.Or(t.GetAppliedRuleId().GetId(), "built-in")},
		{"Retry of", d.links[t.GetId().GetId()].GetRetryOf().GetId()},
		{"Retried by", d.links[t.GetId().GetId()].GetRetriedBy().GetId()},
		{"Created", when(t.GetCreatedAt())},
		{"Queued until", when(t.GetQueueExpiresAt())},
		{"Started", when(t.GetStartedAt())},
		{"Finished", finished},
	})
	if err != nil || t.GetReport() == "" {
		return err
	}
	r, ok := readReport(t.GetReport())
	if !ok {
		_, err := fmt.Fprintln(w, "\nThe report is of a version that this binary does not know; -o json shows it as it is.")
		return err
	}
	fmt.Fprintln(w)
	until := c.now()
	if t.GetFinishedAt() != nil {
		until = t.GetFinishedAt().AsTime()
	}
	markDone(r, d.links[t.GetId().GetId()].GetPlan())
	if err := c.stageTable(w, r, timeline{from: t.GetStartedAt().AsTime(), to: until}); err != nil {
		return err
	}
	return d.printDetails(w, t.GetReport())
}

// reportDoneBefore is shown of a step that the task which this one goes on from has completed; its report says skipped.
const reportDoneBefore task.ReportStatus = "done before"

// markDone tells the skipped steps of a retry that were done before from those without components.
func markDone(r task.Report, plan *flowopsv1.TaskPlan) {
	done := map[string]bool{}
	key := func(stage int, componentType string) string { return fmt.Sprint(stage, componentType) }
	for _, s := range plan.GetStages() {
		for _, p := range s.GetSteps() {
			done[key(int(s.GetNumber()), p.GetComponentType())] = p.GetDone()
		}
	}
	for _, s := range r.Stages {
		for i, p := range s.Steps {
			if p.Status == task.ReportSkipped && done[key(s.Number, string(p.ComponentType))] {
				s.Steps[i].Status = reportDoneBefore
			}
		}
	}
}

// wholeSeconds is how long something took: the times of reports are no finer.
func wholeSeconds(d time.Duration) string {
	if d < time.Second {
		return "<1s"
	}
	return d.Truncate(time.Second).String()
}

// stageTable prints the stages of a report, a row a step, and their errors below.
func (c *cli) stageTable(w io.Writer, r task.Report, axis timeline) error {
	var rows [][]string
	var errs []string
	for _, s := range r.Stages {
		label := strconv.Itoa(s.Number)
		if s.Error != "" {
			errs = append(errs, fmt.Sprintf("Stage %d: %s", s.Number, s.Error))
		}
		for _, p := range s.Steps {
			count, failed, took := "", "", ""
			if p.Total > 0 {
				count = fmt.Sprintf("%d/%d", p.Completed, p.Total)
			}
			if p.Failed > 0 {
				failed = strconv.Itoa(int(p.Failed))
			}
			started, finished := timeOf(p.StartedAt), timeOf(p.FinishedAt)
			if !started.IsZero() {
				took = wholeSeconds(elapsed(started, finished, c.now()))
			}
			rows = append(rows, []string{label, string(p.ComponentType), string(p.Status), count, failed, took, axis.bar(started, finished)})
			label = " "
			if p.Error != "" && !strings.Contains(s.Error, p.Error) {
				errs = append(errs, fmt.Sprintf("Stage %d, %s: %s", s.Number, p.ComponentType, p.Error))
			}
		}
	}
	if err := grid(w, []string{"STAGE", "COMPONENTS", "STATUS", "DONE", "FAILED", "TOOK", "TIMELINE"}, rows); err != nil {
		return err
	}
	for _, text := range errs {
		if _, err := fmt.Fprintf(w, "\n%s\n", clean(text)); err != nil {
			return err
		}
	}
	return nil
}

// timeline is the axis that the steps of a task are drawn on.
type timeline struct {
	from, to time.Time
}

// bar draws one step on the axis, at least one character wide; empty when it never began.
func (t timeline) bar(started, finished time.Time) string {
	if started.IsZero() {
		return ""
	}
	if finished.IsZero() {
		finished = t.to
	}
	length := max(t.to.Sub(t.from), time.Second)
	at := func(when time.Time) int {
		return int(min(max(when.Sub(t.from), 0), length) * timelineWidth / length)
	}
	begin := min(at(started), timelineWidth-1)
	end := max(at(finished), begin+1)
	return "|" + strings.Repeat(" ", begin) + strings.Repeat("=", end-begin) + strings.Repeat(" ", timelineWidth-end) + "|"
}

// operationName is the text of an operation without what it already says.
func operationName(text string) string {
	name, _, _ := strings.Cut(text, ", forced ")
	return strings.TrimSuffix(name, ", target version ")
}

// remarkOf is the message of a task where it says more than the status.
func remarkOf(t *flowv1.Task) string {
	switch message := line(t.GetMessage()); {
	case t.GetStatus() == flowv1.TaskStatus_TASK_STATUS_COMPLETED, strings.EqualFold(message, statusWord(t.GetStatus())):
		return ""
	default:
		return message
	}
}
