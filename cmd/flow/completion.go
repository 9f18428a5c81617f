package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// completionWait is how long a person who pressed Tab waits for the server.
const completionWait = 2 * time.Second

// completionLimit is how many names are offered.
const completionLimit = 200

// completeRacks offers the names of racks. A server that does not answer offers nothing.
func (c *cli) completeRacks(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, ctx, cancel, err := c.dialToComplete(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer cancel()
	resp, err := s.flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{Pagination: &flowv1.Pagination{Limit: completionLimit}})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []cobra.Completion
	for _, r := range resp.GetRacks() {
		list = append(list, cobra.CompletionWithDesc(line(r.GetInfo().GetName()), r.GetInfo().GetId().GetId()))
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeTasks offers the ids of tasks, newest first.
func (c *cli) completeTasks(activeOnly bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		s, ctx, cancel, err := c.dialToComplete(cmd)
		if err != nil {
			return nil, directive
		}
		defer cancel()
		resp, err := s.flow.ListTasks(ctx, &flowv1.ListTasksRequest{
			ActiveOnly: activeOnly,
			Pagination: &flowv1.Pagination{Limit: completionLimit},
		})
		if err != nil {
			return nil, directive
		}
		var list []cobra.Completion
		for _, t := range resp.GetTasks() {
			list = append(list, cobra.CompletionWithDesc(t.GetId().GetId(), line(statusWord(t.GetStatus())+" "+t.GetOperation())))
		}
		return list, directive
	}
}

func (c *cli) dialToComplete(cmd *cobra.Command) (*client, context.Context, context.CancelFunc, error) {
	s, err := c.dial(cmd)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionWait)
	return s, ctx, cancel, nil
}
