package rpc

import (
	"context"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowv1"
)

// writers is how many clients claim the same key at the same moment.
const writers = 50

// TestOfManyWritersOfAKeyOneWins has racks and components that share just one key recorded at once: one is, whole, and
// all others are told who holds the key.
func TestOfManyWritersOfAKeyOneWins(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]func(r *flowv1.Rack){
		"rack id":                 func(r *flowv1.Rack) { r.Info.Id = testID(1, 999, 0) },
		"rack serial number":      func(r *flowv1.Rack) { r.Info.SerialNumber = "S" },
		"rack external id":        func(r *flowv1.Rack) { r.ExternalId = "core-S" },
		"component id":            func(r *flowv1.Rack) { r.Components[1].Info.Id = testID(2, 999, 0) },
		"component serial number": func(r *flowv1.Rack) { r.Components[1].Info.SerialNumber = "S" },
		"component external id":   func(r *flowv1.Rack) { r.Components[2].ComponentId = "core-S" },
		"MAC address":             func(r *flowv1.Rack) { r.Components[2].Bmcs[0].MacAddress = "02:00:00:00:00:aa" },
		"every key of components": func(r *flowv1.Rack) { r.Components = testRack(999, 3).GetComponents() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			s.race(func(ctx context.Context, n int) error {
				r := testRack(n, 3)
				share(r)
				_, err := s.grpc.CreateExpectedRack(ctx, &flowv1.CreateExpectedRackRequest{Rack: r})
				return err
			})
			s.recorded(1, 3, 3)
		})
	}
	for name, share := range map[string]func(c *flowv1.Component){
		"added component id":            func(c *flowv1.Component) { c.Info.Id = testID(2, 999, 0) },
		"added component serial number": func(c *flowv1.Component) { c.Info.SerialNumber = "S" },
		"added component external id":   func(c *flowv1.Component) { c.ComponentId = "core-S" },
		"added MAC address":             func(c *flowv1.Component) { c.Bmcs[0].MacAddress = "02:00:00:00:00:aa" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			s.create(testRack(500, 0))
			s.race(func(ctx context.Context, n int) error {
				c := testRack(n, 1).GetComponents()[0]
				c.RackId = testID(1, 500, 0)
				share(c)
				// A patch with the id of a component that the rack has by now is no claim.
				if n%2 == 0 || name == "added component id" {
					_, err := s.grpc.AddComponent(ctx, &flowv1.AddComponentRequest{Component: c})
					return err
				}
				rack := &flowv1.Rack{Info: &flowv1.DeviceInfo{Id: testID(1, 500, 0)}, Components: []*flowv1.Component{c}}
				_, err := s.grpc.PatchRack(ctx, &flowv1.PatchRackRequest{Rack: rack})
				return err
			})
			s.recorded(1, 1, 1)
		})
	}
}

// race makes all writers begin together and fails the test unless one wins and the others are told why they did not.
func (s *site) race(claim func(ctx context.Context, n int) error) {
	s.t.Helper()
	won := 0
	for _, err := range s.together(claim) {
		switch {
		case err == nil:
			won++
		case connect.CodeOf(err) != connect.CodeAlreadyExists:
			s.t.Errorf("refused with %v", err)
		}
	}
	if won != 1 {
		s.t.Errorf("%d writers won", won)
	}
}

// together makes all writers begin at the same time and returns how each has ended.
func (s *site) together(call func(ctx context.Context, n int) error) []error {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, writers)
	ready.Add(writers)
	for n := range writers {
		done.Go(func() {
			ready.Done()
			<-begin
			errs[n] = call(s.t.Context(), n+1)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return errs
}

// recorded fails the test unless so much is in the inventory, tombstones included.
func (s *site) recorded(racks, components, bmcs int) {
	s.t.Helper()
	var got [3]int
	err := s.store.API.QueryRow(s.t.Context(), `SELECT (SELECT count(*) FROM rack), (SELECT count(*) FROM component), (SELECT count(*) FROM bmc)`).
		Scan(&got[0], &got[1], &got[2])
	if err != nil {
		s.t.Fatal(err)
	}
	if got != [3]int{racks, components, bmcs} {
		s.t.Errorf("%v racks, components and BMCs are recorded, want %d, %d, %d", got, racks, components, bmcs)
	}
}
