package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) rackCreateCommand() *cobra.Command {
	var file, text string
	cmd := &cobra.Command{
		Use:   "create (-f FILE | -j JSON)",
		Short: "Take a rack and its components into inventory",
		Long: `Take a rack and its components into inventory, from a rack document: JSON with info, location, nvl_domain_ids and
components. Ids that the document leaves out are generated.

The document is checked before anything is sent, and every problem is named with its path. The keys user and password
of a BMC are known from older documents: Flow warns about them and never sends them.

Prints {"id":"<uuid>"}.`,
		Example: `  flow rack create -f rack.json
  generate-rack | flow rack create -f -
  flow rack create -j '{"info":{"name":"rack-1","manufacturer":"NVIDIA","serial_number":"S1"}}'`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			fromFile, fromText := cmd.Flags().Changed("file"), cmd.Flags().Changed("json")
			if fromFile == fromText {
				return &usageError{cmd: cmd, err: fmt.Errorf("rack create: give exactly one of --file and --json")}
			}
			doc, name := []byte(text), "--json"
			if fromFile {
				var err error
				if doc, name, err = readDocument(c.in, file); err != nil {
					return fmt.Errorf("rack create: %w", err)
				}
			}
			rack, warnings, err := parseRack(doc)
			for _, w := range warnings {
				fmt.Fprintf(c.err, "Warning: %s: %s\n", line(name), line(w))
			}
			if err != nil {
				return fmt.Errorf("rack create: %s: %w", name, err)
			}
			s, err := c.dial(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := c.deadline(cmd.Context())
			defer cancel()
			resp, err := s.flow.CreateExpectedRack(ctx, &flowv1.CreateExpectedRackRequest{Rack: rack})
			if err != nil {
				return c.callError(ctx, "rack create", err)
			}
			if c.output == formatYAML {
				_, err = fmt.Fprintf(c.out, "id: %s\n", resp.GetId().GetId())
			} else {
				_, err = fmt.Fprintf(c.out, "{\"id\":%q}\n", resp.GetId().GetId())
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the rack document, - for standard input")
	cmd.Flags().StringVarP(&text, "json", "j", "", "the rack document itself")
	must(cmd.MarkFlagFilename("file", "json"))
	return cmd
}

// readDocument reads a file, or standard input for "-", and gives the name to use in messages.
func readDocument(stdin io.Reader, path string) (doc []byte, name string, err error) {
	if path == "-" {
		doc, err = io.ReadAll(stdin)
		return doc, "standard input", err
	}
	doc, err = os.ReadFile(path)
	return doc, path, err
}
