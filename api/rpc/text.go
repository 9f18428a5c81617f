package rpc

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"rackflow.dev/flow/engine/fault"
)

// checkText refuses text with a NUL in it anywhere in a message: PostgreSQL cannot store one.
func checkText(m protoreflect.Message, path string) error {
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		field := path + string(fd.Name())
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
		return err == nil
	})
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
