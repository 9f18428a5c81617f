package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) domainListCommand() *cobra.Command {
	var names listValue
	var linked, withComponents bool
	var limit, offset int32
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List NVLink domains by name",
		Long: `List NVLink domains by name. --linked lists those that Core knows, with what is derived from their racks.

--name takes texts that the name contains, in any letter case; % stands for any text and then ties the text to the
ends of the name. Of several texts one must match.`,
		Example: `  flow domain list
  flow domain list --linked --name 'nvl-%' -o json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pagination, err := page(limit, offset)
			if err == nil && withComponents && !linked {
				err = fmt.Errorf("--with-components goes with --linked")
			}
			if err != nil {
				return &usageError{cmd: cmd, err: fmt.Errorf("domain list: %w", err)}
			}
			var named *flowv1.StringQueryInfo
			if len(names) > 0 {
				named = contains(names)
			}
			var all *flowv1.GetListOfNVLDomainsResponse
			var ofCore *flowv1.GetListOfNVLinkDomainsResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if linked {
					ofCore, err = s.flow.GetListOfNVLinkDomains(ctx, &flowv1.GetListOfNVLinkDomainsRequest{
						Info: named, WithComponents: withComponents, Pagination: pagination,
					})
					return err
				}
				all, err = s.flow.GetListOfNVLDomains(ctx, &flowv1.GetListOfNVLDomainsRequest{Info: named, Pagination: pagination})
				return err
			})
			switch {
			case err != nil:
				return err
			case linked:
				return c.print(ofCore, func(w io.Writer) error { return linkedTable(w, ofCore, offset) })
			}
			return c.print(all, func(w io.Writer) error { return domainTable(w, all, offset) })
		},
	}
	f := cmd.Flags()
	f.Var(&names, "name", "only domains whose name contains one of these texts")
	f.BoolVar(&linked, "linked", false, "only domains that Core knows, with status and topology")
	f.BoolVar(&withComponents, "with-components", false, "with --linked: read the components as well")
	pageFlags(f, &limit, &offset)
	must(cmd.RegisterFlagCompletionFunc("name", c.completeDomains))
	return cmd
}

func domainTable(w io.Writer, resp *flowv1.GetListOfNVLDomainsResponse, offset int32) error {
	domains := resp.GetNvlDomains()
	if len(domains) == 0 {
		return nothing(w, "domains", resp.GetTotal())
	}
	rows := make([][]string, len(domains))
	for i, d := range domains {
		rows[i] = []string{d.GetIdentifier().GetName(), d.GetIdentifier().GetId().GetId(), d.GetExternalId(), d.GetNmxcClusterId()}
	}
	if err := grid(w, []string{"NAME", "ID", "EXTERNAL ID", "NMX-C CLUSTER"}, rows); err != nil {
		return err
	}
	return pageNote(w, len(domains), offset, resp.GetTotal())
}

func linkedTable(w io.Writer, resp *flowv1.GetListOfNVLinkDomainsResponse, offset int32) error {
	domains := resp.GetDomains()
	if len(domains) == 0 {
		return nothing(w, "domains", resp.GetTotal())
	}
	rows := make([][]string, len(domains))
	for i, d := range domains {
		rows[i] = []string{d.GetName(), d.GetId(), phaseWord(d.GetOperationStatus()), d.GetTopology(), d.GetNmxcClusterId()}
	}
	if err := grid(w, []string{"NAME", "EXTERNAL ID", "STATUS", "TOPOLOGY", "NMX-C CLUSTER"}, rows); err != nil {
		return err
	}
	return pageNote(w, len(domains), offset, resp.GetTotal())
}

func (c *cli) domainGetCommand() *cobra.Command {
	var withComponents bool
	cmd := &cobra.Command{
		Use:   "get DOMAIN",
		Short: "Show one NVLink domain that Core knows",
		Long: `Show one NVLink domain that Core knows, with what is derived from its racks. DOMAIN is its external id or its id. The
others are in domain list.`,
		Example: `  flow domain get group-1
  flow domain get group-1 --with-components -o json`,
		Args:              arguments(1, 1, "a domain"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var resp *flowv1.GetNVLinkDomainResponse
			err := c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				resp, err = s.flow.GetNVLinkDomain(ctx, &flowv1.GetNVLinkDomainRequest{Id: args[0], WithComponents: withComponents})
				return err
			})
			if err != nil {
				return err
			}
			d := resp.GetDomain()
			return c.print(d, func(w io.Writer) error {
				components := ""
				if withComponents {
					components = strconv.Itoa(len(d.GetComponents()))
				}
				return facts(w, [][2]string{
					{"Name", d.GetName()},
					{"External ID", d.GetId()},
					{"Status", phaseWord(d.GetOperationStatus())},
					{"Topology", d.GetTopology()},
					{"NMX-C cluster", d.GetNmxcClusterId()},
					{"Components", components},
				})
			})
		},
	}
	cmd.Flags().BoolVar(&withComponents, "with-components", false, "read the components as well")
	return cmd
}

func (c *cli) domainRacksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "racks DOMAIN",
		Short: "List the racks of an NVLink domain",
		Long:  `List the racks of an NVLink domain, by name. DOMAIN is its id or name.`,
		Example: `  flow domain racks nvl-1
  flow domain racks nvl-1 -o json`,
		Args:              arguments(1, 1, "a domain"),
		ValidArgsFunction: c.completeDomains,
		RunE: func(cmd *cobra.Command, args []string) error {
			domain, err := identifier("domain", args[0])
			if err != nil {
				return fmt.Errorf("domain racks: %w", err)
			}
			var resp *flowv1.GetRacksForNVLDomainResponse
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				resp, err = s.flow.GetRacksForNVLDomain(ctx, &flowv1.GetRacksForNVLDomainRequest{NvlDomainIdentifier: domain})
				return err
			})
			if err != nil {
				return err
			}
			return c.print(resp, func(w io.Writer) error {
				list := &flowv1.GetListOfRacksResponse{Racks: resp.GetRacks(), Total: int32(len(resp.GetRacks()))}
				return rackTable(w, list, 0, true)
			})
		},
	}
}
