package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

// grouped is a stocked fake with a domain.
func grouped() *fake {
	f := stocked()
	f.domains = []*flowv1.NVLDomain{{
		Identifier: &flowv1.Identifier{Id: &flowv1.UUID{Id: domainOne}, Name: "nvl-1"}, ExternalId: proto.String("group-1"),
	}}
	return f
}

func named(name string) *flowv1.Identifier { return &flowv1.Identifier{Name: name} }

func identified(id string) *flowv1.Identifier { return &flowv1.Identifier{Id: &flowv1.UUID{Id: id}} }

func TestDomainCommands(t *testing.T) {
	t.Parallel()
	all := &flowv1.Pagination{Limit: 100}
	for line, test := range map[string]struct {
		want proto.Message
		out  string
	}{
		"create nvl-2 --id " + domainOne + " --external-id g2 --nmxc-cluster-id " + ruleOne: {
			&flowv1.CreateNVLDomainRequest{NvlDomain: &flowv1.NVLDomain{
				Identifier: &flowv1.Identifier{Id: &flowv1.UUID{Id: domainOne}, Name: "nvl-2"},
				ExternalId: proto.String("g2"), NmxcClusterId: proto.String(ruleOne),
			}}, `{"id":"` + domainOne + `"}`,
		},
		"attach nvl-1 rack-1 " + rackTwo: {
			&flowv1.AttachRacksToNVLDomainRequest{
				NvlDomainIdentifier: named("nvl-1"), RackIdentifiers: []*flowv1.Identifier{named("rack-1"), identified(rackTwo)},
			}, "rack-1, " + rackTwo + " attached to nvl-1.",
		},
		"attach " + domainOne + " rack-1 -o json": {
			&flowv1.AttachRacksToNVLDomainRequest{
				NvlDomainIdentifier: identified(domainOne), RackIdentifiers: []*flowv1.Identifier{named("rack-1")},
			},
			"{\n  \"racks\": [\n    \"rack-1\"\n  ]\n}",
		},
		"detach rack-1,rack-2": {
			&flowv1.DetachRacksFromNVLDomainRequest{RackIdentifiers: []*flowv1.Identifier{named("rack-1"), named("rack-2")}},
			"rack-1, rack-2 detached.",
		},
		"list --name nvl --limit 7": {
			&flowv1.GetListOfNVLDomainsRequest{Info: contains(listValue{"nvl"}), Pagination: &flowv1.Pagination{Limit: 7}}, `
NAME   ID                                    EXTERNAL ID  NMX-C CLUSTER
nvl-1  55555555-0000-4000-8000-000000000001  group-1      -`,
		},
		"list --linked --with-components": {
			&flowv1.GetListOfNVLinkDomainsRequest{WithComponents: true, Pagination: all}, `
NAME   EXTERNAL ID  STATUS  TOPOLOGY    NMX-C CLUSTER
nvl-1  group-1      ready   NVL72_1x72  -`,
		},
		"get group-1": {nil, `
Name         nvl-1
External ID  group-1
Status       ready
Topology     NVL72_1x72`},
		"racks nvl-1": {&flowv1.GetRacksForNVLDomainRequest{NvlDomainIdentifier: named("nvl-1")}, `
NAME    ID                                    STATUS   COMPONENTS  ACTIVE TASKS
rack-1  11111111-0000-4000-8000-000000000001  ready    2           3
rack-2  11111111-0000-4000-8000-000000000002  unknown  0           0`},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := grouped()
			got := against(t, f, append([]string{"domain"}, strings.Fields(line)...)...)
			if diff := cmp.Diff(picture(test.out)+"\n", got.out); diff != "" || got.code != exitOK || got.err != "" {
				t.Error(diff, got.err)
			}
			if test.want == nil {
				return
			}
			if diff := cmp.Diff([]proto.Message{test.want}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	f := grouped()
	got := against(t, f, "domain", "create", "nvl-9")
	if made := f.asked()[0].(*flowv1.CreateNVLDomainRequest).GetNvlDomain().GetIdentifier(); !isUUID(made.GetId().GetId()) {
		t.Errorf("%+v", got)
	}
	for _, line := range []string{"list", "list --linked"} {
		if got := against(t, &fake{}, append([]string{"domain"}, strings.Fields(line)...)...); got.out != "No domains\n" {
			t.Errorf("%+v", got)
		}
	}
}

func TestDomainCommandsRefuseBeforeAnyCall(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		text  string
		usage bool
	}{
		"create":                       {"domain create: needs a name", true},
		"create a b":                   {`domain create: unexpected argument "b"`, true},
		"create a --id x":              {`domain create: --id "x" is not a valid UUID`, false},
		"create a --nmxc-cluster-id x": {`domain create: --nmxc-cluster-id "x" is not a valid UUID`, false},
		"attach":                       {"domain attach: needs a domain and at least one rack", true},
		"attach nvl-1":                 {"domain attach: needs a domain and at least one rack", true},
		"attach nvl-1 ,":               {"domain attach: needs a rack", true},
		"attach 00000000-0000-0000-0000-000000000000 rack-1": {
			`domain attach: domain "00000000-0000-0000-0000-000000000000" is not a valid UUID`, false,
		},
		"detach":                 {"domain detach: needs a rack", true},
		"list x":                 {`domain list: unexpected argument "x"`, true},
		"list --limit 0":         {"domain list: --limit must be greater than 0, got 0", true},
		"list --with-components": {"domain list: --with-components goes with --linked", true},
		"get":                    {"domain get: needs a domain", true},
		"racks":                  {"domain racks: needs a domain", true},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := grouped()
			got := against(t, f, append([]string{"domain"}, strings.Fields(line)...)...)
			first, rest, _ := strings.Cut(got.err, "\n")
			if got.code != exitError || got.out != "" || first != "Error: "+want.text || strings.Contains(rest, "Usage:") != want.usage {
				t.Errorf("%+v", got)
			}
			if len(f.asked()) != 0 {
				t.Errorf("%d calls were made", len(f.asked()))
			}
		})
	}
}
