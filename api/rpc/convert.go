package rpc

import (
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/store/db"
)

// each converts a list.
func each[T, U any](in []T, f func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func idMessage(id uuid.UUID) *flowv1.UUID { return &flowv1.UUID{Id: id.String()} }

func rackMessage(r inventory.Rack) *flowv1.Rack {
	m := &flowv1.Rack{
		Info: &flowv1.DeviceInfo{
			Id:           idMessage(r.ID),
			Name:         r.Name,
			Manufacturer: value(r.Manufacturer),
			Model:        r.Model,
			SerialNumber: value(r.Serial),
			Description:  r.Description,
		},
		Location: &flowv1.Location{
			Region:     r.Region,
			Datacenter: r.Datacenter,
			Room:       r.Room,
			Position:   r.Position,
		},
		TaskStats:       statsMessage(r.Tasks),
		ExternalId:      value(r.ExternalID),
		OperationStatus: phases[r.Phase],
		Health:          healthMessage(r.Health),
		RackProfileId:   r.RackProfileID,
	}
	if r.Domain != nil {
		m.NvlDomainIds = []*flowv1.UUID{idMessage(r.Domain.ID)}
		if r.Domain.ExternalID != nil {
			m.NvlDomainExternalIds = []string{*r.Domain.ExternalID}
		}
	}
	m.Components = each(r.Components, componentMessage)
	return m
}

func componentMessage(c inventory.Component) *flowv1.Component {
	m := &flowv1.Component{
		Type: componentTypeMessages[hardware.ComponentType(c.Type)],
		Info: &flowv1.DeviceInfo{
			Id:           idMessage(c.ID),
			Name:         c.Name,
			Manufacturer: value(c.Manufacturer),
			Model:        c.Model,
			SerialNumber: value(c.Serial),
			Description:  c.Description,
		},
		FirmwareVersion:    c.FirmwareVersion,
		Position:           &flowv1.RackPosition{SlotId: c.SlotID, TrayIdx: c.TrayIdx, HostId: c.HostID},
		Bmcs:               each(c.BMCs, bmcMessage),
		ComponentId:        value(c.ExternalID),
		PowerState:         c.PowerState,
		Status:             statusMessage(c.LiveComponent),
		LeakStatus:         leakStatuses[c.LeakStatus],
		TaskStats:          statsMessage(c.Tasks),
		RackExternalId:     value(c.Rack.ExternalID),
		LeakHandlingStatus: leakHandlings[c.Leak],
		Health:             healthMessage(c.Health),
	}
	if c.RackID != nil {
		m.RackId = idMessage(*c.RackID)
	}
	if c.Rack.DomainID != nil {
		m.NvlDomainId = idMessage(*c.Rack.DomainID)
		m.NvlDomainExternalId = c.Rack.DomainExternalID
	}
	return m
}

func bmcMessage(b inventory.BMC) *flowv1.BMCInfo {
	m := &flowv1.BMCInfo{Type: bmcTypeMessages[b.Type], MacAddress: b.Mac.String()}
	if b.Ip != nil {
		ip := b.Ip.String()
		m.IpAddress = &ip
	}
	return m
}

// statusMessage is absent until a synchronisation has seen the component.
func statusMessage(c *db.LiveComponent) *flowv1.ComponentOperationStatus {
	if c.Phase == nil {
		return nil
	}
	phase := inventory.Phase(*c.Phase)
	m := &flowv1.ComponentOperationStatus{Phase: phases[phase], Reason: c.PhaseReason}
	if phase.Blocks() {
		m.BlockedOperations = []flowv1.OperationType{
			flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL,
			flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL,
		}
	}
	return m
}

// healthMessage reads a report as storedHealth wrote it.
func healthMessage(doc []byte) *flowv1.HealthReport {
	if doc == nil {
		return nil
	}
	m := &flowv1.HealthReport{}
	if proto.Unmarshal(doc, m) != nil {
		return nil // no report is better than half of one
	}
	return m
}

func statsMessage(t inventory.TaskCounts) *flowv1.TaskStats {
	return &flowv1.TaskStats{
		WaitingTaskCount: uint32(t.Waiting),
		PendingTaskCount: uint32(t.Pending),
		RunningTaskCount: uint32(t.Running),
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
