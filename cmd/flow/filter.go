package main

import (
	"strings"

	"github.com/spf13/pflag"

	"rackflow.dev/flow/api/gen/flowv1"
)

// plateFilter is the flags that narrow a list by what stands on the type plates of racks or components.
type plateFilter struct {
	name, manufacturer, model listValue
}

// plateFilterHelp explains them.
const plateFilterHelp = `--name, --manufacturer and --model take texts that the field contains, in any letter case; % stands
for any text and then ties the text to the ends of the field, as in "rack-0%". Of several texts one must match.`

func (p *plateFilter) register(f *pflag.FlagSet) {
	f.Var(&p.name, "name", "only those whose name contains one of these texts")
	f.Var(&p.manufacturer, "manufacturer", "only those whose manufacturer contains one of these texts")
	f.Var(&p.model, "model", "only those whose model contains one of these texts")
}

func (p *plateFilter) ofRacks() []*flowv1.Filter {
	return plateFilters(p, rackFilter,
		flowv1.RackFilterField_RACK_FILTER_FIELD_NAME,
		flowv1.RackFilterField_RACK_FILTER_FIELD_MANUFACTURER,
		flowv1.RackFilterField_RACK_FILTER_FIELD_MODEL)
}

func (p *plateFilter) ofComponents() []*flowv1.Filter {
	return plateFilters(p, componentFilter,
		flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_NAME,
		flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MANUFACTURER,
		flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MODEL)
}

// plateFilters makes a filter for each flag that was given.
func plateFilters[F any](
	p *plateFilter, filter func(F, *flowv1.StringQueryInfo) *flowv1.Filter, name, manufacturer, model F,
) []*flowv1.Filter {
	var list []*flowv1.Filter
	for _, f := range []struct {
		field F
		texts listValue
	}{{name, p.name}, {manufacturer, p.manufacturer}, {model, p.model}} {
		if len(f.texts) > 0 {
			list = append(list, filter(f.field, contains(f.texts)))
		}
	}
	return list
}

// contains is the condition that a field contains one of some texts.
func contains(texts listValue) *flowv1.StringQueryInfo {
	return &flowv1.StringQueryInfo{Patterns: texts, IsWildcard: true, UseOr: true}
}

// beginsWith is the condition that a field begins with a text, in any letter case.
func beginsWith(text string) *flowv1.StringQueryInfo {
	literal := strings.NewReplacer(`\`, `\\`, `%`, `\%`).Replace(text)
	return &flowv1.StringQueryInfo{Patterns: []string{literal + "%"}, IsWildcard: true}
}

func rackFilter(field flowv1.RackFilterField, q *flowv1.StringQueryInfo) *flowv1.Filter {
	return &flowv1.Filter{Field: &flowv1.Filter_RackField{RackField: field}, QueryInfo: q}
}

func componentFilter(field flowv1.ComponentFilterField, q *flowv1.StringQueryInfo) *flowv1.Filter {
	return &flowv1.Filter{Field: &flowv1.Filter_ComponentField{ComponentField: field}, QueryInfo: q}
}
