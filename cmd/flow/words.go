package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// word is one spelling of a value on the command line or in a rack document. It may be typed in any letter case, and
// without its hyphen.
type word[T any] struct {
	text  string
	value T
}

var componentTypeWords = []word[flowv1.ComponentType]{
	{"compute", flowv1.ComponentType_COMPONENT_TYPE_COMPUTE},
	{"nvswitch", flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH},
	{"nvl-switch", flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH},
	{"power-shelf", flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF},
	{"tor-switch", flowv1.ComponentType_COMPONENT_TYPE_TORSWITCH},
	{"ums", flowv1.ComponentType_COMPONENT_TYPE_UMS},
	{"cdu", flowv1.ComponentType_COMPONENT_TYPE_CDU},
}

// componentTypeNames has the canonical names, as reports and events write them.
var componentTypeNames = map[flowv1.ComponentType]string{
	flowv1.ComponentType_COMPONENT_TYPE_COMPUTE:    "Compute",
	flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH:   "NVSwitch",
	flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF: "PowerShelf",
	flowv1.ComponentType_COMPONENT_TYPE_TORSWITCH:  "ToRSwitch",
	flowv1.ComponentType_COMPONENT_TYPE_UMS:        "UMS",
	flowv1.ComponentType_COMPONENT_TYPE_CDU:        "CDU",
}

// typeName is the canonical name of a type.
func typeName(t flowv1.ComponentType) string { return cmp.Or(componentTypeNames[t], "Unknown") }

// comparedTypeWords are the types that are compared with Core; there is no drift of others.
var comparedTypeWords = componentTypeWords[:4]

var bmcTypeWords = []word[flowv1.BMCType]{
	{"host", flowv1.BMCType_BMC_TYPE_HOST},
	{"dpu", flowv1.BMCType_BMC_TYPE_DPU},
}

var rackOrderWords = []word[flowv1.RackOrderByField]{
	{"name", flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_NAME},
	{"manufacturer", flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_MANUFACTURER},
	{"model", flowv1.RackOrderByField_RACK_ORDER_BY_FIELD_MODEL},
}

var componentOrderWords = []word[flowv1.ComponentOrderByField]{
	{"name", flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_NAME},
	{"manufacturer", flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_MANUFACTURER},
	{"model", flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_MODEL},
	{"type", flowv1.ComponentOrderByField_COMPONENT_ORDER_BY_FIELD_TYPE},
}

// parseWord finds a word. What names the kind of word in the error, as in "component type".
func parseWord[T any](table []word[T], what, text string) (T, error) {
	typed := strings.TrimSpace(text)
	for _, w := range table {
		if strings.EqualFold(w.text, typed) || strings.EqualFold(strings.ReplaceAll(w.text, "-", ""), typed) {
			return w.value, nil
		}
	}
	var zero T
	return zero, fmt.Errorf("unknown %s %q: must be one of %s", what, text, accepted(table))
}

// accepted lists the words of a table.
func accepted[T any](table []word[T]) string {
	return strings.Join(texts(table), ", ")
}

func texts[T any](table []word[T]) []string {
	list := make([]string, len(table))
	for i, w := range table {
		list[i] = w.text
	}
	return list
}

// completeWords completes a flag that takes one word of a table.
func completeWords[T any](table []word[T]) cobra.CompletionFunc {
	return cobra.FixedCompletions(texts(table), cobra.ShellCompDirectiveNoFileComp)
}

// completeWordList completes a flag that takes a comma separated list of words.
func completeWordList[T any](table []word[T]) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		done := typed[:strings.LastIndex(typed, ",")+1]
		var list []cobra.Completion
		for _, t := range texts(table) {
			list = append(list, done+t)
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// splitList splits a comma separated list, trimming items and dropping empty ones.
func splitList(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// listValue is a flag that holds a comma separated list and may be repeated.
type listValue []string

// String is part of pflag.Value.
func (l *listValue) String() string { return strings.Join(*l, ",") }

// Set is part of pflag.Value.
func (l *listValue) Set(text string) error {
	*l = append(*l, splitList(text)...)
	return nil
}

// Type is part of pflag.Value; the help shows it.
func (l *listValue) Type() string { return "list" }

// statusWord is the status of a task as people read it.
func statusWord(s flowv1.TaskStatus) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATUS_"))
}

// phaseWord is the operation status of a rack or component as people read it.
func phaseWord(p flowv1.Phase) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "PHASE_"))
}

// plainWord is a value of an enum in words.
func plainWord(value fmt.Stringer, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(value.String(), prefix)), "_", " ")
}

// final reports whether a task in this status has ended for good.
func final(s flowv1.TaskStatus) bool {
	switch s {
	case flowv1.TaskStatus_TASK_STATUS_COMPLETED, flowv1.TaskStatus_TASK_STATUS_FAILED, flowv1.TaskStatus_TASK_STATUS_TERMINATED:
		return true
	}
	return false
}
