package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) taskRetryCommand() *cobra.Command {
	var q queueing
	var description string
	var overrideReadiness, wait bool
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Go on with a task that has failed or was ended",
		Long: `Go on with a task that is failed or terminated, from its first step that was not completed, as a new task on the same
plan. What was completed is not done again. The id of the new task is printed.

It is refused when the inventory no longer matches the plan, and when the task has been retried before.`,
		Example: `  flow task retry 6f2c91d0-3b7e-4d7a-9d55-2f6f4f1d8a10 --wait
  flow task retry 6f2c91d0-3b7e-4d7a-9d55-2f6f4f1d8a10 --queue --queue-timeout 4h`,
		Args:              arguments(1, 1, "the id of a task"),
		ValidArgsFunction: c.completeTasksThat(false, retriable),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := taskIDs(cmd, args)
			switch {
			case err != nil:
				return err
			case len(ids) != 1:
				return &usageError{cmd: cmd, err: fmt.Errorf("task retry: needs the id of one task")}
			}
			req := &flowopsv1.RetryTaskRequest{TaskId: ids[0]}
			if req.QueueOptions, err = q.options(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("description") {
				req.Description = &description
			}
			if cmd.Flags().Changed("override-readiness") {
				req.OverrideReadinessCheck = &overrideReadiness
			}
			return c.retry(cmd, req, wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&description, "description", "", "text to keep with the new task instead of that of the old one")
	f.BoolVar(&overrideReadiness, "override-readiness", false,
		"do not wait until the components are ready for the operation; as for the old task when not given")
	q.register(cmd)
	f.BoolVar(&wait, "wait", false, "follow the new task until it has ended")
	return cmd
}

// retriable reports whether a task in this status can be gone on with.
func retriable(s flowv1.TaskStatus) bool {
	return s == flowv1.TaskStatus_TASK_STATUS_FAILED || s == flowv1.TaskStatus_TASK_STATUS_TERMINATED
}

// retry makes the call, says what goes on, and follows it when asked to.
func (c *cli) retry(cmd *cobra.Command, req *flowopsv1.RetryTaskRequest, wait bool) error {
	s, err := c.dial(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(cmd.Context())
	defer cancel()
	resp, err := s.ops.RetryTask(ctx, req)
	if err != nil {
		return c.callError(ctx, "task retry", err)
	}
	fmt.Fprintf(c.err, "Goes on from stage %d.\n", resp.GetStage())
	if !wait || c.output == formatTable {
		result := struct {
			TaskIDs []string `json:"task_ids"`
			Stage   int32    `json:"stage"`
		}{[]string{resp.GetTaskId().GetId()}, resp.GetStage()}
		err := c.printValue(result, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, resp.GetTaskId().GetId())
			return err
		})
		if err != nil {
			return err
		}
	}
	if !wait {
		return nil
	}
	return c.waitFor(cmd, s, []*flowv1.UUID{resp.GetTaskId()})
}
