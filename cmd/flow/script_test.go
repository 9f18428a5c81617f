package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"rackflow.dev/flow/store/storetest"
)

// TestScripts runs the stories in testdata/script against this program. Besides testscript's own commands a script has
//
//	server start [flags]    a flow serve with a database of its own and a simulated site; FLOW_PORT leads to it
//	server kill             ends it as kill -9 does
//	keep NAME               puts the standard output of the last command, trimmed, into a variable
//	sql FILE                runs SQL on the server's database, for what only a sync can say
//	await FILE TEXT         waits until a file that is being written holds a text
//
// and the documents of racks in $RACKS and of rules in $RULES.
func TestScripts(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Abs(filepath.Join("..", "..", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			bin := filepath.Join(env.WorkDir, ".bin")
			if err := os.Mkdir(bin, 0o755); err != nil {
				return err
			}
			if err := os.Symlink(program, filepath.Join(bin, "flow")); err != nil {
				return err
			}
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("RACKS", filepath.Join(documents, "racks"))
			env.Setenv("RULES", filepath.Join(documents, "rules"))
			env.Setenv("FLOW_PORT", "1") // nobody listens there
			env.Values[scriptServer{}] = &scriptServer{t: env.T().(testing.TB), program: program, dir: env.WorkDir}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server": func(ts *testscript.TestScript, neg bool, args []string) {
				s := ts.Value(scriptServer{}).(*scriptServer)
				switch {
				case neg || len(args) == 0:
				case args[0] == "start":
					s.start(ts, args[1:])
					return
				case args[0] == "kill":
					s.kill()
					return
				}
				ts.Fatalf("usage: server start [flags] | server kill")
			},
			"keep": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: keep NAME")
				}
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
			},
			"sql": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: sql FILE")
				}
				conn, err := pgx.Connect(context.Background(), ts.Value(scriptServer{}).(*scriptServer).url)
				ts.Check(err)
				defer conn.Close(context.Background())
				_, err = conn.Exec(context.Background(), ts.ReadFile(args[0]))
				ts.Check(err)
			},
			"await": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: await FILE TEXT")
				}
				for end := time.Now().Add(30 * time.Second); ; pause(5 * time.Millisecond) {
					text, err := os.ReadFile(ts.MkAbs(args[0])) // not there yet, perhaps
					if strings.Contains(string(text), args[1]) {
						return
					}
					if time.Now().After(end) {
						ts.Fatalf("%s does not come to hold %q: %v\n%s", args[0], args[1], err, text)
					}
				}
			},
		},
	})
}

// scriptServer is the server of one script. Started again it has the same database and port.
type scriptServer struct {
	t            testing.TB
	program, dir string
	url, addr    string
	cmd          *exec.Cmd
	done         chan struct{} // closed when it has ended
	hold         io.Closer     // the server ends when it is closed, or this process is gone
}

func (s *scriptServer) start(ts *testscript.TestScript, flags []string) {
	if s.url == "" {
		s.url, s.addr = storetest.New(s.t), freeAddr(s.t)
		ts.Defer(s.kill)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer log.Close()
	args := []string{"serve", "--data-dir", filepath.Join(s.dir, "data"), "--database-url", s.url, "--listen", s.addr, "--sim"}
	if !slices.Contains(flags, "--sim-speed") {
		args = append(args, "--sim-speed", "100", "--sim-latency", "1s")
	}
	s.cmd = exec.Command(s.program, append(args, flags...)...)
	s.cmd.Env = append(os.Environ(), flowEnv+"=1")
	s.cmd.Stderr = log
	s.hold, err = s.cmd.StdinPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // why it ended is in its log
		close(done)
	}(s.cmd, s.done)
	for end := time.Now().Add(30 * time.Second); !s.ready(); pause(5 * time.Millisecond) {
		select {
		case <-s.done:
			ts.Fatalf("the server has ended:\n%s", ts.ReadFile("server.log"))
		default:
		}
		if time.Now().After(end) {
			ts.Fatalf("the server is not ready:\n%s", ts.ReadFile("server.log"))
		}
	}
	_, port, _ := strings.Cut(s.addr, ":")
	ts.Setenv("FLOW_PORT", port)
}

func (s *scriptServer) ready() bool {
	res, err := probe.Get("http://" + s.addr + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (s *scriptServer) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.done
	_ = s.hold.Close()
	s.cmd = nil
}
