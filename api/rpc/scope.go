package rpc

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/inventory"
	"rackflow.dev/flow/hardware"
)

// scopeOf reads a target spec, in the order of its entries.
func scopeOf(spec *flowv1.OperationTargetSpec) (inventory.Scope, error) {
	var (
		scope inventory.Scope
		err   error
	)
	switch kind := spec.GetTargets().(type) {
	case *flowv1.OperationTargetSpec_Racks:
		scope.Racks, err = targetsOf("racks", kind.Racks.GetTargets(), rackTarget)
	case *flowv1.OperationTargetSpec_NvlDomains:
		scope.Domains, err = targetsOf("nvl_domains", kind.NvlDomains.GetTargets(), domainTarget)
	case *flowv1.OperationTargetSpec_Components:
		scope.Components, err = targetsOf("components", kind.Components.GetTargets(), componentTarget)
	default:
		err = fault.Invalid("target_spec", "must name racks, components or nvl_domains")
	}
	return scope, err
}

func targetsOf[T, U any](kind string, targets []T, read func(field string, t T) (U, error)) ([]U, error) {
	if len(targets) == 0 {
		return nil, fault.Invalid("target_spec."+kind+".targets", "must have at least one entry")
	}
	list := make([]U, len(targets))
	for i, t := range targets {
		var err error
		if list[i], err = read(fmt.Sprintf("target_spec.%s.targets[%d]", kind, i), t); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// groupTarget is a target that stands for components: a rack, or the racks of an NVLink domain.
type groupTarget interface {
	proto.Message
	GetId() *flowv1.UUID
	GetName() string
	GetExternalId() string
	GetComponentTypes() []flowv1.ComponentType
}

func rackTarget(field string, t *flowv1.RackTarget) (inventory.RackRef, error) {
	return groupRef(field, t)
}

func domainTarget(field string, t *flowv1.NVLDomainTarget) (inventory.DomainRef, error) {
	ref, err := groupRef(field, t)
	return inventory.DomainRef(ref), err
}

func groupRef(field string, t groupTarget) (inventory.RackRef, error) {
	var ref inventory.RackRef
	var err error
	m := t.ProtoReflect()
	chosen := m.WhichOneof(m.Descriptor().Oneofs().ByName("identifier"))
	if chosen == nil {
		return ref, fault.Invalid(field, "needs an id, a name or an external_id")
	}
	at := fmt.Sprintf("%s.%s", field, chosen.Name())
	switch chosen.Name() {
	case "name":
		ref.Name, err = requiredText(at, t.GetName())
	case "external_id":
		ref.ExternalID, err = requiredText(at, t.GetExternalId())
	default:
		ref.ID, err = requiredID(at, t.GetId())
	}
	if err == nil {
		ref.Types, err = typesOf(field, t.GetComponentTypes())
	}
	return ref, err
}

func componentTarget(field string, t *flowv1.ComponentTarget) (inventory.ComponentRef, error) {
	var ref inventory.ComponentRef
	var err error
	switch id := t.GetIdentifier().(type) {
	case *flowv1.ComponentTarget_Id:
		ref.ID, err = requiredID(field+".id", id.Id)
	case *flowv1.ComponentTarget_External:
		if ref.External, err = requiredText(field+".external.id", id.External.GetId()); err != nil {
			return ref, err
		}
		kind := id.External.GetType()
		var ok bool
		if ref.Type, ok = componentTypes[kind]; !ok && kind != flowv1.ComponentType_COMPONENT_TYPE_UNKNOWN {
			err = fault.Invalid(field+".external.type", "%s is not a component type", kind)
		}
	default:
		err = fault.Invalid(field, "needs an id or an external")
	}
	return ref, err
}

// requiredText refuses what is blank; what surrounds a text is no part of it.
func requiredText(field, text string) (string, error) {
	if text = strings.TrimSpace(text); text == "" {
		return "", fault.Invalid(field, "must not be empty")
	}
	return text, nil
}

func typesOf(field string, types []flowv1.ComponentType) ([]hardware.ComponentType, error) {
	list := make([]hardware.ComponentType, len(types))
	for i, t := range types {
		var ok bool
		if list[i], ok = componentTypes[t]; !ok {
			return nil, fault.Invalid(fmt.Sprintf("%s.component_types[%d]", field, i), "%s is not a component type", t)
		}
	}
	return list, nil
}

// identifier reads an id or, without one, a name.
func identifier(field string, m *flowv1.Identifier) (id uuid.UUID, name string, err error) {
	if m == nil {
		return id, "", fault.Invalid(field, "is required")
	}
	if id, err = optionalID(field+".id", m.GetId()); err != nil || id != uuid.Nil {
		return id, "", err
	}
	if name = strings.TrimSpace(m.GetName()); name == "" {
		err = fault.Invalid(field, "needs an id or a name")
	}
	return id, name, err
}
