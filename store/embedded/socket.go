package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// socketName is PostgreSQL's name for the socket of port 5432.
	socketName = ".s.PGSQL.5432"

	// socketPathMax is what fits into a socket address and the zero behind
	// it: 108 bytes on Linux, 104 on the BSDs and macOS.
	socketPathMax = 103
)

// pickSocketDir returns where the socket goes: into the cluster, which only the
// server's account and root can enter, or when that path is too long into a
// directory like it below the temporary one. The name is the same at every
// start, so that the next Flow can adopt.
func pickSocketDir(a account, dataDir string) (string, error) {
	if len(filepath.Join(dataDir, socketName)) <= socketPathMax {
		return dataDir, nil
	}
	sum := sha256.Sum256([]byte(dataDir))
	dir := filepath.Join(os.TempDir(), "flow-"+hex.EncodeToString(sum[:8]))
	if len(filepath.Join(dir, socketName)) > socketPathMax {
		return "", fmt.Errorf("the paths %s and %s are both too long for a socket: choose a shorter data directory or TMPDIR", dataDir, dir)
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil && a.switched {
		err = os.Lchown(dir, a.uid, a.gid)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("socket directory %s can't be made: %w", dir, cause(err))
	}
	// Anybody can make names in the temporary directory: trust nothing there.
	st, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("socket directory %s: %w", dir, cause(err))
	}
	if !st.IsDir() || st.Mode().Perm() != 0o700 || int(st.Sys().(*syscall.Stat_t).Uid) != a.uid {
		return "", fmt.Errorf("%s exists and is not a directory of account %s alone: remove it, or choose a shorter data directory", dir, a.name)
	}
	return dir, nil
}

// socketURL is understood by pgx and by psql. It names all that PG* variables
// could otherwise change.
func socketURL(sockDir, database string) string {
	q := url.Values{"host": {sockDir}, "port": {"5432"}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Host: "", Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}
