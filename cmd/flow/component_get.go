package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) componentGetCommand() *cobra.Command {
	var serial, manufacturer string
	var withRack bool
	cmd := &cobra.Command{
		Use:   "get (COMPONENT | --serial SERIAL)",
		Short: "Show one component",
		Long: `Show one component: where it is, how it stands, and what runs on it. COMPONENT is its id, its external id, or the MAC
address of one of its BMCs, in any notation.

By serial number, the manufacturer may be left out when the serial number alone is enough.

-o json prints the component; with --with-rack an object with component and rack.`,
		Example: `  flow component get machine-17
  flow component get 02:10:00:00:01:05 --with-rack
  flow component get --serial CT00001001 -o json`,
		Args:              arguments(0, 1, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOrSerial(cmd, args, "COMPONENT", serial); err != nil {
				return err
			}
			// People read the name of the rack in any case.
			rackToo := withRack || c.output == formatTable
			var resp *flowv1.GetComponentInfoResponse
			err := c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if len(args) == 0 {
					resp, err = s.componentBySerial(ctx, manufacturer, serial, rackToo)
					return err
				}
				resp, err = s.flow.GetComponentInfoByID(ctx, &flowv1.GetComponentInfoByIDRequest{
					Id: &flowv1.UUID{Id: args[0]}, WithRack: rackToo,
				})
				return err
			})
			switch {
			case err != nil:
				return err
			case c.output != formatTable && withRack:
				return c.print(resp, nil)
			}
			return c.print(resp.GetComponent(), func(w io.Writer) error {
				err := componentReport(w, resp.GetComponent(), resp.GetRack())
				if err != nil || !withRack || resp.GetRack() == nil {
					return err
				}
				fmt.Fprintln(w)
				return rackReport(w, resp.GetRack())
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&serial, "serial", "", "serial number of the component")
	f.StringVar(&manufacturer, "manufacturer", "", "manufacturer that goes with the serial number")
	f.BoolVar(&withRack, "with-rack", false, "show the rack as well")
	return cmd
}

func (s *client) componentBySerial(
	ctx context.Context, manufacturer, serial string, withRack bool,
) (*flowv1.GetComponentInfoResponse, error) {
	return s.flow.GetComponentInfoBySerial(ctx, &flowv1.GetComponentInfoBySerialRequest{
		SerialInfo: &flowv1.DeviceSerialInfo{Manufacturer: manufacturer, SerialNumber: serial},
		WithRack:   withRack,
	})
}
