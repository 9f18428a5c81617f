package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxYAMLValues bounds a document with its aliases written out: a few lines of aliases of aliases can stand for more
// than any memory holds.
const maxYAMLValues = 1 << 20

// readYAML reads a stream of exactly one document into the values of JSON. YAML is read as of version 1.2: on, off, yes
// and no are text. Keys are text; anchors, aliases and merge keys are written out.
func readYAML(text []byte) (v value, err error) {
	if !utf8.Valid(text) {
		return value{}, errors.New("the text is not UTF-8")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // the parser takes a byte order mark for a part of the first key
	// Keys that stand twice are noted with the problems of the document.
	file, err := yamlparser.ParseBytes(text, 0, yamlparser.AllowDuplicateMapKey())
	if err != nil {
		return value{}, syntaxOf(err)
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode:
		default:
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return value{}, nil
	case 1:
		r := yamlReader{anchors: make(map[string]value)}
		v = r.value(bodies[0])
		return v, r.err
	}
	return value{}, fmt.Errorf("%s: a second document begins", placeOf(bodies[1]))
}

// yamlReader turns the nodes of a document into values.
type yamlReader struct {
	anchors map[string]value // as they are at this place of the document
	read    int              // values so far
	err     error            // the first one; what is read after it counts for nothing
}

func (r *yamlReader) refuse(n ast.Node, format string, args ...any) value {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", placeOf(n), fmt.Sprintf(format, args...))
	}
	return value{}
}

// count notes that a value was read at a node.
func (r *yamlReader) count(n ast.Node) {
	if r.read++; r.read > maxYAMLValues {
		r.refuse(n, "with its aliases written out the document has more than %d values", maxYAMLValues)
	}
}

func (r *yamlReader) value(n ast.Node) value {
	if r.count(n); r.err != nil {
		return value{}
	}
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return value{}
	case *ast.StringNode:
		if n.Token.Type == token.StringType && beyondFloat(n.Value) {
			return value{kind: kindNumber, text: n.Value}
		}
		return value{kind: kindString, text: n.Value}
	case *ast.LiteralNode:
		return value{kind: kindString, text: n.Value.Value}
	case *ast.BoolNode:
		return value{kind: kindBool, text: strconv.FormatBool(n.Value), raw: n.GetToken().Value}
	case *ast.IntegerNode:
		return value{kind: kindNumber, text: fmt.Sprint(n.Value), raw: n.GetToken().Value}
	case *ast.FloatNode:
		return value{kind: kindNumber, text: floatText(n), raw: n.GetToken().Value}
	case *ast.InfinityNode, *ast.NanNode: // no number that JSON knows: refused where one is wanted
		return value{kind: kindNumber, text: n.GetToken().Value}
	case *ast.MappingNode:
		return r.object(n.Values)
	case *ast.MappingValueNode:
		return r.object([]*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		v := value{kind: kindArray}
		for _, e := range n.Values {
			v.members = append(v.members, member{value: r.value(e)})
		}
		return v
	case *ast.AnchorNode:
		// Known from its end on: a value can't hold itself.
		v := r.value(n.Value)
		r.anchors[n.Name.GetToken().Value] = v
		return r.copied(n, v)
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		v, ok := r.anchors[name]
		if !ok {
			return r.refuse(n, "alias '%s' has no anchor before it", shown(name))
		}
		return r.copied(n, v)
	case *ast.TagNode:
		return r.tagged(n)
	default:
		return r.refuse(n, "%s is not supported here", n.Type().YAMLName())
	}
}

// copied is a copy of an anchor's value: readers change what they read.
func (r *yamlReader) copied(n ast.Node, v value) value {
	v.members = slices.Clone(v.members)
	for i := range v.members {
		if r.count(n); r.err != nil {
			return value{}
		}
		v.members[i].value = r.copied(n, v.members[i].value)
	}
	return v
}

// tagged reads a value with a tag. Only the tags that say what the value looks like already are known, and !!str.
func (r *yamlReader) tagged(n *ast.TagNode) value {
	v := r.value(n.Value)
	tag := n.Start.Value
	switch token.ReservedTagKeyword(tag) {
	case token.StringTag:
		switch v.kind {
		case kindArray, kindObject:
			return r.refuse(n, "%s is %s", tag, v.kind)
		}
		return value{kind: kindString, text: v.written()}
	case token.IntegerTag, token.FloatTag, token.BooleanTag, token.NullTag, token.MappingTag, token.SequenceTag:
		return v
	}
	return r.refuse(n, "tag '%s' is not supported", shown(tag))
}

// object reads the entries of a mapping. Those of a merge key come last, and only where the mapping has none itself.
func (r *yamlReader) object(entries []*ast.MappingValueNode) value {
	v := value{kind: kindObject}
	var merged members
	for _, e := range entries {
		if e.Key.IsMergeKey() {
			merged = append(merged, r.merged(e.Value)...)
			continue
		}
		key := r.value(e.Key)
		if m, ok := e.Key.(*ast.MappingKeyNode); ok {
			key = r.value(m.Value)
		}
		if key.kind == kindArray || key.kind == kindObject {
			return r.refuse(e, "a key must be text, got %s", key.kind)
		}
		v.members = append(v.members, member{key.written(), r.value(e.Value)})
	}
	for _, m := range merged {
		if _, ok := v.members.get(m.key); !ok {
			v.members = append(v.members, m)
		}
	}
	return v
}

// merged are the entries that a merge key brings in; of several mappings the first one counts.
func (r *yamlReader) merged(n ast.Node) members {
	v := r.value(n)
	if v.kind == kindObject {
		return v.members
	}
	var all members
	for _, e := range v.members {
		all = append(all, e.value.members...)
		if e.value.kind != kindObject {
			r.refuse(n, "a merge key takes mappings only")
		}
	}
	if v.kind != kindArray {
		r.refuse(n, "a merge key takes mappings only")
	}
	return all
}

// floatText is a float in the form of JSON, as it is written where that is one.
func floatText(n *ast.FloatNode) string {
	if raw := n.GetToken().Value; json.Valid([]byte(raw)) {
		return raw
	}
	return strconv.FormatFloat(n.Value, 'g', -1, 64)
}

// beyondFloat reports whether a text is a number that is too large, which the parser takes for text.
func beyondFloat(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return errors.Is(err, strconv.ErrRange)
}

// placeOf says where in the text a node stands.
func placeOf(n ast.Node) string {
	if n == nil {
		return "at the end"
	}
	return lineOf(n.GetToken())
}

func lineOf(t *token.Token) string {
	if t == nil || t.Position == nil {
		return "at the end"
	}
	return fmt.Sprintf("line %d, column %d", t.Position.Line, t.Position.Column)
}

// syntaxOf is an error of the parser on one line.
func syntaxOf(err error) error {
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s: %s", lineOf(syntax.GetToken()), shown(syntax.GetMessage()))
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(shown(first))
}
