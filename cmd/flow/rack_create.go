package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) rackCreateCommand() *cobra.Command {
	var files []string
	var text string
	cmd := &cobra.Command{
		Use:   "create (-f FILE|DIR... | -j JSON)",
		Short: "Take racks and their components into inventory",
		Long: `Take racks and their components into inventory, from rack documents: JSON with info, location, nvl_domain_ids and
components. Ids that a document leaves out are generated.

A document is checked before it is sent, and every problem is named with its path. The keys user and password of a BMC
are known from older documents: Flow warns about them and never sends them.

Of one document {"id":"<uuid>"} is printed. Several come as several files, as directories, of which every *.json is
read, or one after the other on standard input. Each rack is then created on its own, eight at a time; what is refused
is named on standard error with its file and field, and the others go on. The table has a line for each document, with
-o json an object with file, name, id and error. The exit code is 1 when a rack was not created. --timeout is for each
call.`,
		Example: `  flow rack create -f rack.json
  flow rack create -f racks/
  flow rack create -f row-a/*.json -o json
  generate-racks | flow rack create -f -
  flow rack create -j '{"info":{"name":"rack-1","manufacturer":"NVIDIA","serial_number":"S1"}}'`,
		Args: arguments(0, -1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			fromFile, fromText := cmd.Flags().Changed("file"), cmd.Flags().Changed("json")
			if fromFile == fromText {
				return &usageError{cmd: cmd, err: fmt.Errorf("rack create: give exactly one of --file and --json")}
			}
			if fromText {
				if len(args) > 0 {
					return &usageError{cmd: cmd, err: fmt.Errorf("rack create: unexpected argument %q", args[0])}
				}
				return c.createRack(cmd, rackSource{name: "--json", doc: []byte(text)})
			}
			sources, several := rackSources(c.in, append(files, args...))
			if !several {
				return c.createRack(cmd, sources[0])
			}
			return c.importRacks(cmd, sources)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "`FILE` with a rack document, directory of such files, or - for standard input")
	cmd.Flags().StringVarP(&text, "json", "j", "", "the rack document itself")
	must(cmd.MarkFlagFilename("file", "json"))
	return cmd
}

// createRack takes in the one rack of a document.
func (c *cli) createRack(cmd *cobra.Command, source rackSource) error {
	if source.err != nil {
		return fmt.Errorf("rack create: %w", source.err)
	}
	rack, warnings, err := parseRack(source.doc, asNew)
	c.warn(source.name, warnings)
	if err != nil {
		return fmt.Errorf("rack create: %w", inDocument(source.name, err))
	}
	var resp *flowv1.CreateExpectedRackResponse
	err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
		resp, err = s.flow.CreateExpectedRack(ctx, &flowv1.CreateExpectedRackRequest{Rack: rack})
		return err
	})
	if err != nil {
		return err
	}
	return c.printID(resp.GetId())
}
