package inventory

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// ComponentDescription gives the form in which a component's description is kept: a JSON object with its keys sorted,
// any other text as it is.
func ComponentDescription(text string) string {
	if object := parseObject(text); object != nil {
		return formatObject(object)
	}
	return text
}

// RackDescription gives the form in which a rack's description is kept: as a component's, but an object that only wraps
// a text becomes that text, and an empty one nothing.
func RackDescription(text string) string {
	object := parseObject(text)
	switch {
	case object == nil:
		return text
	case len(object) == 0:
		return ""
	case len(object) == 1:
		for _, key := range []string{"text", "description"} {
			if s, ok := object[key].(string); ok && !strings.ContainsRune(s, 0) {
				return s
			}
		}
	}
	return formatObject(object)
}

// ownedKeys are the keys of a component's description that belong to the synchronisation with the site controller. What
// clients send never changes them.
var ownedKeys = []string{"nvos_ip", "expected_description"}

// textKey is under which plain text stands in a description that has other keys as well.
const textKey = "description"

// patchDescription is the description of a component after a client has sent text for it. A JSON object replaces all
// keys but the owned ones; plain text does as well when it is to replace the whole, and otherwise only what was plain
// text before.
func patchDescription(stored, text string, whole bool) string {
	before, sent := parseObject(stored), parseObject(text)
	after := map[string]any{}
	for key, v := range before {
		if slices.Contains(ownedKeys, key) || sent == nil && !whole && key != textKey {
			after[key] = v
		}
	}
	if sent == nil {
		if len(after) == 0 {
			return text
		}
		if text != "" {
			after[textKey] = text
		}
		return formatObject(after)
	}
	for key, v := range sent {
		if !slices.Contains(ownedKeys, key) {
			after[key] = v
		}
	}
	return formatObject(after)
}

// parseObject returns nil for everything that is not one JSON object.
func parseObject(text string) map[string]any {
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var object map[string]any
	if dec.Decode(&object) != nil {
		return nil
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil
	}
	return object
}

func formatObject(object map[string]any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(object) // only values that came from JSON
	return strings.TrimSuffix(b.String(), "\n")
}
