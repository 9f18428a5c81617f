package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) taskCommand() *cobra.Command {
	return parent("task", "Look at tasks, follow, cancel and retry them", "",
		c.taskListCommand(), c.taskGetCommand(), c.taskWatchCommand(), c.taskCancelCommand(),
		c.taskRetryCommand())
}

// taskIDs checks the ids of tasks given as arguments, before any call.
func taskIDs(cmd *cobra.Command, args []string) ([]*flowv1.UUID, error) {
	var ids []*flowv1.UUID
	for _, arg := range args {
		for _, text := range splitList(arg) {
			id, err := uuidOf("task id", text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", commandName(cmd), err)
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// when is a time in tables and reports; empty when there is none.
func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return stamp(t.AsTime())
}

// took is how long a task ran, or has been running.
func (c *cli) took(t *flowv1.Task) string {
	if t.GetStartedAt() == nil {
		return ""
	}
	var finished time.Time
	if t.GetFinishedAt() != nil {
		finished = t.GetFinishedAt().AsTime()
	}
	return clock(elapsed(t.GetStartedAt().AsTime(), finished, c.now()))
}
