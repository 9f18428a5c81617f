package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// selector is what a command names as the scope of an operation: racks, by exactly one way of naming them, or single
// components.
type selector struct {
	racks        listValue // as arguments: ids and names as they come
	rackIDs      listValue
	rackNames    listValue
	componentIDs listValue // Flow UUIDs or external ids
	types        listValue // words of componentTypeWords
	typeRequired bool      // with racks
}

func (s *selector) register(c *cli, cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&s.rackIDs, "rack-ids", "ids of racks, comma separated")
	f.Var(&s.rackNames, "rack-names", "names of racks, comma separated")
	f.Var(&s.componentIDs, "component-ids", "ids or external ids of single components, comma separated")
	use := "only components of these types: "
	if s.typeRequired {
		use = "only components of these types, required with racks: "
	}
	f.VarP(&s.types, "type", "t", use+accepted(componentTypeWords))
	must(cmd.RegisterFlagCompletionFunc("type", completeWordList(componentTypeWords)))
	must(cmd.RegisterFlagCompletionFunc("rack-names", c.completeRacks))
	cmd.ValidArgsFunction = c.completeRacks
}

// target makes the scope of a request, or says what is wrong with what was given.
func (s *selector) target(cmd *cobra.Command, args []string) (*flowv1.OperationTargetSpec, error) {
	for _, a := range args {
		s.racks = append(s.racks, splitList(a)...)
	}
	ways := 0
	for _, list := range []listValue{s.racks, s.rackIDs, s.rackNames, s.componentIDs} {
		if len(list) > 0 {
			ways++
		}
	}
	name := commandName(cmd)
	if ways != 1 {
		return nil, &usageError{cmd: cmd, err: fmt.Errorf("%s: name racks in exactly one way: as arguments, by --rack-ids, --rack-names or --component-ids", name)}
	}
	types, err := s.componentTypes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(s.componentIDs) > 0 {
		return s.components(name, types)
	}
	if s.typeRequired && len(types) == 0 {
		return nil, &usageError{cmd: cmd, err: fmt.Errorf("%s: --type is required with racks: %s", name, accepted(componentTypeWords))}
	}
	var targets []*flowv1.RackTarget
	add := func(t *flowv1.RackTarget) {
		t.ComponentTypes = types
		targets = append(targets, t)
	}
	for _, text := range s.rackIDs {
		id, err := uuidOf("--rack-ids", text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		add(&flowv1.RackTarget{Identifier: &flowv1.RackTarget_Id{Id: id}})
	}
	for _, text := range s.rackNames {
		add(&flowv1.RackTarget{Identifier: &flowv1.RackTarget_Name{Name: text}})
	}
	for _, text := range s.racks {
		if isUUID(text) {
			id, err := uuidOf("rack", text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			add(&flowv1.RackTarget{Identifier: &flowv1.RackTarget_Id{Id: id}})
			continue
		}
		add(&flowv1.RackTarget{Identifier: &flowv1.RackTarget_Name{Name: text}})
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: &flowv1.RackTargets{Targets: targets}}}, nil
}

// components makes the scope of single components. External ids are looked up as compute trays unless --type says else.
func (s *selector) components(name string, types []flowv1.ComponentType) (*flowv1.OperationTargetSpec, error) {
	if len(types) > 1 {
		return nil, fmt.Errorf("%s: --component-ids takes one --type, got %s", name, s.types.String())
	}
	kind := flowv1.ComponentType_COMPONENT_TYPE_COMPUTE
	if len(types) == 1 {
		kind = types[0]
	}
	targets := make([]*flowv1.ComponentTarget, len(s.componentIDs))
	for i, text := range s.componentIDs {
		if isUUID(text) {
			id, err := uuidOf("--component-ids", text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			targets[i] = &flowv1.ComponentTarget{Identifier: &flowv1.ComponentTarget_Id{Id: id}}
			continue
		}
		targets[i] = &flowv1.ComponentTarget{Identifier: &flowv1.ComponentTarget_External{External: &flowv1.ExternalRef{Type: kind, Id: text}}}
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Components{Components: &flowv1.ComponentTargets{Targets: targets}}}, nil
}

func (s *selector) componentTypes() ([]flowv1.ComponentType, error) {
	var types []flowv1.ComponentType
	for _, text := range s.types {
		t, err := parseWord(componentTypeWords, "component type", text)
		if err != nil {
			return nil, err
		}
		types = append(types, t)
	}
	return types, nil
}

// String names the scope in a few words.
func (s *selector) String() string {
	for _, list := range []listValue{s.racks, s.rackIDs, s.rackNames, s.componentIDs} {
		if n := len(list); n > 3 {
			return fmt.Sprintf("%s and %d more", strings.Join(list[:2], ", "), n-2)
		} else if n > 0 {
			return strings.Join(list, ", ")
		}
	}
	return ""
}
