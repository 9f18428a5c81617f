package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse means that another server object, in this or another process, has
// the data directory.
var ErrInUse = errors.New("the data directory is in use by another flow")

// Config says where Flow's PostgreSQL lives and how it runs.
type Config struct {
	// Dir is Flow's data directory; it is made when missing. As root it must
	// be reachable by the account the server runs as.
	Dir string

	// BinDir is a directory with PostgreSQL's postgres and initdb. When set,
	// no others are tried. Empty: the bundle, then an installed PostgreSQL.
	BinDir string

	// Account is the operating system account that runs the server when Flow
	// is root, since PostgreSQL refuses root. Empty: the owner of an existing
	// cluster, else postgres, else nobody. Without meaning for other users.
	Account string

	// Settings are server settings on top of Flow's, e.g. max_connections for
	// larger pools. Nil: none. Those that Flow must decide are refused.
	Settings map[string]string

	// NoFsync makes the server forget what a crash of the machine would hurt.
	// For tests and benchmarks only.
	NoFsync bool

	// Logger hears of starts, adoptions and deaths. Nil: nobody does.
	Logger *slog.Logger

	limits limits // zero: usualLimits; tests are less patient
}

// limits are how long things may take before Flow stops being polite.
type limits struct {
	answer    time.Duration // a server that calls itself ready to answer; then it counts as hung
	fast      time.Duration // a fast shutdown
	hung      time.Duration // the same, of a server that doesn't answer
	immediate time.Duration // an immediate shutdown, and the end after a kill
	orphans   time.Duration // children of a dead server to notice
}

var usualLimits = limits{
	answer:    10 * time.Second, // two tries of 5 s
	fast:      30 * time.Second, // it writes a checkpoint: at most shared_buffers, to a slow disk
	hung:      3 * time.Second,
	immediate: 10 * time.Second, // PostgreSQL itself kills its children after 5 s
	orphans:   10 * time.Second, // they end at the next pause in their work; Flow's statements are short
}

// ownSettings are given on the command line, where no file can undo them.
var ownSettings = map[string]bool{
	"config_file": true, "data_directory": true, "hba_file": true, "ident_file": true, "external_pid_file": true,
	"listen_addresses": true, "port": true, "unix_socket_directories": true, "unix_socket_permissions": true, "unix_socket_group": true,
}

var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// checked returns c with absolute paths and defaults filled in.
func (c Config) checked() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.limits == (limits{}) {
		c.limits = usualLimits
	}
	if c.Dir == "" {
		return c, errors.New("postgres needs a data directory")
	}
	for _, p := range []*string{&c.Dir, &c.BinDir} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return c, err
		}
		*p = abs
	}
	for name, value := range c.Settings {
		switch {
		case !settingName.MatchString(name):
			return c, fmt.Errorf("%q is not the name of a postgres setting", name)
		case ownSettings[name]:
			return c, fmt.Errorf("the postgres setting %s is flow's own and can't be changed", name)
		case strings.ContainsAny(value, "\n\r\x00"):
			return c, fmt.Errorf("the value of the postgres setting %s has more than one line", name)
		}
	}
	return c, nil
}

// claim makes dir, proves that it can be written and locks it until the
// returned file is closed or the process dies. The lock is on the directory
// itself, so it leaves no file behind and meets no other lock of Flow's.
func claim(dir string) (*os.File, error) {
	// Directories above it are made as others are, so that the server's account
	// can pass; its own mode is for Flow alone.
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("data directory %s can't be made: %w", dir, cause(err))
	}
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		return nil, fmt.Errorf("data directory %s is not a directory", dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return nil, fmt.Errorf("data directory %s is not writable: %w", dir, err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %s can't be read: %w", dir, cause(err))
	}
	// Only a held lock is an answer: some file systems can't lock at all, and
	// PostgreSQL's own pid file is still there to keep two servers apart.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	return f, nil
}

// cause strips the operation and path off a file error, for messages that
// name the path themselves.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
