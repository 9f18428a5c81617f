package inventory

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"rackflow.dev/flow/engine/fault"
)

// The limits of a Match, and of all matches of a query together.
const (
	maxPatterns    = 100
	maxPatternSize = 256 // bytes

	// maxWildcards is how many regular expressions a field is matched with before they are joined into one. PostgreSQL
	// keeps 32 compiled expressions; with more of them it compiles every one again for every row.
	maxWildcards = 8
)

// Match is a condition on one text. Without patterns everything matches.
type Match struct {
	Field    string // path in the request, for messages
	Patterns []string
	// Wildcard makes "%" stand for any text and ignores letter case. A pattern without "%" at either end matches
	// anywhere; "\%" and "\\" stand for themselves. Otherwise a text must equal one of the patterns.
	Wildcard bool
	Any      bool // one matching wildcard is enough; otherwise all must match
}

func (m Match) check() error {
	if len(m.Patterns) > maxPatterns {
		return fault.Invalid(m.Field, "%d patterns, at most %d are allowed", len(m.Patterns), maxPatterns)
	}
	for _, p := range m.Patterns {
		if len(p) > maxPatternSize {
			return fault.Invalid(m.Field, "pattern %s has %d bytes, at most %d are allowed", quote(p), len(p), maxPatternSize)
		}
	}
	return nil
}

// condition is what all the matches of one field ask for, as the queries take it.
type condition struct {
	values   []string // the text is one of these; nil: any
	patterns []string // the text matches every one of these regular expressions
	// The same again, for lists too long to match many regular expressions against: patterns for LIKE, all of which the
	// text must match in lower case, and the regular expressions that can't be put so.
	likes, others []string
}

// conditionOf joins matches of the same field by AND.
func conditionOf(matches []Match) (condition, error) {
	c := condition{likes: []string{}}
	var wildcards, others []string
	for _, m := range matches {
		if err := m.check(); err != nil {
			return c, err
		}
		switch {
		case len(m.Patterns) == 0:
		case !m.Wildcard:
			values := slices.Clone(m.Patterns)
			if c.values != nil {
				values = slices.DeleteFunc(values, func(v string) bool { return !slices.Contains(c.values, v) })
			}
			c.values = values
		case m.Any && len(m.Patterns) > 1:
			var all []string
			for _, p := range m.Patterns {
				all = append(all, wildcard(p))
			}
			if !slices.Contains(all, "") {
				re := "(?:" + strings.Join(all, "|") + ")"
				wildcards, others = append(wildcards, re), append(others, re)
			}
		default:
			for _, p := range m.Patterns {
				re := wildcard(p)
				if re == "" || slices.Contains(wildcards, re) {
					continue
				}
				wildcards = append(wildcards, re)
				if l, ok := like(p); ok {
					c.likes = append(c.likes, l)
				} else {
					others = append(others, re)
				}
			}
		}
	}
	c.patterns, c.others = expressions(wildcards), expressions(others)
	return c, nil
}

// expressions completes regular expressions, and joins them when there are too many.
func expressions(wildcards []string) []string {
	if len(wildcards) > maxWildcards {
		wildcards = []string{"(?=" + strings.Join(wildcards, ")(?=") + ")"}
	}
	list := make([]string, len(wildcards))
	for i, re := range wildcards {
		list[i] = "(?i)^" + re
	}
	return list
}

// like translates a pattern into one for LIKE, in lower case. It does so with ASCII only, of which the database knows the
// lower case in every collation.
func like(pattern string) (string, bool) {
	if strings.ContainsFunc(pattern, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return "", false
	}
	parts := splitPattern(strings.ToLower(pattern))
	anywhere := (parts[0] == "") == (parts[len(parts)-1] == "")
	escape := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
	for i, p := range parts {
		parts[i] = escape.Replace(p)
	}
	text := strings.Join(parts, "%")
	if anywhere {
		text = "%" + text + "%"
	}
	return text, true
}

// wildcard translates a pattern into a regular expression that has to match from the start of the text, letter case
// ignored; it is empty when everything matches.
func wildcard(pattern string) string {
	parts := splitPattern(pattern)
	front, back := parts[0] == "", parts[len(parts)-1] == ""
	if len(parts) == 1 {
		front, back = false, false
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	if len(parts) == 0 {
		return ""
	}
	for i, p := range parts {
		parts[i] = literal(p)
	}
	re := strings.Join(parts, ".*")
	switch {
	case back && !front:
		return re
	case front && !back:
		return ".*" + re + "$"
	default:
		return ".*" + re
	}
}

// splitPattern cuts a pattern at its unescaped percent signs and resolves the escapes.
func splitPattern(pattern string) []string {
	parts := []string{""}
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c == '%' {
			parts = append(parts, "")
			continue
		}
		if c == '\\' && i+1 < len(pattern) && (pattern[i+1] == '%' || pattern[i+1] == '\\') {
			i++
			c = pattern[i]
		}
		parts[len(parts)-1] += string([]byte{c})
	}
	return parts
}

// literal quotes a text for a regular expression. Letters beyond ASCII stand with their other cases, because in the
// collation "C" the database knows only ASCII letters as the same in both cases.
func literal(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strings.ContainsRune(`\.+*?()|[]{}^$`, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r > unicode.MaxASCII && unicode.SimpleFold(r) != r:
			b.WriteByte('[')
			b.WriteRune(r)
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				b.WriteRune(f)
			}
			b.WriteByte(']')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
