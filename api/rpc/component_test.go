package rpc

import (
	"context"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// componentRead is a call that reads one component.
type componentRead func(ctx context.Context, flow flowv1connect.FlowClient) (*flowv1.GetComponentInfoResponse, error)

func readByID(id string) componentRead {
	return func(ctx context.Context, flow flowv1connect.FlowClient) (*flowv1.GetComponentInfoResponse, error) {
		return flow.GetComponentInfoByID(ctx, &flowv1.GetComponentInfoByIDRequest{Id: &flowv1.UUID{Id: id}})
	}
}

func readBySerial(manufacturer, serial string) componentRead {
	return func(ctx context.Context, flow flowv1connect.FlowClient) (*flowv1.GetComponentInfoResponse, error) {
		return flow.GetComponentInfoBySerial(ctx, &flowv1.GetComponentInfoBySerialRequest{
			SerialInfo: &flowv1.DeviceSerialInfo{Manufacturer: manufacturer, SerialNumber: serial},
		})
	}
}

func TestReadingComponents(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r := testRack(1, 12)
	c := r.GetComponents()
	c[0].Bmcs = append(c[0].Bmcs, &flowv1.BMCInfo{Type: dpu, MacAddress: "06:00:00:00:00:0a"})
	c[1].ComponentId = ""
	c[2].ComponentId, c[3].ComponentId, c[3].Type = "same", "same", shelf
	c[4].ComponentId = "02:00:00:00:01:05"     // a MAC of the next one
	c[6].ComponentId = "02:00:00:00:01:06"     // a MAC of its own
	c[7].ComponentId = testID(2, 1, 0).GetId() // the Flow id of the first one
	c[8].ComponentId, c[8].Info.SerialNumber = "", "R1C1"
	c[8].Info.Manufacturer = "Other"
	c[10].Info.Manufacturer = ""
	s.create(r)
	s.exec("UPDATE component SET deleted_at = now() WHERE id = $1", testID(2, 1, 9).GetId())
	s.exec("UPDATE component SET rack_id = NULL WHERE id = $1", testID(2, 1, 11).GetId())

	const (
		invalid, notFound, precondition = connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeFailedPrecondition
		refusal                         = -1
	)
	for name, c := range map[string]struct {
		read componentRead
		tray int
		code connect.Code // of the refusal
		word string
	}{
		"no id":                              {readByID(""), refusal, invalid, "component identifier is required"},
		"a blank id":                         {readByID(" \t"), refusal, invalid, "component identifier is required"},
		"an external id":                     {readByID("core-1-0"), 0, 0, ""},
		"an external id in other letters":    {readByID("CORE-1-0"), refusal, notFound, "CORE-1-0"},
		"a Flow id":                          {readByID(testID(2, 1, 2).GetId()), 2, 0, ""},
		"a Flow id, without external id":     {readByID(testID(2, 1, 1).GetId()), 1, 0, ""},
		"an external id before a Flow id":    {readByID(testID(2, 1, 0).GetId()), 7, 0, ""},
		"a MAC of a host":                    {readByID("02:00:00:00:01:00"), 0, 0, ""},
		"a MAC of a DPU":                     {readByID("06:00:00:00:00:0a"), 0, 0, ""},
		"a MAC in capitals":                  {readByID("06:00:00:00:00:0A"), 0, 0, ""},
		"a MAC with hyphens":                 {readByID("06-00-00-00-00-0a"), 0, 0, ""},
		"a MAC with dots":                    {readByID("0600.0000.000A"), 0, 0, ""},
		"a MAC in bare digits":               {readByID("06000000000A"), 0, 0, ""},
		"a MAC, without external id":         {readByID("02:00:00:00:01:01"), 1, 0, ""},
		"in no rack":                         {readByID("core-1-11"), 11, 0, ""},
		"an external id of two types":        {readByID("same"), refusal, precondition, "ambiguous"},
		"one's external id and another's":    {readByID("02:00:00:00:01:05"), refusal, precondition, "ambiguous"},
		"a MAC that is no one's external id": {readByID("02-00-00-00-01-05"), 5, 0, ""},
		"the external id and MAC of one":     {readByID("02:00:00:00:01:06"), 6, 0, ""},
		"an unknown external id":             {readByID("core-9-9"), refusal, notFound, "core-9-9"},
		"an unknown Flow id":                 {readByID(testID(2, 9, 9).GetId()), refusal, notFound, testID(2, 9, 9).GetId()},
		"an unknown MAC":                     {readByID("06:00:00:00:00:99"), refusal, notFound, "06:00:00:00:00:99"},
		"the nil id":                         {readByID(uuid.Nil.String()), refusal, notFound, "00000000"},
		"a deleted external id":              {readByID("core-1-9"), refusal, notFound, "core-1-9"},
		"a deleted MAC":                      {readByID("02:00:00:00:01:09"), refusal, notFound, "02:00:00:00:01:09"},
		"a deleted Flow id":                  {readByID(testID(2, 1, 9).GetId()), refusal, notFound, testID(2, 1, 9).GetId()},
		"a NUL":                              {readByID("a\x00"), refusal, invalid, "id.id"},
		"no serial":                          {readBySerial("NVIDIA", ""), refusal, invalid, "serial number is not specified"},
		"a blank serial":                     {readBySerial("NVIDIA", " "), refusal, invalid, "serial number is not specified"},
		"manufacturer and serial":            {readBySerial("Other", "R1C1"), 8, 0, ""},
		"a serial that is unique":            {readBySerial("", "R1C2"), 2, 0, ""},
		"a serial that is not":               {readBySerial("", "R1C1"), refusal, precondition, "ambiguous"},
		"a serial without manufacturer":      {readBySerial("", "R1C10"), 10, 0, ""},
		"a manufacturer there is not":        {readBySerial("NVIDIA", "R1C10"), refusal, notFound, "R1C10"},
		"the wrong manufacturer":             {readBySerial("Other", "R1C2"), refusal, notFound, "R1C2"},
		"an unknown serial":                  {readBySerial("NVIDIA", "R9C9"), refusal, notFound, "R9C9"},
		"a deleted serial":                   {readBySerial("NVIDIA", "R1C9"), refusal, notFound, "R1C9"},
		"nothing at all by serial": {
			func(ctx context.Context, flow flowv1connect.FlowClient) (*flowv1.GetComponentInfoResponse, error) {
				return flow.GetComponentInfoBySerial(ctx, &flowv1.GetComponentInfoBySerialRequest{})
			}, refusal, invalid, "serial number is not specified",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				res, err := c.read(t.Context(), flow)
				if c.tray == refusal {
					refused(t, err, c.code, c.word)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := res.GetComponent().GetInfo().GetName(); got != fmt.Sprintf("tray-%02d", c.tray) || res.GetRack() != nil {
					t.Errorf("got %s in %v, want tray-%02d alone", got, res.GetRack(), c.tray)
				}
			})
		})
	}
}

func TestAComponentComesWithItsRack(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.exec("INSERT INTO nvl_domain (id, name, external_id) VALUES ($1, 'domain', 'group-1')", testID(3, 0, 1).GetId())
	s.seenRack(1)
	s.exec("UPDATE rack SET nvl_domain_id = $1, rack_profile_id = 'profile'", testID(3, 0, 1).GetId())
	s.task(1, 0, "running", testID(2, 1, 1))
	s.task(1, 1, "waiting", testID(2, 1, 0))
	if _, err := s.grpc.AddComponent(t.Context(), &flowv1.AddComponentRequest{
		Component: &flowv1.Component{Type: cdu, Info: &flowv1.DeviceInfo{Id: testID(2, 1, 9), SerialNumber: "alone"}},
	}); err != nil {
		t.Fatal(err)
	}
	want := s.rack("core-rack-1")
	if d := diff(&flowv1.TaskStats{WaitingTaskCount: 1, RunningTaskCount: 1}, want.GetTaskStats()); d != "" {
		t.Fatal(d)
	}
	tray := want.GetComponents()[0]
	want.Components = nil
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		for name, c := range map[string]struct {
			serial, id string
			rack       *flowv1.Rack
		}{
			"a component of a rack":  {"R1C0", "core-1-0", want},
			"a component of no rack": {"alone", testID(2, 1, 9).GetId(), nil},
		} {
			t.Run(name, func(t *testing.T) {
				byID, err := flow.GetComponentInfoByID(t.Context(), &flowv1.GetComponentInfoByIDRequest{Id: &flowv1.UUID{Id: c.id}, WithRack: true})
				if err != nil {
					t.Fatal(err)
				}
				if d := diff(c.rack, byID.GetRack()); d != "" {
					t.Errorf("by id (-want +got):\n%s", d)
				}
				bySerial, err := flow.GetComponentInfoBySerial(t.Context(), &flowv1.GetComponentInfoBySerialRequest{
					SerialInfo: &flowv1.DeviceSerialInfo{SerialNumber: c.serial}, WithRack: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				if d := diff(byID, bySerial); d != "" {
					t.Errorf("-by id +by serial number:\n%s", d)
				}
				if c.rack != nil {
					if d := diff(tray, byID.GetComponent()); d != "" {
						t.Errorf("-in its rack +alone:\n%s", d)
					}
				}
			})
		}
	})
}
