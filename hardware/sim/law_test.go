package sim_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

// TestNoTrayHasPowerWithoutAShelfAndNoBreakChangesAnything lets two sites live the same random life, one of which is
// closed and opened from its journal all the time.
func TestNoTrayHasPowerWithoutAShelfAndNoBreakChangesAnything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rack := rackOf(1)[:7]
	rapid.Check(t, func(rt *rapid.T) {
		now := newClock()
		cfg := sim.Config{Inventory: inventory(rack), Latency: time.Second, Now: now.Now}
		whole, err := sim.Open(cfg)
		if err != nil {
			rt.Fatal(err)
		}
		cfg.Journal, cfg.Compact = filepath.Join(dir, "journal"), rapid.SampledFrom([]int64{0, 1000}).Draw(rt, "compact")
		defer os.Remove(cfg.Journal)
		for range rapid.IntRange(1, 7).Draw(rt, "acts") {
			broken, err := sim.Open(cfg)
			if err != nil {
				rt.Fatal(err)
			}
			now.Advance(time.Duration(rapid.SampledFrom([]int{0, 400, 1000}).Draw(rt, "wait ms")) * time.Millisecond)
			first := rapid.SampledFrom(rack).Draw(rt, "first component")
			target := hardware.Target{Type: first.Type}
			for _, c := range rack {
				if c.Type == first.Type && (c.ID == first.ID || rapid.Bool().Draw(rt, "with "+c.Name)) {
					target.Components = append(target.Components, c)
				}
			}
			op := rapid.SampledFrom(append([]hardware.PowerOperation{"firmware", "bring up"}, hardware.PowerOperations...)).Draw(rt, "operation")
			for _, s := range []*sim.Site{whole, broken} {
				switch m := s.Managers()[target.Type]; op {
				case "firmware":
					_, _ = m.(hardware.FirmwareController).StartFirmware(t.Context(), target, hardware.FirmwareRequest{})
				case "bring up":
					_, _ = m.(hardware.BringUpController).BringUp(t.Context(), target)
				default:
					_, _ = m.(hardware.PowerController).PowerControl(t.Context(), target, op, hardware.PowerOptions{})
				}
			}
			fed := false
			for _, c := range rack { // shelves come first
				want, err := whole.Inspect(t.Context(), c)
				got, err2 := broken.Inspect(t.Context(), c)
				if err != nil || err2 != nil {
					rt.Fatal(err, err2)
				}
				if d := cmp.Diff(want, got); d != "" {
					rt.Fatalf("%s (-unbroken +broken):\n%s", c.Name, d)
				}
				on := got.Power.State != hardware.PowerStateOff
				if c.Type == hardware.PowerShelf {
					fed = fed || on
				} else if on && !fed || got.Power.Reachable != fed {
					rt.Fatalf("%s is %+v while power from the shelves is %t", c.Name, got.Power, fed)
				}
			}
			if err := broken.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}
