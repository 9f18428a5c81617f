package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) rackListCommand() *cobra.Command {
	var plate plateFilter
	var limit, offset int32
	order := ordering[flowv1.RackOrderByField]{words: rackOrderWords}
	var withComponents, withExternalID bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List racks",
		Long: `List racks: name, id, status, number of components when they were asked for, and active tasks.

` + plateFilterHelp,
		Example: `  flow rack list
  flow rack list --name 'r1%' --with-components
  flow rack list --order-by model --desc --limit 20 -o json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &flowv1.GetListOfRacksRequest{
				Filters:            plate.ofRacks(),
				WithComponents:     withComponents,
				WithExternalIdOnly: withExternalID,
			}
			var err error
			if req.Pagination, err = page(limit, offset); err != nil {
				return &usageError{cmd: cmd, err: fmt.Errorf("rack list: %w", err)}
			}
			field, direction, err := order.read()
			if err != nil {
				return fmt.Errorf("rack list: %w", err)
			}
			if direction != "" {
				req.OrderBy = &flowv1.OrderBy{Field: &flowv1.OrderBy_RackField{RackField: field}, Direction: direction}
			}
			var resp *flowv1.GetListOfRacksResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				resp, err = s.flow.GetListOfRacks(ctx, req)
				return err
			})
			if err != nil {
				return err
			}
			return c.print(resp, func(w io.Writer) error { return rackTable(w, resp, offset, withComponents) })
		},
	}
	f := cmd.Flags()
	plate.register(f)
	pageFlags(f, &limit, &offset)
	order.register(cmd)
	f.BoolVar(&withComponents, "with-components", false, "read the components as well")
	f.BoolVar(&withExternalID, "with-external-id", false, "only racks that Core knows")
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
