package embedded

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
)

// pack makes an archive as .ci/bundle does, small.
func pack(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, h := range headers {
		text := strings.Repeat(h.Name, 1000)
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func bundleOf(packed []byte) (fs fstest.MapFS, name string) {
	fs = fstest.MapFS{
		"bundle/README.md":                 {Data: []byte("text")},
		"bundle/postgres-18.4-abc123.tzst": {Data: packed},
	}
	return fs, bundleName(fs)
}

var smallBundle = []tar.Header{
	{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
	{Typeflag: tar.TypeReg, Name: "bin/postgres", Mode: 0o755},
	{Typeflag: tar.TypeReg, Name: "COPYRIGHT", Mode: 0o644},
	{Typeflag: tar.TypeSymlink, Name: "bin/postmaster", Linkname: "postgres"},
}

func TestBundleIsUnpackedOnce(t *testing.T) {
	t.Parallel()
	fs, name := bundleOf(pack(t, smallBundle...))
	cfg := Config{Dir: tempDir(t)}
	writeFile(t, filepath.Join(cfg.Dir, unpackedDir, ".new-1", "bin", "postgres"), "left by a killed flow", 0o755)
	bin, err := unpackBundle(fs, name, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(cfg.Dir, "postgres-bin", "postgres-18.4-abc123", "bin"); bin != want {
		t.Errorf("bin: %s", bin)
	}
	for path, mode := range map[string]os.FileMode{"../bin": 0o755, "postgres": 0o755, "../COPYRIGHT": 0o644, "postmaster": 0o755} {
		st, err := os.Stat(filepath.Join(bin, path))
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", path, st, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(cfg.Dir, unpackedDir))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	again, err := unpackBundle(fstest.MapFS{}, name, cfg)
	if err != nil || again != bin {
		t.Errorf("again: %s %v", again, err)
	}

	t.Log("the next bundle of the same major version replaces it, others stay")
	for _, other := range []string{"postgres-17.9-abc124", "postgres-18.3-abc125"} {
		writeFile(t, filepath.Join(cfg.Dir, unpackedDir, other, "bin", "postgres"), "", 0o755)
	}
	forgetBundles(cfg.Dir, binaries{dir: bin, source: SourceBundle, major: 18})
	left, _ := filepath.Glob(filepath.Join(cfg.Dir, unpackedDir, "*"))
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if got := strings.Join(left, " "); got != "postgres-17.9-abc124 postgres-18.4-abc123" {
		t.Errorf("left: %s", got)
	}
}

func TestBadBundleLeavesNothing(t *testing.T) {
	t.Parallel()
	good := pack(t, smallBundle...)
	bent := bytes.Clone(good)
	bent[len(bent)-1]++ // in the checksum
	for name, packed := range map[string][]byte{
		"cut short":           good[:len(good)/2],
		"damaged":             bent,
		"reaching outside":    pack(t, tar.Header{Typeflag: tar.TypeReg, Name: "../outside", Mode: 0o644}),
		"through a link":      pack(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "d", Linkname: ".."}, tar.Header{Typeflag: tar.TypeReg, Name: "d/outside"}),
		"with a device in it": pack(t, tar.Header{Typeflag: tar.TypeChar, Name: "null"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs, name := bundleOf(packed)
			cfg := Config{Dir: tempDir(t)}
			_, err := unpackBundle(fs, name, cfg)
			if err == nil {
				t.Error("no error")
			}
			if entries, err := os.ReadDir(filepath.Join(cfg.Dir, unpackedDir)); err != nil || len(entries) > 0 {
				t.Errorf("left: %v %v", entries, err)
			}
			if entries, err := os.ReadDir(cfg.Dir); err != nil || len(entries) != 1 {
				t.Errorf("left: %v %v", entries, err)
			}
		})
	}
}

func TestProgramWithoutBundle(t *testing.T) {
	t.Parallel()
	if got := bundleName(fstest.MapFS{"bundle/README.md": {}}); got != "" {
		t.Errorf("bundle: %q", got)
	}
}

// The licences must go where the bundle goes.
func TestLicences(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("bundle/LICENSES.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PostgreSQL Global Development Group", "OpenSSL Project", "Eric Young", "Unicode, Inc.", "Daniel Veillard", "Mark Adler", "Lasse Collin"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not mentioned", want)
		}
	}
}
