package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

const (
	inventoryRacks = 10_000
	callsFirst     = 5  // not counted: connections, plans and caches
	callsCounted   = 60 // of each kind, in each run
	rackPage       = 100
	componentPage  = 1000
	scopeRacks     = 50
)

// call is something a client asks of a full inventory, each time with something else in it.
type call struct {
	median, p95 quantity
	do          func(context.Context) error
}

// measureInventory times calls one after the other on a full inventory and watches the memory while all of it is listed.
func (b *bench) measureInventory(ctx context.Context) error {
	b.say("filling the database, racks: %d", inventoryRacks)
	began := time.Now()
	if err := b.server.seed(ctx, inventoryRacks); err != nil {
		return err
	}
	b.say("filled in %s", time.Since(began).Round(time.Second/10))
	next, err := b.server.nextRack(ctx)
	if err != nil {
		return err
	}
	for run := range b.runs {
		before := b.server.usage()
		for _, c := range b.inventoryCalls(&next) {
			b.say("run %d of %d: %s", run+1, b.runs, quantities[c.median].name)
			if err := b.time(ctx, c); err != nil {
				return err
			}
		}
		b.say("run %d of %d: memory while everything is listed", run+1, b.runs)
		if err := b.memoryListing(ctx); err != nil {
			return err
		}
		if after := b.server.usage(); after.served {
			b.report.add(key{quantity: cpuOthers}, after.othersSince(before))
		}
	}
	return nil
}

// time makes calls of one kind and notes how long they took.
func (b *bench) time(ctx context.Context, c call) error {
	var took []float64
	for i := range callsFirst + callsCounted {
		began := time.Now()
		if err := c.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", quantities[c.median].name, err)
		}
		if i >= callsFirst {
			took = append(took, milliseconds(time.Since(began)))
		}
	}
	b.report.add(key{quantity: c.median, racks: inventoryRacks}, percentile(took, 50))
	b.report.add(key{quantity: c.p95, racks: inventoryRacks}, percentile(took, 95))
	return nil
}

// memoryListing notes the most memory the server had while all racks were listed with their components, and again.
func (b *bench) memoryListing(ctx context.Context) error {
	add := func(q quantity, v float64) { b.report.add(key{quantity: q, racks: inventoryRacks}, v) }
	add(memoryUnlisted, b.server.memory().resident)
	for _, q := range []quantity{memoryListing, memoryAgain} {
		most := b.server.watchMemory()
		for n := range inventoryRacks / rackPage {
			res, err := b.rackPage(ctx, n)
			if err := full(err, len(res.GetRacks()), rackPage); err != nil {
				most()
				return err
			}
		}
		add(q, most())
	}
	add(memoryListed, b.server.memory().resident)
	return nil
}

// inventoryCalls are all that is timed. next is the next rack to create.
func (b *bench) inventoryCalls(next *int) []call {
	flow := b.client.flow
	components := func(ctx context.Context, req *flowv1.GetComponentsRequest) error {
		res, err := flow.GetComponents(ctx, req)
		return full(err, len(res.GetComponents()), componentPage)
	}
	return []call{
		{listRacks, listRacksP95, func(ctx context.Context) error {
			res, err := b.rackPage(ctx, rand.N(inventoryRacks/rackPage))
			return full(err, len(res.GetRacks()), rackPage)
		}},
		{findRacks, findRacksP95, func(ctx context.Context) error {
			res, err := flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{
				WithComponents: true,
				Filters: []*flowv1.Filter{{
					Field:     &flowv1.Filter_RackField{RackField: flowv1.RackFilterField_RACK_FILTER_FIELD_NAME},
					QueryInfo: &flowv1.StringQueryInfo{Patterns: []string{fmt.Sprintf("%%%02d%%", rand.N(100))}, IsWildcard: true},
				}},
			})
			return full(err, len(res.GetRacks()), rackPage)
		}},
		{getRack, getRackP95, func(ctx context.Context) error {
			res, err := flow.GetRackInfoByID(ctx, &flowv1.GetRackInfoByIDRequest{
				Id: rackMessage(rand.N(inventoryRacks)).GetInfo().GetId(), WithComponents: true,
			})
			return full(err, len(res.GetRack().GetComponents()), 35)
		}},
		{listMade, listMadeP95, func(ctx context.Context) error {
			maker := trayMakers[rand.N(len(trayMakers))]
			return components(ctx, &flowv1.GetComponentsRequest{
				Pagination: &flowv1.Pagination{Offset: int32(rand.N(40) * componentPage), Limit: componentPage},
				Filters: []*flowv1.Filter{
					componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_TYPE, false, "Compute"),
					componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MANUFACTURER, false, maker),
				},
			})
		}},
		{findComponents, findComponentsP95, func(ctx context.Context) error {
			part := []string{"ct", "sw", "ps"}[rand.N(3)]
			return components(ctx, &flowv1.GetComponentsRequest{
				Pagination: &flowv1.Pagination{Offset: int32(rand.N(80) * componentPage), Limit: componentPage},
				Filters: []*flowv1.Filter{
					componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_NAME, true, "%-"+part+"0%"),
				},
			})
		}},
		{listOfRacks, listOfRacksP95, func(ctx context.Context) error {
			racks := &flowv1.RackTargets{}
			for _, n := range rand.Perm(inventoryRacks)[:scopeRacks] {
				racks.Targets = append(racks.Targets, &flowv1.RackTarget{
					Identifier: &flowv1.RackTarget_Id{Id: rackMessage(n).GetInfo().GetId()},
				})
			}
			return components(ctx, &flowv1.GetComponentsRequest{
				TargetSpec: &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: racks}},
				Pagination: &flowv1.Pagination{Limit: componentPage},
			})
		}},
		{validate, validateP95, compare(flow, rackPage)},
		{validateLarge, validateLargeP95, compare(flow, componentPage)},
		{createRack, createRackP95, func(ctx context.Context) error {
			_, err := flow.CreateExpectedRack(ctx, &flowv1.CreateExpectedRackRequest{Rack: fullRack(*next)})
			*next++
			return err
		}},
		{addComponent, addComponentP95, func(ctx context.Context) error {
			// The tray of a rack that is never created, so that everything about it is new.
			c := fullRack(*next).GetComponents()[0]
			c.RackId = rackMessage(rand.N(inventoryRacks)).GetInfo().GetId()
			_, err := flow.AddComponent(ctx, &flowv1.AddComponentRequest{Component: c})
			*next++
			return err
		}},
	}
}

func (b *bench) rackPage(ctx context.Context, n int) (*flowv1.GetListOfRacksResponse, error) {
	return b.client.flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{
		WithComponents: true,
		Pagination:     &flowv1.Pagination{Offset: int32(n * rackPage), Limit: rackPage},
	})
}

// compare reads a page of that many differences.
func compare(flow flowv1connect.FlowClient, page int) func(context.Context) error {
	return func(ctx context.Context) error {
		res, err := flow.ValidateComponents(ctx, &flowv1.ValidateComponentsRequest{
			Pagination: &flowv1.Pagination{Offset: int32(rand.N(7) * componentPage), Limit: int32(page)},
		})
		return full(err, len(res.GetDiffs()), page)
	}
}

func componentFilter(field flowv1.ComponentFilterField, wildcard bool, pattern string) *flowv1.Filter {
	return &flowv1.Filter{
		Field:     &flowv1.Filter_ComponentField{ComponentField: field},
		QueryInfo: &flowv1.StringQueryInfo{Patterns: []string{pattern}, IsWildcard: wildcard},
	}
}

// full refuses an answer with less in it than is to be measured.
func full(err error, got, want int) error {
	if err == nil && got < want {
		return fmt.Errorf("answered %d, want at least %d", got, want)
	}
	return err
}

// trayMakers make the compute trays of every fourth rack each.
var trayMakers = [...]string{"Foxconn", "Quanta", "Supermicro", "Wiwynn"}

// fullRack is the nth rack with all that a site knows of one.
func fullRack(n int) *flowv1.Rack {
	r := rackMessage(n)
	r.ExternalId = "core-" + r.GetInfo().GetName()
	for i, c := range r.GetComponents() {
		c.FirmwareVersion = "1.4.2"
		switch c.GetType() {
		case flowv1.ComponentType_COMPONENT_TYPE_COMPUTE:
			c.Info.Manufacturer, c.Info.Model = trayMakers[n%len(trayMakers)], new("GB200 compute tray")
			c.Bmcs = append(c.Bmcs, &flowv1.BMCInfo{
				Type:       flowv1.BMCType_BMC_TYPE_DPU,
				MacAddress: fmt.Sprintf("02:be:%02x:%02x:03:%02x", n>>8, n&0xff, i),
				IpAddress:  new(fmt.Sprintf("10.%d.%d.%d", n>>8, n&0xff, 3*64+i+1)),
			})
		case flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH:
			c.Info.Model = new("GB200 NVSwitch tray")
		case flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF:
			c.Info.Manufacturer, c.Info.Model = "Delta", new("PS-33kW")
		}
	}
	return r
}
