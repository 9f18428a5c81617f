package rpc

import (
	"context"

	"rackflow.dev/flow/api/gen/flowv1"
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
