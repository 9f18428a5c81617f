package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

const (
	// FirstVersion is the firmware a component has when it is first seen.
	FirstVersion = "1.0.0"
	// DesiredVersion is what the site installs when a request names no version.
	DesiredVersion = "1.1.0"
)

// parts are the sub-targets a firmware request may name.
var parts = map[hardware.ComponentType][]string{
	hardware.Compute:    {"bios", "bmc", "cec", "combined_bmc_uefi", "cpld_mb", "cpld_pdb", "cx7", "dpu", "gpu", "hgx_bmc", "nic"},
	hardware.NVSwitch:   {"bios", "bmc", "cpld", "nvos"},
	hardware.PowerShelf: {"pmc", "psu"},
}

// update is a firmware update: Queued, Verifying for its last third, then Completed.
type update struct {
	From      string                 `json:"from"`
	To        string                 `json:"to"`
	StartedAt time.Time              `json:"started_at"`
	DoneAt    time.Time              `json:"done_at"`
	FailedAt  time.Time              `json:"failed_at,omitzero"`
	Error     string                 `json:"error,omitempty"`
	Wrong     hardware.FirmwareState `json:"wrong,omitempty"` // the state it ends in without installing anything
}

// StartFirmware is hardware.FirmwareController. Versions are opaque: an update to the installed one is over at once
// unless it is forced. The site has one version for a component, whatever parts are named.
func (m *manager) StartFirmware(ctx context.Context, target hardware.Target, req hardware.FirmwareRequest) (hardware.Results, error) {
	for _, p := range req.SubTargets {
		known := parts[m.kind]
		if !slices.Contains(known, strings.ToLower(strings.TrimSpace(p))) {
			return nil, hardware.Refused(fmt.Sprintf("unknown %s component %q (expected one of: %s)",
				strings.ToLower(string(m.kind)), p, strings.Join(known, ", ")))
		}
	}
	order := Entry{Call: hardware.CapFirmwareControl, Version: cmp.Or(req.Version, DesiredVersion), Parts: req.SubTargets, Force: req.Force}
	return m.command(ctx, target, order, 3, func(r *rack, c *component, now time.Time) string {
		if c.Update.running(now) {
			return "has a firmware update running"
		}
		return r.unreachable(c)
	})
}

// FirmwareStatus is hardware.FirmwareReader. Without an update yet the state is Unknown and the version known.
func (m *manager) FirmwareStatus(ctx context.Context, target hardware.Target) (map[uuid.UUID]hardware.FirmwareReading, error) {
	return read(ctx, m, target, hardware.CapFirmwareStatus,
		func(_ *rack, c *component, now time.Time) hardware.FirmwareReading { return c.firmwareReading(now) },
		func(f hardware.FirmwareReading, state string) hardware.FirmwareReading {
			f.State = cmp.Or(hardware.FirmwareState(state), hardware.FirmwareUnknown)
			return f
		})
}

// CheckFirmwareConsistency is hardware.FirmwareComparer. The version most components have is the expected one; all
// that differ are named. It may be asked again: an update can make it true.
func (m *manager) CheckFirmwareConsistency(ctx context.Context, target hardware.Target) error {
	versions, err := read(ctx, m, target, hardware.CapFirmwareConsistencyCheck,
		func(_ *rack, c *component, now time.Time) string { return c.firmwareReading(now).Version },
		func(_, state string) string { return cmp.Or(state, "unknown") })
	if err != nil {
		return err
	}
	count := make(map[string]int)
	var without, differ []string
	for _, c := range target.Components {
		if v, ok := versions[c.ID]; ok {
			count[v]++
		} else {
			without = append(without, c.Label())
		}
	}
	if len(without) > 0 {
		return hardware.NotDone(fmt.Sprintf("%s %s: no firmware version data", m.kind, strings.Join(without, ", ")))
	}
	expected := ""
	for v, n := range count {
		if n > count[expected] || n == count[expected] && v < expected {
			expected = v
		}
	}
	for _, c := range target.Components {
		if v := versions[c.ID]; v != expected {
			differ = append(differ, fmt.Sprintf("%s has %s", c.Label(), v))
		}
	}
	if len(differ) > 0 {
		return hardware.NotDone(fmt.Sprintf("%s firmware versions are inconsistent: %s, expected %s", m.kind, strings.Join(differ, ", "), expected))
	}
	return nil
}

// install starts an update. wrong is the state it ends in without installing anything.
func (c *component) install(version string, force bool, at, doneAt time.Time, wrong, text string) {
	from := c.firmwareReading(at).Version
	u := &update{From: from, To: version, StartedAt: at, DoneAt: doneAt, Wrong: hardware.FirmwareState(wrong)}
	if from == version && !force {
		u.DoneAt = at
	}
	if u.Wrong == hardware.FirmwareFailed {
		u.FailedAt, u.Error = doneAt, cmp.Or(text, "the update failed")
	}
	c.Update = u
}

func (c *component) firmwareReading(now time.Time) hardware.FirmwareReading {
	u := c.Update
	if u == nil {
		return hardware.FirmwareReading{State: hardware.FirmwareUnknown, Version: FirstVersion}
	}
	verifying := u.DoneAt.Add(-u.DoneAt.Sub(u.StartedAt) / 3)
	over := !now.Before(u.DoneAt)
	switch f := (hardware.FirmwareReading{Version: u.From, UpdatedAt: u.DoneAt}); {
	case u.failed(now):
		f.State, f.Error, f.UpdatedAt = hardware.FirmwareFailed, u.Error, u.FailedAt
		return f
	case over && u.Wrong != "":
		f.State = u.Wrong
		return f
	case over:
		f.State, f.Version = hardware.FirmwareCompleted, u.To
		return f
	case now.Before(verifying):
		f.State, f.UpdatedAt = hardware.FirmwareQueued, u.StartedAt
		return f
	default:
		f.State, f.UpdatedAt = hardware.FirmwareVerifying, verifying
		return f
	}
}

func (u *update) failed(now time.Time) bool { return !u.FailedAt.IsZero() && !now.Before(u.FailedAt) }

// running tells whether another update must wait. One that is stuck runs for ever.
func (u *update) running(now time.Time) bool {
	if u == nil || u.failed(now) {
		return false
	}
	stuck := u.Wrong == hardware.FirmwareQueued || u.Wrong == hardware.FirmwareVerifying
	return stuck || now.Before(u.DoneAt)
}

// interrupt fails an update that the component loses power under.
func (u *update) interrupt(at time.Time) {
	if u.running(at) {
		u.FailedAt, u.Error = at, "power was lost during the update"
	}
}
