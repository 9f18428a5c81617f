package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "rackflow.dev/flow/"

// mayImport is the map of the house: which rooms a room may import. Within a room everything may import everything,
// except where a row for a part of it says otherwise; the row of the longest matching path holds.
var mayImport = map[string][]string{
	"cmd":                   {"api", "engine", "rules", "hardware", "store"},
	"cmd/bench":             {"api/gen"},
	"api":                   {"engine", "rules", "hardware", "store"},
	"api/gen":               {"api/gen"},
	"engine":                {"rules", "hardware", "store"},
	"engine/fault":          {},
	"rules":                 {"hardware"},
	"hardware":              {},
	"hardware/sim":          {"hardware"},
	"hardware/hardwaretest": {"hardware"},
	"store":                 {"sql"},
	"store/db":              {},
	"store/embedded":        {},
	"sql":                   {},
}

// strangers are modules that a room must not know at all.
var strangers = map[string][]string{
	"api":      {"github.com/riverqueue/"},
	"engine":   {"net/http", "connectrpc.com/", "google.golang.org/protobuf", "google.golang.org/grpc"},
	"rules":    {"net/http", "database/sql", "github.com/jackc/", "github.com/riverqueue/", "os"},
	"hardware": {"database/sql", "github.com/jackc/", "github.com/riverqueue/"},
	"store":    {"connectrpc.com/", "github.com/spf13/cobra"},
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	rooms := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		rooms++
		path := strings.TrimPrefix(p.ImportPath, module)
		room, ok := longest(mayImport, path)
		if !ok {
			t.Errorf("%s belongs to no room", path)
			continue
		}
		for _, wrong := range wrongImports(path, room, p.Imports) {
			t.Errorf("%s must not import %s", path, wrong)
		}
	}
	if rooms < 10 {
		t.Errorf("only %d packages listed", rooms)
	}
}

func TestWrongImportsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, imports string }{
		{"engine/task", module + "api/rpc"},
		{"hardware/sim", module + "store"},
		{"rules", module + "engine/task"},
		{"store", module + "hardware"},
		{"engine/exec", "net/http"},
		{"api/rpc", "github.com/riverqueue/river"},
	} {
		room, _ := longest(mayImport, c.path)
		if len(wrongImports(c.path, room, []string{c.imports})) != 1 {
			t.Errorf("%s importing %s is not found", c.path, c.imports)
		}
	}
}

func wrongImports(path, room string, imports []string) []string {
	var wrong []string
	outer, _, _ := strings.Cut(path, "/")
	for _, imp := range imports {
		ours, isOurs := strings.CutPrefix(imp, module)
		allowed := func(r string) bool { return within(ours, r) }
		strange := func(s string) bool { return imp == s || strings.HasPrefix(imp, s) && strings.HasSuffix(s, "/") }
		switch {
		case isOurs && !within(ours, room) && !slices.ContainsFunc(mayImport[room], allowed):
			wrong = append(wrong, imp)
		case !isOurs && slices.ContainsFunc(strangers[outer], strange):
			wrong = append(wrong, imp)
		}
	}
	return wrong
}

// longest finds the key that is the path or the longest folder above it.
func longest(m map[string][]string, path string) (string, bool) {
	for key := path; ; {
		if _, ok := m[key]; ok {
			return key, true
		}
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			return "", false
		}
		key = key[:i]
	}
}

func within(path, room string) bool { return path == room || strings.HasPrefix(path, room+"/") }
