package rpc

import (
	"fmt"
	"slices"
	"testing"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// strictness lists what a component's phase may be recorded as, "" for never, from the strictest on.
var strictness = []struct {
	recorded string
	phase    flowv1.Phase
}{
	{"", flowv1.Phase_PHASE_UNKNOWN},
	{"UNKNOWN", flowv1.Phase_PHASE_UNKNOWN},
	{"ERROR", flowv1.Phase_PHASE_ERROR},
	{"INITIALIZING", flowv1.Phase_PHASE_INITIALIZING},
	{"DELETING", flowv1.Phase_PHASE_DELETING},
	{"IN_USE", flowv1.Phase_PHASE_IN_USE},
	{"READY", flowv1.Phase_PHASE_READY},
}

// operationStatuses reads every rack, with and without components, and every domain, and returns their statuses by name.
func operationStatuses(t *testing.T, flow flowv1connect.FlowClient) map[string]flowv1.Phase {
	t.Helper()
	all := map[string]flowv1.Phase{}
	page := &flowv1.Pagination{Limit: 1000}
	for _, with := range []bool{false, true} {
		res, err := flow.GetListOfRacks(t.Context(), &flowv1.GetListOfRacksRequest{Pagination: page, WithComponents: with})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.GetRacks() {
			name := r.GetInfo().GetName()
			if before, ok := all[name]; ok && before != r.GetOperationStatus() {
				t.Errorf("%s is %v without components and %v with them", name, before, r.GetOperationStatus())
			}
			all[name] = r.GetOperationStatus()
		}
		links, err := flow.GetListOfNVLinkDomains(t.Context(), &flowv1.GetListOfNVLinkDomainsRequest{Pagination: page, WithComponents: with})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range links.GetDomains() {
			if before, ok := all[d.GetName()]; ok && before != d.GetOperationStatus() {
				t.Errorf("%s is %v without components and %v with them", d.GetName(), before, d.GetOperationStatus())
			}
			all[d.GetName()] = d.GetOperationStatus()
		}
	}
	return all
}

// TestTheStrictestPhaseDecides has a rack of two components for each pair of phases, and a domain of two racks.
func TestTheStrictestPhaseDecides(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	want := map[string]flowv1.Phase{}
	for i, a := range strictness {
		for j, b := range strictness {
			name := fmt.Sprintf("%q and %q", a.recorded, b.recorded)
			want[name] = strictness[min(i, j)].phase
			want["domain "+name] = strictness[min(i, j)].phase
			want["first "+name], want["second "+name] = a.phase, b.phase
			s.exec(`WITH r AS (INSERT INTO rack (id, name) VALUES (gen_random_uuid(), $1) RETURNING id)
				INSERT INTO component (id, type, name, rack_id, phase)
				SELECT gen_random_uuid(), kind, kind, r.id, nullif(phase, '') FROM r, (VALUES ('Compute', $2), ('NVSwitch', $3)) AS c (kind, phase)`,
				name, a.recorded, b.recorded)
			s.exec(`WITH d AS (INSERT INTO nvl_domain (id, name, external_id) VALUES (gen_random_uuid(), 'domain ' || $1, $1) RETURNING id),
				r AS (INSERT INTO rack (id, name, nvl_domain_id)
					SELECT gen_random_uuid(), n || $1, d.id FROM d, (VALUES ('first '), ('second ')) AS names (n) RETURNING id, name)
				INSERT INTO component (id, type, name, rack_id, phase)
				SELECT gen_random_uuid(), 'PowerShelf', 's', r.id, nullif(CASE WHEN name ^@ 'first' THEN $2 ELSE $3 END, '') FROM r`,
				name, a.recorded, b.recorded)
		}
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		got := operationStatuses(t, flow)
		for name, phase := range want {
			if got[name] != phase {
				t.Errorf("%s: %v, want %v", name, got[name], phase)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d objects, want %d", len(got), len(want))
		}
	})
}

func TestWhichComponentsCountForTheStatus(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	ready, unknown := flowv1.Phase_PHASE_READY, flowv1.Phase_PHASE_UNKNOWN
	want := map[string]flowv1.Phase{"nothing": unknown, "only a deleted tray": unknown, "a ready tray, a deleted one": ready}
	add := func(rack, kind string, deleted bool) {
		s.exec(`INSERT INTO component (id, type, name, rack_id, phase, deleted_at)
			SELECT gen_random_uuid(), $2, $2, id, CASE WHEN $3 OR $2 IN ('ToRSwitch', 'UMS', 'CDU') THEN 'ERROR' ELSE 'READY' END,
				CASE WHEN $3 THEN now() END FROM rack WHERE name = $1`, rack, kind, deleted)
	}
	for _, name := range []string{"nothing", "only a deleted tray", "a ready tray, a deleted one"} {
		s.exec("INSERT INTO rack (id, name) VALUES (gen_random_uuid(), $1)", name)
	}
	add("only a deleted tray", "Compute", true)
	add("a ready tray, a deleted one", "Compute", true)
	add("a ready tray, a deleted one", "Compute", false)
	for _, kind := range []string{"Compute", "NVSwitch", "PowerShelf", "ToRSwitch", "UMS", "CDU"} {
		s.exec("INSERT INTO rack (id, name) SELECT gen_random_uuid(), unnest(ARRAY[$1, $1 || ' and a tray'])", kind)
		add(kind, kind, false)
		add(kind+" and a tray", kind, false)
		add(kind+" and a tray", "Compute", false)
		want[kind], want[kind+" and a tray"] = unknown, ready
		if slices.Contains([]string{"Compute", "NVSwitch", "PowerShelf"}, kind) {
			want[kind] = ready
		}
	}
	// A domain has the status of its live racks, or none.
	s.exec("INSERT INTO nvl_domain (id, name, external_id) SELECT gen_random_uuid(), 'domain ' || n, n FROM unnest(ARRAY['ready', 'empty']) AS n")
	s.exec("UPDATE rack SET nvl_domain_id = (SELECT id FROM nvl_domain WHERE external_id = 'ready') WHERE name = 'Compute'")
	s.exec(`INSERT INTO rack (id, name, nvl_domain_id, deleted_at) SELECT gen_random_uuid(), 'deleted', id, now() FROM nvl_domain`)
	want["domain ready"], want["domain empty"] = ready, unknown
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		got := operationStatuses(t, flow)
		for name, phase := range want {
			if got[name] != phase {
				t.Errorf("%s: %v, want %v", name, got[name], phase)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestBlockedOperationsFollowThePhase(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	both := []flowv1.OperationType{flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL}
	want := map[string]*flowv1.ComponentOperationStatus{
		"READY":        {Phase: flowv1.Phase_PHASE_READY},
		"INITIALIZING": {Phase: flowv1.Phase_PHASE_INITIALIZING, BlockedOperations: both},
		"IN_USE":       {Phase: flowv1.Phase_PHASE_IN_USE, BlockedOperations: both},
		"ERROR":        {Phase: flowv1.Phase_PHASE_ERROR, BlockedOperations: both},
		"DELETING":     {Phase: flowv1.Phase_PHASE_DELETING, BlockedOperations: both},
		"UNKNOWN":      {Phase: flowv1.Phase_PHASE_UNKNOWN},
		"":             nil, // never seen
	}
	for phase, status := range want {
		reason := ""
		if phase != "READY" && status != nil {
			reason, status.Reason = "Raw/"+phase, "Raw/"+phase
		}
		s.exec("INSERT INTO component (id, type, name, phase, phase_reason) VALUES (gen_random_uuid(), 'NVSwitch', $1, nullif($1, ''), $2)", phase, reason)
	}
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		res, err := flow.GetComponents(t.Context(), &flowv1.GetComponentsRequest{})
		if err != nil || len(res.GetComponents()) != len(want) {
			t.Fatalf("%d components, %v", len(res.GetComponents()), err)
		}
		for _, c := range res.GetComponents() {
			if d := diff(want[c.GetInfo().GetName()], c.GetStatus()); d != "" {
				t.Errorf("phase %q (-want +got):\n%s", c.GetInfo().GetName(), d)
			}
		}
	})
}
