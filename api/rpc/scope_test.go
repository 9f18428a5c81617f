package rpc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// part is component n of a rack, with a host BMC for each MAC.
func part(rack, n int, kind flowv1.ComponentType, name, externalID string, macs ...string) *flowv1.Component {
	return &flowv1.Component{
		Type: kind, Info: &flowv1.DeviceInfo{Id: testID(2, rack, n), Name: name}, ComponentId: externalID,
		Bmcs: each(macs, func(mac string) *flowv1.BMCInfo {
			return &flowv1.BMCInfo{Type: flowv1.BMCType_BMC_TYPE_HOST, MacAddress: mac}
		}),
	}
}

// district serves a site on which tasks stay pending. Its racks are 1, 2, two called "twin", 3 and 4, one that is
// deleted, 5, and one without components, 6; each component bears the number of its rack in its name, and h is in no
// rack. Racks 1 and 2 make domain 1, "pod", domain 2, "void", has no racks, and domain 4, of rack 3, is deleted.
//
// Of external ids and MACs: "shared" is a tray and a switch, the MAC of 1a is the external id of 2s as well, and 1p and 2a
// have their own MACs for external ids, 1p in another spelling. Tombstones have identifiers of rack 2, domain 1 and 1a too.
func district(t *testing.T) *plant {
	t.Helper()
	p := serveParked(t)
	for n, parts := range map[int][]*flowv1.Component{
		1: {
			part(1, 1, compute, "1a", "core-1a", "02:00:00:00:01:00"), part(1, 2, compute, "1b", "shared"),
			part(1, 3, nvswitch, "1s", "shared"), part(1, 4, shelf, "1p", "02-00-00-00-03-AA", "02:00:00:00:03:aa"),
		},
		2: {part(2, 1, compute, "2a", "02:00:00:00:02:00", "02:00:00:00:02:00"), part(2, 2, nvswitch, "2s", "02:00:00:00:01:00")},
		3: {part(3, 1, compute, "3a", "core-3a")},
		4: {part(4, 1, compute, "4a", "core-4a")},
		5: {part(5, 1, compute, "5a", "core-5a", "02:00:00:00:05:00"), part(5, 2, compute, "h", "core-h")},
		6: nil,
	} {
		r := testRack(n, 0)
		if n == 3 || n == 4 {
			r.Info.Name = "twin"
		}
		if n == 1 {
			parts[0].Bmcs = append(parts[0].Bmcs, &flowv1.BMCInfo{Type: flowv1.BMCType_BMC_TYPE_DPU, MacAddress: "02:00:00:00:01:f0"})
		}
		r.Components = parts
		p.create(r)
	}
	p.exec("UPDATE component SET rack_id = NULL WHERE name = 'h'")
	p.bury(testID(1, 5, 0))
	p.domain(1, "pod", "group-1")
	p.domain(2, "void", "group-2")
	p.join(testID(3, 0, 1), 1, 2)
	p.join(p.domain(4, "gone", "group-4"), 3)
	p.exec("UPDATE nvl_domain SET deleted_at = now() WHERE id = $1", testID(3, 0, 4).GetId())
	p.exec("INSERT INTO rack (id, name, external_id, deleted_at) VALUES (gen_random_uuid(), 'rack-2', 'core-rack-2', now())")
	p.exec("INSERT INTO nvl_domain (id, name, external_id, deleted_at) VALUES (gen_random_uuid(), 'pod', 'group-1', now())")
	p.exec("INSERT INTO component (id, type, name, external_id, deleted_at) VALUES (gen_random_uuid(), 'NVSwitch', 'x', 'core-1a', now())")
	return p
}

func TestWhatTargetsMean(t *testing.T) {
	t.Parallel()
	p := district(t)
	one, two := testID(1, 1, 0), testID(1, 2, 0)
	for name, c := range map[string]struct {
		spec  *flowv1.OperationTargetSpec
		want  string   // names of components
		tasks []string // those of each task; none: it cannot be submitted
	}{
		"a rack by id":                             {racks(byID(one)), "1a 1b 1p 1s", []string{"1a 1b 1p 1s"}},
		"a rack by name":                           {racks(byName("rack-2")), "2a 2s", []string{"2a 2s"}},
		"a rack by external id":                    {racks(byExternalID("core-rack-2")), "2a 2s", []string{"2a 2s"}},
		"a type of a rack":                         {racks(byID(one, compute)), "1a 1b", []string{"1a 1b"}},
		"types of a rack by external id":           {racks(byExternalID("core-rack-1", nvswitch, shelf, nvswitch)), "1p 1s", []string{"1p 1s"}},
		"two racks":                                {racks(byID(two), byID(one)), "1a 1b 1p 1s 2a 2s", []string{"1a 1b 1p 1s", "2a 2s"}},
		"one rack by each identifier":              {racks(byID(two), byName("rack-2"), byExternalID("core-rack-2")), "2a 2s", []string{"2a 2s"}},
		"one rack with different types":            {racks(byID(one, shelf), byID(one, nvswitch), byID(one, shelf)), "1p 1s", []string{"1p 1s"}},
		"one rack with a type, and whole":          {racks(byID(one, shelf), byName("rack-1")), "1a 1b 1p 1s", []string{"1a 1b 1p 1s"}},
		"types of one rack, another whole":         {racks(byID(one, shelf), byID(two)), "1p 2a 2s", []string{"1p", "2a 2s"}},
		"one of two racks of one name, by id":      {racks(byID(testID(1, 4, 0))), "4a", []string{"4a"}},
		"a rack without components":                {racks(byID(testID(1, 6, 0))), "", nil},
		"a type that a rack has none of":           {racks(byID(one, ums)), "", nil},
		"a domain by id":                           {domains(domainID(testID(3, 0, 1))), "1a 1b 1p 1s 2a 2s", []string{"1a 1b 1p 1s", "2a 2s"}},
		"a domain by name":                         {domains(domainName("pod")), "1a 1b 1p 1s 2a 2s", []string{"1a 1b 1p 1s", "2a 2s"}},
		"a domain by external id":                  {domains(domainExternalID("group-1")), "1a 1b 1p 1s 2a 2s", []string{"1a 1b 1p 1s", "2a 2s"}},
		"types of a domain":                        {domains(domainID(testID(3, 0, 1), nvswitch)), "1s 2s", []string{"1s", "2s"}},
		"a type that one rack of a domain has":     {domains(domainID(testID(3, 0, 1), shelf)), "1p", nil},
		"one domain twice, with types and others":  {domains(domainID(testID(3, 0, 1), nvswitch), domainID(testID(3, 0, 1), compute)), "1a 1b 1s 2a 2s", []string{"1a 1b 1s", "2a 2s"}},
		"a domain without racks":                   {domains(domainID(testID(3, 0, 2))), "", nil},
		"a domain without racks, and another":      {domains(domainName("void"), domainName("pod")), "1a 1b 1p 1s 2a 2s", []string{"1a 1b 1p 1s", "2a 2s"}},
		"a component by id":                        {components(componentID(testID(2, 1, 1))), "1a", []string{"1a"}},
		"a component by external id":               {components(external("core-1a", 0)), "1a", []string{"1a"}},
		"a component by external id and type":      {components(external("core-1a", compute)), "1a", []string{"1a"}},
		"a component by MAC":                       {components(external("02:00:00:00:02:00", 0)), "2a", []string{"2a"}},
		"a component by MAC in another spelling":   {components(external("0200.0000.01F0", 0)), "1a", []string{"1a"}},
		"a component by MAC and type":              {components(external("0200000001f0", compute)), "1a", []string{"1a"}},
		"an external id of two types, with a type": {components(external("shared", nvswitch)), "1s", []string{"1s"}},
		"each of the two":                          {components(external("shared", nvswitch), external("shared", compute)), "1b 1s", []string{"1b 1s"}},
		"an external id that is its own MAC":       {components(external("02:00:00:00:02:00", compute)), "2a", []string{"2a"}},
		"one that is its MAC in another spelling":  {components(external("02-00-00-00-03-AA", 0)), "1p", []string{"1p"}},
		"and its MAC in a third":                   {components(external("0200.0000.03aa", 0)), "1p", []string{"1p"}},
		"a MAC that is another's external id":      {components(external("02:00:00:00:01:00", compute)), "1a", []string{"1a"}},
		"an external id that is another's MAC":     {components(external("02:00:00:00:01:00", nvswitch)), "2s", []string{"2s"}},
		"that MAC in another spelling":             {components(external("02-00-00-00-01-00", 0)), "1a", []string{"1a"}},
		"both, each in its spelling":               {components(external("02:00:00:00:01:00", nvswitch), external("02-00-00-00-01-00", 0)), "1a 2s", []string{"1a", "2s"}},
		"one component by each identifier": {
			components(external("02:00:00:00:01:f0", 0), componentID(testID(2, 1, 1)), external("core-1a", 0), external("core-1a", compute)), "1a", []string{"1a"},
		},
		"components of two racks": {components(external("core-3a", 0), componentID(testID(2, 1, 3)), componentID(testID(2, 1, 1))), "1a 1s 3a", []string{"1a 1s", "3a"}},
		"a component in no rack":  {components(external("core-h", 0)), "h", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				names, total := listed(t, flow, &flowv1.GetComponentsRequest{TargetSpec: c.spec})
				if got := strings.Join(names, " "); got != c.want || int(total) != len(names) {
					t.Errorf("lists %s of %d, want %s", got, total, c.want)
				}
				res, err := flow.ValidateComponents(t.Context(), &flowv1.ValidateComponentsRequest{TargetSpec: c.spec})
				if err != nil || res.GetMatchCount() != total {
					t.Errorf("compares %d components, want %d: %v", res.GetMatchCount(), total, err)
				}
				if c.tasks == nil {
					_, err := flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: c.spec})
					refused(t, err, connect.CodeFailedPrecondition)
				} else if d := cmp.Diff(c.tasks, p.submitted(t, flow, c.spec)); d != "" {
					t.Errorf("tasks (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestTargetsThatAreRefused(t *testing.T) {
	t.Parallel()
	p := district(t)
	one, other := testID(1, 1, 0), testID(1, 99, 0)
	pod := domainName("pod")
	invalid, none, ambiguous := connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeFailedPrecondition
	nilID := &flowv1.UUID{Id: zeroID}
	before := p.contents() + p.recorded()
	for name, c := range map[string]struct {
		spec  *flowv1.OperationTargetSpec
		code  connect.Code
		words []string
	}{
		"no kind":                          {&flowv1.OperationTargetSpec{}, invalid, []string{"target_spec"}},
		"no racks":                         {racks(), invalid, []string{"target_spec.racks", "at least one"}},
		"no domains":                       {domains(), invalid, []string{"target_spec.nvl_domains", "at least one"}},
		"no components":                    {components(), invalid, []string{"target_spec.components", "at least one"}},
		"a rack without identifier":        {racks(byID(one), &flowv1.RackTarget{ComponentTypes: []flowv1.ComponentType{compute}}), invalid, []string{"targets[1]"}},
		"a malformed rack id":              {racks(byID(one), byID(one), byID(&flowv1.UUID{Id: "rack-1"})), invalid, []string{"targets[2].id", "rack-1"}},
		"an empty rack id":                 {racks(byID(&flowv1.UUID{})), invalid, []string{"targets[0].id"}},
		"the nil rack id":                  {racks(byID(nilID)), invalid, []string{"targets[0].id"}},
		"an empty rack name":               {racks(byName("rack-1"), byName("")), invalid, []string{"targets[1].name"}},
		"an empty external id of a rack":   {racks(byExternalID("")), invalid, []string{"targets[0].external_id"}},
		"the unknown type":                 {racks(byID(one), byID(one, compute, 0)), invalid, []string{"targets[1].component_types[1]"}},
		"a type there is not":              {racks(byID(one, 42)), invalid, []string{"targets[0].component_types[0]", "42"}},
		"a domain without identifier":      {domains(pod, &flowv1.NVLDomainTarget{}), invalid, []string{"targets[1]"}},
		"a malformed domain id":            {domains(domainID(&flowv1.UUID{Id: "pod"})), invalid, []string{"targets[0].id", "pod"}},
		"the nil domain id":                {domains(pod, domainID(nilID)), invalid, []string{"targets[1].id"}},
		"an empty domain name":             {domains(domainName("")), invalid, []string{"targets[0].name"}},
		"a blank domain name":              {domains(domainName(" \t")), invalid, []string{"targets[0].name"}},
		"an empty external id of a domain": {domains(pod, pod, domainExternalID("")), invalid, []string{"targets[2].external_id"}},
		"a blank external id of a domain":  {domains(domainExternalID("  ")), invalid, []string{"targets[0].external_id"}},
		"the unknown type in a domain":     {domains(domainID(testID(3, 0, 1), 0)), invalid, []string{"targets[0].component_types[0]"}},
		"a type there is not, in a domain": {domains(domainID(testID(3, 0, 1), cdu, 99)), invalid, []string{"targets[0].component_types[1]", "99"}},
		"a component without identifier":   {components(external("core-1a", 0), &flowv1.ComponentTarget{}), invalid, []string{"targets[1]"}},
		"a malformed component id":         {components(componentID(&flowv1.UUID{Id: "core-1a"})), invalid, []string{"targets[0].id", "core-1a"}},
		"the nil component id":             {components(external("core-1a", 0), componentID(nilID)), invalid, []string{"targets[1].id"}},
		"an empty external id":             {components(external("", compute)), invalid, []string{"targets[0].external.id"}},
		"an external id of no known type":  {components(external("core-1a", 99)), invalid, []string{"targets[0].external.type", "99"}},

		"an unknown rack id":                   {racks(byID(one), byID(other)), none, []string{other.GetId(), "targets[1]"}},
		"an unknown rack name":                 {racks(byName("Rack-1")), none, []string{"Rack-1"}},
		"an unknown external id of a rack":     {racks(byExternalID("rack-1")), none, []string{"rack-1", "targets[0]"}},
		"a deleted rack":                       {racks(byID(testID(1, 5, 0))), none, []string{testID(1, 5, 0).GetId()}},
		"a deleted rack by name":               {racks(byName("rack-5")), none, []string{"rack-5"}},
		"a deleted rack by external id":        {racks(byExternalID("core-rack-5")), none, []string{"core-rack-5"}},
		"a name of two racks":                  {racks(byID(one), byName("twin")), invalid, []string{"twin", "matches multiple racks", "targets[1]"}},
		"an unknown domain id":                 {domains(domainID(testID(3, 0, 99))), none, []string{testID(3, 0, 99).GetId()}},
		"an unknown domain name":               {domains(pod, domainName("Pod")), none, []string{"Pod", "targets[1]"}},
		"an unknown external id of a domain":   {domains(domainExternalID("pod")), none, []string{"pod", "targets[0]"}},
		"a deleted domain":                     {domains(domainID(testID(3, 0, 4))), none, []string{testID(3, 0, 4).GetId()}},
		"a deleted domain by name":             {domains(domainName("gone")), none, []string{"gone"}},
		"a deleted domain by external id":      {domains(domainExternalID("group-4")), none, []string{"group-4"}},
		"an unknown component id":              {components(componentID(testID(2, 99, 1))), none, []string{testID(2, 99, 1).GetId()}},
		"the id of a rack":                     {components(componentID(one)), none, []string{one.GetId()}},
		"an unknown external id":               {components(external("core-1a", 0), external("Core-1a", 0)), none, []string{"Core-1a", "targets[1]"}},
		"a Flow id is no external id":          {components(external(testID(2, 1, 1).GetId(), 0)), none, []string{testID(2, 1, 1).GetId()}},
		"an external id of another type":       {components(external("core-1a", nvswitch)), none, []string{"core-1a", "NVSwitch"}},
		"a MAC of another type":                {components(external("02:00:00:00:01:f0", nvswitch)), none, []string{"02:00:00:00:01:f0"}},
		"an unknown MAC":                       {components(external("02:00:00:00:99:00", 0)), none, []string{"02:00:00:00:99:00"}},
		"a deleted component":                  {components(componentID(testID(2, 5, 1))), none, []string{testID(2, 5, 1).GetId()}},
		"a deleted component by external id":   {components(external("core-5a", 0)), none, []string{"core-5a"}},
		"a deleted component by MAC":           {components(external("02:00:00:00:05:00", 0)), none, []string{"02:00:00:00:05:00"}},
		"an external id of two types":          {components(external("core-1a", 0), external("shared", 0)), ambiguous, []string{"ambiguous", "shared", "targets[1]"}},
		"an external id that is another's MAC": {components(external("02:00:00:00:01:00", 0)), ambiguous, []string{"ambiguous", "02:00:00:00:01:00"}},

		"an unknown rack before an ambiguous one":      {racks(byID(one), byName("nobody"), byName("twin")), none, []string{"nobody", "targets[1]"}},
		"an ambiguous rack before an unknown one":      {racks(byName("twin"), byID(other)), invalid, []string{"twin", "targets[0]"}},
		"the first of two unknown racks":               {racks(byExternalID("z"), byID(other), byName("a")), none, []string{`"z"`, "targets[0]"}},
		"the first of two unknown domains":             {domains(pod, domainName("z"), domainExternalID("a")), none, []string{`"z"`, "targets[1]"}},
		"an unknown component before an ambiguous one": {components(componentID(testID(2, 99, 1)), external("shared", 0)), none, []string{testID(2, 99, 1).GetId(), "targets[0]"}},
		"an ambiguous component before an unknown one": {components(external("core-1a", 0), external("shared", 0), external("nobody", 0)), ambiguous, []string{"shared", "targets[1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for name, call := range scoped {
					t.Run(name, func(t *testing.T) { refused(t, call(t.Context(), flow, c.spec), c.code, c.words...) })
				}
			})
		})
	}
	if p.contents()+p.recorded() != before {
		t.Error("a refused request has left something behind")
	}
}

func TestTheSizeOfATargetSpec(t *testing.T) {
	t.Parallel()
	p := district(t)
	for name, spec := range map[string]func(n int) *flowv1.OperationTargetSpec{
		"racks": func(n int) *flowv1.OperationTargetSpec {
			return racks(slices.Repeat([]*flowv1.RackTarget{byID(testID(1, 1, 0))}, n)...)
		},
		"nvl_domains": func(n int) *flowv1.OperationTargetSpec {
			return domains(slices.Repeat([]*flowv1.NVLDomainTarget{domainName("pod")}, n)...)
		},
		"components": func(n int) *flowv1.OperationTargetSpec {
			return components(slices.Repeat([]*flowv1.ComponentTarget{external("core-1a", compute)}, n)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				for _, call := range scoped {
					refused(t, call(t.Context(), flow, spec(10_001)), connect.CodeInvalidArgument, name, "10001", "10000")
				}
				if names, _ := listed(t, flow, &flowv1.GetComponentsRequest{TargetSpec: spec(10_000)}); !slices.Contains(names, "1a") {
					t.Errorf("10,000 entries list %v", names)
				}
			})
		})
	}
}

func TestTheNumberOfStatementsDoesNotDependOnTheTargets(t *testing.T) {
	t.Parallel()
	p := serveParked(t)
	p.create(testRack(1, 0))
	p.exec(`INSERT INTO rack (id, name, external_id) SELECT ('00000001-0000-4000-8000-0002' || lpad(to_hex(i), 8, '0'))::uuid, 'r' || i, 'core-r' || i
		FROM generate_series(1, 200) AS i`)
	p.exec(`INSERT INTO nvl_domain (id, name) SELECT ('00000003-0000-4000-8000-0000' || lpad(to_hex(i), 8, '0'))::uuid, 'd' || i FROM generate_series(1, 200) AS i`)
	p.exec("UPDATE rack SET nvl_domain_id = (SELECT id FROM nvl_domain WHERE nvl_domain.name = 'd' || substr(rack.name, 2)) WHERE name ^@ 'r' AND name <> 'rack-1'")
	p.exec(`INSERT INTO component (id, type, name, external_id, rack_id)
		SELECT ('00000002-0000-4000-8000-0001' || lpad(to_hex(i), 8, '0'))::uuid, 'Compute', 'c' || i, 'core-c' || i, $1 FROM generate_series(1, 200) AS i`, testID(1, 1, 0).GetId())
	p.exec("INSERT INTO component (id, type, name, external_id, rack_id) SELECT gen_random_uuid(), 'Compute', 'x', 'x-' || name, id FROM rack WHERE name <> 'rack-1'")
	p.exec("INSERT INTO bmc (mac, type, component_id) SELECT ('0200000000' || lpad(to_hex(n), 2, '0'))::macaddr, 'HOST', id FROM (SELECT id, row_number() OVER () AS n FROM component WHERE rack_id = $1) AS c",
		testID(1, 1, 0).GetId())
	rackBy := map[string]func(i int) *flowv1.RackTarget{
		"racks by id":          func(i int) *flowv1.RackTarget { return byID(testID(1, 2, i), compute) },
		"racks by name":        func(i int) *flowv1.RackTarget { return byName(fmt.Sprintf("r%d", i)) },
		"racks by external id": func(i int) *flowv1.RackTarget { return byExternalID(fmt.Sprintf("core-r%d", i)) },
	}
	specs := map[string]func(n int) *flowv1.OperationTargetSpec{
		"domains": func(n int) *flowv1.OperationTargetSpec {
			return domains(upTo(n, func(i int) *flowv1.NVLDomainTarget { return domainName(fmt.Sprintf("d%d", i)) })...)
		},
		"components by id": func(n int) *flowv1.OperationTargetSpec {
			return components(upTo(n, func(i int) *flowv1.ComponentTarget { return componentID(testID(2, 1, i)) })...)
		},
		"components by external id": func(n int) *flowv1.OperationTargetSpec {
			return components(upTo(n, func(i int) *flowv1.ComponentTarget { return external(fmt.Sprintf("core-c%d", i), compute) })...)
		},
		"components by MAC": func(n int) *flowv1.OperationTargetSpec {
			return components(upTo(n, func(i int) *flowv1.ComponentTarget { return external(fmt.Sprintf("02:00:00:00:00:%02x", i), 0) })...)
		},
	}
	for name, by := range rackBy {
		specs[name] = func(n int) *flowv1.OperationTargetSpec { return racks(upTo(n, by)...) }
	}
	for name, spec := range specs {
		for call, do := range scoped {
			// The racks of a submission are admitted in batches, each in one transaction of its own.
			batch := 200
			if call == "PowerOnRack" && !strings.HasPrefix(name, "components") {
				batch = 100
			}
			statements := func(n int) int {
				defer p.exec("DELETE FROM task")
				return p.sql.during(func() {
					if err := do(t.Context(), p.grpc, spec(n)); err != nil {
						t.Errorf("%s of %d %s: %v", call, n, name, err)
					}
				})
			}
			if one, many := statements(1), statements(batch); one != many || many > 15 {
				t.Errorf("%s of %s: %d statements for one, %d for %d", call, name, one, many, batch)
			}
		}
	}
}

// upTo makes the first n of something.
func upTo[T any](n int, f func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = f(i + 1)
	}
	return list
}
