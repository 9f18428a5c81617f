package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) rackCommand() *cobra.Command {
	return parent("rack", "Take racks into inventory, look at them and change them", "",
		c.rackCreateCommand(), c.rackGetCommand(), c.rackListCommand(), c.rackPatchCommand(),
		c.rackDeleteCommand(), c.rackPurgeCommand(), c.rackRestoreCommand())
}

// uuidOf reads an id that a message is to carry.
func uuidOf(what, text string) (*flowv1.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 || id == uuid.Nil {
		return nil, fmt.Errorf("%s %q is not a valid UUID", what, text)
	}
	return &flowv1.UUID{Id: id.String()}, nil
}

// isUUID reports whether what was typed is an id and not a name.
func isUUID(text string) bool {
	_, err := uuid.Parse(text)
	return err == nil && len(text) == 36
}

// findRack reads a rack by whatever the operator knows it by: id, external id, or name.
func (s *client) findRack(ctx context.Context, key string, withComponents bool) (*flowv1.Rack, error) {
	resp, err := s.flow.GetRackInfoByID(ctx, &flowv1.GetRackInfoByIDRequest{Id: &flowv1.UUID{Id: key}, WithComponents: withComponents})
	if err == nil {
		return resp.GetRack(), nil
	}
	if connect.CodeOf(err) != connect.CodeNotFound || isUUID(key) {
		return nil, err
	}
	named := rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_NAME, &flowv1.StringQueryInfo{Patterns: []string{key}})
	racks, err := s.flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{
		Filters:        []*flowv1.Filter{named},
		WithComponents: withComponents,
		Pagination:     &flowv1.Pagination{Limit: 2},
	})
	if err != nil {
		return nil, err
	}
	switch len(racks.GetRacks()) {
	case 0:
		return nil, fmt.Errorf("no rack has the id or name %q", key)
	case 1:
		return racks.GetRacks()[0], nil
	}
	return nil, fmt.Errorf("%d racks are named %q: give the id of one", racks.GetTotal(), key)
}

// Beyond singleLookups racks, names are read page by page, and of at most namePages pages.
const (
	singleLookups = 8
	namePages     = 10
	pageSize      = 1000
)

// rackNames finds the names of racks by id. Names are decoration: a rack that is gone, or not found soon, has none, and
// only a server that does not answer is an error.
func (s *client) rackNames(ctx context.Context, ids []string) (map[string]string, error) {
	wanted := slices.Compact(slices.Sorted(slices.Values(ids)))
	names := make(map[string]string, len(wanted))
	if len(wanted) <= singleLookups {
		for _, id := range wanted {
			resp, err := s.flow.GetRackInfoByID(ctx, &flowv1.GetRackInfoByIDRequest{Id: &flowv1.UUID{Id: id}})
			var ce *connect.Error
			switch {
			case err == nil:
				names[id] = resp.GetRack().GetInfo().GetName()
			case errors.As(err, &ce) && ce.Code() == connect.CodeNotFound:
			default:
				return nil, err
			}
		}
		return names, nil
	}
	for page := range int32(namePages) {
		resp, err := s.flow.GetListOfRacks(ctx, &flowv1.GetListOfRacksRequest{
			Pagination: &flowv1.Pagination{Offset: page * pageSize, Limit: pageSize},
		})
		if err != nil {
			return nil, err
		}
		for _, r := range resp.GetRacks() {
			id := r.GetInfo().GetId().GetId()
			if _, found := slices.BinarySearch(wanted, id); found {
				names[id] = r.GetInfo().GetName()
			}
		}
		if len(names) == len(wanted) || len(resp.GetRacks()) < pageSize {
			break
		}
	}
	return names, nil
}

// racksOf are the ids of the racks that components are in or tasks work on.
func racksOf[T interface{ GetRackId() *flowv1.UUID }](list []T) []string {
	var ids []string
	for _, m := range list {
		if m.GetRackId() != nil {
			ids = append(ids, m.GetRackId().GetId())
		}
	}
	return ids
}

// rackLabel is what a rack is called in tables: its name, or its id when it has none we know.
func rackLabel(names map[string]string, id string) string { return cmp.Or(names[id], id) }
