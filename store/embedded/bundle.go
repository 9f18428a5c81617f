package embedded

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	// unpackedDir is where bundles are unpacked, in Flow's data directory.
	unpackedDir = "postgres-bin"

	// bundleExt: a tar in Zstandard. Unpacks in 0.15 s and its library is in the
	// module anyway; xz would save 13 % and take seconds.
	bundleExt = ".tzst"
)

// bundleName returns the name of the bundle in this program without its
// ending, "" when it was built without. It is postgres-VERSION-HASH, and the
// hash changes with whatever goes into the archive: so a directory of that name
// holds this bundle, which is known without reading 15 MB.
func bundleName(fsys fs.FS) string {
	found, _ := fs.Glob(fsys, "bundle/postgres-*"+bundleExt) // the pattern is ours and well formed
	if len(found) == 0 {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(found[0]), bundleExt)
}

// unpackBundle makes sure that the bundle is unpacked in cfg.Dir and returns its
// directory of programs. What is there under the final name is whole: it is
// renamed into place after everything has reached the disk.
func unpackBundle(fsys fs.FS, name string, cfg Config) (string, error) {
	home := filepath.Join(cfg.Dir, unpackedDir)
	final := filepath.Join(home, name)
	if _, err := os.Stat(final); err == nil {
		return filepath.Join(final, "bin"), nil
	}
	packed, err := fs.ReadFile(fsys, "bundle/"+name+bundleExt)
	if err != nil {
		return "", err
	}
	if err := makeOpen(home); err != nil {
		return "", fmt.Errorf("%s can't be made: %w", home, cause(err))
	}
	removeAll(filepath.Join(home, ".new-*"))
	fresh, err := os.MkdirTemp(home, ".new-*")
	if err != nil {
		return "", fmt.Errorf("%s can't be written: %w", home, cause(err))
	}
	defer os.RemoveAll(fresh)
	err = errors.Join(os.Chmod(fresh, 0o755), unpack(bytes.NewReader(packed), fresh))
	if err == nil && !cfg.NoFsync {
		err = syncTree(fresh)
	}
	if err == nil {
		err = os.Rename(fresh, final)
	}
	if err != nil {
		return "", fmt.Errorf("the bundled PostgreSQL can't be unpacked to %s: %w", home, err)
	}
	return filepath.Join(final, "bin"), syncDir(home)
}

// unpack writes a packed tar to dir and nowhere else, and proves it by the
// checksum in the archive. Modes are the archive's
// whatever the umask, since another account must read the files.
func unpack(r io.Reader, dir string) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer z.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			_, err := io.Copy(io.Discard, z) // to the checksum at the end
			return err
		case err != nil:
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(h.Name, 0o755)
			if err == nil {
				err = root.Chmod(h.Name, 0o755)
			}
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, h.Name)
		case tar.TypeReg:
			err = unpackFile(root, h, t)
		default:
			err = fmt.Errorf("%s has the unknown type %q", h.Name, h.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, h *tar.Header, r io.Reader) error {
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close())
}

// forgetBundles removes unpacked bundles that the one in use replaces: those
// of the same major version. Others may be the only programs left for a
// cluster that is restored one day.
func forgetBundles(dir string, b binaries) {
	if b.source != SourceBundle {
		return
	}
	current := filepath.Dir(b.dir)
	found, _ := filepath.Glob(filepath.Join(dir, unpackedDir, fmt.Sprintf("postgres-%d.*", b.major)))
	for _, path := range found {
		if path != current {
			_ = os.RemoveAll(path) // only space; the next start tries again
		}
	}
}

// makeOpen makes a directory that every account can read, whatever the umask.
func makeOpen(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// removeAll removes what matches: leftovers of a killed Flow. What can't be
// removed does no harm.
func removeAll(pattern string) {
	found, _ := filepath.Glob(pattern)
	for _, path := range found {
		_ = os.RemoveAll(path)
	}
}
