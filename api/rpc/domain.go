package rpc

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/emptypb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/store/db"
)

// CreateNVLDomain implements flowv1connect.FlowHandler.
func (s *service) CreateNVLDomain(ctx context.Context, req *flowv1.CreateNVLDomainRequest) (*flowv1.CreateNVLDomainResponse, error) {
	m := req.GetNvlDomain()
	if m == nil {
		return nil, fault.Invalid("nvl_domain", "is required")
	}
	d := inventory.NewDomain{Name: m.GetIdentifier().GetName(), ExternalID: m.GetExternalId()}
	var err error
	if d.ID, err = requiredID("nvl_domain.identifier.id", m.GetIdentifier().GetId()); err != nil {
		return nil, err
	}
	if cluster := m.GetNmxcClusterId(); cluster != "" {
		if d.ClusterID, err = idPointer("nvl_domain.nmxc_cluster_id", &flowv1.UUID{Id: cluster}); err != nil {
			return nil, err
		}
	}
	if err := inventory.CreateDomain(ctx, s.store.API, d); err != nil {
		return nil, err
	}
	return &flowv1.CreateNVLDomainResponse{Id: idMessage(d.ID)}, nil
}

// AttachRacksToNVLDomain implements flowv1connect.FlowHandler.
func (s *service) AttachRacksToNVLDomain(ctx context.Context, req *flowv1.AttachRacksToNVLDomainRequest) (*emptypb.Empty, error) {
	domain, err := domainIdentifier(req.GetNvlDomainIdentifier())
	if err != nil {
		return nil, err
	}
	racks, err := rackIdentifiers(req.GetRackIdentifiers())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, inventory.AttachRacks(ctx, s.store.API, domain, racks)
}

// DetachRacksFromNVLDomain implements flowv1connect.FlowHandler.
func (s *service) DetachRacksFromNVLDomain(ctx context.Context, req *flowv1.DetachRacksFromNVLDomainRequest) (*emptypb.Empty, error) {
	racks, err := rackIdentifiers(req.GetRackIdentifiers())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, inventory.DetachRacks(ctx, s.store.API, racks)
}

func domainIdentifier(m *flowv1.Identifier) (inventory.DomainRef, error) {
	id, name, err := identifier("nvl_domain_identifier", m)
	return inventory.DomainRef{ID: id, Name: name}, err
}

func rackIdentifiers(list []*flowv1.Identifier) ([]inventory.RackRef, error) {
	refs := make([]inventory.RackRef, len(list))
	for i, m := range list {
		var err error
		if refs[i].ID, refs[i].Name, err = identifier(fmt.Sprintf("rack_identifiers[%d]", i), m); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// GetListOfNVLDomains implements flowv1connect.FlowHandler.
func (s *service) GetListOfNVLDomains(ctx context.Context, req *flowv1.GetListOfNVLDomainsRequest) (*flowv1.GetListOfNVLDomainsResponse, error) {
	query := inventory.DomainQuery{Name: match("info", req.GetInfo())}
	var err error
	if query.Offset, query.Limit, err = page(req.GetPagination()); err != nil {
		return nil, err
	}
	list, total, err := inventory.ListDomains(ctx, s.store.API, query)
	if err != nil {
		return nil, err
	}
	return &flowv1.GetListOfNVLDomainsResponse{NvlDomains: each(list, domainMessage), Total: total}, nil
}

// GetRacksForNVLDomain implements flowv1connect.FlowHandler.
func (s *service) GetRacksForNVLDomain(ctx context.Context, req *flowv1.GetRacksForNVLDomainRequest) (*flowv1.GetRacksForNVLDomainResponse, error) {
	domain, err := domainIdentifier(req.GetNvlDomainIdentifier())
	if err != nil {
		return nil, err
	}
	racks, err := inventory.ListDomainRacks(ctx, s.store.API, domain)
	if err != nil {
		return nil, err
	}
	return &flowv1.GetRacksForNVLDomainResponse{Racks: each(racks, rackMessage)}, nil
}

// GetNVLinkDomain implements flowv1connect.FlowHandler.
func (s *service) GetNVLinkDomain(ctx context.Context, req *flowv1.GetNVLinkDomainRequest) (*flowv1.GetNVLinkDomainResponse, error) {
	d, err := inventory.GetDomain(ctx, s.store.API, req.GetId(), req.GetWithComponents())
	if err != nil {
		return nil, err
	}
	return &flowv1.GetNVLinkDomainResponse{Domain: linkDomainMessage(d)}, nil
}

// GetListOfNVLinkDomains implements flowv1connect.FlowHandler.
func (s *service) GetListOfNVLinkDomains(ctx context.Context, req *flowv1.GetListOfNVLinkDomainsRequest) (*flowv1.GetListOfNVLinkDomainsResponse, error) {
	query := inventory.DomainQuery{Name: match("info", req.GetInfo())}
	switch req.GetOrderBy() {
	case "", "NAME_ASC":
	case "NAME_DESC":
		query.Descending = true
	default:
		return nil, fault.Invalid("order_by", "order_by must be NAME_ASC or NAME_DESC, not %.64q", req.GetOrderBy())
	}
	var err error
	if query.Offset, query.Limit, err = page(req.GetPagination()); err != nil {
		return nil, err
	}
	list, total, err := inventory.ListLinkedDomains(ctx, s.store.API, query, req.GetWithComponents())
	if err != nil {
		return nil, err
	}
	return &flowv1.GetListOfNVLinkDomainsResponse{Domains: each(list, linkDomainMessage), Total: total}, nil
}

func domainMessage(d db.NvlDomain) *flowv1.NVLDomain {
	return &flowv1.NVLDomain{
		Identifier:    &flowv1.Identifier{Id: idMessage(d.ID), Name: value(d.Name)},
		ExternalId:    d.ExternalID,
		NmxcClusterId: clusterText(d),
	}
}

func linkDomainMessage(d inventory.Domain) *flowv1.NVLinkDomain {
	m := &flowv1.NVLinkDomain{
		Id:              value(d.ExternalID),
		Name:            value(d.Name),
		OperationStatus: phases[d.Phase],
		Components:      each(d.Components, componentMessage),
		NmxcClusterId:   clusterText(d.NvlDomain),
		RackGroupId:     value(d.ExternalID),
	}
	if d.Topology != "" {
		m.Topology = &d.Topology
	}
	return m
}

func clusterText(d db.NvlDomain) *string {
	if d.NmxcClusterID == nil {
		return nil
	}
	return new(d.NmxcClusterID.String())
}
