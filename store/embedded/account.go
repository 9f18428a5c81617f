package embedded

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as.
type account struct {
	uid, gid int
	name     string // for messages; the number when the system knows no name
	switched bool   // not the account of this process, which is then root
}

// pickAccount decides who runs the server of the cluster in dataDir. An
// existing cluster belongs to somebody already, and the server must be theirs.
func pickAccount(dataDir, named string) (account, error) {
	self := os.Geteuid()
	if self != 0 {
		if st, err := os.Stat(dataDir); err == nil && ownerOf(st).uid != self {
			return account{}, fmt.Errorf("the cluster %s belongs to account %s: start flow as that account or as root", dataDir, ownerOf(st).name)
		}
		return lookUp(self, os.Getegid()), nil
	}
	if st, err := os.Stat(filepath.Join(dataDir, "PG_VERSION")); err == nil {
		a := ownerOf(st)
		a.switched = true
		if a.uid == 0 {
			return a, fmt.Errorf("the cluster %s belongs to root, which PostgreSQL refuses to run as: give it to another account (chown -R)", dataDir)
		}
		return a, nil
	}
	names := []string{"postgres", "nobody"}
	if named != "" {
		names = []string{named}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil || u.Uid == "0" {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return account{uid: uid, gid: gid, name: name, switched: true}, nil
		}
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root and there is no other account %q: make one, or name another", names)
}

func ownerOf(st os.FileInfo) account {
	owner := st.Sys().(*syscall.Stat_t)
	return lookUp(int(owner.Uid), int(owner.Gid))
}

// lookUp finds the name of an account, and its group if it has a name.
func lookUp(uid, gid int) account {
	a := account{uid: uid, gid: gid, name: strconv.Itoa(uid)}
	if u, err := user.LookupId(a.name); err == nil {
		a.name = u.Username
		if g, err := strconv.Atoi(u.Gid); err == nil {
			a.gid = g
		}
	}
	return a
}

// command prepares a program that runs as a. It gets a session of its own, so
// that no signal from a terminal reaches it, and few variables: Flow's
// environment may hold secrets that are not the account's to read, and PG*
// variables would change what the programs do.
func (a account) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/" // Flow's own working directory may be closed to the account
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"} // TZ spares initdb a search through all time zones
	for _, name := range []string{"PATH", "TMPDIR", "LD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

// admit lets the account pass through Flow's own data directory, which is
// otherwise root's alone: its group, when nobody else has it, else anybody.
// Passing is not listing. Directories above are not Flow's to change.
func (a account) admit(dir string) error {
	st, err := os.Stat(dir)
	if err != nil || !a.switched || a.passes(st) {
		return err
	}
	mode := st.Mode().Perm()
	if mode&0o070 != 0 {
		return os.Chmod(dir, mode|0o001)
	}
	if err := os.Chown(dir, -1, a.gid); err != nil {
		return err
	}
	return os.Chmod(dir, mode|0o010)
}

// denied says that the account can't get to path, and why.
func (a account) denied(path string) error {
	return fmt.Errorf("%s is closed to account %s, which PostgreSQL runs as since it refuses root: choose another directory, or chmod o+x %s",
		path, a.name, a.closed(path))
}

// closed finds the directory that stops the account on its way to path.
func (a account) closed(path string) string {
	var up []string
	for p := path; ; p = filepath.Dir(p) {
		up = append(up, p)
		if p == filepath.Dir(p) {
			break
		}
	}
	for i := len(up) - 1; i >= 0; i-- {
		if st, err := os.Stat(up[i]); err == nil && !a.passes(st) {
			return up[i]
		}
	}
	return path
}

func (a account) passes(st os.FileInfo) bool {
	owner := st.Sys().(*syscall.Stat_t)
	switch {
	case int(owner.Uid) == a.uid:
		return st.Mode().Perm()&0o100 != 0
	case int(owner.Gid) == a.gid:
		return st.Mode().Perm()&0o010 != 0
	}
	return st.Mode().Perm()&0o001 != 0
}
