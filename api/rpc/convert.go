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

// componentParts are the messages a component is made of. They are allocated as one: lists have thousands.
type componentParts struct {
	component flowv1.Component
	info      flowv1.DeviceInfo
	id, rack  flowv1.UUID
	domain    flowv1.UUID
	position  flowv1.RackPosition
	status    flowv1.ComponentOperationStatus
	stats     flowv1.TaskStats
}

func componentMessage(c inventory.Component) *flowv1.Component {
	p := &componentParts{}
	p.id.Id = c.ID.String()
	p.info.Id = &p.id
	p.info.Name = c.Name
	p.info.Manufacturer = value(c.Manufacturer)
	p.info.Model = c.Model
	p.info.SerialNumber = value(c.Serial)
	p.info.Description = c.Description
	p.position.SlotId, p.position.TrayIdx, p.position.HostId = c.SlotID, c.TrayIdx, c.HostID
	setStats(&p.stats, c.Tasks)
	m := &p.component
	m.Type = componentTypeMessages[hardware.ComponentType(c.Type)]
	m.Info = &p.info
	m.FirmwareVersion = c.FirmwareVersion
	m.Position = &p.position
	m.Bmcs = bmcMessages(c.BMCs)
	m.ComponentId = value(c.ExternalID)
	m.PowerState = c.PowerState
	m.LeakStatus = leakStatuses[c.LeakStatus]
	m.TaskStats = &p.stats
	m.RackExternalId = value(c.Rack.ExternalID)
	m.LeakHandlingStatus = leakHandlings[c.Leak]
	m.Health = healthMessage(c.Health)
	if c.Phase != nil {
		setStatus(&p.status, c.LiveComponent)
		m.Status = &p.status
	}
	if c.RackID != nil {
		p.rack.Id = c.RackID.String()
		m.RackId = &p.rack
	}
	if c.Rack.DomainID != nil {
		p.domain.Id = c.Rack.DomainID.String()
		m.NvlDomainId, m.NvlDomainExternalId = &p.domain, c.Rack.DomainExternalID
	}
	return m
}

func bmcMessages(list []inventory.BMC) []*flowv1.BMCInfo {
	messages := make([]*flowv1.BMCInfo, len(list))
	parts := make([]struct {
		bmc flowv1.BMCInfo
		ip  string
	}, len(list))
	for i, b := range list {
		p := &parts[i]
		messages[i] = &p.bmc
		p.bmc.Type, p.bmc.MacAddress = bmcTypeMessages[b.Type], b.Mac.String()
		if b.Ip != nil {
			p.ip = b.Ip.String()
			p.bmc.IpAddress = &p.ip
		}
	}
	return messages
}

// setStatus writes what a synchronisation has seen.
func setStatus(m *flowv1.ComponentOperationStatus, c *db.LiveComponent) {
	phase := inventory.Phase(*c.Phase)
	m.Phase, m.Reason = phases[phase], c.PhaseReason
	if phase.Blocks() {
		m.BlockedOperations = []flowv1.OperationType{
			flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL,
			flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL,
		}
	}
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
	m := &flowv1.TaskStats{}
	setStats(m, t)
	return m
}

func setStats(m *flowv1.TaskStats, t inventory.TaskCounts) {
	m.WaitingTaskCount, m.PendingTaskCount, m.RunningTaskCount = uint32(t.Waiting), uint32(t.Pending), uint32(t.Running)
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
