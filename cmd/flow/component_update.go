package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"rackflow.dev/flow/api/gen/flowv1"
)

// componentUpdate is what the flags of component update say.
type componentUpdate struct {
	rackFlags
	id, firmware, description, bmcs string
	position                        positionFlags
}

// componentUpdateFlags are the flags of which one is needed.
var componentUpdateFlags = []string{"firmware-version", "slot-id", "tray-index", "host-id", "description", "rack-id", "rack", "bmcs"}

func (c *cli) componentUpdateCommand() *cobra.Command {
	var u componentUpdate
	cmd := &cobra.Command{
		Use:   "update (COMPONENT | --id ID) FLAGS",
		Short: "Change one component",
		Long: `Change one component; what no flag mentions stays as it is. COMPONENT is its id, its external id, or the MAC address of
one of its BMCs.

--bmcs takes a JSON array of objects with type (HOST or DPU), mac and ip. A known MAC address gets the new IP address,
an unknown one is added, and none is removed. A position of -1 is one that is not known.

Prints the component, as JSON unless -o says else.`,
		Example: `  flow component update machine-17 --firmware-version 1.4 --slot-id 7
  flow component update --id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11 --rack rack-2
  flow component update machine-17 --bmcs '[{"type":"HOST","mac":"02:10:00:00:02:19","ip":"10.0.0.99"}]'`,
		Args:              arguments(0, 1, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			part, err := namedObject(cmd, args, u.id, "component", false)
			if err != nil {
				return err
			}
			req, err := u.check(c, cmd)
			if err != nil {
				return err
			}
			var resp *flowv1.PatchComponentResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if req.Id = part.GetId(); req.Id == nil {
					req.Id, err = s.componentID(ctx, part.GetName())
				}
				if err == nil {
					req.RackId, err = u.rackFlags.find(ctx, s)
				}
				if err == nil {
					resp, err = s.flow.PatchComponent(ctx, req)
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.printComponent(cmd, resp.GetComponent())
		},
	}
	f := cmd.Flags()
	f.StringVar(&u.id, "id", "", "id of the component")
	f.StringVar(&u.firmware, "firmware-version", "", "new firmware version; empty clears it")
	f.StringVar(&u.description, "description", "", "new description")
	f.StringVar(&u.bmcs, "bmcs", "", "`JSON` array of BMCs to add or change")
	u.position.register(f)
	u.rackFlags.register(c, cmd)
	return cmd
}

// check makes the patch of the flags, before any call.
func (u *componentUpdate) check(c *cli, cmd *cobra.Command) (*flowv1.PatchComponentRequest, error) {
	const doing = "component update"
	changed := cmd.Flags().Changed
	if !slices.ContainsFunc(componentUpdateFlags, changed) {
		return nil, &usageError{cmd: cmd, err: fmt.Errorf("%s: needs a flag that says what to change", doing)}
	}
	if err := u.rackFlags.check(cmd); err != nil {
		return nil, err
	}
	if changed("rack-id") && u.rackID == "" || changed("rack") && u.rack == "" {
		return nil, fmt.Errorf("%s: a component can be moved to another rack, but not to none", doing)
	}
	req := &flowv1.PatchComponentRequest{}
	if changed("firmware-version") {
		req.FirmwareVersion = &u.firmware
	}
	if changed("description") {
		req.Description = &u.description
	}
	for _, part := range []struct{ flag, path string }{
		{"slot-id", "position.slot_id"}, {"tray-index", "position.tray_idx"}, {"host-id", "position.host_id"},
	} {
		if changed(part.flag) {
			if req.UpdateMask == nil {
				req.UpdateMask = &fieldmaskpb.FieldMask{}
				req.Position = &flowv1.RackPosition{SlotId: u.position.slot, TrayIdx: u.position.tray, HostId: u.position.host}
			}
			req.UpdateMask.Paths = append(req.UpdateMask.Paths, part.path)
		}
	}
	if changed("bmcs") {
		var list []bmcDocument
		warnings, problems := decodeStrict([]byte(u.bmcs), &list)
		c.warn("--bmcs", warnings)
		var check checker
		for i, b := range list {
			req.Bmcs = append(req.Bmcs, check.bmc(fmt.Sprintf("[%d].", i), b))
		}
		if err := allProblems(problems, check.problems); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, inDocument("--bmcs", err))
		}
	}
	return req, nil
}
