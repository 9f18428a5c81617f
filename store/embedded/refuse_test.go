package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	fake := func(t *testing.T, initdb string) string {
		dir := tempDir(t)
		writeFile(t, filepath.Join(dir, "postgres"), "#!/bin/sh\necho 'postgres (PostgreSQL) 16.3 (Somewhere 1)'\n", 0o755)
		writeFile(t, filepath.Join(dir, "initdb"), "#!/bin/sh\n"+initdb, 0o755)
		return dir
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, cfg *Config)
		want    []string
	}{
		"no directory": {
			func(_ *testing.T, cfg *Config) { cfg.Dir = "" },
			[]string{"data directory"},
		},
		"a file where the data directory should be": {
			func(t *testing.T, cfg *Config) { writeFile(t, cfg.Dir, "", 0o600) },
			[]string{"/flow is not a directory"},
		},
		"a cluster of another major version": {
			func(t *testing.T, cfg *Config) {
				cfg.BinDir = fake(t, "")
				cluster := filepath.Join(cfg.Dir, "postgres")
				writeFile(t, filepath.Join(cluster, "PG_VERSION"), "15\n", 0o600)
				give(t, cluster)
			},
			[]string{"of PostgreSQL 15", "of version 16.3", "name a directory", "dump"},
		},
		"a directory that is no cluster": {
			func(t *testing.T, cfg *Config) {
				writeFile(t, filepath.Join(cfg.Dir, "postgres", "photos.zip"), "", 0o600)
			},
			[]string{"/postgres is not a PostgreSQL cluster"},
		},
		"no programs in the directory named": {
			func(t *testing.T, cfg *Config) { cfg.BinDir = tempDir(t) },
			[]string{"has no postgres", "flow-test-"},
		},
		"programs too old": {
			func(t *testing.T, cfg *Config) {
				cfg.BinDir = fake(t, "")
				writeFile(t, filepath.Join(cfg.BinDir, "postgres"), "#!/bin/sh\necho 'postgres (PostgreSQL) 9.6.1'\n", 0o755)
			},
			[]string{"14 or newer", "has version 9.6.1"},
		},
		"a program that is not PostgreSQL": {
			func(t *testing.T, cfg *Config) {
				cfg.BinDir = fake(t, "")
				writeFile(t, filepath.Join(cfg.BinDir, "postgres"), "#!/bin/sh\necho hello\n", 0o755)
			},
			[]string{`"hello\n" is not a PostgreSQL version`},
		},
		"a program that can't run": {
			func(t *testing.T, cfg *Config) {
				cfg.BinDir = fake(t, "")
				writeFile(t, filepath.Join(cfg.BinDir, "postgres"), "#!/no/such/loader\n", 0o755)
			},
			[]string{"can't be run: no such file"},
		},
		"an initdb that fails": {
			func(t *testing.T, cfg *Config) {
				cfg.BinDir = fake(t, "echo creating; echo 'initdb: error: could not write: No space left on device' >&2; echo 'initdb: removing data directory' >&2; exit 1")
			},
			[]string{"initdb of PostgreSQL 16.3", "could not write: No space left on device"},
		},
		"a setting that is flow's own": {
			func(_ *testing.T, cfg *Config) { cfg.Settings = map[string]string{"listen_addresses": "*"} },
			[]string{"listen_addresses is flow's own"},
		},
		"a setting that is none": {
			func(_ *testing.T, cfg *Config) { cfg.Settings = map[string]string{"x = 1\ny": ""} },
			[]string{"is not the name of a postgres setting"},
		},
		"a value that is two lines": {
			func(_ *testing.T, cfg *Config) { cfg.Settings = map[string]string{"work_mem": "1MB\nfsync=off"} },
			[]string{"work_mem has more than one line"},
		},
		"a setting that the server refuses": {
			func(t *testing.T, cfg *Config) {
				*cfg = prepared(t, cfg.Dir)
				cfg.Settings = map[string]string{"no_such_thing": "1"}
			},
			[]string{"no_such_thing", "postgres.log"},
		},
		"an account that does not exist": {
			func(t *testing.T, cfg *Config) { asRoot(t); cfg.Account = "no-such-account" },
			[]string{"no-such-account"},
		},
		"a cluster that root owns": {
			func(t *testing.T, cfg *Config) {
				asRoot(t)
				writeFile(t, filepath.Join(cfg.Dir, "postgres", "PG_VERSION"), "16\n", 0o600)
			},
			[]string{"belongs to root", "chown"},
		},
		"a parent that the account can't pass": {
			func(t *testing.T, cfg *Config) {
				asRoot(t)
				home := filepath.Join(tempDir(t), "home")
				if err := os.Mkdir(home, 0o700); err != nil {
					t.Fatal(err)
				}
				cfg.Dir = filepath.Join(home, "deep", "flow")
			},
			[]string{"is closed to account", "chmod o+x", "/home"},
		},
		"programs that the account can't reach": {
			func(t *testing.T, cfg *Config) {
				asRoot(t)
				cfg.BinDir = fake(t, "")
				if err := os.Chmod(cfg.BinDir, 0o700); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"is closed to account", "chmod o+x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick(filepath.Join(tempDir(t), "flow"))
			c.prepare(t, &cfg)
			s, err := Start(t.Context(), cfg)
			if err == nil {
				stop(t, s)
			}
			wantError(t, err, c.want...)
			if err != nil {
				t.Log(err)
			}
		})
	}
}

func TestUnwritableDataDirectory(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	if os.Geteuid() == 0 { // who may write anywhere, so somebody else has to try
		c := startChild(t, quick(dir), nobody)
		wantError(t, errors.New(c.Err), dir, "not writable")
		c = startChild(t, quick(filepath.Join(dir, "flow")), nobody)
		wantError(t, errors.New(c.Err), dir, "can't be made")
		return
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), quick(dir))
	wantError(t, err, dir, "not writable")
}

// give makes path the property of the account that would run its server.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	a, err := pickAccount(filepath.Join(path, "none"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Join(path, "PG_VERSION")} {
		if err := os.Chown(p, a.uid, a.gid); err != nil {
			t.Fatal(err)
		}
	}
}
