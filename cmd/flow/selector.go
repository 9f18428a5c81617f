package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// selector is what a command names as its scope: racks, NVLink domains or single components, in exactly one way of
// naming them.
type selector struct {
	racks        listValue // as arguments: ids and names as they come
	rackIDs      listValue
	rackNames    listValue
	domains      listValue // ids and names as they come
	domainIDs    listValue
	domainNames  listValue
	componentIDs listValue // Flow UUIDs or external ids
	types        listValue // of typeWords

	typeRequired bool                         // with racks and domains
	typeWords    []word[flowv1.ComponentType] // nil: componentTypeWords
	optional     bool                         // naming nothing means everything
	racksOnly    bool                         // no single components
	external     flowv1.ComponentType         // of external ids, unless --type says else; unknown: any
}

// scopeUsage is how a usage line shows the ways of a selector.
const (
	rackScopeUsage = "RACK... | --rack-ids IDS | --rack-names NAMES | --domain NAMES"
	scopeUsage     = rackScopeUsage + " | --component-ids IDS"
)

// scopeWays are the same in words.
const (
	rackScopeWays = "as arguments, by --rack-ids, --rack-names, --domain, --domain-ids or --domain-names"
	scopeWays     = "as arguments, by --rack-ids, --rack-names, --domain, --domain-ids, --domain-names or --component-ids"
)

// scopeHelp explains them for a command that does something to racks.
const scopeHelp = `RACK is the id or the name of a rack, and --domain stands for the racks of an NVLink domain. --type narrows racks to
components of some types.`

func (s *selector) register(c *cli, cmd *cobra.Command) {
	if s.typeWords == nil {
		s.typeWords = componentTypeWords
	}
	f := cmd.Flags()
	f.Var(&s.rackIDs, "rack-ids", "ids of racks, comma separated")
	f.Var(&s.rackNames, "rack-names", "names of racks, comma separated")
	f.Var(&s.domains, "domain", "names or ids of NVLink domains, for the racks in them, comma separated")
	f.Var(&s.domainIDs, "domain-ids", "ids of NVLink domains, comma separated")
	f.Var(&s.domainNames, "domain-names", "names of NVLink domains, comma separated")
	of := "" // which components an external id may be of
	if s.external != flowv1.ComponentType_COMPONENT_TYPE_UNKNOWN {
		of = ", of " + typeName(s.external) + " components unless --type says else"
	}
	if !s.racksOnly {
		f.Var(&s.componentIDs, "component-ids", "ids or external ids of single components, comma separated"+of)
		must(cmd.RegisterFlagCompletionFunc("component-ids", cobra.NoFileCompletions))
	}
	use := "only components of these types: "
	if s.typeRequired {
		use = "only components of these types, required with racks: "
	}
	f.VarP(&s.types, "type", "t", use+accepted(s.typeWords))
	must(cmd.RegisterFlagCompletionFunc("type", completeWordList(s.typeWords)))
	must(cmd.RegisterFlagCompletionFunc("rack-names", c.completeRacks))
	must(cmd.RegisterFlagCompletionFunc("domain", c.completeDomains))
	must(cmd.RegisterFlagCompletionFunc("domain-names", c.completeDomains))
	for _, ids := range []string{"rack-ids", "domain-ids"} {
		must(cmd.RegisterFlagCompletionFunc(ids, cobra.NoFileCompletions))
	}
	cmd.ValidArgsFunction = c.completeRacks
}

// ways has one list for each way of naming a scope.
func (s *selector) ways() []listValue {
	return []listValue{s.racks, s.rackIDs, s.rackNames, s.domains, s.domainIDs, s.domainNames, s.componentIDs}
}

// target makes the scope of a request, or says what is wrong with what was given. It is nil when nothing is named and
// need not be.
func (s *selector) target(cmd *cobra.Command, args []string) (*flowv1.OperationTargetSpec, error) {
	for _, a := range args {
		s.racks = append(s.racks, splitList(a)...)
	}
	ways := 0
	for _, list := range s.ways() {
		if len(list) > 0 {
			ways++
		}
	}
	name := commandName(cmd)
	if ways > 1 || ways == 0 && !s.optional {
		words := scopeWays
		if s.racksOnly {
			words = rackScopeWays
		}
		return nil, &usageError{cmd: cmd, err: fmt.Errorf("%s: name racks in exactly one way: %s", name, words)}
	}
	types, err := s.componentTypes()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case ways == 0:
		return nil, nil
	case len(s.componentIDs) > 0:
		return s.components(name, types)
	case s.typeRequired && len(types) == 0:
		return nil, &usageError{cmd: cmd, err: fmt.Errorf("%s: --type is required with racks: %s", name, accepted(s.typeWords))}
	}
	racks, err := identifiers("rack", s.racks, s.rackIDs, s.rackNames)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(racks) > 0 {
		return rackScope(racks, types), nil
	}
	domains, err := identifiers("domain", s.domains, s.domainIDs, s.domainNames)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return domainScope(domains, types), nil
}

// identifiers says what was typed as ids or names, as ids, and as names of racks or domains.
func identifiers(what string, either, ids, names listValue) ([]*flowv1.Identifier, error) {
	var list []*flowv1.Identifier
	for _, text := range either {
		id, err := identifier(what, text)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	for _, text := range ids {
		id, err := uuidOf("--"+what+"-ids", text)
		if err != nil {
			return nil, err
		}
		list = append(list, &flowv1.Identifier{Id: id})
	}
	for _, text := range names {
		list = append(list, &flowv1.Identifier{Name: text})
	}
	return list, nil
}

// identifier says what was typed as an id or a name of a rack or domain.
func identifier(what, text string) (*flowv1.Identifier, error) {
	switch {
	case text == "":
		return nil, fmt.Errorf("the %s must not be empty", what)
	case !isUUID(text):
		return &flowv1.Identifier{Name: text}, nil
	}
	id, err := uuidOf(what, text)
	return &flowv1.Identifier{Id: id}, err
}

func rackScope(racks []*flowv1.Identifier, types []flowv1.ComponentType) *flowv1.OperationTargetSpec {
	targets := make([]*flowv1.RackTarget, len(racks))
	for i, r := range racks {
		targets[i] = &flowv1.RackTarget{Identifier: &flowv1.RackTarget_Name{Name: r.GetName()}, ComponentTypes: types}
		if r.GetId() != nil {
			targets[i].Identifier = &flowv1.RackTarget_Id{Id: r.GetId()}
		}
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: &flowv1.RackTargets{Targets: targets}}}
}

func domainScope(domains []*flowv1.Identifier, types []flowv1.ComponentType) *flowv1.OperationTargetSpec {
	targets := make([]*flowv1.NVLDomainTarget, len(domains))
	for i, d := range domains {
		targets[i] = &flowv1.NVLDomainTarget{Identifier: &flowv1.NVLDomainTarget_Name{Name: d.GetName()}, ComponentTypes: types}
		if d.GetId() != nil {
			targets[i].Identifier = &flowv1.NVLDomainTarget_Id{Id: d.GetId()}
		}
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_NvlDomains{NvlDomains: &flowv1.NVLDomainTargets{Targets: targets}}}
}

// components makes the scope of single components.
func (s *selector) components(name string, types []flowv1.ComponentType) (*flowv1.OperationTargetSpec, error) {
	if len(types) > 1 {
		return nil, fmt.Errorf("%s: --component-ids takes one --type, got %s", name, s.types.String())
	}
	kind := s.external
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
		ref := &flowv1.ExternalRef{Type: kind, Id: text}
		targets[i] = &flowv1.ComponentTarget{Identifier: &flowv1.ComponentTarget_External{External: ref}}
	}
	list := &flowv1.ComponentTargets{Targets: targets}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Components{Components: list}}, nil
}

func (s *selector) componentTypes() ([]flowv1.ComponentType, error) {
	var types []flowv1.ComponentType
	for _, text := range s.types {
		t, err := parseWord(s.typeWords, "component type", text)
		if err != nil {
			return nil, err
		}
		types = append(types, t)
	}
	return types, nil
}

// typeFilter narrows a list of everything, where there is no scope to hold the types.
func (s *selector) typeFilter(target *flowv1.OperationTargetSpec) []*flowv1.Filter {
	types, _ := s.componentTypes() // target has checked them
	if target != nil || len(types) == 0 {
		return nil
	}
	q := &flowv1.StringQueryInfo{}
	for _, t := range types {
		q.Patterns = append(q.Patterns, typeName(t))
	}
	return []*flowv1.Filter{componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_TYPE, q)}
}

// String names the scope in a few words.
func (s *selector) String() string {
	list := slices.Concat(s.ways()...)
	if n := len(list); n > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:2], ", "), n-2)
	}
	return strings.Join(list, ", ")
}
