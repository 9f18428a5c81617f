package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// completionWait is how long a person who pressed Tab waits for the server.
const completionWait = 2 * time.Second

// completionLimit is how many of the names are offered that begin with what was typed.
const completionLimit = 200

// completeRacks offers the names of racks.
func (c *cli) completeRacks(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s *client, first *flowv1.Pagination) (list []cobra.Completion, err error) {
		req := &flowv1.GetListOfRacksRequest{Pagination: first}
		if typed != "" {
			req.Filters = []*flowv1.Filter{rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_NAME, beginsWith(typed))}
		}
		resp, err := s.flow.GetListOfRacks(ctx, req)
		for _, r := range resp.GetRacks() {
			list = append(list, cobra.CompletionWithDesc(line(r.GetInfo().GetName()), r.GetInfo().GetId().GetId()))
		}
		return list, err
	}), cobra.ShellCompDirectiveNoFileComp
}

// completeRackIDs offers the ids of racks, for flags that take nothing else.
func (c *cli) completeRackIDs(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s *client, first *flowv1.Pagination) (list []cobra.Completion, err error) {
		resp, err := s.flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{Pagination: first})
		for _, r := range resp.GetRacks() {
			list = append(list, cobra.CompletionWithDesc(r.GetInfo().GetId().GetId(), line(r.GetInfo().GetName())))
		}
		return list, err
	}), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeDomains offers the names of NVLink domains.
func (c *cli) completeDomains(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s *client, first *flowv1.Pagination) (list []cobra.Completion, err error) {
		req := &flowv1.GetListOfNVLDomainsRequest{Pagination: first}
		if typed != "" {
			req.Info = beginsWith(typed)
		}
		resp, err := s.flow.GetListOfNVLDomains(ctx, req)
		for _, d := range resp.GetNvlDomains() {
			list = append(list, cobra.CompletionWithDesc(line(d.GetIdentifier().GetName()), d.GetIdentifier().GetId().GetId()))
		}
		return list, err
	}), cobra.ShellCompDirectiveNoFileComp
}

// completeDomainThenRacks is for commands that take a domain and then racks.
func (c *cli) completeDomainThenRacks(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return c.completeDomains(cmd, args, typed)
	}
	return c.completeRacks(cmd, args, typed)
}

// completeTasks offers the ids of tasks, newest first.
func (c *cli) completeTasks(activeOnly bool) cobra.CompletionFunc {
	return c.completeTasksThat(activeOnly, func(flowv1.TaskStatus) bool { return true })
}

// completeTasksThat offers the ids of tasks in some statuses, newest first.
func (c *cli) completeTasksThat(activeOnly bool, offered func(flowv1.TaskStatus) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return c.complete(cmd, func(ctx context.Context, s *client, first *flowv1.Pagination) (list []cobra.Completion, err error) {
			resp, err := s.flow.ListTasks(ctx, &flowv1.ListTasksRequest{ActiveOnly: activeOnly, Pagination: first})
			for _, t := range resp.GetTasks() {
				if !offered(t.GetStatus()) {
					continue
				}
				list = append(list, cobra.CompletionWithDesc(t.GetId().GetId(), line(statusWord(t.GetStatus())+" "+t.GetOperation())))
			}
			return list, err
		}), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// offerFunc asks a server for the first page of what to offer.
type offerFunc func(ctx context.Context, s *client, first *flowv1.Pagination) ([]cobra.Completion, error)

// complete asks the server what to offer. One that does not answer offers nothing.
func (c *cli) complete(cmd *cobra.Command, offer offerFunc) []cobra.Completion {
	s, err := c.dial(cmd)
	if err != nil {
		return nil
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionWait)
	defer cancel()
	offered, err := offer(ctx, s, &flowv1.Pagination{Limit: completionLimit})
	if err != nil {
		return nil
	}
	return offered
}
