package inventory

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// TestListsAndWritesUseTheirIndexes explains what was really sent, against as much as a large site has a tenth of.
func TestListsAndWritesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	rec := &storetest.Plans{}
	s, err := store.Open(t.Context(), store.Config{URL: storetest.New(t), Tracer: rec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	_, err = s.API.Exec(t.Context(), `
		INSERT INTO rack (id, name, manufacturer, serial, external_id)
			SELECT gen_random_uuid(), 'rack-' || i, 'NVIDIA', 'R' || i, 'core-' || i FROM generate_series(1, 1000) AS i;
		INSERT INTO component (id, type, name, manufacturer, serial, rack_id, external_id)
			SELECT gen_random_uuid(), 'Compute', 'tray-' || i, 'NVIDIA', rack.serial || 'C' || i, rack.id, rack.external_id || '-' || i
			FROM rack, generate_series(1, 10) AS i;
		INSERT INTO bmc (mac, type, component_id)
			SELECT ('02000' || lpad(to_hex(row_number() OVER ()), 7, '0'))::macaddr, 'HOST', id FROM component;
		INSERT INTO task (id, rack_id, operation_type, operation_code, state, message, started_at, finished_at)
			SELECT gen_random_uuid(), id, 'power_control', 'power_on', 'completed', '', now(), now() FROM rack, generate_series(1, 3);
		ANALYZE`)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ListRacks(t.Context(), s.API, RackQuery{Limit: 20, Components: true}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ListRacks(t.Context(), s.API, RackQuery{Limit: 20}); err != nil {
		t.Fatal(err)
	}
	if _, err := GetRack(t.Context(), s.API, "core-7", false); err != nil {
		t.Fatal(err)
	}
	if _, err := GetRackBySerial(t.Context(), s.API, "", "R7", false); err != nil {
		t.Fatal(err)
	}
	mac, err := ParseMAC("06:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	plate := Plate{Name: "new", Manufacturer: "NVIDIA", Serial: "new"}
	err = CreateRack(t.Context(), s.API, NewRack{
		ID: uuid.New(), Plate: plate, ExternalID: "new",
		Components: []NewComponent{{ID: uuid.New(), Type: "Compute", Plate: plate, ExternalID: "new", BMCs: []NewBMC{{Type: BMCHost, MAC: mac}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, indexes := range map[string][]string{
		"RackList":             {"rack_name_idx"},
		"RackGetByExternalID":  {"rack_external_id_key"},
		"RackListBySerial":     {"rack_serial_idx"},
		"RackPhases":           {"component_rack_idx"},
		"RackTaskStats":        {"task_active_idx"},
		"ComponentListByRacks": {"component_rack_idx"},
		"BMCListByComponents":  {"bmc_component_idx"},
		"RackListTaken":        {"rack_pkey", "rack_external_id_key"},
		"ComponentListTaken":   {"component_pkey", "component_external_id_key", "component_serial_key"},
		"BMCListTaken":         {"bmc_pkey", "component_pkey"},
	} {
		t.Run(name, func(t *testing.T) {
			rec.Check(t, s.API, name, indexes...)
		})
	}
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
	var patterns, texts, exprs []string
	for range 3000 {
		p, x := word(slices.Concat(common, []string{"%", "%", `\%`, `\\`}), 4), word(common, 6)
		patterns, texts, exprs = append(patterns, p), append(texts, x), append(exprs, "(?i)^"+wildcard(p))
	}
	rows, err := s.API.Query(t.Context(), `SELECT x COLLATE "C" ~ p FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(x, p, n) ORDER BY n`, texts, exprs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil {
		t.Fatal(err)
	}
	matched := 0
	for i := range got {
		if want := plainMatch(patterns[i], texts[i]); got[i] != want {
			t.Errorf("%q as %q matches %q: %t, want %t", patterns[i], exprs[i], texts[i], got[i], want)
		}
		if got[i] {
			matched++
		}
	}
	if matched < 300 || matched > 2700 {
		t.Errorf("%d of %d match, which tests little", matched, len(got))
	}
}
