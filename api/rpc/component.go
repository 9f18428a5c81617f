package rpc

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
)

// checkedAtHeader tells when expected and actual inventory were last compared, in RFC 3339; absent: never.
const checkedAtHeader = "flow-inventory-checked-at"

// AddComponent implements flowv1connect.FlowHandler.
func (s *service) AddComponent(ctx context.Context, req *flowv1.AddComponentRequest) (*flowv1.AddComponentResponse, error) {
	if req.GetComponent() == nil {
		return nil, fault.Invalid("component", "is required")
	}
	c, err := newComponent("component", req.GetComponent())
	if err != nil {
		return nil, err
	}
	rack, err := idPointer("component.rack_id", req.GetComponent().GetRackId())
	if err != nil {
		return nil, err
	}
	added, err := inventory.AddComponent(ctx, s.store.API, c, rack)
	if err != nil {
		return nil, err
	}
	return &flowv1.AddComponentResponse{Component: componentMessage(added)}, nil
}

// GetComponentInfoByID implements flowv1connect.FlowHandler.
func (s *service) GetComponentInfoByID(ctx context.Context, req *flowv1.GetComponentInfoByIDRequest) (*flowv1.GetComponentInfoResponse, error) {
	return componentInfo(inventory.GetComponent(ctx, s.store.API, req.GetId().GetId(), req.GetWithRack()))
}

// GetComponentInfoBySerial implements flowv1connect.FlowHandler.
func (s *service) GetComponentInfoBySerial(ctx context.Context, req *flowv1.GetComponentInfoBySerialRequest) (*flowv1.GetComponentInfoResponse, error) {
	plate := req.GetSerialInfo()
	return componentInfo(inventory.GetComponentBySerial(ctx, s.store.API, plate.GetManufacturer(), plate.GetSerialNumber(),
		req.GetWithRack()))
}

func componentInfo(c inventory.Component, rack *inventory.Rack, err error) (*flowv1.GetComponentInfoResponse, error) {
	if err != nil {
		return nil, err
	}
	res := &flowv1.GetComponentInfoResponse{Component: componentMessage(c)}
	if rack != nil {
		res.Rack = rackMessage(*rack)
	}
	return res, nil
}

// GetComponents implements flowv1connect.FlowHandler.
func (s *service) GetComponents(ctx context.Context, req *flowv1.GetComponentsRequest) (*flowv1.GetComponentsResponse, error) {
	query, err := componentQuery(req)
	if err != nil {
		return nil, err
	}
	list, total, err := inventory.ListComponents(ctx, s.store.API, query)
	if err != nil {
		return nil, err
	}
	return &flowv1.GetComponentsResponse{Components: each(list, componentMessage), Total: total}, nil
}

// ValidateComponents implements flowv1connect.FlowHandler.
func (s *service) ValidateComponents(ctx context.Context, req *flowv1.ValidateComponentsRequest) (*flowv1.ValidateComponentsResponse, error) {
	query, err := componentQuery(req)
	if err != nil {
		return nil, err
	}
	result, err := inventory.Compare(ctx, s.store.API, query)
	if err != nil {
		return nil, err
	}
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok && result.CheckedAt != nil {
		call.ResponseHeader().Set(checkedAtHeader, result.CheckedAt.UTC().Format(time.RFC3339))
	}
	return &flowv1.ValidateComponentsResponse{
		Diffs:           each(result.Drifts, diffMessage),
		TotalDiffs:      result.Missing + result.Unexpected + result.Mismatch,
		MissingCount:    result.Missing,
		UnexpectedCount: result.Unexpected,
		MismatchCount:   result.Mismatch,
		MatchCount:      result.Match,
	}, nil
}

// componentListRequest is what the requests for lists of components share.
type componentListRequest interface {
	GetTargetSpec() *flowv1.OperationTargetSpec
	GetFilters() []*flowv1.Filter
	GetPagination() *flowv1.Pagination
	GetOrderBy() *flowv1.OrderBy
}

func componentQuery(req componentListRequest) (inventory.ComponentQuery, error) {
	var query inventory.ComponentQuery
	var err error
	if query.Offset, query.Limit, err = page(req.GetPagination()); err != nil {
		return query, err
	}
	if query.Order, query.Descending, err = componentOrder(req.GetOrderBy()); err != nil {
		return query, err
	}
	if query.Matches, err = componentMatches(req.GetFilters()); err != nil {
		return query, err
	}
	if spec := req.GetTargetSpec(); spec != nil {
		scope, err := scopeOf(spec)
		query.Scope = &scope
		return query, err
	}
	return query, nil
}

// PatchComponent implements flowv1connect.FlowHandler.
func (s *service) PatchComponent(ctx context.Context, req *flowv1.PatchComponentRequest) (*flowv1.PatchComponentResponse, error) {
	p := inventory.ComponentPatch{FirmwareVersion: req.FirmwareVersion, Description: req.Description}
	var err error
	if p.ID, err = requiredID("id", req.GetId()); err != nil {
		return nil, err
	}
	if err := patchPosition(&p, req); err != nil {
		return nil, err
	}
	if p.RackID, err = idPointer("rack_id", req.GetRackId()); err != nil {
		return nil, err
	}
	p.BMCs = make([]inventory.NewBMC, len(req.GetBmcs()))
	for i, b := range req.GetBmcs() {
		if p.BMCs[i], err = newBMC(fmt.Sprintf("bmcs[%d]", i), b); err != nil {
			return nil, err
		}
	}
	patched, err := inventory.PatchComponent(ctx, s.store.API, p)
	if err != nil {
		return nil, err
	}
	return &flowv1.PatchComponentResponse{Component: componentMessage(patched)}, nil
}

// patchPosition reads the position of a patch: with a mask the parts it names, otherwise all of it. The mask concerns
// nothing else.
func patchPosition(p *inventory.ComponentPatch, req *flowv1.PatchComponentRequest) error {
	at, mask := req.GetPosition(), req.GetUpdateMask()
	switch {
	case mask == nil && at == nil:
		return nil
	case mask == nil:
		p.Slot, p.Tray, p.Host = new(at.GetSlotId()), new(at.GetTrayIdx()), new(at.GetHostId())
		return nil
	case at == nil:
		return fault.Invalid("position", "position is required when update_mask contains position fields")
	case len(mask.GetPaths()) == 0:
		return fault.Invalid("update_mask", "update_mask paths are required")
	}
	for _, path := range mask.GetPaths() {
		switch path {
		case "position.slot_id":
			p.Slot = new(at.GetSlotId())
		case "position.tray_idx":
			p.Tray = new(at.GetTrayIdx())
		case "position.host_id":
			p.Host = new(at.GetHostId())
		default:
			return fault.Invalid("update_mask", "unsupported PatchComponent update_mask path %.64q", path)
		}
	}
	return nil
}

// DeleteComponent implements flowv1connect.FlowHandler.
func (s *service) DeleteComponent(ctx context.Context, req *flowv1.DeleteComponentRequest) (*flowv1.DeleteComponentResponse, error) {
	id, err := requiredID("id", req.GetId())
	if err != nil {
		return nil, err
	}
	return &flowv1.DeleteComponentResponse{}, inventory.DeleteComponent(ctx, s.store.API, id)
}

// PurgeComponent implements flowv1connect.FlowHandler.
func (s *service) PurgeComponent(ctx context.Context, req *flowv1.PurgeComponentRequest) (*flowv1.PurgeComponentResponse, error) {
	id, err := requiredID("id", req.GetId())
	if err != nil {
		return nil, err
	}
	return &flowv1.PurgeComponentResponse{}, inventory.PurgeComponent(ctx, s.store.API, id)
}

// idPointer reads an id that may be absent.
func idPointer(field string, m *flowv1.UUID) (*uuid.UUID, error) {
	id, err := optionalID(field, m)
	if err != nil || id == uuid.Nil {
		return nil, err
	}
	return &id, nil
}

// diffMessage shows a drift. A missing component that has no BMC to be known by goes by its id.
func diffMessage(d inventory.Drift) *flowv1.ComponentDiff {
	m := &flowv1.ComponentDiff{
		Type:        diffTypes[d.Kind],
		ComponentId: d.ExternalID,
		FieldDiffs: each(d.Fields, func(f inventory.FieldDiff) *flowv1.FieldDiff {
			return &flowv1.FieldDiff{FieldName: f.Name, ExpectedValue: f.Expected, ActualValue: f.Actual}
		}),
	}
	if d.Expected == nil {
		return m
	}
	m.Expected = componentMessage(*d.Expected)
	if d.Kind == inventory.DriftMissing {
		if m.ComponentMacAddress = d.Expected.SmallestMAC(); m.ComponentMacAddress != "" {
			return m
		}
	}
	m.Id = idMessage(d.Expected.ID)
	return m
}
