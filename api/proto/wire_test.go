// Package proto_test holds the API to its word: package v1, as compiled into the program, must be
// the one that existing clients were built against, fact by fact.
package proto_test

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"rackflow.dev/flow/api/gen/flowv1"
)

const (
	wirePackage = "v1"
	wireService = "v1.Flow"
	wireTable   = "../../testdata/wire/flow.v1.tsv"
)

func TestWireIsTheFrozenTable(t *testing.T) {
	t.Parallel()

	var got []string
	protoregistry.GlobalFiles.RangeFilesByPackage(wirePackage, func(file protoreflect.FileDescriptor) bool {
		got = append(got, fileFacts(file)...)
		return true
	})
	for _, line := range difference(readTable(t), got) {
		t.Error(line)
	}
}

// A table cut short would make the comparison above complain, but a table and a .proto cut short
// together would not.
func TestWireTableIsWhole(t *testing.T) {
	t.Parallel()

	lines := map[string]int{}
	holders := map[string]map[string]bool{"rpc": {}, "field": {}, "enum": {}, "reserved": {}}
	for _, fact := range readTable(t) {
		column := strings.Split(fact, "\t")
		lines[column[0]]++
		holder := column[1][:max(strings.LastIndex(column[1], "."), 0)]
		holders[column[0]][holder] = true
	}
	got := map[string]int{
		"methods":              lines["rpc"],
		"fields":               lines["field"],
		"messages with fields": len(holders["field"]),
		"enums":                len(holders["enum"]),
		"enum values":          lines["enum"],
		"reserved":             lines["reserved"],
	}
	want := map[string]int{
		"methods":              76,
		"fields":               557,
		"messages with fields": 203 - 5,
		"enums":                29,
		"enum values":          137,
		"reserved":             2,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counts of %s (-want +got):\n%s", wireTable, d)
	}
}

// The comparison is worth nothing unless each kind of change shows.
func TestWireComparisonSeesEveryKindOfChange(t *testing.T) {
	t.Parallel()

	message := func(file *descriptorpb.FileDescriptorProto, name string) *descriptorpb.DescriptorProto {
		for _, m := range file.GetMessageType() {
			if m.GetName() == name {
				return m
			}
		}
		panic("no message " + name)
	}
	field := func(file *descriptorpb.FileDescriptorProto, in, name string) *descriptorpb.FieldDescriptorProto {
		for _, f := range message(file, in).GetField() {
			if f.GetName() == name {
				return f
			}
		}
		panic("no field " + name)
	}

	tests := map[string]struct {
		change func(*descriptorpb.FileDescriptorProto)
		want   []string
	}{
		"nothing changed": {
			change: func(*descriptorpb.FileDescriptorProto) {},
		},
		"a field number": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				field(file, "UUID", "id").Number = proto.Int32(2)
			},
			want: []string{
				"missing: field\tv1.UUID.id\t1\tstring\tsingular",
				"extra: field\tv1.UUID.id\t2\tstring\tsingular",
			},
		},
		"a field type": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				field(file, "TaskStats", "waiting_task_count").Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
			},
			want: []string{
				"missing: field\tv1.TaskStats.waiting_task_count\t1\tuint32\tsingular",
				"extra: field\tv1.TaskStats.waiting_task_count\t1\tint32\tsingular",
			},
		},
		"an optional dropped": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				m := message(file, "BMCInfo")
				m.OneofDecl = nil
				f := field(file, "BMCInfo", "ip_address")
				f.OneofIndex, f.Proto3Optional = nil, nil
			},
			want: []string{
				"missing: field\tv1.BMCInfo.ip_address\t3\tstring\toptional",
				"extra: field\tv1.BMCInfo.ip_address\t3\tstring\tsingular",
			},
		},
		"a oneof renamed": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				message(file, "ComponentTarget").OneofDecl[0].Name = proto.String("target")
			},
			want: []string{
				"missing: field\tv1.ComponentTarget.external\t2\tv1.ExternalRef\toneof:identifier",
				"missing: field\tv1.ComponentTarget.id\t1\tv1.UUID\toneof:identifier",
				"extra: field\tv1.ComponentTarget.external\t2\tv1.ExternalRef\toneof:target",
				"extra: field\tv1.ComponentTarget.id\t1\tv1.UUID\toneof:target",
			},
		},
		"a field no longer repeated": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				field(file, "SubmitTaskResponse", "task_ids").Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
			},
			want: []string{
				"missing: field\tv1.SubmitTaskResponse.task_ids\t1\tv1.UUID\trepeated",
				"extra: field\tv1.SubmitTaskResponse.task_ids\t1\tv1.UUID\tsingular",
			},
		},
		"a nested enum value": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				message(file, "OperationRunPhysicalLocationOrdering").EnumType[0].Value[2].Number = proto.Int32(3)
			},
			want: []string{
				"missing: enum\tv1.OperationRunPhysicalLocationOrdering.Strategy.STRATEGY_ONE_PER_ROW_ROUND_ROBIN\t2",
				"extra: enum\tv1.OperationRunPhysicalLocationOrdering.Strategy.STRATEGY_ONE_PER_ROW_ROUND_ROBIN\t3",
			},
		},
		"a reserved number freed": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				m := message(file, "EventRuleSubmitTaskAction")
				m.ReservedRange = []*descriptorpb.DescriptorProto_ReservedRange{{Start: proto.Int32(1), End: proto.Int32(3)}}
			},
			want: []string{
				"missing: reserved\tv1.EventRuleSubmitTaskAction\t1,2,3",
				"extra: reserved\tv1.EventRuleSubmitTaskAction\t1,2",
			},
		},
		"an rpc that streams": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				file.Service[0].Method[0].ServerStreaming = proto.Bool(true)
			},
			want: []string{
				"missing: rpc\tVersion\tv1.VersionRequest\tv1.BuildInfo",
				"extra: rpc\tVersion\tv1.VersionRequest\tstream v1.BuildInfo",
			},
		},
		"an rpc that answers with something else": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				file.Service[0].Method[0].OutputType = proto.String(".v1.VersionRequest")
			},
			want: []string{
				"missing: rpc\tVersion\tv1.VersionRequest\tv1.BuildInfo",
				"extra: rpc\tVersion\tv1.VersionRequest\tv1.VersionRequest",
			},
		},
		"another service": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				file.Service = append(file.Service, &descriptorpb.ServiceDescriptorProto{Name: proto.String("Flow2")})
			},
			want: []string{"extra: service\tv1.Flow2"},
		},
		"an empty message that no rpc uses": {
			change: func(file *descriptorpb.FileDescriptorProto) {
				file.MessageType = append(file.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("Spare")})
			},
			want: []string{"extra: message\tv1.Spare"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			file := protodesc.ToFileDescriptorProto(flowv1.File_flow_proto)
			tt.change(file)
			changed, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, difference(readTable(t), fileFacts(changed))); d != "" {
				t.Errorf("difference (-want +got):\n%s", d)
			}
		})
	}
}

// fileFacts lists what a client can observe of a file, in the form of the table. What the table has
// no form for, such as a stream or an extension, gets a line that can't be in it.
func fileFacts(file protoreflect.FileDescriptor) []string {
	var facts []string
	inRPC := map[protoreflect.FullName]bool{}
	for service := range each(file.Services()) {
		if service.FullName() != wireService {
			facts = append(facts, fmt.Sprintf("service\t%s", service.FullName()))
		}
		for method := range each(service.Methods()) {
			inRPC[method.Input().FullName()], inRPC[method.Output().FullName()] = true, true
			facts = append(facts, fmt.Sprintf("rpc\t%s\t%s%s\t%s%s", method.Name(),
				stream(method.IsStreamingClient()), method.Input().FullName(),
				stream(method.IsStreamingServer()), method.Output().FullName()))
		}
	}
	for enum := range each(file.Enums()) {
		facts = append(facts, enumFacts(enum)...)
	}
	for extension := range each(file.Extensions()) {
		facts = append(facts, fmt.Sprintf("extension\t%s", extension.FullName()))
	}
	for message := range each(file.Messages()) {
		facts = append(facts, messageFacts(message, inRPC)...)
	}
	return facts
}

func messageFacts(message protoreflect.MessageDescriptor, inRPC map[protoreflect.FullName]bool) []string {
	var facts []string
	if message.Fields().Len() == 0 && !inRPC[message.FullName()] {
		facts = append(facts, fmt.Sprintf("message\t%s", message.FullName()))
	}
	for field := range each(message.Fields()) {
		facts = append(facts, fmt.Sprintf("field\t%s\t%d\t%s\t%s",
			field.FullName(), field.Number(), typeOf(field), cardinality(field)))
	}
	var numbers, names []string
	for i := range message.ReservedRanges().Len() {
		span := message.ReservedRanges().Get(i) // excludes its end
		for n := span[0]; n < span[1]; n++ {
			numbers = append(numbers, strconv.Itoa(int(n)))
		}
	}
	for i := range message.ReservedNames().Len() {
		names = append(names, string(message.ReservedNames().Get(i)))
	}
	for _, list := range [][]string{numbers, names} {
		if len(list) > 0 {
			facts = append(facts, fmt.Sprintf("reserved\t%s\t%s", message.FullName(), strings.Join(list, ",")))
		}
	}
	for enum := range each(message.Enums()) {
		facts = append(facts, enumFacts(enum)...)
	}
	for extension := range each(message.Extensions()) {
		facts = append(facts, fmt.Sprintf("extension\t%s", extension.FullName()))
	}
	for nested := range each(message.Messages()) {
		facts = append(facts, messageFacts(nested, inRPC)...)
	}
	return facts
}

func enumFacts(enum protoreflect.EnumDescriptor) []string {
	var facts []string
	for value := range each(enum.Values()) {
		// Not value.FullName: enum values are siblings of their enum, the table files them under it.
		facts = append(facts, fmt.Sprintf("enum\t%s.%s\t%d", enum.FullName(), value.Name(), value.Number()))
	}
	if enum.ReservedRanges().Len() > 0 || enum.ReservedNames().Len() > 0 {
		facts = append(facts, fmt.Sprintf("reserved\t%s", enum.FullName()))
	}
	return facts
}

func typeOf(field protoreflect.FieldDescriptor) string {
	switch {
	case field.Message() != nil:
		return string(field.Message().FullName())
	case field.Enum() != nil:
		return string(field.Enum().FullName())
	default:
		return field.Kind().String()
	}
}

func cardinality(field protoreflect.FieldDescriptor) string {
	switch {
	case field.IsMap():
		return "map"
	case field.IsList():
		return "repeated"
	case field.HasOptionalKeyword(): // sits in a synthetic oneof, so asked first
		return "optional"
	case field.ContainingOneof() != nil:
		return "oneof:" + string(field.ContainingOneof().Name())
	default:
		return "singular"
	}
}

func stream(is bool) string {
	if is {
		return "stream "
	}
	return ""
}

// each ranges over any of protoreflect's lists.
func each[T any](list interface {
	Len() int
	Get(int) T
}) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

// difference names each fact that only one side has, a line each, in order.
func difference(want, got []string) []string {
	var lines []string
	for _, side := range []struct {
		word     string
		in, than []string
	}{
		{"missing", want, got},
		{"extra", got, want},
	} {
		known := map[string]bool{}
		for _, fact := range side.than {
			known[fact] = true
		}
		for _, fact := range slices.Sorted(slices.Values(side.in)) {
			if !known[fact] {
				lines = append(lines, side.word+": "+fact)
			}
		}
	}
	return lines
}

func readTable(t *testing.T) []string {
	t.Helper()
	table, err := os.ReadFile(wireTable)
	if err != nil {
		t.Fatal(err)
	}
	var facts []string
	for line := range strings.Lines(string(table)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			facts = append(facts, line)
		}
	}
	return facts
}
