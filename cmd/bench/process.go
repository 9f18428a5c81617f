package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// memoryEvery is how often memory is looked at while it is watched.
const memoryEvery = 50 * time.Millisecond

// cpu is processor time used so far; 0 where it is not known.
type cpu struct {
	flow     time.Duration // the server without PostgreSQL
	postgres time.Duration // all processes of its PostgreSQL, those that have ended among them
}

func (s *server) cpu() cpu {
	c := cpu{flow: processCPU(s.pid)}
	if pid, _ := s.postmaster(); pid != 0 {
		c.postgres = familyCPU(pid)
	}
	return c
}

// processCPU is user and system time of a process by its CPU clock: the same as in /proc/<pid>/stat, without the
// rounding, which is more than a task takes. 0 when there is no such process.
func processCPU(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil { // clock_getcpuclockid(3)
		return 0
	}
	return time.Duration(t.Nano())
}

// process is what we need of /proc/<pid>/stat.
type process struct {
	parent int
	waited time.Duration // user and system, of children that have ended
}

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(string(text))
}

// parseStat reads a line such as "42 (a name) S 1 ...". The name may hold anything, a parenthesis too.
func parseStat(line string) (process, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:]) // from field 3 on
	if len(fields) < 15 {
		return process{}, fmt.Errorf("short stat line %q", line)
	}
	var n [3]int64
	for i, field := range []int{4, 16, 17} { // ppid cutime cstime
		var err error
		if n[i], err = strconv.ParseInt(fields[field-3], 10, 64); err != nil {
			return process{}, fmt.Errorf("stat line %q: %w", line, err)
		}
	}
	return process{parent: int(n[0]), waited: time.Duration(n[1]+n[2]) * tick}, nil
}

// familyCPU is the time of a process and its children, also of those that have ended.
func familyCPU(pid int) time.Duration {
	head, err := readProcess(pid)
	if err != nil {
		return 0
	}
	sum := processCPU(pid) + head.waited
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, e := range entries {
		child, err := strconv.Atoi(filepath.Base(e))
		if err != nil {
			continue
		}
		if p, err := readProcess(child); err == nil && p.parent == pid {
			sum += processCPU(child)
		}
	}
	return sum
}

// ownCPU is what the benchmark itself has used: it shares the machine with what it measures.
func ownCPU() time.Duration {
	return processCPU(os.Getpid())
}

// usage is what of the machine's processor time has been used by whom.
type usage struct {
	at     time.Time
	all    time.Duration // by everybody, a hypervisor's other guests among them
	ours   time.Duration // by the server, its PostgreSQL and the benchmark
	served bool          // ours is known
}

func (s *server) usage() usage {
	c := s.cpu()
	u := usage{at: time.Now(), ours: c.flow + c.postgres + ownCPU(), served: c.flow > 0 && c.postgres > 0}
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		u.all = parseBusy(string(text))
	}
	return u
}

// othersSince is the share of the machine that others have used, in percent of all cores.
func (u usage) othersSince(before usage) float64 {
	others := (u.all - before.all) - (u.ours - before.ours)
	return 100 * max(0, others.Seconds()) / (u.at.Sub(before.at).Seconds() * float64(runtime.NumCPU()))
}

// parseBusy adds up the first line of /proc/stat, without idling and without guests, which are in user time already.
func parseBusy(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	var ticks int64
	for i, f := range fields {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * tick
}

// memory is physical memory of the server without PostgreSQL, in MB of a million bytes.
type memory struct {
	resident float64
	highest  float64 // since it started
}

func (s *server) memory() memory {
	if s.pid == 0 {
		return memory{}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return memory{}
	}
	return parseMemory(string(text))
}

func parseMemory(status string) memory {
	var m memory
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		var kib float64
		if _, err := fmt.Sscanf(strings.TrimSpace(value), "%f kB", &kib); err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			m.resident = kib * 1024 / 1e6
		case "VmHWM":
			m.highest = kib * 1024 / 1e6
		}
	}
	return m
}

// watchMemory looks at the memory until the function it returns is called, which tells the most there was.
func (s *server) watchMemory() (most func() float64) {
	stop, result := make(chan struct{}), make(chan float64)
	go func() {
		highest := 0.0
		for {
			highest = max(highest, s.memory().resident)
			select {
			case <-time.After(memoryEvery):
			case <-stop:
				result <- highest
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-result
	}
}
