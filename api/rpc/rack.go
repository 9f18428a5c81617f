package rpc

import (
	"context"
	"encoding/json"
	"fmt"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
)

// CreateExpectedRack implements flowv1connect.FlowHandler.
func (s *service) CreateExpectedRack(ctx context.Context, req *flowv1.CreateExpectedRackRequest) (*flowv1.CreateExpectedRackResponse, error) {
	rack, err := newRack(req.GetRack())
	if err != nil {
		return nil, err
	}
	if err := inventory.CreateRack(ctx, s.store.API, rack); err != nil {
		return nil, err
	}
	return &flowv1.CreateExpectedRackResponse{Id: idMessage(rack.ID)}, nil
}

// GetRackInfoByID implements flowv1connect.FlowHandler.
func (s *service) GetRackInfoByID(ctx context.Context, req *flowv1.GetRackInfoByIDRequest) (*flowv1.GetRackInfoResponse, error) {
	rack, err := inventory.GetRack(ctx, s.store.API, req.GetId().GetId(), req.GetWithComponents())
	if err != nil {
		return nil, err
	}
	return &flowv1.GetRackInfoResponse{Rack: rackMessage(rack)}, nil
}

// GetRackInfoBySerial implements flowv1connect.FlowHandler.
func (s *service) GetRackInfoBySerial(ctx context.Context, req *flowv1.GetRackInfoBySerialRequest) (*flowv1.GetRackInfoResponse, error) {
	plate := req.GetSerialInfo()
	rack, err := inventory.GetRackBySerial(ctx, s.store.API, plate.GetManufacturer(), plate.GetSerialNumber(),
		req.GetWithComponents())
	if err != nil {
		return nil, err
	}
	return &flowv1.GetRackInfoResponse{Rack: rackMessage(rack)}, nil
}

// GetListOfRacks implements flowv1connect.FlowHandler.
func (s *service) GetListOfRacks(ctx context.Context, req *flowv1.GetListOfRacksRequest) (*flowv1.GetListOfRacksResponse, error) {
	query := inventory.RackQuery{
		WithExternalID: req.GetWithExternalIdOnly(),
		Components:     req.GetWithComponents(),
	}
	var err error
	if query.Offset, query.Limit, err = page(req.GetPagination()); err != nil {
		return nil, err
	}
	if query.Order, query.Descending, err = rackOrder(req.GetOrderBy()); err != nil {
		return nil, err
	}
	if query.Matches, err = rackMatches(req.GetFilters()); err != nil {
		return nil, err
	}
	racks, total, err := inventory.ListRacks(ctx, s.store.API, query)
	if err != nil {
		return nil, err
	}
	return &flowv1.GetListOfRacksResponse{Racks: each(racks, rackMessage), Total: total}, nil
}

// PatchRack implements flowv1connect.FlowHandler.
func (s *service) PatchRack(ctx context.Context, req *flowv1.PatchRackRequest) (*flowv1.PatchRackResponse, error) {
	patch, err := rackPatch(req.GetRack())
	if err != nil {
		return nil, err
	}
	report, err := inventory.PatchRack(ctx, s.store.API, patch)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return nil, err
	}
	return &flowv1.PatchRackResponse{Report: string(text)}, nil
}

// rackPatch reads what to change of a rack.
func rackPatch(m *flowv1.Rack) (inventory.RackPatch, error) {
	var p inventory.RackPatch
	if m == nil {
		return p, fault.Invalid("rack", "is required")
	}
	var err error
	if p.ID, err = optionalID("rack.info.id", m.GetInfo().GetId()); err != nil {
		return p, err
	}
	p.Plate = plate(m.GetInfo())
	if info := m.GetInfo(); info != nil {
		p.Model, p.Description = info.Model, info.Description
	}
	if l := m.GetLocation(); l != nil {
		p.Location = &inventory.Location{Region: l.GetRegion(), Datacenter: l.GetDatacenter(), Room: l.GetRoom(), Position: l.GetPosition()}
	}
	p.Components = make([]inventory.RackPatchComponent, len(m.GetComponents()))
	for i, c := range m.GetComponents() {
		if c == nil {
			return p, fault.Invalid("rack.components", "rack component %d is required", i)
		}
		if p.Components[i].NewComponent, err = componentPatch(fmt.Sprintf("rack.components[%d]", i), c); err != nil {
			return p, err
		}
		if info := c.GetInfo(); info != nil {
			p.Components[i].Description = info.Description
		}
	}
	return p, nil
}

// DeleteRack implements flowv1connect.FlowHandler.
func (s *service) DeleteRack(ctx context.Context, req *flowv1.DeleteRackRequest) (*flowv1.DeleteRackResponse, error) {
	id, err := requiredID("id", req.GetId())
	if err != nil {
		return nil, err
	}
	return &flowv1.DeleteRackResponse{}, s.tasks.DeleteRack(ctx, id)
}

// PurgeRack implements flowv1connect.FlowHandler.
func (s *service) PurgeRack(ctx context.Context, req *flowv1.PurgeRackRequest) (*flowv1.PurgeRackResponse, error) {
	id, err := requiredID("id", req.GetId())
	if err != nil {
		return nil, err
	}
	return &flowv1.PurgeRackResponse{}, inventory.PurgeRack(ctx, s.store.API, id)
}

// RestoreRack implements flowopsv1connect.FlowOpsHandler.
func (s *opsService) RestoreRack(ctx context.Context, req *flowopsv1.RestoreRackRequest) (*flowopsv1.RestoreRackResponse, error) {
	id, err := requiredID("id", req.GetId())
	if err != nil {
		return nil, err
	}
	rack, err := inventory.RestoreRack(ctx, s.store.API, id)
	if err != nil {
		return nil, err
	}
	return &flowopsv1.RestoreRackResponse{Rack: rackMessage(rack)}, nil
}
