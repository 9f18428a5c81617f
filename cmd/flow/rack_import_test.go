package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

// rackFiles puts documents into a new directory.
func rackFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func rackNamed(name, id string) string {
	return fmt.Sprintf(`{"info": {"id": %q, "name": %q}}`, id, name)
}

// sortedLines is for reports that come in any order.
func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

var gaps = regexp.MustCompile(`  +`)

// narrow is text without the width of its columns.
func narrow(text string) string { return gaps.ReplaceAllString(text, " ") }

// refuses makes the server refuse racks by name.
func refuses(name, why string) func(*flowv1.Rack) error {
	return func(r *flowv1.Rack) error {
		if r.GetInfo().GetName() == name {
			return connect.NewError(connect.CodeAlreadyExists, errors.New(why))
		}
		return nil
	}
}

func TestRackCreateTakesADirectory(t *testing.T) {
	t.Parallel()
	dir := rackFiles(t, map[string]string{
		"a.json": rackNamed("rack-1", rackOne),
		"b.json": `{"info": {"nmae": "x", "name": 7}}`,
		"c.json": rackNamed("taken", taskOne),
		"d.json": `{"info": {"id": "` + rackTwo + `", "name": "rack-2"},
			"components": [{"type": "cdu", "bmcs": [{"mac": "02:00:00:00:00:01", "user": "root", "password": "hunter2"}]}]}`,
		"e.txt": "not for us",
		".json": "nor this",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	reports := sortedLines(at("b.json") + ": info.name: must be text, got the number 7\n" +
		at("b.json") + ": info.nmae: unknown key: must be one of id, name, manufacturer, model, serial_number, description\n" +
		at("c.json") + ": rack.info.serial_number: S1 is in use (already_exists)\n" +
		"Warning: " + at("d.json") + ": components[0].bmcs[0].password is not sent: " +
		"Flow keeps no BMC credentials in its inventory (and 1 value more)\n" +
		"2 racks created, 2 refused\n")
	for format, want := range map[string]string{
		"table": `FILE RACK ID RESULT
a.json rack-1 ` + rackOne + ` created
b.json - - refused
c.json taken - refused
d.json rack-2 ` + rackTwo + ` created
`,
		"json": narrow(`[
  {
    "file": "a.json",
    "name": "rack-1",
    "id": "` + rackOne + `",
    "error": ""
  },
  {
    "file": "b.json",
    "name": "",
    "id": "",
    "error": "info.name: must be text, got the number 7; info.nmae: unknown key: must be one of id, name, manufacturer, model, serial_number, description"
  },
  {
    "file": "c.json",
    "name": "taken",
    "id": "",
    "error": "rack.info.serial_number: S1 is in use (already_exists)"
  },
  {
    "file": "d.json",
    "name": "rack-2",
    "id": "` + rackTwo + `",
    "error": ""
  }
]
`),
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			f := &fake{create: refuses("taken", "rack.info.serial_number: S1 is in use")}
			got := against(t, f, "rack", "create", "-f", dir, "-o", format)
			if diff := cmp.Diff(want, narrow(strings.ReplaceAll(got.out, dir+string(filepath.Separator), ""))); diff != "" || got.code != exitError {
				t.Errorf("exit code %d\n%s", got.code, diff)
			}
			if diff := cmp.Diff(reports, sortedLines(got.err)); diff != "" {
				t.Error(diff)
			}
			if len(f.asked()) != 3 {
				t.Errorf("%d racks were sent", len(f.asked()))
			}
		})
	}
}

func TestRackCreateTakesSeveralFilesAndAStream(t *testing.T) {
	t.Parallel()
	dir := rackFiles(t, map[string]string{"a.json": rackNamed("a", rackOne), "b.json": rackNamed("b", rackTwo)})
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	missing := filepath.Join(dir, "none")
	stream := rackNamed("a", rackOne) + "\n" + rackNamed("b", rackTwo)
	for name, test := range map[string]struct {
		args  []string
		stdin string
		files []string
		err   string
	}{
		"as a shell names them": {[]string{"-f", a, b}, "", []string{a, b}, "2 racks created\n"},
		"by a flag each":        {[]string{"-f", b, "-f", a}, "", []string{b, a}, "2 racks created\n"},
		"a stream":              {[]string{"-f", "-"}, stream, []string{"standard input[0]", "standard input[1]"}, "2 racks created\n"},
		"a stream and a file":   {[]string{"-f", "-", a}, rackNamed("b", rackTwo), []string{"standard input", a}, "2 racks created\n"},
		"a stream that ends in nonsense": {
			[]string{"-f", "-"},
			stream + " {]",
			[]string{"standard input[0]", "standard input[1]", "standard input[2]"},
			"2 racks created, 1 refused\nstandard input[2]: line 1, column 3: invalid character ']' looking for beginning of object key string\n",
		},
		"a file that is not there": {
			[]string{"-f", a, missing},
			"",
			[]string{a, missing},
			"1 rack created, 1 refused\n" + missing + ": no such file or directory\n",
		},
		"an empty directory": {[]string{"-f", t.TempDir(), a}, "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			got := flow(t.Context(), f.env(t), test.stdin, append([]string{"rack", "create"}, test.args...)...)
			if test.files == nil {
				if got.code != exitError || !strings.Contains(got.err, test.args[1]+": holds no *.json\n1 rack created, 1 refused\n") {
					t.Errorf("%+v", got)
				}
				return
			}
			if (got.code == exitOK) != (len(f.asked()) == len(test.files)) || sortedLines(got.err) != sortedLines(test.err) {
				t.Errorf("%+v", got)
			}
			var files []string
			for row := range strings.Lines(narrow(got.out)) {
				files = append(files, strings.Join(strings.Fields(row)[:max(len(strings.Fields(row))-3, 1)], " "))
			}
			if diff := cmp.Diff(append([]string{"FILE"}, test.files...), files); diff != "" {
				t.Error(diff, got.out)
			}
		})
	}
}

// manyRacks is a stream of n racks.
func manyRacks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"info": {"name": "rack-%d"}}`, i)
	}
	return b.String()
}

// turnstile lets calls go on when eight of them are there, and counts the most that were.
type turnstile struct {
	mu         sync.Mutex
	here, most int
	full       chan struct{}
	whenFull   func()
}

func (c *turnstile) create(*flowv1.Rack) error {
	c.mu.Lock()
	c.here++
	c.most = max(c.most, c.here)
	if c.here == importAtOnce && c.whenFull != nil {
		c.whenFull()
	}
	if c.here == importAtOnce {
		select {
		case <-c.full:
		default:
			close(c.full)
		}
	}
	c.mu.Unlock()
	<-c.full
	c.mu.Lock()
	c.here--
	c.mu.Unlock()
	return nil
}

func TestRackCreateSendsEightAtATime(t *testing.T) {
	t.Parallel()
	c := &turnstile{full: make(chan struct{})}
	f := &fake{create: c.create}
	got := flow(t.Context(), f.env(t), manyRacks(40), "rack", "create", "-f", "-")
	if got.code != exitOK || c.most != importAtOnce || got.err != "40 racks created\n" {
		t.Errorf("%d at a time, %+v", c.most, got)
	}
}

func TestRackCreateEndsTheCallsUnderWayWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := &turnstile{full: make(chan struct{}), whenFull: cancel}
	f := &fake{create: c.create}
	got := flow(ctx, f.env(t), manyRacks(20), "rack", "create", "-f", "-", "-o", "json")
	if got.code != exitInterrupted || got.err != "Interrupted: 8 racks created, 12 not sent\n" {
		t.Errorf("%+v", got)
	}
	if n := strings.Count(got.out, `"error": "not sent: interrupted"`); n != 12 || len(f.asked()) != 8 {
		t.Errorf("%d not sent, %d asked\n%s", n, len(f.asked()), got.out)
	}
}

func TestRackCreateStopsWithoutAServer(t *testing.T) {
	t.Parallel()
	got := flow(t.Context(), nil, manyRacks(100), "rack", "create", "-f", "-", "-P", "1")
	lines := strings.Split(strings.TrimSpace(got.err), "\n")
	if got.code != exitError || len(lines) > 1+importAtOnce ||
		!strings.HasSuffix(lines[0], ": no server at localhost:1: connection refused") ||
		!strings.HasPrefix(lines[len(lines)-1], "0 racks created, ") {
		t.Errorf("%d, %s", got.code, got.err)
	}
}

func TestRackCreateShowsABarOnATerminal(t *testing.T) {
	t.Parallel()
	f := &fake{create: refuses("rack-1", "rack.info.name: not this one")}
	env := f.env(t)
	env["TERM"], env["LANG"] = "xterm", "C.UTF-8"
	s := newScreen(t, 60, 24)
	seen := map[string]bool{}
	p := process{
		in: strings.NewReader(manyRacks(4)), out: io.Discard,
		err: writerFunc(func(text []byte) (int, error) {
			n, err := s.Write(text)
			for l := range strings.Lines(s.String()) {
				seen[strings.TrimSpace(l)] = true
			}
			return n, err
		}),
		getenv: func(name string) string { return env[name] }, now: epoch,
		size: func(io.Writer) (int, int, bool) { return 60, 24, true },
	}
	if code := run(t.Context(), p, []string{"rack", "create", "-f", "-"}); code != exitError {
		t.Errorf("exit code %d", code)
	}
	if !seen["████████████████████████  4/4 racks, 1 not created"] {
		t.Errorf("there was no bar: %v", seen)
	}
	want := "standard input[1]: rack.info.name: not this one (already_exi\nsts)\n3 racks created, 1 refused"
	if diff := cmp.Diff(want, s.String()); diff != "" {
		t.Error(diff)
	}
}

// writerFunc is a function that is written to.
type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }
