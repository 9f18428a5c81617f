package inventory

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
	"rackflow.dev/flow/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// planned is a site with as much as a large one has a tenth of, every rack of it at work; it records what is sent to it.
type planned struct {
	*storetest.Plans
	*store.Store
	rack, domain, component uuid.UUID // rack-500, its domain-500, its tray-5
}

func plan(t *testing.T) *planned {
	t.Helper()
	p := &planned{Plans: &storetest.Plans{}}
	var err error
	p.Store, err = store.Open(t.Context(), store.Config{URL: storetest.New(t), Tracer: p.Plans})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	_, err = p.API.Exec(t.Context(), `
		INSERT INTO nvl_domain (id, name, external_id) SELECT gen_random_uuid(), 'domain-' || i, 'group-' || i FROM generate_series(1, 1000) AS i;
		INSERT INTO rack (id, name, manufacturer, serial, external_id, nvl_domain_id)
			SELECT gen_random_uuid(), 'rack-' || i, 'NVIDIA', 'R' || i, 'core-' || i, nvl_domain.id
			FROM generate_series(1, 1000) AS i JOIN nvl_domain ON nvl_domain.name = 'domain-' || i;
		INSERT INTO component (id, type, name, manufacturer, serial, rack_id, external_id)
			SELECT gen_random_uuid(), 'Compute', 'tray-' || i, 'NVIDIA', rack.serial || 'C' || i, rack.id, rack.external_id || '-' || i
			FROM rack, generate_series(1, 10) AS i;
		INSERT INTO component (id, type, name, rack_id, deleted_at)
			SELECT gen_random_uuid(), 'Compute', 'gone', rack.id, now() FROM rack, generate_series(1, 3);
		INSERT INTO bmc (mac, type, component_id)
			SELECT ('02000' || lpad(to_hex(row_number() OVER ()), 7, '0'))::macaddr, 'HOST', id FROM component;
		INSERT INTO drift (kind, component_id, type) SELECT 'mismatch', id, type FROM component WHERE name IN ('tray-1', 'tray-2', 'tray-5');
		INSERT INTO drift (kind, type, external_id, rack_external_id)
			SELECT 'missing_in_expected', 'Compute', 'found-' || external_id, external_id FROM rack;
		WITH t AS (
			INSERT INTO task (id, rack_id, operation_type, operation_code, state, message, started_at, finished_at)
			SELECT gen_random_uuid(), rack.id, 'power_control', 'power_on', CASE i WHEN 1 THEN 'running' ELSE 'completed' END::task_state, '', now(),
				CASE WHEN i > 1 THEN now() END
			FROM rack, generate_series(1, 3) AS i RETURNING id, rack_id, state
		)
		INSERT INTO task_plan (task_id, request, plan, component_types, component_ids, answers_leak)
			SELECT t.id, '{}', '{}', '{Compute}', array_agg(component.id), state = 'completed' AND rack.name LIKE '%00'
			FROM t JOIN component ON component.rack_id = t.rack_id JOIN rack ON rack.id = t.rack_id GROUP BY t.id, state, rack.name;
		SELECT gin_clean_pending_list('task_plan_component_idx'), gin_clean_pending_list('task_plan_leak_component_idx'); -- as a vacuum does
		ANALYZE`)
	if err != nil {
		t.Fatal(err)
	}
	err = p.API.QueryRow(t.Context(), `SELECT rack.id, rack.nvl_domain_id, component.id FROM rack JOIN component ON component.rack_id = rack.id
		WHERE rack.name = 'rack-500' AND component.name = 'tray-5'`).Scan(&p.rack, &p.domain, &p.component)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// indexes says by query which indexes it has to go by.
type indexes = map[string][]string

// check makes a call, which must not fail, and explains what it sent.
func (p *planned) check(t *testing.T, name string, call func(ctx context.Context) error, want indexes) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if err := call(t.Context()); err != nil {
			t.Fatal(err)
		}
		for query, indexes := range want {
			t.Run(query, func(t *testing.T) { p.Check(t, p.API, query, indexes...) })
		}
	})
}

// TestReadsUseTheirIndexes explains what was really sent. What reads a table whole, and may, is left out: counts and lists
// without a scope that go by something else than name, drift without a scope, of which a healthy site has little, and
// drift_check, which has three rows. Domains are read whole as well when they are filtered, counted or listed by name
// downwards: there is one for each rack at most, in short rows.
func TestReadsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	p := plan(t)
	racks := func(q RackQuery) func(context.Context) error {
		return func(ctx context.Context) error {
			q.Limit = 20
			_, _, err := ListRacks(ctx, p.API, q)
			return err
		}
	}
	components := func(q ComponentQuery) func(context.Context) error {
		return func(ctx context.Context) error {
			q.Limit = 20
			_, _, err := ListComponents(ctx, p.API, q)
			return err
		}
	}
	drift := func(s Scope) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := Compare(ctx, p.API, ComponentQuery{Scope: &s, Limit: 20})
			return err
		}
	}
	rack := func(manufacturer string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := GetRackBySerial(ctx, p.API, manufacturer, "R7", false)
			return err
		}
	}
	component := func(id string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := GetComponent(ctx, p.API, id, true)
			return err
		}
	}
	domain := func(id string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := GetDomain(ctx, p.API, id, true)
			return err
		}
	}
	resolve := func(s Scope) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Resolve(ctx, db.New(p.API))
			return err
		}
	}
	named := func(name string) Filter {
		return Filter{Matches: map[Field][]Match{ByName: {{Patterns: []string{name}}}}}
	}
	inRack := Scope{Racks: []RackRef{{ID: p.rack}}}
	typed := Scope{Racks: []RackRef{{ID: p.rack, Types: []hardware.ComponentType{hardware.Compute}}}}
	single := Scope{Components: []ComponentRef{{ID: p.component}}}

	byName, byRack, byID := []string{"component_name_idx"}, []string{"component_rack_idx"}, []string{"component_pkey"}
	p.check(t, "racks by name", racks(RackQuery{}), indexes{"RackList": {"rack_name_idx"}, "RackPhases": byRack, "RackTaskStats": {"task_active_idx"}})
	p.check(t, "racks by name downwards", racks(RackQuery{Order: ByName, Descending: true}), indexes{"RackList": {"rack_name_idx"}})
	p.check(t, "racks of a name", racks(RackQuery{Filter: named("rack-7")}), indexes{"RackList": {"rack_name_idx"}, "RackCount": {"rack_name_idx"}})
	p.check(t, "racks with components", racks(RackQuery{Components: true}), indexes{
		"ComponentListByRacks": byRack, "BMCList": {"bmc_component_idx"}, "DomainListByIDs": {"nvl_domain_pkey"},
		"ComponentTaskStats": {"task_active_idx", "task_plan_pkey"}, "ComponentLeakTasks": {"task_plan_leak", "task_pkey"},
	})
	p.check(t, "a rack by external id", func(ctx context.Context) error {
		_, err := GetRack(ctx, p.API, "core-7", false)
		return err
	}, indexes{"RackGetByExternalID": {"rack_external_id_key"}})
	p.check(t, "a rack by Flow id", func(ctx context.Context) error {
		_, err := GetRack(ctx, p.API, p.rack.String(), false)
		return err
	}, indexes{"RackGetByID": {"rack_pkey"}})
	p.check(t, "a rack by serial number", rack(""), indexes{"RackListBySerial": {"rack_serial_key"}})
	p.check(t, "a rack by type plate", rack("NVIDIA"), indexes{"RackListBySerial": {"rack_serial_"}}) // either index
	p.check(t, "components by name", components(ComponentQuery{}), indexes{
		"ComponentPage": byName, "BMCList": {"bmc_component_idx"},
		"ComponentTaskStats": {"task_active_idx", "task_plan_pkey"}, "ComponentLeakTasks": {"task_plan_leak", "task_pkey"},
	})
	p.check(t, "components by name downwards", components(ComponentQuery{Order: ByName, Descending: true}), indexes{"ComponentPage": byName})
	p.check(t, "components of a name", components(ComponentQuery{Filter: named("tray-5")}), indexes{"ComponentPage": byName, "ComponentCount": {"Index Only Scan"}})
	p.check(t, "components of a rack", components(ComponentQuery{Scope: &inRack}), indexes{
		"ComponentPage": byRack, "ComponentCount": byRack, "ComponentRackInfo": {"rack_pkey", "nvl_domain_pkey"},
	})
	p.check(t, "components of a rack by model", components(ComponentQuery{Scope: &inRack, Order: ByModel}), indexes{"ComponentPage": byRack})
	p.check(t, "a type of a rack", components(ComponentQuery{Scope: &typed}), indexes{"ComponentPage": byRack, "ComponentCount": byRack})
	p.check(t, "single components", components(ComponentQuery{Scope: &single}), indexes{"ComponentPage": byID, "ComponentCount": byID})
	p.check(t, "a component by Flow id", component(p.component.String()), indexes{
		"ComponentListByScope": {"component_pkey", "component_external_id_key", "bmc_pkey"}, "ComponentListByIDs": byID, "RackListByIDs": {"rack_pkey"},
	})
	p.check(t, "a component by MAC", component("02:00:00:00:00:07"), indexes{"ComponentListByScope": {"bmc_pkey", "component_pkey"}})
	p.check(t, "a component by type plate", func(ctx context.Context) error {
		_, _, err := GetComponentBySerial(ctx, p.API, "NVIDIA", "R5C5", false)
		return err
	}, indexes{"ComponentListBySerial": {"component_serial_key"}})
	p.check(t, "drift of a rack", drift(inRack), indexes{
		"DriftList": {"component_rack_idx", "drift_component_key", "rack_pkey", "drift_rack_idx"},
	})
	p.check(t, "drift of a type of a rack", drift(typed), indexes{
		"DriftList": {"component_rack_idx", "drift_component_key", "rack_pkey", "drift_rack_idx"},
	})
	p.check(t, "drift of single components", drift(single), indexes{
		"DriftList": {"drift_component_key", "component_pkey"},
	})
	p.check(t, "domains by name", func(ctx context.Context) error {
		_, _, err := ListLinkedDomains(ctx, p.API, DomainQuery{Limit: 20}, true)
		return err
	}, indexes{"DomainList": {"nvl_domain_name_key"}, "RackListByDomains": {"rack_nvl_domain_idx"}})
	p.check(t, "a domain by external id", domain("group-7"), indexes{"DomainGetByAnyID": {"nvl_domain_external_id_key"}})
	p.check(t, "a domain by Flow id", domain(p.domain.String()), indexes{"DomainGetByAnyID": {"nvl_domain_external_id_key", "nvl_domain_pkey"}})
	p.check(t, "racks of any identifier", resolve(Scope{Racks: []RackRef{{ID: p.rack}, {Name: "rack-7"}, {ExternalID: "core-8"}}}),
		indexes{"RackListByScope": {"rack_pkey", "rack_name_idx", "rack_external_id_key"}})
	p.check(t, "domains of any identifier", resolve(Scope{Domains: []DomainRef{{ID: p.domain}, {Name: "domain-7"}, {ExternalID: "group-8"}}}),
		indexes{"DomainListByScope": {"nvl_domain_pkey", "nvl_domain_name_key", "nvl_domain_external_id_key"}, "RackListByDomains": {"rack_nvl_domain_idx"}})
	p.check(t, "components of any identifier", resolve(Scope{Components: []ComponentRef{{ID: p.component}, {External: "core-7-1"}, {External: "02:00:00:00:00:07"}}}),
		indexes{"ComponentListByScope": {"component_pkey", "component_external_id_key", "bmc_pkey"}})
	p.check(t, "a rack and a component whose tasks are listed", func(ctx context.Context) error {
		q := db.New(p.API)
		if _, err := q.RackIDTaken(ctx, db.RackIDTakenParams{ID: p.rack}); err != nil {
			return err
		}
		_, err := q.ComponentListByAnyID(ctx, db.ComponentListByAnyIDParams{ExternalID: new("core-7-1"), Mac: net.HardwareAddr{2, 0, 0, 0, 0, 7}, ID: p.component})
		return err
	}, indexes{"RackIDTaken": {"rack_pkey"}, "ComponentListByAnyID": {"component_external_id_key", "bmc_pkey", "component_pkey"}})
	p.check(t, "what a task is for", func(ctx context.Context) error {
		_, err := db.New(p.API).ComponentTargets(ctx, db.ComponentTargetsParams{RackIds: []uuid.UUID{p.rack}, Ids: []uuid.UUID{p.component}})
		return err
	}, indexes{"ComponentTargets": {"component_rack_idx", "component_pkey", "bmc_component_idx"}})
}

// TestWritesUseTheirIndexes explains what writes send. What they do to the components of a deleted rack is left out: there
// is no index for tombstones of a rack.
func TestWritesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	p := plan(t)
	mac, err := ParseMAC("06:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	plate := Plate{Name: "new", Manufacturer: "NVIDIA", Serial: "new"}
	created := NewRack{ID: uuid.New(), Plate: plate, ExternalID: "new", DomainID: p.domain, Components: []NewComponent{
		{ID: uuid.New(), Type: "Compute", Plate: plate, ExternalID: "new", BMCs: []NewBMC{{Type: BMCHost, MAC: mac}}},
	}}
	p.check(t, "a new rack", func(ctx context.Context) error { return CreateRack(ctx, p.API, created) }, indexes{
		"RackListTaken":      {"rack_pkey", "rack_external_id_key"},
		"ComponentListTaken": {"component_pkey", "component_external_id_key", "component_serial_key"},
		"BMCListTaken":       {"bmc_pkey", "component_pkey"},
		"DomainHold":         {"nvl_domain_pkey"},
	})
	taken, err := ParseMAC("02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	p.check(t, "a component with the MAC of a tombstone", func(ctx context.Context) error {
		if _, err := p.API.Exec(ctx, "UPDATE component SET deleted_at = now() WHERE id = (SELECT component_id FROM bmc WHERE mac = $1)", taken); err != nil {
			return err
		}
		c := NewComponent{Path: "component", Type: "Compute", Plate: Plate{Name: "x"}, BMCs: []NewBMC{{Type: BMCHost, MAC: taken}}}
		_, err := AddComponent(ctx, p.API, c, &p.rack)
		return err
	}, indexes{"RackHold": {"rack_pkey"}, "BMCReleaseDeleted": {"bmc_pkey", "component_pkey"}})
	p.check(t, "a patch of a rack", func(ctx context.Context) error {
		bmc := NewBMC{MAC: mac, IP: netip.MustParseAddr("10.0.0.1")}
		_, err := PatchRack(ctx, p.API, RackPatch{
			Plate: Plate{Name: "renamed", Manufacturer: "NVIDIA", Serial: "new"},
			Components: []RackPatchComponent{{NewComponent: NewComponent{
				ID: created.Components[0].ID, FirmwareVersion: "2", Slot: -1, Tray: -1, Host: -1, BMCs: []NewBMC{bmc},
			}}},
		})
		return err
	}, indexes{
		"RackListBySerial": {"rack_serial_"}, "RackLock": {"rack_pkey"}, "RackPatch": {"rack_pkey"},
		"ComponentLockByRack": {"component_rack_idx"}, "ComponentPatchMany": {"component_pkey"}, "BMCSetIPs": {"bmc_pkey"},
	})
	p.check(t, "a component moved to another rack", func(ctx context.Context) error {
		_, err := PatchComponent(ctx, p.API, ComponentPatch{ID: created.Components[0].ID, RackID: &p.rack})
		return err
	}, indexes{"RackLockMany": {"rack_pkey"}, "ComponentLock": {"component_pkey"}, "TaskActiveByComponent": {"task_plan_component_idx", "task_pkey"}})
	p.check(t, "a rack that leaves its domain", func(ctx context.Context) error {
		return DetachRacks(ctx, p.API, []RackRef{{Name: "rack-500"}})
	}, indexes{"RackListByScope": {"rack_name_idx"}, "RackLockMany": {"rack_pkey"}, "RackSetDomain": {"rack_pkey"}})
	p.check(t, "a rack that joins a domain", func(ctx context.Context) error {
		return AttachRacks(ctx, p.API, DomainRef{Name: "domain-500"}, []RackRef{{ID: p.rack}})
	}, indexes{"DomainListByScope": {"nvl_domain_name_key"}, "DomainHold": {"nvl_domain_pkey"}, "RackSetDomain": {"rack_pkey"}})
	p.check(t, "a new domain", func(ctx context.Context) error {
		return CreateDomain(ctx, p.API, NewDomain{ID: uuid.New(), Name: "new", ExternalID: "new"})
	}, indexes{"DomainListTaken": {"nvl_domain_pkey", "nvl_domain_name_key", "nvl_domain_external_id_key"}})
	p.check(t, "the components of a plan as they were", func(ctx context.Context) error {
		var ids, racks []uuid.UUID
		for range 72 {
			ids, racks = append(ids, p.component), append(racks, p.rack)
		}
		_, err := db.New(p.Engine).ComponentStrayed(ctx, db.ComponentStrayedParams{Ids: ids, RackIds: racks})
		return err
	}, indexes{"ComponentStrayed": {"component_pkey"}})
	p.check(t, "racks that tasks are admitted to", func(ctx context.Context) error {
		_, err := db.New(p.Engine).RackLockMany(ctx, db.RackLockManyParams{Ids: []uuid.UUID{p.rack, created.ID}})
		return err
	}, indexes{"RackLockMany": {"rack_pkey"}})
	p.check(t, "a component that goes", func(ctx context.Context) error {
		if err := DeleteComponent(ctx, p.API, created.Components[0].ID); err != nil {
			return err
		}
		return PurgeComponent(ctx, p.API, created.Components[0].ID)
	}, indexes{"ComponentDelete": {"component_pkey"}, "ComponentPurge": {"component_pkey"}})
	p.check(t, "a rack that goes", func(ctx context.Context) error { return DeleteRack(ctx, db.New(p.API), p.rack) },
		indexes{"RackDelete": {"rack_pkey"}, "ComponentDeleteByRack": {"component_rack_idx"}})
	p.check(t, "the tasks that wait for it", func(ctx context.Context) error {
		_, err := db.New(p.API).TaskEndWaiting(ctx, db.TaskEndWaitingParams{RackID: p.rack, ToState: db.TaskStateTerminated})
		return err
	}, indexes{"TaskEndWaiting": {"task_active_idx"}})
	p.check(t, "a rack that is gone", func(ctx context.Context) error {
		return db.New(p.API).RackPurge(ctx, db.RackPurgeParams{ID: uuid.New()})
	}, indexes{"RackPurge": {"rack_pkey"}})
	p.check(t, "a rack that comes back", func(ctx context.Context) error {
		return db.New(p.API).RackRestore(ctx, db.RackRestoreParams{ID: p.rack})
	}, indexes{"RackRestore": {"rack_pkey"}})
}

// TestPostgreSQLReadsPatternsAsMeant compares it with the plain reading of the dialect on random patterns and texts.
func TestPostgreSQLReadsPatternsAsMeant(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), store.Config{URL: storetest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	random := rand.New(rand.NewPCG(1, 2))
	word := func(alphabet []string, most int) string {
		var b strings.Builder
		for range random.IntN(most + 1) {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	common := []string{"a", "A", "b", "é", "É", ".", "*", "[", "(", "$", "_", "-", "\n", `\`, "%"}
	var patterns, texts, exprs, likes []string
	for range 3000 {
		p, x := word(slices.Concat(common, []string{"%", "%", `\%`, `\\`}), 4), word(common, 6)
		patterns, texts, exprs = append(patterns, p), append(texts, x), append(exprs, "(?i)^"+wildcard(p))
		l, ok := like(p)
		if !ok {
			l = "no pattern"
		}
		likes = append(likes, l)
	}
	rows, err := s.API.Query(t.Context(), `
		SELECT x COLLATE "C" ~ p, CASE l WHEN 'no pattern' THEN x COLLATE "C" ~ p ELSE lower(x COLLATE "C") LIKE l END
		FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS u(x, p, l, n) ORDER BY n`, texts, exprs, likes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Expr, Like bool }])
	if err != nil {
		t.Fatal(err)
	}
	matched := 0
	for i := range got {
		if want := plainMatch(patterns[i], texts[i]); got[i].Expr != want || got[i].Like != want {
			t.Errorf("%q as %q and %q matches %q: %+v, want %t", patterns[i], exprs[i], likes[i], texts[i], got[i], want)
		}
		if got[i].Expr {
			matched++
		}
	}
	if matched < 300 || matched > 2700 {
		t.Errorf("%d of %d match, which tests little", matched, len(got))
	}
}
