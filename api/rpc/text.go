package rpc

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"rackflow.dev/flow/engine/fault"
)

// checkText refuses text with a NUL in it anywhere in a message: PostgreSQL cannot store one. The first field, by its place in
// the message, is named.
func checkText(m protoreflect.Message, path string) error {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		if err := checkField(fd, m.Get(fd), path+string(fd.Name())); err != nil {
			return err
		}
	}
	return nil
}

func checkField(fd protoreflect.FieldDescriptor, v protoreflect.Value, field string) (err error) {
	switch {
	case fd.IsMap():
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			err = checkValue(fd.MapKey(), k.Value(), field)
			if err == nil {
				err = checkValue(fd.MapValue(), v, fmt.Sprintf("%s[%q]", field, k.String()))
			}
			return err == nil
		})
	case fd.IsList():
		for i := 0; i < v.List().Len() && err == nil; i++ {
			err = checkValue(fd, v.List().Get(i), fmt.Sprintf("%s[%d]", field, i))
		}
	default:
		err = checkValue(fd, v, field)
	}
	return err
}

func checkValue(fd protoreflect.FieldDescriptor, v protoreflect.Value, field string) error {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return checkText(v.Message(), field+".")
	case protoreflect.StringKind:
		if strings.ContainsRune(v.String(), 0) {
			return fault.Invalid(field, "contains a NUL character")
		}
	}
	return nil
}
