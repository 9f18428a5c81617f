package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) componentListCommand() *cobra.Command {
	scope := selector{optional: true}
	var plate plateFilter
	var limit, offset int32
	order := ordering[flowv1.ComponentOrderByField]{words: componentOrderWords}
	cmd := &cobra.Command{
		Use:   "list [" + scopeUsage + "]",
		Short: "List components",
		Long: `List components: all of them, or those of racks, of the racks of NVLink domains, or single ones. RACK is the id or the
name of a rack.

` + plateFilterHelp,
		Example: `  flow component list rack-1 --type compute
  flow component list --model '%power shelf%' --order-by model
  flow component list --domain nvl-1 --limit 1000 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := scope.target(cmd, args)
			if err != nil {
				return err
			}
			req := &flowv1.GetComponentsRequest{
				TargetSpec: target,
				Filters:    append(plate.ofComponents(), scope.typeFilter(target)...),
			}
			if req.Pagination, err = page(limit, offset); err != nil {
				return &usageError{cmd: cmd, err: fmt.Errorf("component list: %w", err)}
			}
			field, direction, err := order.read()
			if err != nil {
				return fmt.Errorf("component list: %w", err)
			}
			if direction != "" {
				req.OrderBy = &flowv1.OrderBy{Field: &flowv1.OrderBy_ComponentField{ComponentField: field}, Direction: direction}
			}
			var resp *flowv1.GetComponentsResponse
			var names map[string]string
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				resp, err = s.flow.GetComponents(ctx, req)
				if err == nil && c.output == formatTable {
					names, err = s.rackNames(ctx, racksOf(resp.GetComponents()))
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.print(resp, func(w io.Writer) error { return componentTable(w, resp, names, offset) })
		},
	}
	scope.register(c, cmd)
	plate.register(cmd.Flags())
	pageFlags(cmd.Flags(), &limit, &offset)
	order.register(cmd)
	return cmd
}

// componentTable prints a page of components, with the names of their racks by id.
func componentTable(w io.Writer, resp *flowv1.GetComponentsResponse, names map[string]string, offset int32) error {
	parts := resp.GetComponents()
	if len(parts) == 0 {
		return nothing(w, "components", resp.GetTotal())
	}
	rows := make([][]string, len(parts))
	for i, p := range parts {
		status := ""
		if p.GetStatus() != nil {
			status = phaseWord(p.GetStatus().GetPhase())
		}
		rows[i] = []string{
			typeName(p.GetType()),
			p.GetInfo().GetName(),
			rackLabel(names, p.GetRackId().GetId()),
			slot(p.GetPosition().GetSlotId()),
			p.GetPowerState(),
			status,
			p.GetFirmwareVersion(),
			strconv.Itoa(activeTasks(p.GetTaskStats())),
			p.GetComponentId(),
			p.GetInfo().GetId().GetId(),
		}
	}
	head := []string{"TYPE", "NAME", "RACK", "SLOT", "POWER", "STATUS", "FIRMWARE", "ACTIVE TASKS", "EXTERNAL ID", "ID"}
	if err := grid(w, head, rows); err != nil {
		return err
	}
	return pageNote(w, len(parts), offset, resp.GetTotal())
}
