package main

import (
	"math"
	"os"
	"runtime"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		want process
		bad  bool
	}{
		"a plain process": {
			line: "42 (postgres) S 7 42 42 0 -1 4194560 1 2 3 4 100 50 20 5 20 0 1 0 1 1 1",
			want: process{parent: 7, waited: 250 * time.Millisecond},
		},
		"a name with spaces and parentheses": {
			line: "42 (a) R 1 (b) S 7 42 42 0 -1 4194560 1 2 3 4 100 50 1 1 20 0 1 0 1 1 1",
			want: process{parent: 7, waited: 20 * time.Millisecond},
		},
		"a short line": {line: "42 (x) S 7", bad: true},
		"no line":      {bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStat(c.line)
			if (err != nil) != c.bad || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestOwnProcessIsReadable(t *testing.T) {
	t.Parallel()
	p, err := readProcess(os.Getpid())
	if err != nil || p.parent != os.Getppid() {
		t.Errorf("parent %d, %v; want %d", p.parent, err, os.Getppid())
	}
	if used := processCPU(os.Getpid()); used <= 0 {
		t.Errorf("CPU %s, want more", used)
	}
	if m := (&server{pid: os.Getpid()}).memory(); m.resident < 1 || m.highest < m.resident {
		t.Errorf("memory %+v", m)
	}
}

func TestNoProcessHasUsedNothing(t *testing.T) {
	t.Parallel()
	s := &server{}
	if c := s.cpu(); c != (cpu{}) {
		t.Errorf("got %+v", c)
	}
	if m := s.memory(); m != (memory{}) {
		t.Errorf("got %+v", m)
	}
}

func TestOthersAreWhatIsBusyAndNotOurs(t *testing.T) {
	t.Parallel()
	busy := parseBusy("cpu  10 20 30 9999 9999 1 2 3 77 77\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	if want := 660 * time.Millisecond; busy != want {
		t.Errorf("busy %s, want %s", busy, want)
	}
	cores := float64(runtime.NumCPU())
	before := usage{at: time.Unix(100, 0)}
	after := usage{at: time.Unix(110, 0), all: 5 * time.Second, ours: 3 * time.Second}
	if got, want := after.othersSince(before), 20/cores; math.Abs(got-want) > 1e-9 {
		t.Errorf("others used %v %%, want %v", got, want)
	}
}
