package sim_test

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
)

// nvl72 is a rack of 35: 8 power shelves, 9 switches, 18 trays.
func nvl72(rack uuid.UUID) []hardware.Component {
	var cs []hardware.Component
	for kind, n := range map[hardware.ComponentType]int{hardware.PowerShelf: 8, hardware.NVSwitch: 9, hardware.Compute: 18} {
		for range n {
			cs = append(cs, hardware.Component{ID: uuid.New(), RackID: rack, Type: kind})
		}
	}
	return cs
}

func trays(rack []hardware.Component) hardware.Target {
	target := hardware.Target{Type: hardware.Compute}
	for _, c := range rack {
		if c.Type == hardware.Compute {
			target.Components = append(target.Components, c)
		}
	}
	return target
}

// BenchmarkCommandAndStatus is one power command and one reading of the 18 trays of a rack.
func BenchmarkCommandAndStatus(b *testing.B) {
	for name, journal := range map[string]string{"memory": "", "journal": "journal"} {
		cfg := sim.Config{}
		if journal != "" {
			cfg.Journal = filepath.Join(b.TempDir(), journal)
		}
		racks := make([][]hardware.Component, 64)
		for i := range racks {
			racks[i] = nvl72(uuid.New())
		}
		cfg.Inventory = inventory(racks...)
		m := open(b, cfg).Managers()[hardware.Compute]
		once := func(ctx context.Context, target hardware.Target, i int) error {
			op := []hardware.PowerOperation{hardware.PowerOff, hardware.PowerOn}[i%2]
			if _, err := m.(hardware.PowerController).PowerControl(ctx, target, op, hardware.PowerOptions{}); err != nil {
				return err
			}
			_, err := m.(hardware.PowerReader).PowerStatus(ctx, target)
			return err
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			target := trays(racks[0])
			for i := 0; b.Loop(); i++ {
				if err := once(b.Context(), target, i); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.SetParallelism(500)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if err := once(b.Context(), trays(racks[i%len(racks)]), i); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkMemory tells how much a site of 10,000 racks takes once every rack has been seen.
func BenchmarkMemory(b *testing.B) {
	s := open(b, sim.Config{Inventory: func(_ context.Context, ids []uuid.UUID) ([]hardware.Component, error) {
		return nvl72(ids[0]), nil
	}})
	m := s.Managers()[hardware.Compute].(hardware.PowerReader)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 10000 {
			c := hardware.Component{ID: uuid.New(), RackID: uuid.New(), Type: hardware.Compute}
			if _, err := m.PowerStatus(b.Context(), hardware.Target{Type: hardware.Compute, Components: []hardware.Component{c}}); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB/10000racks")
	}
	runtime.KeepAlive(s)
}

// BenchmarkReplay opens a journal of 100,000 commands.
func BenchmarkReplay(b *testing.B) {
	cfg := sim.Config{Journal: filepath.Join(b.TempDir(), "journal")}
	rack := nvl72(uuid.New())
	cfg.Inventory = inventory(rack)
	s := open(b, cfg)
	m := s.Managers()[hardware.Compute].(hardware.PowerController)
	const commands = 100_000
	for i := range commands {
		op := []hardware.PowerOperation{hardware.PowerOff, hardware.PowerOn}[i%2]
		if _, err := m.PowerControl(b.Context(), trays(rack), op, hardware.PowerOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	_ = s.Close()
	start, n := time.Now(), 0
	for b.Loop() {
		_ = open(b, cfg).Close()
		n++
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(n*commands), "µs/command")
}
