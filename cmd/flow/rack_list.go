package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) rackListCommand() *cobra.Command {
	var names listValue
	var limit, offset int32
	var order string
	var descending, withComponents bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List racks",
		Long: `List racks: name, id, status, number of components when they were asked for, and active tasks.

--name takes texts that the name contains, in any letter case; % stands for any text and then ties the text to the
ends of the name, as in "rack-0%". Of several texts one must match.`,
		Example: `  flow rack list
  flow rack list --name 'r1%' --with-components
  flow rack list --order-by model --desc --limit 20 -o json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &flowv1.GetListOfRacksRequest{WithComponents: withComponents}
			var err error
			if req.Pagination, err = page(limit, offset); err != nil {
				return &usageError{cmd: cmd, err: fmt.Errorf("rack list: %w", err)}
			}
			if len(names) > 0 {
				req.Filters = []*flowv1.Filter{rackNameFilter(&flowv1.StringQueryInfo{Patterns: names, IsWildcard: true, UseOr: true})}
			}
			if order != "" || descending {
				field := flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_NAME
				if order != "" {
					if field, err = parseWord(rackOrderWords, "order", order); err != nil {
						return fmt.Errorf("rack list: %w", err)
					}
				}
				req.OrderBy = &flowv1.OrderBy{Field: &flowv1.OrderBy_RackField{RackField: field}, Direction: "ASC"}
				if descending {
					req.OrderBy.Direction = "DESC"
				}
			}
			s, err := c.dial(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := c.deadline(cmd.Context())
			defer cancel()
			resp, err := s.flow.GetListOfRacks(ctx, req)
			if err != nil {
				return c.callError(ctx, "rack list", err)
			}
			return c.print(resp, func(w io.Writer) error { return rackTable(w, resp, offset, withComponents) })
		},
	}
	f := cmd.Flags()
	f.Var(&names, "name", "only racks whose name contains one of these texts")
	pageFlags(f, &limit, &offset)
	f.StringVar(&order, "order-by", "", "order of the list: "+accepted(rackOrderWords)+" (default name)")
	f.BoolVar(&descending, "desc", false, "turn the order round")
	f.BoolVar(&withComponents, "with-components", false, "read the components as well")
	must(cmd.RegisterFlagCompletionFunc("order-by", completeWords(rackOrderWords)))
	must(cmd.RegisterFlagCompletionFunc("name", c.completeRacks))
	return cmd
}

// rackTable prints a page of racks.
func rackTable(w io.Writer, resp *flowv1.GetListOfRacksResponse, offset int32, withComponents bool) error {
	racks := resp.GetRacks()
	if len(racks) == 0 {
		return nothing(w, "racks", resp.GetTotal())
	}
	rows := make([][]string, len(racks))
	for i, r := range racks {
		components := ""
		if withComponents {
			components = strconv.Itoa(len(r.GetComponents()))
		}
		rows[i] = []string{
			r.GetInfo().GetName(),
			r.GetInfo().GetId().GetId(),
			phaseWord(r.GetOperationStatus()),
			components,
			strconv.Itoa(activeTasks(r.GetTaskStats())),
		}
	}
	if err := grid(w, []string{"NAME", "ID", "STATUS", "COMPONENTS", "ACTIVE TASKS"}, rows); err != nil {
		return err
	}
	return pageNote(w, len(racks), offset, resp.GetTotal())
}

func activeTasks(t *flowv1.TaskStats) int {
	return int(t.GetWaitingTaskCount() + t.GetPendingTaskCount() + t.GetRunningTaskCount())
}
