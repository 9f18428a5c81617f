package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rackflow.dev/flow/api/gen/flowv1"
)

// componentAdd is what the flags of component add say: a component, in the parts of a document.
type componentAdd struct {
	documentFlags
	rackFlags
	part     componentDocument
	position positionFlags
	bmc      bmcDocument
}

// The flags that make a component without a document.
var (
	requiredPartFlags = []string{"name", "type", "manufacturer", "serial-number"}
	optionalPartFlags = []string{
		"id", "component-id", "model", "firmware-version", "slot-id", "tray-index", "host-id", "description",
		"bmc-mac", "bmc-ip", "bmc-type",
	}
)

func (c *cli) componentAddCommand() *cobra.Command {
	var a componentAdd
	cmd := &cobra.Command{
		Use:   "add (FLAGS | -f FILE | -j JSON)",
		Short: "Take one component into inventory",
		Long: `Take one component into inventory, in a rack or in none. It is described by flags, of which --name, --type,
--manufacturer and --serial-number are required, or by a document: one entry of components of a rack document.

Parts of the position that are not given are stored as not known. Without --id the server makes one. Prints the
component, as JSON unless -o says else.`,
		Example: `  flow component add --rack rack-1 --name tray-19 --type compute --manufacturer NVIDIA --serial-number CT19 \
    --slot-id 32 --bmc-mac 02:10:00:00:02:19 --bmc-ip 10.0.0.99
  flow component add --rack rack-1 -f tray.json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			part, err := a.check(c, cmd)
			if err != nil {
				return err
			}
			var resp *flowv1.AddComponentResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if part.RackId, err = a.rackFlags.find(ctx, s); err == nil {
					resp, err = s.flow.AddComponent(ctx, &flowv1.AddComponentRequest{Component: part})
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
	a.documentFlags.register(cmd, "a component document")
	a.rackFlags.register(c, cmd)
	f.StringVar(&a.part.Info.Name, "name", "", "name")
	f.StringVarP(&a.part.Type, "type", "t", "", "type: "+accepted(componentTypeWords))
	f.StringVar(&a.part.Info.Manufacturer, "manufacturer", "", "manufacturer")
	f.StringVar(&a.part.Info.SerialNumber, "serial-number", "", "serial number")
	f.StringVar(&a.part.Info.ID, "id", "", "id; made by the server when not given")
	f.StringVar(&a.part.ComponentID, "component-id", "", "external id: what Core calls it")
	f.StringVar(&a.part.Info.Model, "model", "", "model")
	f.StringVar(&a.part.FirmwareVersion, "firmware-version", "", "firmware version")
	f.StringVar(&a.part.Info.Description, "description", "", "description")
	a.position.register(f)
	f.StringVar(&a.bmc.MAC, "bmc-mac", "", "MAC address of its BMC")
	f.StringVar(&a.bmc.IP, "bmc-ip", "", "IP address of its BMC")
	f.StringVar(&a.bmc.Type, "bmc-type", "host", "what its BMC controls: "+accepted(bmcTypeWords))
	must(cmd.RegisterFlagCompletionFunc("type", completeWords(componentTypeWords)))
	must(cmd.RegisterFlagCompletionFunc("bmc-type", completeWords(bmcTypeWords)))
	return cmd
}

// check makes the component of a document or of flags, before any call.
func (a *componentAdd) check(c *cli, cmd *cobra.Command) (*flowv1.Component, error) {
	const doing = "component add"
	usage := func(text string) error { return &usageError{cmd: cmd, err: errors.New(doing + ": " + text)} }
	fromDocument, err := a.given(cmd)
	if err != nil {
		return nil, err
	}
	if err := a.rackFlags.check(cmd); err != nil {
		return nil, err
	}
	changed := cmd.Flags().Changed
	if fromDocument {
		if i := slices.IndexFunc(slices.Concat(requiredPartFlags, optionalPartFlags), changed); i >= 0 {
			return nil, usage("--" + slices.Concat(requiredPartFlags, optionalPartFlags)[i] + " does not go with a document")
		}
		doc, name, err := a.read(cmd, c.in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		part, warnings, err := parseComponent(doc)
		c.warn(name, warnings)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, inDocument(name, err))
		}
		return part, nil
	}
	var missing []string
	for _, name := range requiredPartFlags {
		if f := cmd.Flags().Lookup(name); f.Value.String() == "" {
			missing = append(missing, "--"+name)
		}
	}
	switch {
	case len(missing) == 1:
		return nil, usage(missing[0] + " is required")
	case len(missing) > 1:
		return nil, usage(strings.Join(missing, ", ") + " are required")
	case !changed("bmc-mac") && (changed("bmc-ip") || changed("bmc-type")):
		return nil, usage("--bmc-ip and --bmc-type go with --bmc-mac")
	}
	if a.part.Info.ID != "" {
		if _, err := uuidOf("--id", a.part.Info.ID); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	a.part.Position = a.position.document(cmd.Flags())
	check := checker{as: asPart}
	part := check.component("--", a.part)
	if changed("bmc-mac") {
		part.Bmcs = []*flowv1.BMCInfo{check.bmc("--bmc-", a.bmc)}
	}
	if err := errors.Join(check.problems...); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return part, nil
}

// rackFlags name the rack that a component is in, by id or by whatever the operator knows it by.
type rackFlags struct {
	rack, rackID string
	id           *flowv1.UUID
}

func (r *rackFlags) register(c *cli, cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.rack, "rack", "", "rack it is in, by id, external id or name")
	cmd.Flags().StringVar(&r.rackID, "rack-id", "", "id of the rack it is in")
	must(cmd.RegisterFlagCompletionFunc("rack", c.completeRacks))
}

func (r *rackFlags) check(cmd *cobra.Command) error {
	if r.rack != "" && r.rackID != "" {
		return &usageError{cmd: cmd, err: fmt.Errorf("%s: give only one of --rack and --rack-id", commandName(cmd))}
	}
	what, text := "--rack-id", r.rackID
	if isUUID(r.rack) {
		what, text = "--rack", r.rack
	}
	if text == "" {
		return nil
	}
	var err error
	if r.id, err = uuidOf(what, text); err != nil {
		return fmt.Errorf("%s: %w", commandName(cmd), err)
	}
	return nil
}

// find is the id of the rack; nil when none was named.
func (r *rackFlags) find(ctx context.Context, s *client) (*flowv1.UUID, error) {
	if r.id != nil || r.rack == "" {
		return r.id, nil
	}
	return s.rackID(ctx, r.rack)
}

// positionFlags say where in its rack a component sits.
type positionFlags struct {
	slot, tray, host int32
}

func (p *positionFlags) register(f *pflag.FlagSet) {
	f.Int32Var(&p.slot, "slot-id", -1, "slot in the rack, -1 when not known")
	f.Int32Var(&p.tray, "tray-index", -1, "number of the tray, -1 when not known")
	f.Int32Var(&p.host, "host-id", -1, "number of the host, -1 when not known")
}

// document has the parts that were given.
func (p *positionFlags) document(f *pflag.FlagSet) positionDocument {
	var d positionDocument
	if f.Changed("slot-id") {
		d.SlotID = &p.slot
	}
	if f.Changed("tray-index") {
		d.TrayIndex = &p.tray
	}
	if f.Changed("host-id") {
		d.HostID = &p.host
	}
	return d
}
