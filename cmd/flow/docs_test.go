package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	usualPort  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// TestEveryCommandOfTheDocsWorks runs the sh blocks of README and docs, line by line, as a reader would: a server goes on
// until another one is started, or its database is worked on. Only where a server listens and keeps its data is
// changed, so that tests don't meet.
func TestEveryCommandOfTheDocsWorks(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			r := newReader(t)
			defer r.stop()
			for _, block := range blocks {
				for line := range strings.Lines(block[1]) {
					r.run(strings.TrimSpace(line))
				}
			}
		})
	}
}

// reader types the commands of a page.
type reader struct {
	t      *testing.T
	dir    string // for data; its account is root's or the tests'
	addr   string
	env    []string
	server *exec.Cmd
}

func newReader(t *testing.T) *reader {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "flow-docs-")
	if err != nil {
		t.Fatal(err)
	}
	// PostgreSQL may run as another account, which must be able to enter.
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Symlink(program, filepath.Join(dir, "flow")); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("curl"); err != nil { // the docs may suppose it, a test must not
		if err := os.Symlink(program, filepath.Join(dir, "curl")); err != nil {
			t.Fatal(err)
		}
	}
	r := &reader{t: t, dir: dir, addr: freeAddr(t)}
	_, port, _ := strings.Cut(r.addr, ":")
	r.env = append(os.Environ(), "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"), "FLOW_PORT="+port)
	return r
}

func (r *reader) run(line string) {
	r.t.Helper()
	if line == "" || strings.HasPrefix(line, "#") {
		return
	}
	line = usualPort.ReplaceAllString(line, r.addr)
	line = strings.ReplaceAll(line, "./data", filepath.Join(r.dir, "data"))
	switch {
	case strings.HasPrefix(line, "flow serve"):
		r.stop()
		r.serve(strings.TrimSuffix(line, "&"))
	case strings.HasPrefix(line, "flow db"):
		r.stop()
		r.shell(line)
	case strings.HasPrefix(line, "flow "), strings.HasPrefix(line, "curl "):
		r.shell(line)
	default:
		r.t.Errorf("%q: the docs have a command that this test does not know", line)
	}
}

func (r *reader) shell(line string) {
	r.t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), r.env
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), `"code":`) {
		r.t.Errorf("%s: %v\n%s", line, err, out)
	}
}

func (r *reader) serve(line string) {
	r.t.Helper()
	if !strings.Contains(line, "--listen") {
		line += " --listen " + r.addr
	}
	if !strings.Contains(line, "--data-dir") {
		line += " --data-dir " + filepath.Join(r.dir, "usual")
	}
	log, err := os.Create(filepath.Join(r.dir, "log"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	r.server = exec.Command("sh", "-c", "exec "+line)
	r.server.Dir, r.server.Env, r.server.Stderr = filepath.Join("..", ".."), r.env, log
	if err := r.server.Start(); err != nil {
		r.t.Fatal(err)
	}
	ready := scriptServer{addr: r.addr}
	for end := time.Now().Add(30 * time.Second); !ready.ready(); pause(10 * time.Millisecond) {
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			r.t.Fatalf("%s: not ready\n%s", line, text)
		}
	}
}

func (r *reader) stop() {
	r.t.Helper()
	if r.server == nil {
		return
	}
	if err := r.server.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Error(err)
	}
	if err := r.server.Wait(); err != nil {
		r.t.Errorf("the server ended with %v", err)
	}
	r.server = nil
}

// standInForCurl posts JSON the way the docs have curl do it, on machines without one.
func standInForCurl(args []string) int {
	var body, url string
	for i, a := range args {
		switch {
		case a == "-d":
			body = args[i+1]
		case strings.HasPrefix(a, "http://"):
			url = a
		}
	}
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer res.Body.Close()
	if _, err := io.Copy(os.Stdout, res.Body); err != nil {
		return 1
	}
	return 0
}
