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

// matches are the conditions of a list, by field.
type matches = map[inventory.Field][]inventory.Match

// rackOrder reads the order of a list of racks. Without a field there is none, whatever the direction.
func rackOrder(o *flowv1.OrderBy) (inventory.Field, bool, error) {
	switch f := o.GetField().(type) {
	case nil:
		return "", false, nil
	case *flowv1.OrderBy_RackField:
		return order(o, "order_by.rack_field", rackOrders, f.RackField)
	default:
		return "", false, fault.Invalid("order_by.component_field", "racks cannot be ordered by a field of their components")
	}
}

// componentOrder is rackOrder for a list of components.
func componentOrder(o *flowv1.OrderBy) (inventory.Field, bool, error) {
	switch f := o.GetField().(type) {
	case nil:
		return "", false, nil
	case *flowv1.OrderBy_ComponentField:
		return order(o, "order_by.component_field", componentOrders, f.ComponentField)
	default:
		return "", false, fault.Invalid("order_by.rack_field", "components cannot be ordered by a field of their racks")
	}
}

// wireEnum is an enum of the API.
type wireEnum interface {
	comparable
	fmt.Stringer
}

// order looks the field up; the zero value of its enum is no order.
func order[E wireEnum](o *flowv1.OrderBy, path string, fields map[E]inventory.Field, f E) (inventory.Field, bool, error) {
	var unspecified E
	if f == unspecified {
		return "", false, nil
	}
	field, ok := fields[f]
	if !ok {
		return "", false, fault.Invalid(path, "%s is not a field to order by", f)
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
func rackMatches(filters []*flowv1.Filter) (matches, error) {
	return filtersOf(filters, func(path string, f *flowv1.Filter) (inventory.Field, error) {
		if by, ok := f.GetField().(*flowv1.Filter_RackField); ok {
			return filterField(path+".rack_field", rackFilters, by.RackField)
		}
		return "", fault.Invalid(path+".component_field", "racks cannot be filtered by a field of their components")
	})
}

// componentMatches reads the filters of a list of components.
func componentMatches(filters []*flowv1.Filter) (matches, error) {
	return filtersOf(filters, func(path string, f *flowv1.Filter) (inventory.Field, error) {
		if by, ok := f.GetField().(*flowv1.Filter_ComponentField); ok {
			return filterField(path+".component_field", componentFilters, by.ComponentField)
		}
		return "", fault.Invalid(path+".rack_field", "components cannot be filtered by a field of their racks")
	})
}

func filterField[E wireEnum](path string, fields map[E]inventory.Field, f E) (inventory.Field, error) {
	field, ok := fields[f]
	if !ok {
		return "", fault.Invalid(path, "unsupported filter field %s", f)
	}
	return field, nil
}

func filtersOf(filters []*flowv1.Filter, fieldOf func(path string, f *flowv1.Filter) (inventory.Field, error)) (matches, error) {
	all := matches{}
	for i, f := range filters {
		path := fmt.Sprintf("filters[%d]", i)
		m := match(path+".query_info", f.GetQueryInfo())
		if f.GetField() == nil {
			if len(m.Patterns) > 0 {
				return nil, fault.Invalid(path, "filter field not set")
			}
			continue
		}
		field, err := fieldOf(path, f)
		if err != nil {
			return nil, err
		}
		all[field] = append(all[field], m)
	}
	return all, nil
}

func match(path string, q *flowv1.StringQueryInfo) inventory.Match {
	return inventory.Match{Field: path, Patterns: q.GetPatterns(), Wildcard: q.GetIsWildcard(), Any: q.GetUseOr()}
}

var rackOrders = map[flowv1.RackOrderByField]inventory.Field{
	flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_NAME:         inventory.ByName,
	flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_MANUFACTURER: inventory.ByManufacturer,
	flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_MODEL:        inventory.ByModel,
}

var rackFilters = map[flowv1.RackFilterField]inventory.Field{
	flowv1.RackFilterField_RACK_FILTER_FIELD_NAME:         inventory.ByName,
	flowv1.RackFilterField_RACK_FILTER_FIELD_MANUFACTURER: inventory.ByManufacturer,
	flowv1.RackFilterField_RACK_FILTER_FIELD_MODEL:        inventory.ByModel,
}

var componentOrders = map[flowv1.ComponentOrderByField]inventory.Field{
	flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_NAME:         inventory.ByName,
	flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_MANUFACTURER: inventory.ByManufacturer,
	flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_MODEL:        inventory.ByModel,
	flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_TYPE:         inventory.ByType,
}

var componentFilters = map[flowv1.ComponentFilterField]inventory.Field{
	flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_NAME:         inventory.ByName,
	flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MANUFACTURER: inventory.ByManufacturer,
	flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MODEL:        inventory.ByModel,
	flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_TYPE:         inventory.ByType,
}
