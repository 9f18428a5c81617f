package rules

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is a JSON type.
type kind byte

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// String is the name in error texts.
func (k kind) String() string {
	return [...]string{"null", "bool", "number", "string", "array", "object"}[k]
}

// value is a JSON value as it was written: with the order and the repetitions of an object's keys, which the standard
// decoder does not tell.
type value struct {
	kind    kind
	text    string  // of a string, number or bool
	raw     string  // of a number or bool in YAML: as it is written, "0x1F"; a reader that wants text takes that
	members members // of an object or, without keys, an array
}

type member struct {
	key   string
	value value
}

type members []member

// get returns the value under a key, or null.
func (ms members) get(key string) (value, bool) {
	for _, m := range ms {
		if m.key == key {
			return m.value, true
		}
	}
	return value{}, false
}

// written is the text of a scalar.
func (v value) written() string { return cmp.Or(v.raw, v.text) }

// scalar is the text under a key in any letter case, for messages about an object that is yet to be read.
func (v value) scalar(key string) string {
	for _, m := range v.members {
		if strings.EqualFold(m.key, key) {
			return m.value.written()
		}
	}
	return ""
}

// readJSON reads exactly one value.
func readJSON(doc []byte) (value, error) {
	// The standard library judges the text, its end and its depth included; the reader then may rely on all of it.
	if !json.Valid(doc) {
		var raw json.RawMessage
		return value{}, json.Unmarshal(doc, &raw) // says why
	}
	r := jsonReader{text: doc}
	return r.value(), nil
}

// jsonReader takes apart a text that is known to be JSON. Reading tokens from a json.Decoder is four times slower.
type jsonReader struct {
	text []byte
	pos  int
}

// next is the first byte that is not white space.
func (r *jsonReader) next() byte {
	for strings.IndexByte(" \t\r\n", r.text[r.pos]) >= 0 {
		r.pos++
	}
	return r.text[r.pos]
}

func (r *jsonReader) value() value {
	switch r.next() {
	case '{':
		v := value{kind: kindObject}
		r.list('}', func() {
			r.next()
			key := r.string()
			r.next()
			r.pos++ // the colon
			v.members = append(v.members, member{key, r.value()})
		})
		return v
	case '[':
		v := value{kind: kindArray}
		r.list(']', func() { v.members = append(v.members, member{value: r.value()}) })
		return v
	case '"':
		return value{kind: kindString, text: r.string()}
	case 't':
		r.pos += len("true")
		return value{kind: kindBool, text: "true"}
	case 'f':
		r.pos += len("false")
		return value{kind: kindBool, text: "false"}
	case 'n':
		r.pos += len("null")
		return value{}
	default:
		start := r.pos
		for r.pos < len(r.text) && strings.IndexByte("+-.0123456789Ee", r.text[r.pos]) >= 0 {
			r.pos++
		}
		return value{kind: kindNumber, text: string(r.text[start:r.pos])}
	}
}

// list calls element before each element up to the closing bracket, and moves behind that.
func (r *jsonReader) list(closing byte, element func()) {
	r.pos++ // the opening bracket
	for r.next() != closing {
		element()
		if r.next() == ',' {
			r.pos++
		}
	}
	r.pos++
}

func (r *jsonReader) string() string {
	start, plain := r.pos, true
	for r.pos++; r.text[r.pos] != '"'; r.pos++ {
		switch c := r.text[r.pos]; {
		case c == '\\':
			r.pos++
			plain = false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	r.pos++
	if plain {
		return string(r.text[start+1 : r.pos-1])
	}
	var s string
	_ = json.Unmarshal(r.text[start:r.pos], &s) // cannot fail: a valid string
	return s
}

// decoded is the value as the standard decoder gives it, with numbers in the form they were written.
func (v value) decoded() any {
	switch v.kind {
	case kindObject:
		m := make(map[string]any, len(v.members))
		for _, e := range v.members {
			m[e.key] = e.value.decoded()
		}
		return m
	case kindArray:
		list := make([]any, len(v.members))
		for i, e := range v.members {
			list[i] = e.value.decoded()
		}
		return list
	case kindString:
		return v.text
	case kindNumber:
		return json.Number(v.text)
	case kindBool:
		return v.text == "true"
	default:
		return nil
	}
}

// kindOf names the type of a decoded value.
func kindOf(v any) kind {
	switch v.(type) {
	case map[string]any:
		return kindObject
	case []any:
		return kindArray
	case string:
		return kindString
	case bool:
		return kindBool
	case nil:
		return kindNull
	default:
		return kindNumber
	}
}

// unstorable finds what PostgreSQL's jsonb cannot hold. The reason is empty when there is nothing of the kind.
func unstorable(key string, v any) string {
	if strings.ContainsRune(key, 0) {
		return "contains a NUL character"
	}
	switch v := v.(type) {
	case string:
		return unstorable(v, nil)
	case json.Number:
		if !storableNumber(v.String()) {
			return "holds a number out of range, " + shown(v.String())
		}
	case []any:
		for _, e := range v {
			if reason := unstorable("", e); reason != "" {
				return reason
			}
		}
	case map[string]any:
		for k, e := range v {
			if reason := unstorable(k, e); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// maxNumber is how long a number may be, and how large its exponent: far beyond what readers can make of it, and far below
// the 16383 decimals of PostgreSQL.
const maxNumber = 1000

func storableNumber(s string) bool {
	if _, err := strconv.ParseFloat(s, 64); err != nil || len(s) > maxNumber {
		return false
	}
	i := strings.IndexAny(s, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(s[i+1:])
	return err == nil && exponent >= -maxNumber && exponent <= maxNumber
}
