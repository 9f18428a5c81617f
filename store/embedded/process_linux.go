package embedded

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// commandLine returns the arguments of a process, none when it is gone or a
// zombie. Unlike its working directory they can be read without privileges,
// also by a root that a container runtime has stripped of ptrace.
func commandLine(pid int) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimRight(text, "\x00")), "\x00")
}

// worksIn reports whether a process is known to have dir as its working directory.
func worksIn(pid int, dir string) bool {
	return sameDir(filepath.Join("/proc", strconv.Itoa(pid), "cwd"), dir)
}

// orphans returns what is left of a server in dataDir whose postmaster is dead:
// its children, which end by themselves when they next look up from work.
func orphans(dataDir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if args := commandLine(pid); len(args) > 0 && strings.HasPrefix(args[0], "postgres: ") && worksIn(pid, dataDir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// syncTree brings everything in dir to disk, by syncing its file system.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
