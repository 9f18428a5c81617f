package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) taskCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID...",
		Short: "End tasks that have not ended yet",
		Long: `End tasks that wait, are pending or run. What a task has done so far stays done, and a hardware call that is under way
is not undone. Cancelling a task twice is no error; one that has completed or failed can't be cancelled.

Each task is cancelled on its own: one that can't be does not spare the others.`,
		Example: `  flow task cancel 6f2c91d0-3b7e-4d7a-9d55-2f6f4f1d8a10
  flow task list --rack rack-1 --active -o json | jq -r '.tasks[].id.id' | xargs flow task cancel`,
		Args:              arguments(1, -1, "the id of a task"),
		ValidArgsFunction: c.completeTasks(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := taskIDs(cmd, args)
			if err != nil {
				return err
			}
			var tasks flowv1.GetTasksByIDsResponse // a list to print; there is no call that cancels several
			var errs []error
			err = c.onServer(cmd, func(ctx context.Context, s *client) error {
				for _, id := range ids {
					resp, err := s.flow.CancelTask(ctx, &flowv1.CancelTaskRequest{TaskId: id})
					if err != nil {
						errs = append(errs, c.callError(ctx, "task cancel", err))
						continue
					}
					tasks.Tasks = append(tasks.Tasks, resp.GetTask())
				}
				return nil
			})
			if err != nil {
				return err
			}
			if len(tasks.GetTasks()) > 0 || len(errs) == 0 {
				err := c.print(&tasks, func(w io.Writer) error {
					for _, t := range tasks.GetTasks() {
						if _, err := fmt.Fprintf(w, "Task %s is %s.\n", t.GetId().GetId(), statusWord(t.GetStatus())); err != nil {
							return err
						}
					}
					return nil
				})
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}
