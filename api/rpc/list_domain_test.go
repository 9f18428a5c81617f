package rpc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// domainLists are the two calls that list domains, by name up, as a test sees them: the names, "" for none.
var domainLists = map[string]func(t *testing.T, flow flowv1connect.FlowClient, info *flowv1.StringQueryInfo, page *flowv1.Pagination) ([]string, int32, error){
	"GetListOfNVLDomains": func(t *testing.T, flow flowv1connect.FlowClient, info *flowv1.StringQueryInfo, page *flowv1.Pagination) ([]string, int32, error) {
		res, err := flow.GetListOfNVLDomains(t.Context(), &flowv1.GetListOfNVLDomainsRequest{Info: info, Pagination: page})
		return each(res.GetNvlDomains(), func(d *flowv1.NVLDomain) string { return d.GetIdentifier().GetName() }), res.GetTotal(), err
	},
	"GetListOfNVLinkDomains": func(t *testing.T, flow flowv1connect.FlowClient, info *flowv1.StringQueryInfo, page *flowv1.Pagination) ([]string, int32, error) {
		res, err := flow.GetListOfNVLinkDomains(t.Context(), &flowv1.GetListOfNVLinkDomainsRequest{Info: info, Pagination: page})
		return each(res.GetDomains(), (*flowv1.NVLinkDomain).GetName), res.GetTotal(), err
	},
}

// domain records a domain of a number, "" standing for no name or no external id.
func (s *site) domain(n int, name, externalID string) *flowv1.UUID {
	s.t.Helper()
	s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, nullif($2, ''), nullif($3, ''))", testID(3, 0, n).GetId(), name, externalID)
	return testID(3, 0, n)
}

func TestOrderOfDomains(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	recorded := [][2]string{{"b", "g1"}, {"a", "g2"}, {"B", ""}, {"", "g4"}, {"", ""}, {"é", "g6"}, {"", "g7"}}
	for n, d := range recorded {
		s.domain(n+1, d[0], d[1])
	}
	s.exec("UPDATE nvl_domain SET deleted_at = now() WHERE id = $1", s.domain(8, "c", "g8").GetId())
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		res, err := flow.GetListOfNVLDomains(t.Context(), &flowv1.GetListOfNVLDomainsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var want []*flowv1.NVLDomain
		for _, n := range []int{3, 2, 1, 6, 4, 5, 7} { // by name, byte by byte, the unnamed last, and by id
			d := recorded[n-1]
			m := &flowv1.NVLDomain{Identifier: &flowv1.Identifier{Id: testID(3, 0, n), Name: d[0]}}
			if d[1] != "" {
				m.ExternalId = &d[1]
			}
			want = append(want, m)
		}
		if d := diff(&flowv1.GetListOfNVLDomainsResponse{NvlDomains: want, Total: 7}, res); d != "" {
			t.Errorf("of NVLDomains (-want +got):\n%s", d)
		}
		for order, want := range map[string]string{"": "g2 g1 g6 g4 g7", "NAME_ASC": "g2 g1 g6 g4 g7", "NAME_DESC": "g6 g1 g2 g4 g7"} {
			res, err := flow.GetListOfNVLinkDomains(t.Context(), &flowv1.GetListOfNVLinkDomainsRequest{OrderBy: order})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(each(res.GetDomains(), (*flowv1.NVLinkDomain).GetId), " "); got != want || res.GetTotal() != 5 {
				t.Errorf("of NVLinkDomains, %q: %s of %d, want %s", order, got, res.GetTotal(), want)
			}
		}
		for _, order := range []string{"ASC", "name_asc", "NAME_ASC ", "NAME"} {
			_, err := flow.GetListOfNVLinkDomains(t.Context(), &flowv1.GetListOfNVLinkDomainsRequest{OrderBy: order})
			refused(t, err, connect.CodeInvalidArgument, "order_by must be NAME_ASC or NAME_DESC", order)
		}
	})
}

func TestFiltersOfDomains(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for n, name := range []string{"pod-1", "Pod_1", "100%", "GRÜN", ""} {
		s.domain(n+1, name, fmt.Sprintf("g%d", n))
	}
	s.exec("UPDATE nvl_domain SET deleted_at = now() WHERE id = ANY ($1)", []string{
		s.domain(8, "pod-8", "g8").GetId(), s.domain(9, "", "g9").GetId(),
	})
	s.domain(10, "pod-10", "") // is no NVLinkDomain
	all := []string{"100%", "GRÜN", "Pod_1", "pod-1", "pod-10", ""}
	for name, c := range map[string]struct {
		info *flowv1.StringQueryInfo
		want []string
	}{
		"none":                                   {nil, all},
		"no patterns":                            {wild(), all},
		"a name":                                 {exact("pod-1"), []string{"pod-1"}},
		"a name in another letter case":          {exact("POD-1"), nil},
		"any of several names":                   {exact("pod-1", "GRÜN", "pod-8"), []string{"GRÜN", "pod-1"}},
		"no name equals the empty one":           {exact(""), []string{""}},
		"part of a name, in any letter case":     {wild("OD"), []string{"Pod_1", "pod-1", "pod-10"}},
		"the end of a name":                      {wild("%1"), []string{"Pod_1", "pod-1"}},
		"the start of a name":                    {wild("POD-%"), []string{"pod-1", "pod-10"}},
		"an underscore is itself":                {wild("d_"), []string{"Pod_1"}},
		"an escaped percent sign":                {wild(`0\%`), []string{"100%"}},
		"letters beyond ASCII":                   {wild("grün"), []string{"GRÜN"}},
		"an empty wildcard":                      {wild(""), all},
		"all of several wildcards":               {wild("pod%", "%1"), []string{"Pod_1", "pod-1"}},
		"any, next to deleted and unlinked ones": {anyWild("%8", "%10", "%n"), []string{"GRÜN", "pod-10"}},
		"SQL":                                    {exact("' OR '1'='1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for call, list := range domainLists {
					names, total, err := list(t, flow, c.info, nil)
					if err != nil {
						t.Fatal(err)
					}
					want := slices.Clone(c.want)
					if call == "GetListOfNVLinkDomains" {
						want = slices.DeleteFunc(want, func(n string) bool { return n == "pod-10" })
					}
					if !slices.Equal(names, want) || int(total) != len(want) {
						t.Errorf("%s: %q of %d, want %q", call, names, total, want)
					}
				}
			})
		})
	}
}

func TestPagesOfDomains(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec("INSERT INTO nvl_domain (id, name, external_id) SELECT gen_random_uuid(), n, n FROM (SELECT 'd' || lpad(i::text, 4, '0') AS n FROM generate_series(0, 1049) AS i) AS names")
	for name, c := range map[string]struct {
		page        *flowv1.Pagination
		first, last string
		n           int
	}{
		"absent, the first hundred":  {nil, "d0000", "d0099", 100},
		"to the end":                 {&flowv1.Pagination{Offset: 1048, Limit: 7}, "d1048", "d1049", 2},
		"past the end":               {&flowv1.Pagination{Offset: 1050, Limit: 7}, "", "", 0},
		"never more than a thousand": {&flowv1.Pagination{Offset: 1, Limit: 2147483647}, "d0001", "d1000", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for call, list := range domainLists {
					names, total, err := list(t, flow, nil, c.page)
					if err != nil {
						t.Fatal(err)
					}
					if total != 1050 || len(names) != c.n || c.n > 0 && (names[0] != c.first || names[c.n-1] != c.last) {
						t.Errorf("%s: %d of %d, %v", call, len(names), total, names)
					}
				}
			})
		})
	}
}

func TestListsOfDomainsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for name, c := range map[string]struct {
		info *flowv1.StringQueryInfo
		page *flowv1.Pagination
		word string
	}{
		"a negative offset":          {nil, &flowv1.Pagination{Offset: -1, Limit: 1}, "pagination.offset"},
		"a negative limit":           {nil, &flowv1.Pagination{Limit: -1}, "pagination.limit"},
		"an empty page":              {nil, &flowv1.Pagination{}, "pagination.limit"},
		"a hundred and one patterns": {wild(slices.Repeat([]string{"a"}, 101)...), nil, "info"},
		"a hundred and one names":    {exact(slices.Repeat([]string{"a"}, 101)...), nil, "info"},
		"a pattern of 257 bytes":     {wild(strings.Repeat("a", 257)), nil, "257"},
		"a NUL in a pattern":         {wild("a\x00"), nil, "info.patterns[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for call, list := range domainLists {
					t.Run(call, func(t *testing.T) {
						_, _, err := list(t, flow, c.info, c.page)
						refused(t, err, connect.CodeInvalidArgument, c.word)
					})
				}
			})
		})
	}
}
