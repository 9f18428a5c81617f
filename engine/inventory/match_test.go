package inventory

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/engine/fault"
)

func TestWildcard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pattern, want string }{
		"nothing matches all":                        {``, ``},
		"a percent sign matches all":                 {`%`, ``},
		"percent signs match all":                    {`%%`, ``},
		"none at either end: anywhere":               {`ab`, `.*ab`},
		"at the front: the end":                      {`%ab`, `.*ab$`},
		"at the back: the start":                     {`ab%`, `ab`},
		"at both ends: anywhere":                     {`%ab%`, `.*ab`},
		"in the middle only: anywhere":               {`a%b`, `.*a.*b`},
		"in the middle and at the front":             {`%a%b`, `.*a.*b$`},
		"doubled ones are one":                       {`%%a%%b`, `.*a.*b$`},
		"an escaped one at the end is no wildcard":   {`a\%`, `.*a%`},
		"an escaped one at the front is no wildcard": {`\%a`, `.*%a`},
		"an escaped backslash before a wildcard":     {`a\\%`, `a\\`},
		"an escaped backslash, escaped percent sign": {`a\\\%`, `.*a\\%`},
		"a backslash before a letter is itself":      {`\d`, `.*\\d`},
		"a backslash at the end is itself":           {`a\`, `.*a\\`},
		"special characters are themselves":          {`.+*?()|[]{}^$_-/#`, `.*\.\+\*\?\(\)\|\[\]\{\}\^\$_-/#`},
		"letters beyond ASCII bring their cases":     {`straße É`, `.*stra[ßẞ]e [Éé]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := wildcard(c.pattern); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		matches []Match
		values  []string
		want    []string
	}{
		"none":                    {nil, nil, []string{}},
		"no patterns":             {[]Match{{}, {Wildcard: true}}, nil, []string{}},
		"values":                  {[]Match{{Patterns: []string{"b", "a"}}}, []string{"b", "a"}, []string{}},
		"values in common":        {[]Match{{Patterns: []string{"b", "a"}}, {Patterns: []string{"a", "c"}}}, []string{"a"}, []string{}},
		"no values in common":     {[]Match{{Patterns: []string{"b"}}, {Patterns: []string{"c"}}}, []string{}, []string{}},
		"any is for wildcards":    {[]Match{{Patterns: []string{"b", "a"}, Any: true}}, []string{"b", "a"}, []string{}},
		"wildcards, all":          {[]Match{{Patterns: []string{"a%", "", "b", "a%"}, Wildcard: true}}, nil, []string{"(?i)^a", "(?i)^.*b"}},
		"wildcards, any":          {[]Match{{Patterns: []string{"a%", "b"}, Wildcard: true, Any: true}}, nil, []string{"(?i)^(?:a|.*b)"}},
		"any of what matches all": {[]Match{{Patterns: []string{"a%", "%"}, Wildcard: true, Any: true}}, nil, []string{}},
		"more than eight are joined": {
			[]Match{{Patterns: []string{"1", "2", "3", "4", "5", "6", "7", "8%", "%9"}, Wildcard: true}}, nil,
			[]string{"(?i)^(?=.*1)(?=.*2)(?=.*3)(?=.*4)(?=.*5)(?=.*6)(?=.*7)(?=8)(?=.*9$)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := conditionOf(c.matches)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([2][]string{c.values, c.want}, [2][]string{got.values, got.patterns}); d != "" {
				t.Error(d)
			}
		})
	}
	for _, m := range []Match{
		{Patterns: make([]string, maxPatterns+1)},
		{Patterns: []string{strings.Repeat("x", maxPatternSize+1)}},
	} {
		if _, err := conditionOf([]Match{m}); fault.KindOf(err) != fault.KindInvalid {
			t.Errorf("%d patterns, the first of %d bytes: %v", len(m.Patterns), len(m.Patterns[0]), err)
		}
	}
}

// FuzzWildcard compares the translation with a plain reading of the dialect.
func FuzzWildcard(f *testing.F) {
	for _, p := range []string{"", "%", "a", "%a", "a%", `a\%`, `\\%`, `%\\`, "a%b%%c", `[a]`, "ß", "\xff", `\`} {
		f.Add(p, "abc%ABC\\ß[a]")
		f.Add(p, "")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(text) || strings.ContainsRune(pattern+text, 0) {
			t.Skip("no text that can arrive")
		}
		// Go reads the subset of regular expressions made here as PostgreSQL does, where "." is any character.
		re, err := regexp.Compile("(?is)^" + wildcard(pattern))
		if err != nil {
			t.Fatalf("%q becomes %q: %v", pattern, wildcard(pattern), err)
		}
		if got, want := re.MatchString(text), plainMatch(pattern, text); got != want {
			t.Errorf("%q matches %q: %t, want %t", pattern, text, got, want)
		}
	})
}

// plainMatch finds the parts of a pattern one after the other.
func plainMatch(pattern, text string) bool {
	const percent, backslash = "\ue000", "\ue001"
	if strings.ContainsAny(pattern+text, percent+backslash) {
		return regexp.MustCompile("(?is)^" + wildcard(pattern)).MatchString(text) // they stand for themselves here
	}
	escaped := strings.NewReplacer(`\\`, backslash, `\%`, percent).Replace(pattern)
	parts := strings.Split(escaped, "%")
	for i, p := range parts {
		parts[i] = strings.NewReplacer(backslash, `\`, percent, "%").Replace(p)
	}
	anywhere := len(parts) == 1 || (parts[0] == "") == (parts[len(parts)-1] == "")
	at := 0
	for i, p := range parts {
		if p == "" {
			continue
		}
		expr := "(?i)" + regexp.QuoteMeta(p)
		switch {
		case i == 0 && !anywhere:
			expr = "(?i)^" + regexp.QuoteMeta(p)
		case i == len(parts)-1 && !anywhere:
			expr = "(?i)" + regexp.QuoteMeta(p) + "$"
		}
		found := regexp.MustCompile(expr).FindStringIndex(text[at:])
		if found == nil || i == 0 && !anywhere && at > 0 {
			return false
		}
		at += found[1]
	}
	return true
}

func TestMACsAreReadInEverySpelling(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"02:ab:00:00:00:0f", "02:AB:00:00:00:0F", "02-ab-00-00-00-0f", "02ab.0000.000F", "02AB0000000f"} {
		if mac, err := ParseMAC(s); err != nil || mac.String() != "02:ab:00:00:00:0f" {
			t.Errorf("%s: %v, %v", s, mac, err)
		}
	}
	for _, s := range []string{
		"", "02:ab", "02ab0000000", "02ab0000000fff", "0x2ab0000000", "02:ab:00:00:00:0g", "02 ab 00 00 00 0f", " 02:ab:00:00:00:0f",
		"02:ab:00:00:00:0f:00:00", "00:00:00:00:00:00", "000000000000", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01",
	} {
		if mac, err := ParseMAC(s); err == nil {
			t.Errorf("%q is read as %v", s, mac)
		}
	}
}

func TestAddressesAreKeptInOneForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "FE80:0:0::1": "fe80::1", "::": "::",
	} {
		if ip, err := ParseIP(in); err != nil || ip.String() != want {
			t.Errorf("%s: %v, %v", in, ip, err)
		}
	}
	for _, in := range []string{"", "10.0.0", "10.0.0.01", "10.0.0.0/8", "fe80::1%eth0", "host", "[::1]", " ::1"} {
		if ip, err := ParseIP(in); err == nil {
			t.Errorf("%q is read as %v", in, ip)
		}
	}
}

func TestStrictest(t *testing.T) {
	t.Parallel()
	for i, a := range Phases {
		for j, b := range Phases {
			want := Phases[min(i, j)]
			if got := strictest(map[Phase]bool{a: true, b: true}); got != want {
				t.Errorf("%s and %s make %s, want %s", a, b, got, want)
			}
		}
	}
	if got := strictest(nil); got != PhaseUnknown {
		t.Errorf("nothing makes %s", got)
	}
	var blocking []Phase
	for _, p := range Phases {
		if p.Blocks() {
			blocking = append(blocking, p)
		}
	}
	if want := []Phase{PhaseError, PhaseInitializing, PhaseDeleting, PhaseInUse}; !slices.Equal(blocking, want) {
		t.Errorf("%s block", fmt.Sprint(blocking))
	}
}
