package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"rackflow.dev/flow/api/gen/flowv1"
)

// createAtOnce is how many racks are being created at a time.
const createAtOnce = 8

// rackIDs is the name space of the benchmark's racks: rack n is the same in every execution.
var rackIDs = uuid.MustParse("c0b0a4a1-8a0e-4c39-9d0b-5f7b3c2d9e11")

// rack is a rack in the server's inventory.
type rack struct {
	id         string
	components []string
}

// createRacks brings the number of racks in the server's inventory to n.
func (b *bench) createRacks(ctx context.Context, n int) error {
	b.say("creating racks, %d in all", n)
	first := len(b.racks)
	var created atomic.Int64
	began, before := time.Now(), b.server.cpu()
	group, call := errgroup.WithContext(ctx)
	group.SetLimit(createAtOnce)
	for i := first; i < n; i++ {
		message := rackMessage(i)
		r := rack{id: message.GetInfo().GetId().GetId()}
		for _, c := range message.GetComponents() {
			r.components = append(r.components, c.GetInfo().GetId().GetId())
		}
		b.racks = append(b.racks, r)
		group.Go(func() error {
			_, err := b.client.flow.CreateExpectedRack(call, &flowv1.CreateExpectedRackRequest{Rack: message})
			if connect.CodeOf(err) == connect.CodeAlreadyExists && b.addr != "" {
				return nil // from an earlier execution on the same server
			}
			if err != nil {
				return fmt.Errorf("create rack %d: %w", i+1, err)
			}
			created.Add(1)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if done := float64(created.Load()); int(done) == n-first {
		k := key{quantity: createRate, racks: n}
		b.report.add(k, done/time.Since(began).Seconds())
		if b.server.pid != 0 {
			k.quantity = createCPU
			b.report.add(k, milliseconds(b.server.cpu().flow-before.flow)/done)
		}
	}
	return nil
}

// rackMessage is the nth rack: 18 compute trays, 9 NVSwitches and 8 power shelves.
func rackMessage(n int) *flowv1.Rack {
	name := fmt.Sprintf("bench-%05d", n)
	id := func(part string) *flowv1.UUID {
		return &flowv1.UUID{Id: uuid.NewSHA1(rackIDs, []byte(name+part)).String()}
	}
	r := &flowv1.Rack{
		Info:     &flowv1.DeviceInfo{Id: id(""), Name: name, Manufacturer: "NVIDIA", SerialNumber: name, Model: new("GB200 NVL72")},
		Location: &flowv1.Location{Region: "bench", Datacenter: "bench", Room: "bench", Position: name},
	}
	for kind, part := range []struct {
		kind  flowv1.ComponentType
		name  string
		count int
	}{
		{flowv1.ComponentType_COMPONENT_TYPE_COMPUTE, "ct", 18},
		{flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH, "sw", 9},
		{flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF, "ps", 8},
	} {
		for i := range part.count {
			label := fmt.Sprintf("%s-%s%02d", name, part.name, i+1)
			r.Components = append(r.Components, &flowv1.Component{
				Type:        part.kind,
				Info:        &flowv1.DeviceInfo{Id: id(label), Name: label, Manufacturer: "NVIDIA", SerialNumber: label},
				ComponentId: label,
				Position:    &flowv1.RackPosition{SlotId: int32(len(r.Components) + 1), TrayIdx: int32(i)},
				Bmcs: []*flowv1.BMCInfo{{
					Type:       flowv1.BMCType_BMC_TYPE_HOST,
					MacAddress: fmt.Sprintf("02:be:%02x:%02x:%02x:%02x", n>>8, n&0xff, kind, i),
					IpAddress:  new(fmt.Sprintf("10.%d.%d.%d", n>>8, n&0xff, kind*64+i+1)),
				}},
			})
		}
	}
	return r
}
