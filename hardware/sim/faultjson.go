package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// fieldNames are the fields of a fault in its JSON form, in the order problems are told.
var fieldNames = []string{"component", "type", "call", "operation", "kind", "times", "after", "delay", "text", "state"}

// ParseFaults reads a JSON list of faults, all fields but kind optional and a delay written as "1.5s":
//
//	[{"call": "PowerControl", "operation": "cold_reset", "kind": "lost_reply", "times": 1}]
//
// Every problem is told, one a line, by its path: faults[0].kind: unknown kind "lost".
func ParseFaults(data []byte) ([]Fault, error) {
	var docs []map[string]json.RawMessage
	if err := json.Unmarshal(data, &docs); err != nil {
		return nil, fmt.Errorf("faults: not a JSON list of objects: %w", err)
	}
	faults := make([]Fault, len(docs))
	var errs []error
	for i, doc := range docs {
		f, bad := parseFault(doc)
		for name, text := range f.validate() {
			if _, told := bad[name]; !told {
				bad[name] = text
			}
		}
		names := make([]string, 0, len(bad))
		for name := range bad {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			if d := slices.Index(fieldNames, a) - slices.Index(fieldNames, b); d != 0 {
				return d
			}
			return strings.Compare(a, b)
		})
		for _, name := range names {
			errs = append(errs, fmt.Errorf("faults[%d].%s: %s", i, name, bad[name]))
		}
		faults[i] = f
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return faults, nil
}

// parseFault reads one fault and returns what is wrong by field name.
func parseFault(doc map[string]json.RawMessage) (Fault, map[string]string) {
	var f Fault
	bad := make(map[string]string)
	for name, raw := range doc {
		if !slices.Contains(fieldNames, name) {
			bad[name] = "unknown field"
			continue
		}
		if err := f.setField(name, raw); err != nil {
			bad[name] = err.Error()
		}
	}
	return f, bad
}

func (f *Fault) setField(name string, raw json.RawMessage) error {
	switch name {
	case "times":
		return number(raw, &f.Times)
	case "after":
		return number(raw, &f.After)
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return errors.New("must be a string")
	}
	var err error
	switch name {
	case "component":
		if f.Component, err = uuid.Parse(s); err != nil {
			err = fmt.Errorf("%q is not a UUID", s)
		}
	case "type":
		f.Type, err = hardware.ParseComponentType(s)
	case "call":
		f.Call = hardware.Capability(s)
	case "operation":
		f.Operation = hardware.PowerOperation(s)
	case "kind":
		f.Kind = Kind(s)
	case "delay":
		if f.Delay, err = time.ParseDuration(s); err != nil {
			err = fmt.Errorf("%q is not a duration such as 1.5s", s)
		}
	case "text":
		f.Text = s
	case "state":
		f.State = s
	}
	return err
}

func number(raw json.RawMessage, n *int) error {
	if json.Unmarshal(raw, n) != nil {
		return errors.New("must be a whole number")
	}
	return nil
}
