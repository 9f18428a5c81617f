package rpc

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
)

// TestMoreTakesNoMoreStatements compares calls on little and on much. Racks 1 to 10 are in a domain
// each, racks 11 to 30 in that of rack 10 too; every rack has one tray, but rack 31, which is in no domain, has 30. Every
// tray drifts, and has a task that answers a leak in it.
func TestMoreTakesNoMoreStatements(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for n := 1; n <= 31; n++ {
		r := testRack(n, 1)
		if n <= 10 {
			s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, $2, $2)", testID(3, 0, n).GetId(), fmt.Sprintf("domain-%02d", n))
		}
		r.NvlDomainIds = []*flowv1.UUID{testID(3, 0, min(n, 10))}
		if n == 31 {
			r = testRack(n, 30)
		}
		s.create(r)
		s.task(n, 0, "running", each(r.GetComponents(), func(c *flowv1.Component) *flowv1.UUID { return c.GetInfo().GetId() })...)
	}
	s.exec("UPDATE task_plan SET answers_leak = true")
	s.exec("INSERT INTO drift (kind, component_id, type) SELECT 'mismatch', id, type FROM component")

	page := func(much bool, n int32) *flowv1.Pagination {
		if much {
			return &flowv1.Pagination{Limit: n}
		}
		return &flowv1.Pagination{Limit: 1}
	}
	pick := func(much bool, a, b int) int {
		if much {
			return b
		}
		return a
	}
	targets := func(much bool) (list []*flowv1.RackTarget) {
		for n := 1; n <= pick(much, 1, 31); n++ {
			list = append(list, byID(testID(1, n, 0), compute))
		}
		return list
	}
	for name, call := range map[string]func(much bool) (answered int, err error){
		"GetRackInfoByID": func(much bool) (int, error) {
			res, err := s.grpc.GetRackInfoByID(t.Context(), &flowv1.GetRackInfoByIDRequest{Id: testID(1, pick(much, 1, 31), 0), WithComponents: true})
			return len(res.GetRack().GetComponents()), err
		},
		"GetRackInfoBySerial": func(much bool) (int, error) {
			res, err := s.grpc.GetRackInfoBySerial(t.Context(), &flowv1.GetRackInfoBySerialRequest{
				SerialInfo: &flowv1.DeviceSerialInfo{SerialNumber: fmt.Sprintf("R%d", pick(much, 1, 31))}, WithComponents: true,
			})
			return len(res.GetRack().GetComponents()), err
		},
		"GetListOfRacks": func(much bool) (int, error) {
			res, err := s.grpc.GetListOfRacks(t.Context(), &flowv1.GetListOfRacksRequest{WithComponents: true, Pagination: page(much, 30)})
			return len(res.GetRacks()), err
		},
		"GetComponents": func(much bool) (int, error) {
			res, err := s.grpc.GetComponents(t.Context(), &flowv1.GetComponentsRequest{Pagination: page(much, 60)})
			return len(res.GetComponents()), err
		},
		"GetComponents of a target": func(much bool) (int, error) {
			res, err := s.grpc.GetComponents(t.Context(), &flowv1.GetComponentsRequest{TargetSpec: racks(targets(much)...)})
			return len(res.GetComponents()), err
		},
		"ValidateComponents": func(much bool) (int, error) {
			res, err := s.grpc.ValidateComponents(t.Context(), &flowv1.ValidateComponentsRequest{Pagination: page(much, 60)})
			return len(res.GetDiffs()), err
		},
		"GetRacksForNVLDomain": func(much bool) (int, error) {
			res, err := s.grpc.GetRacksForNVLDomain(t.Context(), &flowv1.GetRacksForNVLDomainRequest{
				NvlDomainIdentifier: &flowv1.Identifier{Id: testID(3, 0, pick(much, 1, 10))},
			})
			return len(res.GetRacks()), err
		},
		"GetNVLinkDomain": func(much bool) (int, error) {
			res, err := s.grpc.GetNVLinkDomain(t.Context(), &flowv1.GetNVLinkDomainRequest{
				Id: fmt.Sprintf("domain-%02d", pick(much, 1, 10)), WithComponents: true,
			})
			return len(res.GetDomain().GetComponents()), err
		},
		"GetListOfNVLinkDomains": func(much bool) (int, error) {
			res, err := s.grpc.GetListOfNVLinkDomains(t.Context(), &flowv1.GetListOfNVLinkDomainsRequest{WithComponents: true, Pagination: page(much, 10)})
			return len(res.GetDomains()), err
		},
		"PatchRack": func(much bool) (int, error) {
			rack, size := pick(much, 1, 31), pick(much, 1, 30)
			r := &flowv1.Rack{Info: &flowv1.DeviceInfo{Id: testID(1, rack, 0)}}
			for n := range size {
				r.Components = append(r.Components,
					&flowv1.Component{
						Info: &flowv1.DeviceInfo{Id: testID(2, rack, n)}, FirmwareVersion: "2.0",
						Bmcs: []*flowv1.BMCInfo{{MacAddress: fmt.Sprintf("02:00:00:00:%02x:%02x", rack, n), IpAddress: proto.String("10.0.0.1")}},
					},
					&flowv1.Component{
						Type: compute, Info: &flowv1.DeviceInfo{Id: testID(2, rack, 100+n)},
						Bmcs: []*flowv1.BMCInfo{{Type: host, MacAddress: fmt.Sprintf("06:00:00:00:%02x:%02x", rack, n)}},
					})
			}
			_, err := patchRack(t.Context(), s.grpc, r)
			return 2 * size, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			count := func(much bool) (statements, answered int) {
				statements = s.sql.during(func() {
					var err error
					if answered, err = call(much); err != nil {
						t.Fatal(err)
					}
				})
				return statements, answered
			}
			few, little := count(false)
			many, much := count(true)
			if few != many || many > 14 {
				t.Errorf("%d statements for %d, %d for %d", few, little, many, much)
			}
			if little > 2 || much < 10 {
				t.Errorf("%d and %d compare badly", little, much)
			}
		})
	}
}
