package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) rackGetCommand() *cobra.Command {
	var serial, manufacturer string
	cmd := &cobra.Command{
		Use:   "get (RACK | --serial SERIAL)",
		Short: "Show one rack with its components",
		Long: `Show one rack with its components. RACK is its id, its external id, or its name.

By serial number, the manufacturer may be left out when the serial number alone is enough.`,
		Example: `  flow rack get rack-1
  flow rack get 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 -o json
  flow rack get --serial 1821224000123 --manufacturer NVIDIA`,
		Args:              arguments(0, 1, ""),
		ValidArgsFunction: c.completeRacks,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOrSerial(cmd, args, "RACK", serial); err != nil {
				return err
			}
			var rack *flowv1.Rack
			err := c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if len(args) == 0 {
					rack, err = s.rackBySerial(ctx, manufacturer, serial)
				} else {
					rack, err = s.findRack(ctx, args[0], true)
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.print(rack, func(w io.Writer) error { return rackReport(w, rack) })
		},
	}
	cmd.Flags().StringVar(&serial, "serial", "", "serial number of the rack")
	cmd.Flags().StringVar(&manufacturer, "manufacturer", "", "manufacturer that goes with the serial number")
	return cmd
}

// oneOrSerial refuses all but one argument, or a serial number by its flag.
func oneOrSerial(cmd *cobra.Command, args []string, what, serial string) error {
	bySerial, text := cmd.Flags().Changed("serial"), ""
	switch {
	case bySerial == (len(args) == 1):
		text = "give exactly one of " + what + " and --serial"
	case cmd.Flags().Changed("manufacturer") && !bySerial:
		text = "--manufacturer goes with --serial"
	case bySerial && serial == "", !bySerial && args[0] == "":
		text = what + " or --serial must not be empty"
	default:
		return nil
	}
	return &usageError{cmd: cmd, err: fmt.Errorf("%s: %s", commandName(cmd), text)}
}

func (s *client) rackBySerial(ctx context.Context, manufacturer, serial string) (*flowv1.Rack, error) {
	resp, err := s.flow.GetRackInfoBySerial(ctx, &flowv1.GetRackInfoBySerialRequest{
		SerialInfo:     &flowv1.DeviceSerialInfo{Manufacturer: manufacturer, SerialNumber: serial},
		WithComponents: true,
	})
	return resp.GetRack(), err
}

// rackReport prints a rack for people.
func rackReport(w io.Writer, r *flowv1.Rack) error {
	err := facts(w, [][2]string{
		{"Name", r.GetInfo().GetName()},
		{"ID", r.GetInfo().GetId().GetId()},
		{"External ID", r.GetExternalId()},
		{"Manufacturer", r.GetInfo().GetManufacturer()},
		{"Model", r.GetInfo().GetModel()},
		{"Serial", r.GetInfo().GetSerialNumber()},
		{"Description", line(r.GetInfo().GetDescription())},
		{"Location", location(r.GetLocation())},
		{"NVLink domain", joinIDs(r.GetNvlDomainIds())},
		{"Status", phaseWord(r.GetOperationStatus())},
		{"Tasks", taskStats(r.GetTaskStats())},
	})
	if err != nil || len(r.GetComponents()) == 0 {
		return err
	}
	fmt.Fprintln(w)
	parts := slices.Clone(r.GetComponents())
	slices.SortStableFunc(parts, func(a, b *flowv1.Component) int {
		return cmp.Or(
			cmp.Compare(a.GetType(), b.GetType()),
			cmp.Compare(a.GetPosition().GetSlotId(), b.GetPosition().GetSlotId()),
			cmp.Compare(a.GetInfo().GetName(), b.GetInfo().GetName()),
		)
	})
	rows := make([][]string, len(parts))
	for i, p := range parts {
		var bmcs []string
		for _, b := range p.GetBmcs() {
			bmcs = append(bmcs, strings.TrimSpace(b.GetMacAddress()+" "+b.GetIpAddress()))
		}
		rows[i] = []string{
			typeName(p.GetType()),
			p.GetInfo().GetName(),
			slot(p.GetPosition().GetSlotId()),
			p.GetPowerState(),
			p.GetFirmwareVersion(),
			p.GetInfo().GetSerialNumber(),
			strings.Join(bmcs, ", "),
			p.GetInfo().GetId().GetId(),
		}
	}
	return grid(w, []string{"TYPE", "NAME", "SLOT", "POWER", "FIRMWARE", "SERIAL", "BMC", "ID"}, rows)
}

func location(l *flowv1.Location) string {
	parts := []string{l.GetRegion(), l.GetDatacenter(), l.GetRoom(), l.GetPosition()}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " / ")
}

func joinIDs(ids []*flowv1.UUID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.GetId()
	}
	return strings.Join(texts, ", ")
}

// slot shows a position; -1 is one that is not known.
func slot(n int32) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprint(n)
}
