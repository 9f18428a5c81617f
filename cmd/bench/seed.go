package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
)

// The rest of the benchmark knows what a client sees. Only this file knows tables and columns: an inventory with what
// synchronisation adds to it can't be had over the API.

const (
	seedAtOnce = 500 // racks a transaction
	driftEvery = 50  // one component of so many has drifted
	unexpected = 500 // components that nobody expects
)

// seed fills the database of the server with the first n racks, as a synchronised site looks: each pair of racks is an
// NVLink domain, every component has been seen, some have drifted. Racks of an earlier execution stay.
func (s *server) seed(ctx context.Context, n int) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	last := rackMessage(n - 1).GetInfo().GetId().GetId()
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM rack WHERE id = $1)`, last).Scan(&there); err != nil || there {
		return err
	}
	if _, err := conn.Exec(ctx, `INSERT INTO drift_check (type) VALUES ('Compute'), ('NVSwitch'), ('PowerShelf')`); err != nil {
		return err
	}
	for first := 0; first < n; first += seedAtOnce {
		rows := newSeedRows()
		for i := first; i < min(first+seedAtOnce, n); i++ {
			rows.rack(i)
		}
		if err := rows.copy(ctx, conn); err != nil {
			return err
		}
	}
	rows := newSeedRows()
	for i := range unexpected {
		rack := fullRack(i * n / unexpected).GetExternalId()
		rows.add("drift", "missing_in_expected", nil, "Compute", fmt.Sprintf("unknown-%05d", i), rack, "[]")
	}
	if err := rows.copy(ctx, conn); err != nil {
		return err
	}
	// Otherwise it would happen by itself, in the middle of the measurement.
	for _, statement := range []string{`VACUUM ANALYZE nvl_domain, rack, component, bmc, drift`, `CHECKPOINT`} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}

// nextRack is the first rack of which nothing has ever been created.
func (s *server) nextRack(ctx context.Context) (n int, err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `SELECT substr(max(name), length('bench-') + 1, 5)::integer + 1 FROM component`).Scan(&n)
	return n, err
}

// seedTables are in the order in which they refer to each other.
var seedTables = []struct {
	name    string
	columns string
}{
	{"nvl_domain", "id name external_id"},
	{"rack", "id name manufacturer serial model region datacenter room position external_id nvl_domain_id health"},
	{"component", "id type name manufacturer serial model firmware_version slot_id tray_idx host_id rack_id external_id " +
		"power_state phase phase_at health leak_status last_seen_at"},
	{"bmc", "mac type component_id rack_id ip"},
	{"drift", "kind component_id type external_id rack_external_id field_diffs"},
}

var seedTypes = map[flowv1.ComponentType]string{
	flowv1.ComponentType_COMPONENT_TYPE_COMPUTE:    "Compute",
	flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH:   "NVSwitch",
	flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF: "PowerShelf",
}

// seedRows are rows to copy, by table.
type seedRows struct {
	now    time.Time
	tables map[string][][]any
}

func newSeedRows() *seedRows { return &seedRows{now: time.Now(), tables: map[string][][]any{}} }

func (r *seedRows) add(table string, values ...any) {
	r.tables[table] = append(r.tables[table], values)
}

// copy writes the rows in one transaction.
func (r *seedRows) copy(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, t := range seedTables {
			rows := pgx.CopyFromRows(r.tables[t.name])
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, strings.Fields(t.columns), rows); err != nil {
				return fmt.Errorf("fill %s: %w", t.name, err)
			}
		}
		return nil
	})
}

// rack adds rack n, and its domain with the first rack of a pair.
func (r *seedRows) rack(n int) {
	m := fullRack(n)
	domain := fmt.Sprintf("bench-domain-%05d", n/2)
	domainID := uuid.NewSHA1(rackIDs, []byte(domain))
	if n%2 == 0 {
		r.add("nvl_domain", domainID, domain, "core-"+domain)
	}
	info, at := m.GetInfo(), m.GetLocation()
	r.add("rack", info.GetId().GetId(), info.GetName(), info.GetManufacturer(), info.GetSerialNumber(), info.GetModel(),
		at.GetRegion(), at.GetDatacenter(), at.GetRoom(), at.GetPosition(), m.GetExternalId(), domainID, r.health(n, "rack"))
	for i, c := range m.GetComponents() {
		r.component(m, c, 35*n+i)
	}
}

// component adds the nth component of the site.
func (r *seedRows) component(rack *flowv1.Rack, c *flowv1.Component, n int) {
	info, at := c.GetInfo(), c.GetPosition()
	id, kind := info.GetId().GetId(), seedTypes[c.GetType()]
	phase, power, leak := "READY", "on", "NOT_DETECTED"
	switch {
	case n%97 == 0:
		phase, power = "ERROR", "off"
	case n%13 == 0:
		phase = "IN_USE"
	}
	if kind == "PowerShelf" {
		leak = "UNKNOWN"
	}
	var health any // nothing reports on power shelves
	if kind != "PowerShelf" {
		health = r.health(n, kind)
	}
	r.add("component", id, kind, info.GetName(), info.GetManufacturer(), info.GetSerialNumber(), info.GetModel(),
		c.GetFirmwareVersion(), at.GetSlotId(), at.GetTrayIdx(), at.GetHostId(), rack.GetInfo().GetId().GetId(),
		c.GetComponentId(), power, phase, r.now, health, leak, r.now)
	for _, b := range c.GetBmcs() {
		r.add("bmc", b.GetMacAddress(), strings.TrimPrefix(b.GetType().String(), "BMC_TYPE_"), id, rack.GetInfo().GetId().GetId(), b.GetIpAddress())
	}
	switch n % (2 * driftEvery) {
	case 0:
		r.add("drift", "missing_in_actual", id, kind, nil, nil, "[]")
	case driftEvery:
		r.add("drift", "mismatch", id, kind, nil, nil,
			`[{"name": "slot_id", "expected": "3", "actual": "4"}]`)
	}
}

// health is a report on the nth of a kind: one in a hundred has an alert.
func (r *seedRows) health(n int, kind string) []byte {
	m := &flowv1.HealthReport{
		Source:     strings.ToLower(kind) + "-health",
		ObservedAt: timestamppb.New(r.now),
		Successes:  []*flowv1.HealthProbeSuccess{{Id: "BmcSensor", Target: new("temp_1")}, {Id: "Heartbeat"}},
	}
	if n%100 == 0 {
		m.Alerts = []*flowv1.HealthProbeAlert{{
			Id: "BmcSensor", Target: new("fan_3"), InAlertSince: timestamppb.New(r.now), Message: "speed below limit",
			Classifications: []string{"Hardware"},
		}}
	}
	doc, err := proto.Marshal(m)
	if err != nil {
		panic(err) // of a message made right here
	}
	return doc
}
