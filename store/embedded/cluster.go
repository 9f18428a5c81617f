package embedded

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// superuser is the database superuser and the database that Flow uses. It may do
// anything to a cluster that is Flow's alone.
const superuser = "flow"

// hba lets everybody in who gets to the socket: that is the server's own
// account and root, both of whom could read the files of the cluster anyway.
const hba = `# Written by Flow at every start. The socket is in a directory that only the
# server's account and root can enter; there is no other way in.
local all         all trust
local replication all trust
`

// siteConf is postgresql.conf of a new cluster; Flow never touches it again.
const siteConf = `include 'flow.conf'

# Your own settings below win over Flow's; they hold from the next start on.
`

//go:embed flow.conf
var flowConf string

// clusterVersion returns the major version of the cluster in dataDir, 0 when
// there is none yet.
func clusterVersion(dataDir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := os.ReadDir(dataDir)
		if err == nil && len(entries) > 0 {
			return 0, fmt.Errorf("%s is not a PostgreSQL cluster, it has no PG_VERSION: move it away", dataDir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("the cluster %s can't be read: %w", dataDir, cause(err))
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("the cluster %s can't be read: %w", dataDir, cause(err))
	}
	major, err := strconv.Atoi(leadingDigits(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION says %q, which is no version", dataDir, text)
	}
	return major, nil
}

// makeCluster runs initdb in a directory of its own and renames it to dataDir
// when all of it is on disk: a cluster is there whole or not at all. initdb
// works without fsync and syncs every file once at its end, which is as cheap
// as doing that here.
func makeCluster(ctx context.Context, cfg Config, b binaries, a account, dataDir string) error {
	removeAll(dataDir + ".new-*")
	fresh, err := os.MkdirTemp(cfg.Dir, filepath.Base(dataDir)+".new-*")
	if err != nil {
		return fmt.Errorf("data directory %s is not writable: %w", cfg.Dir, cause(err))
	}
	defer os.RemoveAll(fresh)
	if a.switched {
		if err := os.Chown(fresh, a.uid, a.gid); err != nil {
			return fmt.Errorf("the cluster can't be given to account %s: %w", a.name, err)
		}
	}
	args := []string{"--pgdata=" + fresh, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--data-checksums"}
	if cfg.NoFsync {
		args = append(args, "--no-sync")
	}
	if _, err := runQuiet(ctx, a.command(b.program("initdb"), args...)); err != nil {
		return fmt.Errorf("initdb of PostgreSQL %s can't make a cluster in %s: %w", b.version, cfg.Dir, err)
	}
	if err := a.writeFile(filepath.Join(fresh, "postgresql.conf"), siteConf); err != nil {
		return err
	}
	if err := configure(cfg, a, fresh); err != nil {
		return err
	}
	// An empty directory in its place is nobody's cluster; rename replaces it.
	if err := os.Rename(fresh, dataDir); err != nil {
		return fmt.Errorf("the cluster can't be moved to %s: %w", dataDir, err)
	}
	return syncDir(cfg.Dir)
}

// configure brings Flow's part of the configuration up to date. Files that are
// right already keep their time, which tells an adopter that the server runs
// with them.
func configure(cfg Config, a account, dataDir string) error {
	for name, text := range map[string]string{"flow.conf": renderConf(cfg), "pg_hba.conf": hba} {
		path := filepath.Join(dataDir, name)
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			continue
		}
		if err := a.writeFile(path, text); err != nil {
			return fmt.Errorf("%s can't be written: %w", path, cause(err))
		}
	}
	return nil
}

func renderConf(cfg Config) string {
	var b strings.Builder
	b.WriteString(flowConf)
	if cfg.NoFsync {
		b.WriteString("\n# Asked for: a crash of the machine may lose the cluster.\nfsync = off\nsynchronous_commit = off\nfull_page_writes = off\n")
	}
	if len(cfg.Settings) > 0 {
		b.WriteString("\n# From Flow's own configuration.\n")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(cfg.Settings[name]))
	}
	return b.String()
}

// writeFile replaces a file of the account's, whole and on disk. The directory
// is the account's, so root follows no link in it: what it writes is new.
func (a account) writeFile(path, text string) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil && a.switched {
		err = f.Chown(a.uid, a.gid)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
