//go:build !linux

package embedded

import (
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// commandLine returns the arguments of a process, none when it is gone. Blanks
// inside an argument split it, so a data directory with a blank in its name is
// not recognised here.
func commandLine(pid int) []string {
	out, err := exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// worksIn can't tell here; the command line has to do.
func worksIn(int, string) bool { return false }

// orphans can't be found here; PostgreSQL itself refuses to start while there are any.
func orphans(string) []int { return nil }

// syncTree brings everything in dir to disk, and everything else with it.
func syncTree(string) error {
	unix.Sync()
	return nil
}
