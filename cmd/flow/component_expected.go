package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// expectedWidths are those of NICo Flow's table.
var expectedWidths = []int{40, 15, 30, 15}

func (c *cli) componentExpectedCommand() *cobra.Command {
	scope := selector{typeRequired: true}
	cmd := &cobra.Command{
		Use:   "expected (" + scopeUsage + ")",
		Short: "All expected components of racks, for scripts",
		Long: `All expected components of racks, whatever their number: total and components as JSON, or with -o table in columns of
fixed widths. With racks, --type is required. component list is its like for people.`,
		Example: `  flow component expected --rack-names rack-1 --type compute
  flow component expected rack-1 rack-2 --type compute,nvswitch -o table`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.jsonByDefault(cmd)
			target, err := scope.target(cmd, args)
			if err != nil {
				return err
			}
			all := &flowv1.GetComponentsResponse{}
			err = c.everyPage(cmd, func(ctx context.Context, s *client, p *flowv1.Pagination) (int, int32, error) {
				resp, err := s.flow.GetComponents(ctx, &flowv1.GetComponentsRequest{TargetSpec: target, Pagination: p})
				all.Components = append(all.Components, resp.GetComponents()...)
				return len(resp.GetComponents()), resp.GetTotal(), err
			})
			if err != nil {
				return err
			}
			all.Total = int32(len(all.GetComponents()))
			return c.print(all, func(w io.Writer) error { return expectedTable(w, all) })
		},
	}
	scope.register(c, cmd)
	return cmd
}

func expectedTable(w io.Writer, all *flowv1.GetComponentsResponse) error {
	rows := [][]string{{"ID", "TYPE", "NAME", "MACHINE_ID"}}
	for _, p := range all.GetComponents() {
		rows = append(rows, []string{p.GetInfo().GetId().GetId(), typeName(p.GetType()), p.GetInfo().GetName(), p.GetComponentId()})
	}
	if _, err := fmt.Fprintf(w, "Total: %d components\n\n", all.GetTotal()); err != nil {
		return err
	}
	return columns(w, expectedWidths, rows)
}
