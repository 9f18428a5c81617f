package rpc

import (
	"fmt"
	"strings"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
)

// The size of a page, by default and at most.
const (
	defaultPage = 100
	maxPage     = 1000
)

// page reads which part of a list is wanted.
func page(p *flowv1.Pagination) (offset, limit int32, err error) {
	switch {
	case p == nil:
		return 0, defaultPage, nil
	case p.GetOffset() < 0:
		return 0, 0, fault.Invalid("pagination.offset", "%d must not be negative", p.GetOffset())
	case p.GetLimit() <= 0:
		return 0, 0, fault.Invalid("pagination.limit", "%d must be greater than 0", p.GetLimit())
	}
	return p.GetOffset(), min(p.GetLimit(), maxPage), nil
}

// rackOrder reads the order of a list of racks. Without a field there is none, whatever the direction.
func rackOrder(o *flowv1.OrderBy) (field inventory.RackField, descending bool, err error) {
	switch f := o.GetField().(type) {
	case nil:
		return "", false, nil
	case *flowv1.OrderBy_RackField:
		if f.RackField == flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_UNSPECIFIED {
			return "", false, nil
		}
		var ok bool
		if field, ok = rackOrders[f.RackField]; !ok {
			return "", false, fault.Invalid("order_by.rack_field", "%s is not a field of a rack", f.RackField)
		}
	default:
		return "", false, fault.Invalid("order_by.component_field", "racks cannot be ordered by a field of their components")
	}
	switch dir := o.GetDirection(); {
	case dir == "", strings.EqualFold(dir, "ASC"):
		return field, false, nil
	case strings.EqualFold(dir, "DESC"):
		return field, true, nil
	default:
		return "", false, fault.Invalid("order_by.direction", "%.64q is neither ASC nor DESC", dir)
	}
}

// rackMatches reads the filters of a list of racks.
func rackMatches(filters []*flowv1.Filter) (map[inventory.RackField][]inventory.Match, error) {
	matches := map[inventory.RackField][]inventory.Match{}
	for i, f := range filters {
		path := fmt.Sprintf("filters[%d]", i)
		match := inventory.Match{
			Field:    path + ".query_info",
			Patterns: f.GetQueryInfo().GetPatterns(),
			Wildcard: f.GetQueryInfo().GetIsWildcard(),
			Any:      f.GetQueryInfo().GetUseOr(),
		}
		switch by := f.GetField().(type) {
		case nil:
			if len(match.Patterns) > 0 {
				return nil, fault.Invalid(path, "filter field not set")
			}
		case *flowv1.Filter_RackField:
			field, ok := rackFilters[by.RackField]
			if !ok {
				return nil, fault.Invalid(path+".rack_field", "unsupported filter field %s", by.RackField)
			}
			matches[field] = append(matches[field], match)
		default:
			return nil, fault.Invalid(path+".component_field", "racks cannot be filtered by a field of their components")
		}
	}
	return matches, nil
}

var rackOrders = map[flowv1.RackOrderByField]inventory.RackField{
	flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_NAME:         inventory.RackName,
	flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_MANUFACTURER: inventory.RackManufacturer,
	flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_MODEL:        inventory.RackModel,
}

var rackFilters = map[flowv1.RackFilterField]inventory.RackField{
	flowv1.RackFilterField_RACK_FILTER_FIELD_NAME:         inventory.RackName,
	flowv1.RackFilterField_RACK_FILTER_FIELD_MANUFACTURER: inventory.RackManufacturer,
	flowv1.RackFilterField_RACK_FILTER_FIELD_MODEL:        inventory.RackModel,
}
