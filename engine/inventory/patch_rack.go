package inventory

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store/db"
)

// RackPatch is what to change of a rack. The rack is found by id when there is one, else by serial number; other
// identities are no part of a patch.
type RackPatch struct {
	ID          uuid.UUID
	Plate       Plate // manufacturer and serial number find the rack; a name that is not blank is written
	Model       *string
	Description *string
	Location    *Location // written as a whole, unless all of it is empty
	Components  []RackPatchComponent
}

// RackPatchComponent is what to change of a component of the rack: found as the rack is, among its components. One that
// is not there is added.
type RackPatchComponent struct {
	NewComponent         // empty parts stay, as do positions below 0; a BMC of unknown type is left out when it is new
	Description  *string // as it was sent
}

// Location is where a rack stands.
type Location struct{ Region, Datacenter, Room, Position string }

// The words of a PatchReport.
const (
	reportPatched     = "Patched" // something was written
	reportNoChange    = "NoChange"
	reportAdded       = "Added"
	reportInvalidType = "InvalidType" // a new BMC of unknown type, left out
)

// PatchReport is what a rack patch did, in the form clients know.
type PatchReport struct {
	RackID     uuid.UUID         `json:"rack_id"`
	RackSerial string            `json:"rack_serial_info"` // <manufacturer>-<serial number>, as recorded
	Rack       string            `json:"rack_report,omitempty"`
	Components []ComponentReport `json:"components"` // in the order of the request
}

// ComponentReport is what a rack patch did to one component.
type ComponentReport struct {
	ID     uuid.UUID         `json:"component_id"`
	Serial string            `json:"component_serial_info"`
	Report string            `json:"component_report,omitempty"`
	BMCs   map[string]string `json:"bmc_reports,omitempty"` // by MAC
}

// PatchRack changes a rack and its components, and adds those it has not got. Nothing is ever removed.
func PatchRack(ctx context.Context, pool *pgxpool.Pool, p RackPatch) (PatchReport, error) {
	p.normalize()
	if err := p.check(); err != nil {
		return PatchReport{}, err
	}
	var report PatchReport
	err := write(ctx, pool, func(q *db.Queries) error {
		var err error
		report, err = p.apply(ctx, q)
		return err
	})
	return report, err
}

func (p *RackPatch) normalize() {
	p.Plate.trim()
	if p.Model != nil {
		p.Model = new(strings.TrimSpace(*p.Model))
	}
	p.Components = slices.Clone(p.Components)
	for i := range p.Components {
		p.Components[i].normalize()
	}
}

const errNameless = "rack or components have no IDs and serial information"

func (p *RackPatch) check() error {
	if p.ID == uuid.Nil && p.Plate.Serial == "" {
		return fault.Invalid("rack.info", errNameless)
	}
	list := make([]NewComponent, len(p.Components))
	for i, c := range p.Components {
		if list[i] = c.NewComponent; c.ID == uuid.Nil && c.Plate.Serial == "" {
			return fault.Invalid(c.Path+".info", errNameless)
		}
	}
	if err := p.Plate.check("rack.info"); err != nil {
		return err
	}
	if p.Model != nil {
		if err := checkBytes("rack.info.model", *p.Model); err != nil {
			return err
		}
	}
	return checkComponents(list)
}

func (p *RackPatch) apply(ctx context.Context, q *db.Queries) (PatchReport, error) {
	rack, err := p.hold(ctx, q)
	if err != nil {
		return PatchReport{}, err
	}
	report := PatchReport{
		RackID: rack.ID, RackSerial: serialInfo(rack.Manufacturer, rack.Serial), Components: []ComponentReport{},
	}
	if report.Rack, err = p.applyRack(ctx, q, rack); err != nil {
		return report, err
	}
	rows, err := q.ComponentLockByRack(ctx, db.ComponentLockByRackParams{RackID: &rack.ID})
	if err != nil {
		return report, err
	}
	bmcs, err := bmcsOf(ctx, q, rack.ID)
	if err != nil {
		return report, err
	}
	var (
		ch    changes
		added []NewComponent
		taken = map[uuid.UUID]string{} // components by the entry that has patched them
	)
	for _, c := range p.Components {
		row, err := c.find(rows)
		if err != nil {
			return report, err
		}
		var r ComponentReport
		if row == nil {
			r, err = c.add(&added)
		} else if first, twice := taken[row.ID]; twice {
			err = fault.Invalid(c.Path, "is the same component as %s", first)
		} else {
			taken[row.ID] = c.Path
			r = c.patch(*row, bmcs[row.ID], &ch)
		}
		if err != nil {
			return report, err
		}
		report.Components = append(report.Components, r)
	}
	if err := addComponentRows(ctx, q, &rack.ID, added); err != nil {
		return report, err
	}
	return report, ch.write(ctx, q)
}

// hold finds and locks the rack.
func (p *RackPatch) hold(ctx context.Context, q *db.Queries) (db.Rack, error) {
	id, field := p.ID, "rack.info.id"
	if id == uuid.Nil {
		field = "rack.info.serial_number"
		rows, err := q.RackListBySerial(ctx, db.RackListBySerialParams{
			Serial: &p.Plate.Serial, Manufacturer: known(p.Plate.Manufacturer),
		})
		if err != nil {
			return db.Rack{}, err
		}
		row, err := one(field, "rack", rows, p.Plate.Manufacturer, p.Plate.Serial)
		if err != nil {
			return row, err
		}
		id = row.ID
	}
	return lockLiveRack(ctx, q, id, field)
}

func (p *RackPatch) applyRack(ctx context.Context, q *db.Queries, rack db.Rack) (string, error) {
	set := db.RackPatchParams{
		ID: rack.ID, Name: rack.Name, Model: rack.Model, Description: rack.Description,
		Region: rack.Region, Datacenter: rack.Datacenter, Room: rack.Room, Position: rack.Position,
	}
	if p.Plate.Name != "" {
		set.Name = p.Plate.Name
	}
	if p.Model != nil {
		set.Model = known(*p.Model)
	}
	if p.Description != nil {
		set.Description = known(RackDescription(*p.Description))
	}
	if l := p.Location; l != nil && *l != (Location{}) {
		set.Region, set.Datacenter, set.Room, set.Position = l.Region, l.Datacenter, l.Room, l.Position
	}
	if set.Name == rack.Name && value(set.Model) == value(rack.Model) && value(set.Description) == value(rack.Description) &&
		set.Region == rack.Region && set.Datacenter == rack.Datacenter && set.Room == rack.Room && set.Position == rack.Position {
		return reportNoChange, nil
	}
	return reportPatched, q.RackPatch(ctx, set)
}

// find returns the component meant, or nil when the rack has none such.
func (c RackPatchComponent) find(rows []db.Component) (*db.Component, error) {
	var hit *db.Component
	for i, row := range rows {
		switch {
		case c.ID != uuid.Nil:
			if row.ID == c.ID {
				return &rows[i], nil
			}
		case value(row.Serial) == c.Plate.Serial && (c.Plate.Manufacturer == "" || value(row.Manufacturer) == c.Plate.Manufacturer):
			if hit != nil {
				return nil, fault.Precondition("serial number %s is ambiguous in the rack; name the manufacturer",
					quote(c.Plate.Serial)).On(c.Path + ".info.serial_number")
			}
			hit = &rows[i]
		}
	}
	return hit, nil
}

// add puts the component among those to be recorded.
func (c RackPatchComponent) add(list *[]NewComponent) (ComponentReport, error) {
	n := c.NewComponent
	if n.Type == "" {
		return ComponentReport{}, fault.Invalid(c.Path+".type", "a component that is new to the rack needs a type")
	}
	if n.ID == uuid.Nil {
		n.ID = uuid.New()
	}
	if c.Description != nil {
		n.Plate.Description = ComponentDescription(*c.Description)
	}
	r := ComponentReport{ID: n.ID, Serial: n.Plate.Manufacturer + "-" + n.Plate.Serial, Report: reportAdded, BMCs: map[string]string{}}
	n.BMCs = nil
	for _, b := range c.BMCs {
		if b.Type == "" {
			r.BMCs[b.MAC.String()] = reportInvalidType
			continue
		}
		r.BMCs[b.MAC.String()] = reportAdded
		n.BMCs = append(n.BMCs, b)
	}
	*list = append(*list, n)
	return r, nil
}

// patch notes what changes of a component of the rack.
func (c RackPatchComponent) patch(row db.Component, bmcs []BMC, ch *changes) ComponentReport {
	set := row
	if c.FirmwareVersion != "" {
		set.FirmwareVersion = c.FirmwareVersion
	}
	if c.Description != nil {
		set.Description = known(patchDescription(value(row.Description), *c.Description, true))
	}
	for _, at := range []struct {
		to   *int32
		from int32
	}{{&set.SlotID, c.Slot}, {&set.TrayIdx, c.Tray}, {&set.HostID, c.Host}} {
		if at.from >= 0 {
			*at.to = at.from
		}
	}
	r := ComponentReport{
		ID: row.ID, Serial: serialInfo(row.Manufacturer, row.Serial), Report: ch.component(row, set), BMCs: map[string]string{},
	}
	for _, b := range c.BMCs {
		r.BMCs[b.MAC.String()] = ch.bmc(row.ID, bmcs, b)
	}
	return r
}

// bmcsOf reads the BMCs of a rack by component.
func bmcsOf(ctx context.Context, q *db.Queries, rack uuid.UUID) (map[uuid.UUID][]BMC, error) {
	list, err := q.BMCList(ctx, db.BMCListParams{RackIds: []uuid.UUID{rack}, ComponentIds: []uuid.UUID{}})
	of := map[uuid.UUID][]BMC{}
	for _, b := range list {
		of[b.ComponentID] = append(of[b.ComponentID], b)
	}
	return of, err
}

func serialInfo(manufacturer, serial *string) string {
	return value(manufacturer) + "-" + value(serial)
}
