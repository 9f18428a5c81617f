package rpc

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
)

// enum is what the generated enums have in common.
type enum interface {
	~int32
	Descriptor() protoreflect.EnumDescriptor
}

// covers fails the test unless a table has a row for every value of an enum but for those left out.
func covers[K enum, V comparable](t *testing.T, table map[K]V, without ...K) {
	t.Helper()
	var zero K
	values := zero.Descriptor().Values()
	left := map[K]bool{}
	for _, k := range without {
		left[k] = true
	}
	for i := range values.Len() {
		k := K(values.Get(i).Number())
		if _, ok := table[k]; ok == left[k] {
			t.Errorf("%s: in the table %t", values.Get(i).Name(), ok)
		}
	}
	if len(inverse(table)) != len(table) {
		t.Errorf("%s: two values share a meaning", zero.Descriptor().Name())
	}
}

func TestEnumsAreComplete(t *testing.T) {
	t.Parallel()
	covers(t, componentTypes, flowv1.ComponentType_COMPONENT_TYPE_UNKNOWN)
	covers(t, bmcTypes, flowv1.BMCType_BMC_TYPE_UNKNOWN)
	covers(t, inverse(phases))
	covers(t, inverse(leakStatuses))
	covers(t, rackOrders, flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_UNSPECIFIED)
	covers(t, rackFilters, flowv1.RackFilterField_RACK_FILTER_FIELD_UNSPECIFIED)
	covers(t, componentOrders, flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_UNSPECIFIED)
	covers(t, componentFilters, flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_UNSPECIFIED)
	covers(t, inverse(leakHandlings), flowv1.LeakHandlingStatus_LEAK_HANDLING_STATUS_UNKNOWN)
	covers(t, inverse(diffTypes), flowv1.DiffType_DIFF_TYPE_UNKNOWN)
	for _, c := range hardware.ComponentTypes {
		if _, ok := componentTypeMessages[c]; !ok {
			t.Errorf("component type %s has no message", c)
		}
	}
	for _, p := range inventory.Phases {
		if _, ok := phases[p]; !ok {
			t.Errorf("phase %s has no message", p)
		}
	}
}
