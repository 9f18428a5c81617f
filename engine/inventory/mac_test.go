package inventory

import (
	"strings"
	"testing"
)

func TestParseMAC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{ // want "": refused
		"colons":                   {"06:00:00:00:ab:0f", "06:00:00:00:ab:0f"},
		"capitals":                 {"06:00:00:00:AB:0F", "06:00:00:00:ab:0f"},
		"hyphens":                  {"06-00-00-00-aB-0F", "06:00:00:00:ab:0f"},
		"dots":                     {"0600.0000.AB0f", "06:00:00:00:ab:0f"},
		"bare digits":              {"06000000aB0f", "06:00:00:00:ab:0f"},
		"a global address":         {"00:1b:21:00:00:01", "00:1b:21:00:00:01"},
		"nothing":                  {"", ""},
		"surrounding space":        {" 06:00:00:00:ab:0f", ""},
		"5 bytes":                  {"06:00:00:00:ab", ""},
		"8 bytes":                  {"06:00:00:00:00:00:00:01", ""},
		"20 bytes":                 {"06" + strings.Repeat("-00", 19), ""},
		"8 bytes in bare digits":   {"0600000000000001", ""},
		"11 bare digits":           {"06000000ab0", ""},
		"a digit that is none":     {"06:00:00:00:ab:0g", ""},
		"12 letters":               {"hello world!", ""},
		"two kinds of separators":  {"06:00-00:00:ab:0f", ""},
		"single digits":            {"6:0:0:0:ab:f", ""},
		"zero":                     {"00:00:00:00:00:00", ""},
		"zero in bare digits":      {"000000000000", ""},
		"broadcast":                {"ff:ff:ff:ff:ff:ff", ""},
		"multicast":                {"01:00:5e:00:00:01", ""},
		"multicast in bare digits": {"333300000001", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mac, err := ParseMAC(c.text)
			if (err == nil) != (c.want != "") || mac.String() != c.want {
				t.Errorf("%q is %s, %v; want %q", c.text, mac, err, c.want)
			}
		})
	}
}

func TestParseIP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{ // want "": refused
		"IPv4":              {"10.0.0.1", "10.0.0.1"},
		"IPv6":              {"FE80:0:0::0001", "fe80::1"},
		"IPv4 as IPv6":      {"::ffff:10.0.0.1", "10.0.0.1"},
		"nothing":           {"", ""},
		"surrounding space": {"10.0.0.1 ", ""},
		"leading zeros":     {"10.0.0.01", ""},
		"three parts":       {"10.0.1", ""},
		"a zone":            {"fe80::1%eth0", ""},
		"a network":         {"10.0.0.0/8", ""},
		"a port":            {"10.0.0.1:80", ""},
		"a name":            {"bmc.example", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ip, err := ParseIP(c.text)
			if (err == nil) != (c.want != "") || err == nil && ip.String() != c.want {
				t.Errorf("%q is %v, %v; want %q", c.text, ip, err, c.want)
			}
		})
	}
}
