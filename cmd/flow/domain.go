package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) domainCommand() *cobra.Command {
	const long = `Group racks that are joined by NVLink. A rack belongs to at most one domain. Domains that Core knows have an external id
and are kept up to date by the inventory sync.`
	return parent("domain", "NVLink domains and the racks in them", long,
		c.domainListCommand(), c.domainGetCommand(), c.domainRacksCommand(),
		c.domainCreateCommand(), c.domainAttachCommand(), c.domainDetachCommand())
}

func (c *cli) domainCreateCommand() *cobra.Command {
	var id, externalID, cluster string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Record an NVLink domain",
		Long: `Record an NVLink domain. Without --id one is generated. Recording a domain again with the same id and name is no error.

Prints {"id":"<uuid>"}.`,
		Example: `  flow domain create nvl-1
  flow domain create nvl-1 --external-id group-1 --nmxc-cluster-id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		Args:              arguments(1, 1, "a name"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return &usageError{cmd: cmd, err: fmt.Errorf("domain create: NAME must not be empty")}
			}
			domain := &flowv1.NVLDomain{Identifier: &flowv1.Identifier{Name: args[0]}}
			if !cmd.Flags().Changed("id") {
				id = uuid.NewString()
			}
			var err error
			if domain.Identifier.Id, err = uuidOf("--id", id); err != nil {
				return fmt.Errorf("domain create: %w", err)
			}
			if externalID != "" {
				domain.ExternalId = &externalID
			}
			if cluster != "" {
				if _, err := uuidOf("--nmxc-cluster-id", cluster); err != nil {
					return fmt.Errorf("domain create: %w", err)
				}
				domain.NmxcClusterId = &cluster
			}
			var resp *flowv1.CreateNVLDomainResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				resp, err = s.flow.CreateNVLDomain(ctx, &flowv1.CreateNVLDomainRequest{NvlDomain: domain})
				return err
			})
			if err != nil {
				return err
			}
			return c.printID(resp.GetId())
		},
	}
	f := cmd.Flags()
	f.StringVar(&id, "id", "", "id; generated when not given")
	f.StringVar(&externalID, "external-id", "", "what Core calls the group of racks")
	f.StringVar(&cluster, "nmxc-cluster-id", "", "id of the cluster as the NVSwitches report it")
	return cmd
}

func (c *cli) domainAttachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "attach DOMAIN RACK...",
		Short: "Put racks into an NVLink domain",
		Long: `Put racks into an NVLink domain, all of them or none. DOMAIN and RACK are ids or names.

It is refused for a rack that is in another domain, or whose domain Core decides.`,
		Example:           `  flow domain attach nvl-1 rack-1 rack-2`,
		Args:              arguments(2, -1, "a domain and at least one rack"),
		ValidArgsFunction: c.completeDomainThenRacks,
		RunE: func(cmd *cobra.Command, args []string) error {
			domain, err := identifier("domain", args[0])
			if err != nil {
				return fmt.Errorf("domain attach: %w", err)
			}
			return c.moveRacks(cmd, args[1:], "attached to "+args[0], func(ctx context.Context, s *client, racks []*flowv1.Identifier) error {
				_, err := s.flow.AttachRacksToNVLDomain(ctx, &flowv1.AttachRacksToNVLDomainRequest{
					NvlDomainIdentifier: domain, RackIdentifiers: racks,
				})
				return err
			})
		},
	}
}

func (c *cli) domainDetachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "detach RACK...",
		Short: "Take racks out of their NVLink domain",
		Long: `Take racks out of whatever NVLink domain they are in; those in none are left alone. RACK is its id or name.

It is refused for a rack whose domain Core decides.`,
		Example:           `  flow domain detach rack-1 rack-2`,
		Args:              arguments(1, -1, "a rack"),
		ValidArgsFunction: c.completeRacks,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.moveRacks(cmd, args, "detached", func(ctx context.Context, s *client, racks []*flowv1.Identifier) error {
				_, err := s.flow.DetachRacksFromNVLDomain(ctx, &flowv1.DetachRacksFromNVLDomainRequest{RackIdentifiers: racks})
				return err
			})
		},
	}
}

// racksFunc is a call that names racks.
type racksFunc func(ctx context.Context, s *client, racks []*flowv1.Identifier) error

// moveRacks names racks in a call, and says what became of them.
func (c *cli) moveRacks(cmd *cobra.Command, args []string, done string, call racksFunc) error {
	name := commandName(cmd)
	var keys listValue
	for _, a := range args {
		keys = append(keys, splitList(a)...)
	}
	racks, err := identifiers("rack", keys, nil, nil)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case len(racks) == 0:
		return &usageError{cmd: cmd, err: fmt.Errorf("%s: needs a rack", name)}
	}
	err = c.onServer(cmd, func(ctx context.Context, s *client) error { return call(ctx, s, racks) })
	if err != nil {
		return err
	}
	return c.printValue(map[string][]string{"racks": keys}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s %s.\n", line(strings.Join(keys, ", ")), line(done))
		return err
	})
}
