package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
)

// rackPatch is what the flags of rack patch say.
type rackPatch struct {
	documentFlags
	name, description, model           string
	region, datacenter, room, position string
}

// The flags that change something without a document.
var (
	plateFlags    = []string{"name", "description", "model"}
	locationFlags = []string{"region", "datacenter", "room", "position"}
)

func (c *cli) rackPatchCommand() *cobra.Command {
	var p rackPatch
	cmd := &cobra.Command{
		Use:   "patch (RACK FLAGS | [RACK] -f FILE | [RACK] -j JSON)",
		Short: "Change a rack, and change or add components",
		Long: `Change a rack, and change or add components. RACK is its id, its external id, or its name.

Flags change the rack itself. A document, in the format of rack create, can also change components and BMCs and add
new ones; nothing is ever removed. What it leaves out stays as it is. Without RACK it must have info.id, or manufacturer
and serial number; components are found by info.id, else by manufacturer and serial number, in the rack. Type, name,
manufacturer, serial number and external id of what is there can't be changed.

The table has what was changed or added, -o json the whole report of the server.`,
		Example: `  flow rack patch rack-1 --name rack-01 --room hall-2
  flow rack patch rack-1 -f changes.json
  flow rack patch rack-1 -j '{"components":[{"info":{"id":"5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11"},"firmware_version":"1.4"}]}'`,
		Args:              arguments(0, 1, ""),
		ValidArgsFunction: c.completeRacks,
		RunE: func(cmd *cobra.Command, args []string) error {
			rack, err := p.check(c, cmd, args)
			if err != nil {
				return err
			}
			var resp *flowv1.PatchRackResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if len(args) > 0 {
					err = p.aim(ctx, cmd, s, args[0], rack)
				}
				if err == nil {
					resp, err = s.flow.PatchRack(ctx, &flowv1.PatchRackRequest{Rack: rack})
				}
				return err
			})
			if err != nil {
				return err
			}
			return c.printPatchReport(resp.GetReport())
		},
	}
	f := cmd.Flags()
	p.documentFlags.register(cmd, "a rack document")
	f.StringVar(&p.name, "name", "", "new name")
	f.StringVar(&p.description, "description", "", "new description")
	f.StringVar(&p.model, "model", "", "new model")
	f.StringVar(&p.region, "region", "", "new region; the other parts of the location stay")
	f.StringVar(&p.datacenter, "datacenter", "", "new datacenter")
	f.StringVar(&p.room, "room", "", "new room")
	f.StringVar(&p.position, "position", "", "new position in the room")
	return cmd
}

// check makes the patch of a document, or the empty one of flags, before any call.
func (p *rackPatch) check(c *cli, cmd *cobra.Command, args []string) (*flowv1.Rack, error) {
	fromDocument, err := p.given(cmd)
	if err != nil {
		return nil, err
	}
	fromFlags := slices.ContainsFunc(slices.Concat(plateFlags, locationFlags), cmd.Flags().Changed)
	usage := func(text string) error { return &usageError{cmd: cmd, err: errors.New("rack patch: " + text)} }
	switch {
	case fromDocument == fromFlags:
		return nil, usage("give either a document, by --file or --json, or flags that say what to change")
	case fromFlags && len(args) == 0:
		return nil, usage("needs a rack")
	case len(args) > 0 && args[0] == "":
		return nil, usage("RACK must not be empty")
	case cmd.Flags().Changed("name") && p.name == "":
		return nil, usage("--name must not be empty")
	case fromFlags:
		return &flowv1.Rack{Info: &flowv1.DeviceInfo{}}, nil
	}
	doc, name, err := p.read(cmd, c.in)
	if err != nil {
		return nil, fmt.Errorf("rack patch: %w", err)
	}
	rack, warnings, err := parseRack(doc, asPatch)
	c.warn(name, warnings)
	if err != nil {
		return nil, fmt.Errorf("rack patch: %w", inDocument(name, err))
	}
	return rack, nil
}

// aim finds the rack and says what the flags change on it. A location is replaced as a whole, so what is there is sent
// again.
func (p *rackPatch) aim(ctx context.Context, cmd *cobra.Command, s *client, key string, patch *flowv1.Rack) error {
	rack, err := s.findRack(ctx, key, false)
	if err != nil {
		return err
	}
	found, given := rack.GetInfo().GetId(), patch.GetInfo().GetId()
	if given != nil && given.GetId() != found.GetId() {
		return fmt.Errorf("info.id is %s, but the rack %q is %s", given.GetId(), key, found.GetId())
	}
	changed := cmd.Flags().Changed
	patch.Info.Id = found
	patch.Info.Name = cmp.Or(p.name, patch.Info.Name)
	if changed("description") {
		patch.Info.Description = &p.description
	}
	if changed("model") {
		patch.Info.Model = &p.model
	}
	if !slices.ContainsFunc(locationFlags, changed) {
		return nil
	}
	patch.Location = &flowv1.Location{}
	proto.Merge(patch.Location, rack.GetLocation())
	for _, part := range []struct {
		flag, text string
		to         *string
	}{
		{"region", p.region, &patch.Location.Region},
		{"datacenter", p.datacenter, &patch.Location.Datacenter},
		{"room", p.room, &patch.Location.Room},
		{"position", p.position, &patch.Location.Position},
	} {
		if changed(part.flag) {
			*part.to = part.text
		}
	}
	if location(patch.GetLocation()) == "" {
		return errors.New("a location can't be emptied: one part of it must stay")
	}
	return nil
}

// patchReport is the report of PatchRack, as far as the table shows it.
type patchReport struct {
	RackID     string `json:"rack_id"`
	RackSerial string `json:"rack_serial_info"`
	Rack       string `json:"rack_report"`
	Components []struct {
		ID     string            `json:"component_id"`
		Serial string            `json:"component_serial_info"`
		Report string            `json:"component_report"`
		BMCs   map[string]string `json:"bmc_reports"`
	} `json:"components"`
}

// printPatchReport prints the report of a patch: as it is for programs, and for people what is not as it was.
func (c *cli) printPatchReport(text string) error {
	if c.output != formatTable {
		return c.printDocument([]byte(text))
	}
	var r patchReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		_, err := fmt.Fprintln(c.out, clean(text))
		return err
	}
	rows := [][]string{{"rack", r.RackID, r.RackSerial, r.Rack}}
	for _, p := range r.Components {
		if p.Report != patchNoChange {
			rows = append(rows, []string{"component", p.ID, p.Serial, p.Report})
		}
		for _, mac := range slices.Sorted(maps.Keys(p.BMCs)) {
			if p.BMCs[mac] != patchNoChange {
				rows = append(rows, []string{"BMC", mac, p.Serial, p.BMCs[mac]})
			}
		}
	}
	return grid(c.out, []string{"WHAT", "ID", "SERIAL", "RESULT"}, rows)
}

// patchNoChange is the word of a report for what was as the patch wants it.
const patchNoChange = "NoChange"
