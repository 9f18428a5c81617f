package main

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// changed notes a request that changes the inventory, and answers with the empty message given.
func changed[T any](f *fake, m proto.Message, answer *T) (*T, error) {
	f.note(m)
	return answer, f.submit
}

func (f *fake) PatchRack(_ context.Context, r *flowv1.PatchRackRequest) (*flowv1.PatchRackResponse, error) {
	return changed(f, r, &flowv1.PatchRackResponse{Report: f.report})
}

func (f *fake) DeleteRack(_ context.Context, r *flowv1.DeleteRackRequest) (*flowv1.DeleteRackResponse, error) {
	return changed(f, r, &flowv1.DeleteRackResponse{})
}

func (f *fake) PurgeRack(_ context.Context, r *flowv1.PurgeRackRequest) (*flowv1.PurgeRackResponse, error) {
	return changed(f, r, &flowv1.PurgeRackResponse{})
}

func (f *fake) RestoreRack(_ context.Context, r *flowopsv1.RestoreRackRequest) (*flowopsv1.RestoreRackResponse, error) {
	return changed(f, r, &flowopsv1.RestoreRackResponse{})
}

func (f *fake) AddComponent(_ context.Context, r *flowv1.AddComponentRequest) (*flowv1.AddComponentResponse, error) {
	return changed(f, r, &flowv1.AddComponentResponse{Component: r.GetComponent()})
}

func (f *fake) PatchComponent(_ context.Context, r *flowv1.PatchComponentRequest) (*flowv1.PatchComponentResponse, error) {
	return changed(f, r, &flowv1.PatchComponentResponse{Component: &flowv1.Component{Info: &flowv1.DeviceInfo{Id: r.GetId()}}})
}

func (f *fake) DeleteComponent(_ context.Context, r *flowv1.DeleteComponentRequest) (*flowv1.DeleteComponentResponse, error) {
	return changed(f, r, &flowv1.DeleteComponentResponse{})
}

func (f *fake) PurgeComponent(_ context.Context, r *flowv1.PurgeComponentRequest) (*flowv1.PurgeComponentResponse, error) {
	return changed(f, r, &flowv1.PurgeComponentResponse{})
}

func (f *fake) GetComponentInfoByID(_ context.Context, r *flowv1.GetComponentInfoByIDRequest) (*flowv1.GetComponentInfoResponse, error) {
	key := r.GetId().GetId()
	return f.component(key, r.GetWithRack(), func(c *flowv1.Component) bool {
		return c.GetInfo().GetId().GetId() == key || c.GetComponentId() == key ||
			slices.ContainsFunc(c.GetBmcs(), func(b *flowv1.BMCInfo) bool { return b.GetMacAddress() == key })
	})
}

func (f *fake) GetComponentInfoBySerial(
	_ context.Context, r *flowv1.GetComponentInfoBySerialRequest,
) (*flowv1.GetComponentInfoResponse, error) {
	key := r.GetSerialInfo().GetSerialNumber()
	return f.component(key, r.GetWithRack(), func(c *flowv1.Component) bool { return c.GetInfo().GetSerialNumber() == key })
}

func (f *fake) component(key string, withRack bool, is func(*flowv1.Component) bool) (*flowv1.GetComponentInfoResponse, error) {
	i := slices.IndexFunc(f.components, is)
	if i < 0 {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("component %s not found", key))
	}
	resp := &flowv1.GetComponentInfoResponse{Component: f.components[i]}
	for _, rack := range f.racks {
		if withRack && rack.GetInfo().GetId().GetId() == f.components[i].GetRackId().GetId() {
			resp.Rack = proto.CloneOf(rack)
			resp.Rack.Components = nil
		}
	}
	return resp, nil
}

func (f *fake) GetComponents(_ context.Context, r *flowv1.GetComponentsRequest) (*flowv1.GetComponentsResponse, error) {
	f.note(r)
	return &flowv1.GetComponentsResponse{Components: pageOf(f.components, r.GetPagination()), Total: int32(len(f.components))}, nil
}

func (f *fake) ValidateComponents(ctx context.Context, r *flowv1.ValidateComponentsRequest) (*flowv1.ValidateComponentsResponse, error) {
	f.note(r)
	if call, _ := connect.CallInfoForHandlerContext(ctx); f.checkedAt != "" {
		call.ResponseHeader().Set(checkedAtHeader, f.checkedAt)
	}
	resp := &flowv1.ValidateComponentsResponse{Diffs: pageOf(f.diffs, r.GetPagination()), TotalDiffs: int32(len(f.diffs)), MatchCount: 7}
	for _, d := range f.diffs {
		switch d.GetType() {
		case flowv1.DiffType_DIFF_TYPE_MISSING:
			resp.MissingCount++
		case flowv1.DiffType_DIFF_TYPE_UNEXPECTED:
			resp.UnexpectedCount++
		case flowv1.DiffType_DIFF_TYPE_MISMATCH:
			resp.MismatchCount++
		}
	}
	return resp, nil
}

func pageOf[T any](list []T, p *flowv1.Pagination) []T {
	from := min(int(p.GetOffset()), len(list))
	return list[from:min(from+int(p.GetLimit()), len(list))]
}

func (f *fake) CreateNVLDomain(_ context.Context, r *flowv1.CreateNVLDomainRequest) (*flowv1.CreateNVLDomainResponse, error) {
	return changed(f, r, &flowv1.CreateNVLDomainResponse{Id: r.GetNvlDomain().GetIdentifier().GetId()})
}

func (f *fake) AttachRacksToNVLDomain(_ context.Context, r *flowv1.AttachRacksToNVLDomainRequest) (*emptypb.Empty, error) {
	return changed(f, r, &emptypb.Empty{})
}

func (f *fake) DetachRacksFromNVLDomain(_ context.Context, r *flowv1.DetachRacksFromNVLDomainRequest) (*emptypb.Empty, error) {
	return changed(f, r, &emptypb.Empty{})
}

func (f *fake) GetListOfNVLDomains(_ context.Context, r *flowv1.GetListOfNVLDomainsRequest) (*flowv1.GetListOfNVLDomainsResponse, error) {
	f.note(r)
	return &flowv1.GetListOfNVLDomainsResponse{NvlDomains: f.domains, Total: int32(len(f.domains))}, nil
}

// linked shows a domain the way Core's are shown.
func linked(d *flowv1.NVLDomain) *flowv1.NVLinkDomain {
	return &flowv1.NVLinkDomain{
		Id: d.GetExternalId(), Name: d.GetIdentifier().GetName(), RackGroupId: d.GetExternalId(),
		OperationStatus: flowv1.Phase_PHASE_READY, Topology: proto.String("NVL72_1x72"),
	}
}

func (f *fake) GetListOfNVLinkDomains(
	_ context.Context, r *flowv1.GetListOfNVLinkDomainsRequest,
) (*flowv1.GetListOfNVLinkDomainsResponse, error) {
	f.note(r)
	resp := &flowv1.GetListOfNVLinkDomainsResponse{Total: int32(len(f.domains))}
	for _, d := range f.domains {
		resp.Domains = append(resp.Domains, linked(d))
	}
	return resp, nil
}

func (f *fake) GetNVLinkDomain(_ context.Context, r *flowv1.GetNVLinkDomainRequest) (*flowv1.GetNVLinkDomainResponse, error) {
	for _, d := range f.domains {
		if d.GetExternalId() == r.GetId() {
			return &flowv1.GetNVLinkDomainResponse{Domain: linked(d)}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("domain %s not found", r.GetId()))
}

func (f *fake) GetRacksForNVLDomain(
	_ context.Context, r *flowv1.GetRacksForNVLDomainRequest,
) (*flowv1.GetRacksForNVLDomainResponse, error) {
	return changed(f, r, &flowv1.GetRacksForNVLDomainResponse{Racks: f.racks})
}
