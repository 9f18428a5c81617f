package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// oldest is the oldest major version that Flow's SQL is written for.
const oldest = 14

// Where PostgreSQL's programs come from.
const (
	SourceNamed     = "named"     // the directory in Config.BinDir
	SourceBundle    = "bundle"    // compiled into this program
	SourceUnpacked  = "unpacked"  // the bundle of an earlier Flow, for a cluster of that version
	SourceInstalled = "installed" // found on this machine
)

// binaries is a directory with PostgreSQL's programs.
type binaries struct {
	dir     string
	source  string
	version string // as the server reports it, e.g. "18.4"
	major   int
}

// candidate is a place where programs may be; get makes sure they are there.
type candidate struct {
	source string
	get    func() (dir string, err error)
}

// findBinaries returns the first programs that account a can run and that fit
// a cluster of the given major version; 0 fits any from oldest on.
func findBinaries(ctx context.Context, cfg Config, a account, cluster int) (binaries, error) {
	var other *binaries // of another major version
	var tried []string
	for _, c := range candidates(ctx, cfg) {
		b, err := inspect(ctx, c, a)
		switch {
		case ctx.Err() != nil:
			return b, context.Cause(ctx)
		case err != nil:
			tried = append(tried, err.Error())
		case b.major < oldest:
			tried = append(tried, fmt.Sprintf("%s has version %s", b.dir, b.version))
		case cluster != 0 && b.major != cluster:
			if other == nil {
				other = &b
			}
		default:
			return b, nil
		}
	}
	dataDir := filepath.Join(cfg.Dir, "postgres")
	switch {
	case other != nil:
		return *other, fmt.Errorf("the cluster %s is of PostgreSQL %d but the programs in %s are of version %s: "+
			"name a directory with programs of PostgreSQL %d, or dump the data with those and restore it into a new data directory",
			dataDir, cluster, other.dir, other.version, cluster)
	case len(tried) == 0:
		return binaries{}, fmt.Errorf("there is no PostgreSQL %d or newer on this machine and none in this program: "+
			"install one, or name a directory with its programs", oldest)
	}
	return binaries{}, fmt.Errorf("no usable PostgreSQL %d or newer: %s", oldest, strings.Join(tried, "; "))
}

func candidates(ctx context.Context, cfg Config) []candidate {
	if cfg.BinDir != "" {
		return []candidate{{SourceNamed, func() (string, error) { return cfg.BinDir, nil }}}
	}
	var all []candidate
	if name := bundleName(bundleFS); name != "" {
		all = append(all, candidate{SourceBundle, func() (string, error) { return unpackBundle(bundleFS, name, cfg) }})
	}
	add := func(source string, dirs ...string) {
		for _, dir := range dirs {
			all = append(all, candidate{source, func() (string, error) { return dir, nil }})
		}
	}
	add(SourceUnpacked, newestFirst(filepath.Join(cfg.Dir, unpackedDir, "postgres-*", "bin"))...)
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                   // Red Hat, from PostgreSQL's repository
		"/usr/libexec/postgresql*",           // Alpine
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew
		"/usr/local/opt/postgresql@*/bin",    // Homebrew on older machines
		"/usr/local/pgsql/bin",               // built from source
	} {
		add(SourceInstalled, newestFirst(pattern)...)
	}
	// Some distributions put pg_config on the path, some postgres itself.
	if path, err := exec.LookPath("pg_config"); err == nil {
		all = append(all, candidate{SourceInstalled, func() (string, error) {
			out, err := exec.CommandContext(ctx, path, "--bindir").Output()
			return strings.TrimSpace(string(out)), err
		}})
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		add(SourceInstalled, filepath.Dir(path))
	}
	return all
}

// newestFirst returns the directories that match and hold a postgres, those
// with the highest number in place of the pattern's star first.
func newestFirst(pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(pattern, "postgres")) // a bad pattern finds nothing
	star := max(0, strings.IndexByte(pattern, '*'))
	number := func(path string) int {
		n, _ := strconv.Atoi(leadingDigits(path[star:]))
		return n
	}
	slices.SortStableFunc(found, func(a, b string) int { return number(b) - number(a) })
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// inspect runs the server program for its version, as the account that will
// run it for good: so a program that is there but can't run is found now.
func inspect(ctx context.Context, c candidate, a account) (binaries, error) {
	dir, err := c.get()
	if err != nil {
		return binaries{}, err
	}
	b := binaries{dir: dir, source: c.source}
	for _, program := range []string{"postgres", "initdb"} {
		if _, err := os.Stat(b.program(program)); err != nil {
			return b, fmt.Errorf("%s has no %s: %w", dir, program, cause(err))
		}
	}
	out, err := b.askVersion(ctx, a, "/")
	if errors.Is(err, syscall.EACCES) && a.switched {
		return b, a.denied(dir)
	}
	if err != nil {
		return b, fmt.Errorf("%s can't be run: %w", b.program("postgres"), err)
	}
	b.version, b.major, err = parseVersion(out)
	return b, err
}

// checkReach proves that the account can get to dir, by going there: modes
// alone don't tell, there are access lists too.
func (b binaries) checkReach(ctx context.Context, a account, dir string) error {
	if !a.switched {
		return nil
	}
	_, err := b.askVersion(ctx, a, dir)
	if errors.Is(err, syscall.EACCES) {
		return a.denied(dir)
	}
	return err
}

func (b binaries) askVersion(ctx context.Context, a account, from string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // a program on a cold network disk; else 5 ms
	defer cancel()
	for try := 1; ; try++ {
		cmd := a.command(b.program("postgres"), "--version")
		cmd.Dir = from
		out, err := runQuiet(ctx, cmd)
		// Freshly unpacked, a program is "busy" for as long as another child of
		// ours, forked meanwhile and not yet at its exec, holds the file open.
		if !errors.Is(err, syscall.ETXTBSY) || try == 50 {
			return out, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b binaries) program(name string) string { return filepath.Join(b.dir, name) }

// parseVersion reads "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
// The text after the first brackets is what the server itself reports.
func parseVersion(out string) (text string, major int, err error) {
	_, text, ok := strings.Cut(strings.TrimSpace(out), "(PostgreSQL) ")
	if ok {
		major, err = strconv.Atoi(leadingDigits(text))
	}
	if !ok || err != nil {
		return "", 0, fmt.Errorf("%q is not a PostgreSQL version", out)
	}
	return text, major, nil
}

func leadingDigits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
}

// runQuiet runs a short program and returns what it printed, or an error with
// the last thing it said. The program dies with ctx.
func runQuiet(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second // children that keep the pipes open don't hold us
	if err := cmd.Start(); err != nil {
		return "", cause(err)
	}
	unhook := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer unhook()
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil && said.Len() > 0:
		return "", errors.New(complaint(said.String()))
	}
	return out.String(), err
}
