package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]struct {
		text  string
		major int
	}{
		"postgres (PostgreSQL) 18.4\n":                           {"18.4", 18},
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": {"15.18 (Debian 15.18-0+deb12u1)", 15},
		"postgres (PostgreSQL) 19devel\n":                        {"19devel", 19},
		"postgres (PostgreSQL) \n":                               {},
		"postgres 18.4\n":                                        {},
		"":                                                       {},
	} {
		text, major, err := parseVersion(out)
		if text != want.text || major != want.major || (err == nil) != (want.major > 0) {
			t.Errorf("%q: %q %d %v", out, text, major, err)
		}
	}
}

func TestNewestFirst(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	for _, v := range []string{"9.6", "14", "15", "100", "old"} {
		writeFile(t, filepath.Join(dir, v, "bin", "postgres"), "", 0o755)
	}
	writeFile(t, filepath.Join(dir, "17", "bin", "psql"), "", 0o755)
	var got []string
	for _, path := range newestFirst(filepath.Join(dir, "*", "bin")) {
		got = append(got, filepath.Base(filepath.Dir(path)))
	}
	if diff := cmp.Diff([]string{"100", "15", "14", "9.6", "old"}, got); diff != "" {
		t.Error(diff)
	}
}

// A Flow with a newer bundle goes on with an old cluster for as long as the
// programs of the old bundle are there.
func TestClusterOfAnEarlierBundleKeepsItsPrograms(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: tempDir(t)}
	bin := filepath.Join(cfg.Dir, unpackedDir, "postgres-99.1-abc", "bin")
	writeFile(t, filepath.Join(bin, "postgres"), "#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n", 0o755)
	writeFile(t, filepath.Join(bin, "initdb"), "#!/bin/sh\n", 0o755)
	got, err := findBinaries(t.Context(), cfg, account{}, 99)
	if err != nil {
		t.Fatal(err)
	}
	want := binaries{dir: bin, source: SourceUnpacked, version: "99.1", major: 99}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(binaries{})); diff != "" {
		t.Error(diff)
	}
}

func TestComplaint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"the remark before a fatal error has the detail": {
			"2026-01-01 UTC [1] LOG:  starting PostgreSQL\n" +
				"2026-01-01 UTC [1] LOG:  unrecognized configuration parameter \"x\"\n" +
				"2026-01-01 UTC [1] FATAL:  configuration file contains errors\n",
			`configuration file contains errors (unrecognized configuration parameter "x")`,
		},
		"initdb goes on talking":      {"creating directory\ninitdb: error: could not create directory: No space left\ninitdb: removing contents\n", "could not create directory: No space left"},
		"a loader's error":            {"postgres: error while loading shared libraries: libicu.so\n", "postgres: error while loading shared libraries: libicu.so"},
		"without an error, its end":   {"one\ntwo\n\n", "two"},
		"a panic of a running server": {"[1] PANIC:  could not write to file", "could not write to file"},
		"nothing":                     {"", ""},
	} {
		if got := complaint(c.text); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestReadPidFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*pidFile{
		"123\n/data\n1700000000\n5432\n/data\n\n  5432001 0\nready   \n": {pid: 123, status: "ready"},
		"123\n/data\n":              {pid: 123}, // just being written
		"-123\n/data\n1700000000\n": nil,        // single user mode
		"":                          nil,
		"text":                      nil,
	} {
		dir := tempDir(t)
		writeFile(t, filepath.Join(dir, "postmaster.pid"), text, 0o600)
		if diff := cmp.Diff(want, readPidFile(dir), cmp.AllowUnexported(pidFile{})); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	if f := readPidFile(tempDir(t)); f != nil {
		t.Errorf("without a file: %+v", f)
	}
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "postgres.log")
	l, err := openLog(path, account{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	server, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) // as a server that outlives a Flow holds it
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	line := strings.Repeat("x", 1023) + "\n"
	for range logLimit / len(line) {
		if _, err := server.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.trim(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.WriteString("[1] FATAL:  the end\n"); err != nil {
		t.Fatal(err)
	}
	if err := l.trim(); err != nil {
		t.Fatal(err)
	}
	if got := l.complaint(0); got != "the end" || l.size() > 100 {
		t.Errorf("%d bytes: %q", l.size(), got)
	}
	if st, err := os.Stat(path + ".1"); err != nil || st.Size() != logLimit {
		t.Errorf("the part before: %v %v", st, err)
	}
}
