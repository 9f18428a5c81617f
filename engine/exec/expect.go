package exec

import (
	"context"
	"fmt"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// injectExpectation tells the site of a batch of components before they arrive, as the inventory has them now.
func (d *drive) injectExpectation(ctx context.Context, a rules.PlanAction, batch []hardware.Component) error {
	t := d.stepPlan().ComponentType
	injector, err := hardware.As[hardware.ExpectationInjector](d.x.managers, t, hardware.CapInjectExpectation)
	if err != nil {
		return err
	}
	const failed = "injection of the expectation failed for"
	inventory, err := d.expectations(ctx, d.at.open(batch))
	if err != nil {
		return err
	}
	var gone []hardware.Component
	for _, c := range d.at.open(batch) {
		if _, known := inventory[c.ID]; !known {
			d.at.note(c.ID, "no longer in inventory")
			gone = append(gone, c)
		}
	}
	if len(gone) > 0 {
		return d.failures(failed, gone)
	}
	return d.insist(ctx, a, batch, failed, func([]hardware.Component) error { return nil },
		func(ctx context.Context, open []hardware.Component) (hardware.Results, error) {
			expected := make([]hardware.Expectation, len(open))
			for i, c := range open {
				expected[i] = inventory[c.ID]
			}
			return injector.InjectExpectation(ctx, expected)
		})
}

// expectations reads what the inventory has of components; those that are gone are missing.
func (d *drive) expectations(ctx context.Context, list []hardware.Component) (map[componentID]hardware.Expectation, error) {
	var rows []db.ComponentExpectationsRow
	err := d.x.persist(ctx, func(ctx context.Context) (err error) {
		rows, err = db.New(d.x.store.Engine).ComponentExpectations(ctx, db.ComponentExpectationsParams{Ids: d.target(list).IDs()})
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", errFault, err)
	}
	known := make(map[componentID]hardware.Expectation, len(list))
	for _, row := range rows {
		e, seen := known[row.ID]
		if !seen {
			e = expectation(row)
		}
		if row.Mac != nil {
			bmc := hardware.BMC{Type: hardware.BMCType(*row.BmcType), MAC: row.Mac.String()}
			if row.Ip != nil {
				bmc.IP = row.Ip.String()
			}
			if bmc.Type == hardware.HostBMC && e.MAC == "" { // the smallest comes first
				e.MAC = bmc.MAC
			}
			e.BMCs = append(e.BMCs, bmc)
		}
		known[row.ID] = e
	}
	return known, nil
}

func expectation(row db.ComponentExpectationsRow) hardware.Expectation {
	e := hardware.Expectation{
		Component:      hardware.Component{ID: row.ID, Type: hardware.ComponentType(row.Type), Name: row.Name, ExternalID: orEmpty(row.ExternalID)},
		RackExternalID: orEmpty(row.RackExternalID),
		Manufacturer:   orEmpty(row.Manufacturer), Serial: orEmpty(row.Serial), Model: orEmpty(row.Model),
		Slot: int(row.SlotID), Tray: int(row.TrayIdx), Host: int(row.HostID),
	}
	if row.RackID != nil {
		e.RackID = *row.RackID
	}
	return e
}

// orEmpty is a column that may be null.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
