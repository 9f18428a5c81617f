package rpc

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

const zeroID = "00000000-0000-0000-0000-000000000000"

func byBoth(id *flowv1.UUID, name string) *flowv1.Identifier {
	return &flowv1.Identifier{Id: id, Name: name}
}

func createDomain(ctx context.Context, flow flowv1connect.FlowClient, d *flowv1.NVLDomain) (string, error) {
	res, err := flow.CreateNVLDomain(ctx, &flowv1.CreateNVLDomainRequest{NvlDomain: d})
	return res.GetId().GetId(), err
}

func TestADomainIsCreatedOnce(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, s *site) {
		cluster := "0190aaaa-0000-7000-8000-000000000001"
		whole := &flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 1), " pod one "), ExternalId: new(" group-1\t"), NmxcClusterId: &cluster}
		bare := &flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 2), "pod two")}
		create := func(d *flowv1.NVLDomain) {
			t.Helper()
			if id, err := createDomain(t.Context(), s.flow, d); err != nil || id != d.GetIdentifier().GetId().GetId() {
				t.Errorf("%v: %s, %v", d, id, err)
			}
		}
		create(whole)
		create(bare)
		want := &flowv1.GetListOfNVLDomainsResponse{NvlDomains: []*flowv1.NVLDomain{
			{Identifier: byBoth(testID(3, 0, 1), "pod one"), ExternalId: new("group-1"), NmxcClusterId: &cluster},
			{Identifier: byBoth(testID(3, 0, 2), "pod two")},
		}, Total: 2}
		check := func() {
			t.Helper()
			got, err := s.flow.GetListOfNVLDomains(t.Context(), &flowv1.GetListOfNVLDomainsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		}
		check()
		create(whole)
		create(&flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 1), "pod one"), ExternalId: new("group-9")}) // id and name decide
		create(&flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 2), "\tpod two")})
		check()
		// A deleted domain reserves nothing but its id.
		s.exec("UPDATE nvl_domain SET deleted_at = now()")
		create(&flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 3), "pod one"), ExternalId: new("group-1")})
	})
}

func TestDomainsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.domain(1, "pod", "group-1")
	s.exec("UPDATE nvl_domain SET deleted_at = now() WHERE id = $1", s.domain(2, "gone", "").GetId())
	invalid, exists := connect.CodeInvalidArgument, connect.CodeAlreadyExists
	id := testID(3, 0, 9)
	for name, c := range map[string]struct {
		domain *flowv1.NVLDomain
		code   connect.Code
		words  []string
	}{
		"no domain":             {nil, invalid, []string{"nvl_domain"}},
		"no identifier":         {&flowv1.NVLDomain{ExternalId: new("g")}, invalid, []string{"nvl_domain.identifier.id"}},
		"no id":                 {&flowv1.NVLDomain{Identifier: byBoth(nil, "a")}, invalid, []string{"nvl_domain.identifier.id"}},
		"an empty id":           {&flowv1.NVLDomain{Identifier: byBoth(&flowv1.UUID{}, "a")}, invalid, []string{"nvl_domain.identifier.id"}},
		"a malformed id":        {&flowv1.NVLDomain{Identifier: byBoth(&flowv1.UUID{Id: "pod"}, "a")}, invalid, []string{"nvl_domain.identifier.id", "pod"}},
		"the nil id":            {&flowv1.NVLDomain{Identifier: byBoth(&flowv1.UUID{Id: zeroID}, "a")}, invalid, []string{"nvl_domain.identifier.id"}},
		"no name":               {&flowv1.NVLDomain{Identifier: byBoth(id, "")}, invalid, []string{"nvl_domain.identifier.name"}},
		"a blank name":          {&flowv1.NVLDomain{Identifier: byBoth(id, " \t")}, invalid, []string{"nvl_domain.identifier.name"}},
		"a malformed cluster":   {&flowv1.NVLDomain{Identifier: byBoth(id, "a"), NmxcClusterId: new("nmx")}, invalid, []string{"nvl_domain.nmxc_cluster_id", "nmx"}},
		"the nil cluster":       {&flowv1.NVLDomain{Identifier: byBoth(id, "a"), NmxcClusterId: new(zeroID)}, invalid, []string{"nvl_domain.nmxc_cluster_id"}},
		"the id of another":     {&flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 1), "a")}, exists, []string{"pod", testID(3, 0, 1).GetId()}},
		"its id in letter case": {&flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 1), "POD")}, exists, []string{"pod", testID(3, 0, 1).GetId()}},
		"the name of another":   {&flowv1.NVLDomain{Identifier: byBoth(id, " pod")}, exists, []string{"nvl_domain.identifier.name", "pod", testID(3, 0, 1).GetId()}},
		"the external id of another": {&flowv1.NVLDomain{Identifier: byBoth(id, "a"), ExternalId: new("group-1")}, exists,
			[]string{"nvl_domain.external_id", "group-1", testID(3, 0, 1).GetId()}},
		"the id of a deleted one":              {&flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 2), "a")}, exists, []string{testID(3, 0, 2).GetId(), "deleted"}},
		"the id and the name of a deleted one": {&flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, 2), "gone")}, exists, []string{testID(3, 0, 2).GetId(), "deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				s.refuses(t, func() error {
					_, err := createDomain(t.Context(), flow, c.domain)
					return err
				}, c.code, c.words...)
			})
		})
	}
}

func TestADomainCreatedByManyAtOnceIsOne(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.race(func(ctx context.Context, n int) error {
		_, err := createDomain(ctx, s.grpc, &flowv1.NVLDomain{Identifier: byBoth(testID(3, 0, n), "pod")})
		return err
	})
	errs := make(chan error)
	for range writers {
		go func() {
			_, err := createDomain(t.Context(), s.grpc, &flowv1.NVLDomain{Identifier: byBoth(testID(3, 1, 0), "other pod")})
			errs <- err
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// pods serves a site with domains 1 and 2, "a" and "b", and a deleted one, 3, "c", and these racks: 1 in none, 2 in a, 3
// in b, 4 in none and 5 in a, both where Core has them, 6 and 7 of one name, 8 deleted.
func pods(t *testing.T) *site {
	t.Helper()
	s := serve(t, nil)
	s.domain(1, "a", "")
	s.domain(2, "b", "")
	s.exec("UPDATE nvl_domain SET deleted_at = now() WHERE id = $1", s.domain(3, "c", "").GetId())
	for n := 1; n <= 8; n++ {
		r := testRack(n, 0)
		if n == 6 || n == 7 {
			r.Info.Name = "twin"
		}
		s.create(r)
	}
	s.exec("UPDATE rack SET rack_group_id = 'group' WHERE id = ANY ($1)", []string{testID(1, 4, 0).GetId(), testID(1, 5, 0).GetId()})
	s.bury(testID(1, 8, 0))
	s.join(testID(3, 0, 1), 2, 5)
	s.join(testID(3, 0, 2), 3)
	return s
}

// join makes racks members of a domain behind the API's back; nil is none.
func (s *site) join(domain *flowv1.UUID, racks ...int) {
	s.t.Helper()
	for _, n := range racks {
		s.exec("UPDATE rack SET nvl_domain_id = nullif($1, '')::uuid WHERE id = $2", domain.GetId(), testID(1, n, 0).GetId())
	}
}

// members tells of live racks in domains, as clients see it.
func (s *site) members() string {
	s.t.Helper()
	res, err := s.grpc.GetListOfRacks(s.t.Context(), &flowv1.GetListOfRacksRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, r := range res.GetRacks() {
		for _, d := range r.GetNvlDomainIds() {
			all = append(all, fmt.Sprintf("%s:%c", strings.TrimPrefix(r.GetInfo().GetName(), "rack-"), 'a'-1+d.GetId()[35]-'0'))
		}
	}
	return strings.Join(all, " ")
}

func attach(ctx context.Context, flow flowv1connect.FlowClient, domain *flowv1.Identifier, racks ...*flowv1.Identifier) error {
	_, err := flow.AttachRacksToNVLDomain(ctx, &flowv1.AttachRacksToNVLDomainRequest{NvlDomainIdentifier: domain, RackIdentifiers: racks})
	return err
}

func detach(ctx context.Context, flow flowv1connect.FlowClient, racks ...*flowv1.Identifier) error {
	_, err := flow.DetachRacksFromNVLDomain(ctx, &flowv1.DetachRacksFromNVLDomainRequest{RackIdentifiers: racks})
	return err
}

func rackByID(n int) *flowv1.Identifier { return &flowv1.Identifier{Id: testID(1, n, 0)} }

func named(name string) *flowv1.Identifier { return &flowv1.Identifier{Name: name} }

func TestRacksJoinAndLeaveDomains(t *testing.T) {
	t.Parallel()
	s := pods(t)
	a := byBoth(testID(3, 0, 1), "")
	type call = func(context.Context, flowv1connect.FlowClient) error
	joins := func(domain *flowv1.Identifier, racks ...*flowv1.Identifier) call {
		return func(ctx context.Context, flow flowv1connect.FlowClient) error {
			return attach(ctx, flow, domain, racks...)
		}
	}
	leaves := func(racks ...*flowv1.Identifier) call {
		return func(ctx context.Context, flow flowv1connect.FlowClient) error { return detach(ctx, flow, racks...) }
	}
	for name, c := range map[string]struct {
		call call
		want string
	}{
		"joining by ids":                      {joins(a, rackByID(1)), "1:a 2:a 3:b 5:a"},
		"joining a domain by name":            {joins(named("b"), rackByID(1)), "1:b 2:a 3:b 5:a"},
		"joining a rack by name":              {joins(a, named("rack-1")), "1:a 2:a 3:b 5:a"},
		"joining by names":                    {joins(named("b"), named("rack-1")), "1:b 2:a 3:b 5:a"},
		"a member joins again, another anew":  {joins(a, rackByID(2), rackByID(1)), "1:a 2:a 3:b 5:a"},
		"one rack twice, by id and by name":   {joins(a, rackByID(1), named("rack-1")), "1:a 2:a 3:b 5:a"},
		"one of two of one name, by id":       {joins(a, rackByID(7)), "2:a 3:b 5:a twin:a"},
		"no racks join":                       {joins(a), "2:a 3:b 5:a"},
		"leaving by id":                       {leaves(rackByID(2)), "3:b 5:a"},
		"leaving by name":                     {leaves(named("rack-3")), "2:a 5:a"},
		"leaving several domains":             {leaves(named("rack-3"), rackByID(2)), "5:a"},
		"one that is in none, another leaves": {leaves(rackByID(1), rackByID(2)), "3:b 5:a"},
		"one leaves, another that is in none": {leaves(rackByID(3), named("rack-1")), "2:a 5:a"},
		"leaving twice in one call":           {leaves(rackByID(2), named("rack-2")), "3:b 5:a"},
		"one that is in none":                 {leaves(rackByID(1)), "2:a 3:b 5:a"},
		"no racks leave":                      {leaves(), "2:a 3:b 5:a"},
		"joining after having left, elsewhere": {func(ctx context.Context, flow flowv1connect.FlowClient) error {
			if err := detach(ctx, flow, rackByID(2)); err != nil {
				return err
			}
			return attach(ctx, flow, named("b"), rackByID(2))
		}, "2:b 3:b 5:a"},
	} {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				s.join(nil, 1, 7)
				s.join(testID(3, 0, 1), 2)
				s.join(testID(3, 0, 2), 3)
				if err := c.call(t.Context(), flow); err != nil {
					t.Fatal(err)
				}
				if got := s.members(); got != c.want {
					t.Errorf("members %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestMembershipsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := pods(t)
	a := byBoth(testID(3, 0, 1), "")
	type list = []*flowv1.Identifier
	unknown := &flowv1.UUID{Id: "00000009-0000-4000-8000-000000000009"}
	invalid, none, before := connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeFailedPrecondition
	for name, c := range map[string]struct {
		domain *flowv1.Identifier
		racks  list
		code   connect.Code
		words  []string
	}{
		"no domain":                        {nil, list{rackByID(1)}, invalid, []string{"nvl_domain_identifier"}},
		"no domain and no racks":           {nil, nil, invalid, []string{"nvl_domain_identifier"}},
		"a domain without identifier":      {&flowv1.Identifier{}, list{rackByID(1)}, invalid, []string{"nvl_domain_identifier"}},
		"a malformed domain id":            {byBoth(&flowv1.UUID{Id: "a"}, ""), list{rackByID(1)}, invalid, []string{"nvl_domain_identifier.id", `"a"`}},
		"an empty domain id":               {byBoth(&flowv1.UUID{}, "a"), list{rackByID(1)}, invalid, []string{"nvl_domain_identifier.id"}},
		"the nil domain id":                {byBoth(&flowv1.UUID{Id: zeroID}, ""), list{rackByID(1)}, invalid, []string{"nvl_domain_identifier.id", zeroID}},
		"an unknown domain":                {byBoth(unknown, ""), list{rackByID(1)}, none, []string{unknown.GetId()}},
		"an unknown domain name":           {named("A"), list{rackByID(1)}, none, []string{`"A"`}},
		"a deleted domain":                 {byBoth(testID(3, 0, 3), ""), list{rackByID(1)}, none, []string{testID(3, 0, 3).GetId()}},
		"a deleted domain by name":         {named("c"), list{rackByID(1)}, none, []string{`"c"`}},
		"a rack of another domain":         {a, list{rackByID(1), rackByID(3)}, connect.CodeAlreadyExists, []string{"is already attached", testID(1, 3, 0).GetId()}},
		"a rack whose domain Core decides": {a, list{rackByID(1), rackByID(4)}, before, []string{"membership is managed by Core", testID(1, 4, 0).GetId()}},
	} {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				s.refuses(t, func() error { return attach(t.Context(), flow, c.domain, c.racks...) }, c.code, c.words...)
			})
		})
	}
	// What is wrong with racks is so for both calls.
	for name, c := range map[string]struct {
		racks list
		code  connect.Code
		words []string
	}{
		"a rack without identifier":     {list{rackByID(2), {}}, invalid, []string{"rack_identifiers[1]"}},
		"a malformed rack id":           {list{byBoth(&flowv1.UUID{Id: "x"}, "rack-1")}, invalid, []string{"rack_identifiers[0].id", `"x"`}},
		"the nil rack id":               {list{rackByID(2), byBoth(&flowv1.UUID{Id: zeroID}, "")}, invalid, []string{"rack_identifiers[1].id", zeroID}},
		"an unknown rack":               {list{rackByID(2), byBoth(unknown, "")}, none, []string{unknown.GetId()}},
		"an unknown rack name":          {list{named("Rack-1")}, none, []string{"Rack-1"}},
		"a deleted rack":                {list{rackByID(2), rackByID(8)}, none, []string{testID(1, 8, 0).GetId()}},
		"a deleted rack by name":        {list{named("rack-8")}, none, []string{"rack-8"}},
		"a name of two racks":           {list{rackByID(2), named("twin")}, invalid, []string{"twin", "multiple"}},
		"a rack in a group, by name":    {list{named("rack-5")}, before, []string{"membership is managed by Core"}},
		"a rack in a group, and others": {list{rackByID(2), rackByID(5)}, before, []string{"membership is managed by Core", testID(1, 5, 0).GetId()}},
	} {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				s.refuses(t, func() error { return detach(t.Context(), flow, c.racks...) }, c.code, c.words...)
				if strings.Contains(name, "in a group") {
					return // it may stay where it is
				}
				s.refuses(t, func() error { return attach(t.Context(), flow, a, c.racks...) }, c.code, c.words...)
			})
		})
	}
}

func TestARackThatManyDomainsClaimJoinsOne(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 0))
	for n := range writers {
		s.domain(n+1, fmt.Sprint(n), "")
	}
	s.race(func(ctx context.Context, n int) error {
		return attach(ctx, s.grpc, byBoth(testID(3, 0, n), ""), rackByID(1))
	})
}
