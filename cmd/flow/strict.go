package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// decodeStrict decodes one JSON document into a struct, or a list of them, and names every key that the struct does not
// know or whose value is of another kind, by its path. encoding/json itself stops at the first one and does not say
// where it is. Keys of type dropped are named as warnings. What has no problem is decoded all the same, for its values
// to be checked as well: see allProblems.
func decodeStrict(doc []byte, into any) (warnings []string, problems []error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, []error{syntaxError(doc, err)}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, []error{fmt.Errorf("%s: more text after the document", place(doc, d.InputOffset()))}
	}
	s := strict{}
	s.walk("", v, reflect.TypeOf(into).Elem())
	if len(s.problems) > 0 {
		good, err := json.Marshal(v) // without the unknown keys
		if err == nil {
			_ = json.Unmarshal(good, into) // values of another kind are left out, and named by the walk
		}
		return s.warnings, s.problems
	}
	if err := json.Unmarshal(doc, into); err != nil {
		s.problems = append(s.problems, err)
	}
	return s.warnings, s.problems
}

// problem is what is wrong at a path of a document; an empty path is that of the document itself.
type problem struct {
	path string
	err  error
}

func (p *problem) Error() string { return cmp.Or(p.path, "document") + ": " + p.err.Error() }

func (p *problem) Unwrap() error { return p.err }

// at reports whether a problem is at a path or around it.
func (p *problem) at(path string) bool {
	rest, ok := strings.CutPrefix(path, p.path)
	return ok && (rest == "" || p.path == "" || rest[0] == '.' || rest[0] == '[')
}

// allProblems joins the problems of decodeStrict with those of the values. A value that was not decoded has no second
// one, and a document that is no document has one only.
func allProblems(found []error, values []error) error {
	all := slices.Clone(found)
	for _, err := range values {
		var value *problem
		named := errors.As(err, &value) && slices.ContainsFunc(found, func(f error) bool {
			var p *problem
			return !errors.As(f, &p) || p.at(value.path)
		})
		if !named {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// inDocument says with each problem which document it is in.
func inDocument(name string, err error) error {
	return errors.New(name + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+name+": "))
}

// strict walks a decoded document along a type.
type strict struct {
	warnings []string
	problems []error
}

// walk checks one value. A null counts as absent, so that every type takes it.
func (s *strict) walk(path string, v any, t reflect.Type) {
	if v == nil {
		if path == "" {
			want := "an object"
			if t.Kind() == reflect.Slice {
				want = "a list"
			}
			s.refuse(path, "must be "+want+", got null")
		}
		return
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[dropped]():
		s.warnings = append(s.warnings, path+" is not sent: Flow keeps no BMC credentials in its inventory")
		return
	case t.Kind() == reflect.Struct:
		if object, ok := v.(map[string]any); ok {
			s.object(path, object, t)
			return
		}
		s.refuse(path, "must be an object, got "+kind(v))
	case t.Kind() == reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			s.refuse(path, "must be a list, got "+kind(v))
			return
		}
		for i, item := range list {
			at := fmt.Sprintf("%s[%d]", path, i)
			if item == nil {
				s.refuse(at, "must not be null")
				continue
			}
			s.walk(at, item, t.Elem())
		}
	case t.Kind() == reflect.String:
		if _, ok := v.(string); !ok {
			s.refuse(path, "must be text, got "+kind(v))
		}
	default: // int32, the only other kind of a rack document
		n, ok := v.(json.Number)
		if !ok {
			s.refuse(path, "must be a number, got "+kind(v))
			return
		}
		var i int32
		if json.Unmarshal([]byte(n), &i) != nil {
			s.refuse(path, "must be a whole number of 32 bits, got "+n.String())
		}
	}
}

// object checks the keys of an object in the order of the alphabet.
func (s *strict) object(path string, object map[string]any, t reflect.Type) {
	fields := make(map[string]reflect.Type)
	var known []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
		if f.Type != reflect.TypeFor[dropped]() {
			known = append(known, name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		ft, ok := fields[key]
		if !ok {
			delete(object, key) // encoding/json would take it in another letter case
			s.refuse(at, "unknown key: must be one of "+strings.Join(known, ", "))
			continue
		}
		s.walk(at, object[key], ft)
	}
}

func (s *strict) refuse(path, text string) {
	s.problems = append(s.problems, &problem{path: path, err: errors.New(text)})
}

// kind names a decoded value in the words of JSON.
func kind(v any) string {
	switch v := v.(type) {
	case string:
		return "text"
	case json.Number:
		return "the number " + v.String()
	case bool:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	}
	return "an object"
}

// syntaxError says where a document stops being JSON.
func syntaxError(doc []byte, err error) error {
	var syntax *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(doc)) == 0:
		return errors.New("the document is empty")
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: %w", place(doc, syntax.Offset), err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the document ends too early", place(doc, int64(len(doc))))
	}
	return err
}

// place turns an offset into a line and column, both from 1.
func place(doc []byte, offset int64) string {
	before := doc[:min(offset, int64(len(doc)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Sprintf("line %d, column %d", line, max(column, 1))
}
