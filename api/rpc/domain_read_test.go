package rpc

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// servePods serves a site with domain 1, of external id group-1, of racks 1 and 2 with two trays each, the names of which
// come in the order 2, 1; a third rack of it and a tray of rack 2 are deleted. Domain 2, group-2, has no racks, domain 3
// no external id, and domain 4, group-4, is deleted. The external id of domain 5 is the id of domain 2.
func servePods(t *testing.T) *site {
	t.Helper()
	s := serve(t, nil)
	s.domain(1, "pod", "group-1")
	s.domain(2, "", "group-2")
	s.domain(3, "lonely", "")
	s.exec("UPDATE nvl_domain SET deleted_at = now() WHERE id = $1", s.domain(4, "gone", "group-4").GetId())
	s.exec("UPDATE nvl_domain SET nmxc_cluster_id = $1 WHERE id = $2", testID(5, 0, 1).GetId(), testID(3, 0, 1).GetId())
	for n := 1; n <= 3; n++ {
		r := testRack(n, 2)
		r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, 1)}
		r.Info.Name = fmt.Sprintf("rack-%d", 3-n)
		s.create(r)
	}
	s.bury(testID(1, 3, 0))
	s.exec("UPDATE component SET phase = 'READY'")
	s.exec("UPDATE component SET phase = 'IN_USE' WHERE id = $1", testID(2, 1, 1).GetId())
	s.exec("UPDATE component SET deleted_at = now() WHERE id = $1", testID(2, 2, 1).GetId())
	s.exec("UPDATE rack SET rack_profile_id = 'GB200_NVL72_WIWYNN' WHERE id <> $1", testID(1, 3, 0).GetId())
	s.task(1, 0, "running", testID(2, 1, 0))
	s.create(testRack(4, 1)) // in no domain
	return s
}

func TestTheRacksOfADomain(t *testing.T) {
	t.Parallel()
	s := servePods(t)
	whole := []*flowv1.Rack{s.rack(testID(1, 2, 0).GetId()), s.rack(testID(1, 1, 0).GetId())} // by name
	if len(whole[0].GetComponents()) != 1 || len(whole[1].GetComponents()) != 2 || whole[1].GetTaskStats().GetRunningTaskCount() != 1 {
		t.Fatalf("racks %v", whole)
	}
	invalid := connect.CodeInvalidArgument
	for name, c := range map[string]struct {
		domain *flowv1.Identifier
		want   []*flowv1.Rack
		code   connect.Code // 0: not refused
		word   string
	}{
		"by id":                      {byBoth(testID(3, 0, 1), ""), whole, 0, ""},
		"by name":                    {named("pod"), whole, 0, ""},
		"of a domain without racks":  {byBoth(testID(3, 0, 2), ""), nil, 0, ""},
		"of one that Core has not":   {named("lonely"), nil, 0, ""},
		"of an unknown id":           {byBoth(testID(3, 0, 99), ""), nil, 0, ""},
		"of an unknown name":         {named("Pod"), nil, connect.CodeNotFound, "Pod"},
		"of the name of a deleted":   {named("gone"), nil, connect.CodeNotFound, "gone"},
		"of nothing":                 {nil, nil, invalid, "nvl_domain_identifier"},
		"of an empty identifier":     {&flowv1.Identifier{}, nil, invalid, "nvl_domain_identifier"},
		"of a malformed id":          {byBoth(&flowv1.UUID{Id: "group-1"}, ""), nil, invalid, "nvl_domain_identifier.id"},
		"of the nil id":              {byBoth(&flowv1.UUID{Id: zeroID}, ""), nil, invalid, "nvl_domain_identifier.id"},
		"of an empty id, and a name": {byBoth(&flowv1.UUID{}, "pod"), nil, invalid, "nvl_domain_identifier.id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				res, err := flow.GetRacksForNVLDomain(t.Context(), &flowv1.GetRacksForNVLDomainRequest{NvlDomainIdentifier: c.domain})
				if c.code != 0 {
					refused(t, err, c.code, c.word)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if d := diff(&flowv1.GetRacksForNVLDomainResponse{Racks: c.want}, res); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestReadingNVLinkDomains(t *testing.T) {
	t.Parallel()
	s := servePods(t)
	s.domain(5, "double", testID(3, 0, 2).GetId())
	one, two := s.rack(testID(1, 1, 0).GetId()).GetComponents(), s.rack(testID(1, 2, 0).GetId()).GetComponents()
	cluster := testID(5, 0, 1).GetId()
	pod := func(components ...*flowv1.Component) *flowv1.NVLinkDomain {
		return &flowv1.NVLinkDomain{
			Id: "group-1", RackGroupId: "group-1", Name: "pod", NmxcClusterId: &cluster, Topology: new("GB200_NVL72"),
			OperationStatus: flowv1.Phase_PHASE_IN_USE, Components: components,
		}
	}
	bare := &flowv1.NVLinkDomain{Id: "group-2", RackGroupId: "group-2"}
	double := &flowv1.NVLinkDomain{Id: testID(3, 0, 2).GetId(), RackGroupId: testID(3, 0, 2).GetId(), Name: "double"}
	full := pod(one[0], two[0], one[1]) // tray-00 of either rack, by id, then tray-01
	for name, c := range map[string]struct {
		id   string
		with bool
		want *flowv1.NVLinkDomain // nil: refused
		code connect.Code
		word string
	}{
		"by external id":                       {"group-1", false, pod(), 0, ""},
		"with components":                      {"group-1", true, full, 0, ""},
		"by Flow id":                           {testID(3, 0, 1).GetId(), true, full, 0, ""},
		"by external id before by Flow id":     {testID(3, 0, 2).GetId(), true, double, 0, ""},
		"without racks or name":                {"group-2", true, bare, 0, ""},
		"without id":                           {"", false, nil, connect.CodeInvalidArgument, "domain identifier is required"},
		"with a blank id":                      {" \t", true, nil, connect.CodeInvalidArgument, "domain identifier is required"},
		"in another letter case":               {"Group-1", false, nil, connect.CodeNotFound, "Group-1"},
		"by name":                              {"pod", false, nil, connect.CodeNotFound, "pod"},
		"one without external id, by its id":   {testID(3, 0, 3).GetId(), false, nil, connect.CodeNotFound, testID(3, 0, 3).GetId()},
		"a deleted one":                        {"group-4", false, nil, connect.CodeNotFound, "group-4"},
		"a deleted one by its id":              {testID(3, 0, 4).GetId(), false, nil, connect.CodeNotFound, testID(3, 0, 4).GetId()},
		"an unknown id":                        {testID(3, 0, 99).GetId(), false, nil, connect.CodeNotFound, testID(3, 0, 99).GetId()},
		"the nil id, which is nobody's either": {zeroID, false, nil, connect.CodeNotFound, zeroID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				res, err := flow.GetNVLinkDomain(t.Context(), &flowv1.GetNVLinkDomainRequest{Id: c.id, WithComponents: c.with})
				if c.want == nil {
					refused(t, err, c.code, c.word)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if d := diff(c.want, res.GetDomain()); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		})
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for with, first := range map[bool]*flowv1.NVLinkDomain{false: pod(), true: full} {
			res, err := flow.GetListOfNVLinkDomains(t.Context(), &flowv1.GetListOfNVLinkDomainsRequest{WithComponents: with})
			if err != nil {
				t.Fatal(err)
			}
			want := &flowv1.GetListOfNVLinkDomainsResponse{Domains: []*flowv1.NVLinkDomain{double, first, bare}, Total: 3}
			if d := diff(want, res); d != "" {
				t.Errorf("in a list (-want +got):\n%s", d)
			}
		}
	})
}

func TestTopologyIsWhatAllProfilesAgreeOn(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	cases := map[string]struct {
		profiles []string // of the racks, "" for none
		want     string   // "": absent
	}{
		"no racks":                           {nil, ""},
		"of Wiwynn":                          {[]string{"GB200_NVL72_WIWYNN"}, "GB200_NVL72"},
		"of Lenovo":                          {[]string{"GB200_NVL72_LENOVO"}, "GB200_NVL72"},
		"of SMC":                             {[]string{"GB200_NVL72_SMC"}, "GB200_NVL72"},
		"of NVIDIA":                          {[]string{"GB200_NVL72_NVIDIA"}, "GB200_NVL72"},
		"without power shelves":              {[]string{"GB300_NVL36_NVIDIA_NO_POWERSHELF"}, "GB300_NVL36"},
		"all vendors, with and without":      {[]string{"X_WIWYNN", "X_LENOVO_NO_POWERSHELF", "X_SMC", "X_NVIDIA_NO_POWERSHELF"}, "X"},
		"one that differs":                   {[]string{"X_WIWYNN", "X_WIWYNN", "Y_WIWYNN"}, ""},
		"one that differs in letter case":    {[]string{"X_WIWYNN", "x_WIWYNN"}, ""},
		"one without profile":                {[]string{"X_WIWYNN", ""}, ""},
		"all without profile":                {[]string{"", ""}, ""},
		"no vendor":                          {[]string{"GB200_NVL72"}, ""},
		"no vendor, without power shelves":   {[]string{"GB200_NVL72_NO_POWERSHELF"}, ""},
		"a vendor nobody knows":              {[]string{"GB200_NVL72_ACME"}, ""},
		"one vendor goes, not two":           {[]string{"X_SMC_NVIDIA"}, "X_SMC"},
		"a vendor in the middle stays":       {[]string{"X_SMC_Y"}, ""},
		"one suffix goes, not two":           {[]string{"X_SMC_NO_POWERSHELF_NO_POWERSHELF"}, ""},
		"power shelves before the vendor":    {[]string{"X_NO_POWERSHELF_SMC"}, "X_NO_POWERSHELF"},
		"one with and one without a vendor":  {[]string{"X_SMC", "X"}, ""},
		"a deleted rack does not count":      {[]string{"X_SMC", "deleted"}, "X"},
		"two that agree but for the vendor":  {[]string{"X_SMC", "X_NVIDIA"}, "X"},
		"two that agree but for the shelves": {[]string{"X_SMC", "X_SMC_NO_POWERSHELF"}, "X"},
	}
	for name, c := range cases {
		s.exec(`WITH d AS (INSERT INTO nvl_domain (id, external_id) VALUES (gen_random_uuid(), $1) RETURNING id)
			INSERT INTO rack (id, name, nvl_domain_id, rack_profile_id, deleted_at)
			SELECT gen_random_uuid(), 'r', d.id, nullif(p, ''), CASE p WHEN 'deleted' THEN now() END FROM d, unnest($2::text[]) AS p`, name, c.profiles)
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		res, err := flow.GetListOfNVLinkDomains(t.Context(), &flowv1.GetListOfNVLinkDomainsRequest{})
		if err != nil || len(res.GetDomains()) != len(cases) {
			t.Fatalf("%d domains, %v", len(res.GetDomains()), err)
		}
		for _, d := range res.GetDomains() {
			if c := cases[d.GetId()]; d.GetTopology() != c.want || (d.Topology == nil) != (c.want == "") {
				t.Errorf("%s: %q, want %q", d.GetId(), d.GetTopology(), c.want)
			}
		}
	})
}

// TestNoMembershipOfTheNilDomainIsStored holds that none needs to be read as one of no domain.
func TestNoMembershipOfTheNilDomainIsStored(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(testRack(1, 1))
	if _, err := s.store.API.Exec(t.Context(), "UPDATE rack SET nvl_domain_id = $1", zeroID); err == nil {
		t.Error("a rack was put into the nil domain")
	}
	if _, err := s.store.API.Exec(t.Context(), "UPDATE component SET rack_id = $1", zeroID); err == nil {
		t.Error("a component was put into the nil rack")
	}
	r := s.rack("core-rack-1")
	if len(r.GetNvlDomainIds()) != 0 || r.GetComponents()[0].NvlDomainId != nil {
		t.Errorf("rack %v", r)
	}
}
