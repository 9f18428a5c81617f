package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) taskListCommand() *cobra.Command {
	var rack, component string
	var active, withReport bool
	var limit, offset int32
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, newest first",
		Long: `List tasks, newest first: those that have ended as well, unless --active is given.

--rack takes the id, external id or name of a rack, --component the id, external id or a BMC's MAC address of a
component.`,
		Example: `  flow task list --active
  flow task list --rack rack-1 --limit 10
  flow task list --component 02:10:00:00:01:05 -o json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &flowv1.ListTasksRequest{ActiveOnly: active, WithReport: withReport}
			var err error
			if req.Pagination, err = page(limit, offset); err != nil {
				return &usageError{cmd: cmd, err: fmt.Errorf("task list: %w", err)}
			}
			if component != "" {
				req.ComponentId = &flowv1.UUID{Id: component}
			}
			var resp *flowv1.ListTasksResponse
			var names map[string]string
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if rack != "" {
					req.RackId, err = s.rackID(ctx, rack)
				}
				if err == nil {
					resp, err = s.flow.ListTasks(ctx, req)
				}
				if err == nil && c.output == formatTable {
					names, err = s.rackNames(ctx, racksOf(resp.GetTasks()))
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.print(resp, func(w io.Writer) error { return c.taskTable(w, resp, names, offset) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&rack, "rack", "", "only tasks of this rack")
	f.StringVar(&component, "component", "", "only tasks that concern this component")
	f.BoolVar(&active, "active", false, "only tasks that have not ended")
	f.BoolVar(&withReport, "with-report", false, "read the reports as well, for -o json and yaml")
	pageFlags(f, &limit, &offset)
	must(cmd.RegisterFlagCompletionFunc("rack", c.completeRacks))
	return cmd
}

// rackID is the id of a rack by whatever the operator knows it by.
func (s *client) rackID(ctx context.Context, key string) (*flowv1.UUID, error) {
	if isUUID(key) {
		return &flowv1.UUID{Id: key}, nil
	}
	rack, err := s.findRack(ctx, key, false)
	return rack.GetInfo().GetId(), err
}

// taskTable prints a page of tasks, with the names of their racks by id.
func (c *cli) taskTable(w io.Writer, resp *flowv1.ListTasksResponse, names map[string]string, offset int32) error {
	tasks := resp.GetTasks()
	if len(tasks) == 0 {
		return nothing(w, "tasks", resp.GetTotal())
	}
	rows := make([][]string, len(tasks))
	for i, t := range tasks {
		rows[i] = []string{
			t.GetId().GetId(),
			rackLabel(names, t.GetRackId().GetId()),
			operationName(t.GetOperation()),
			statusWord(t.GetStatus()),
			when(t.GetCreatedAt()),
			c.took(t),
			remarkOf(t),
		}
	}
	if err := grid(w, []string{"ID", "RACK", "OPERATION", "STATUS", "CREATED", "TOOK", "MESSAGE"}, rows); err != nil {
		return err
	}
	return pageNote(w, len(tasks), offset, resp.GetTotal())
}
