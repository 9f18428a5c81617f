package storetest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/store/storetest"
)

// childEnv makes TestChild hold databases until its input ends.
const childEnv = "FLOW_STORETEST_CHILD"

func TestMain(m *testing.M) { storetest.Main(m) }

func TestEveryTestHasItsOwnDatabase(t *testing.T) {
	t.Parallel()
	var urls sync.Map
	t.Run("group", func(t *testing.T) {
		for range 8 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				url := storetest.New(t)
				if _, twice := urls.LoadOrStore(url, true); twice {
					t.Errorf("%s was handed out twice", url)
				}
				// goose and River have rows, Flow's tables exist and are empty.
				if got := value(t, url, "SELECT count(*) FROM task"); got != "0" {
					t.Errorf("tasks: %s", got)
				}
				value(t, url, "CREATE TABLE mine AS SELECT 1") // would fail if shared
			})
		}
	})
	// They are dropped with their tests. A database to ask is needed for that.
	asker := storetest.Empty(t)
	urls.Range(func(u, _ any) bool {
		if got := value(t, asker, "SELECT count(*) FROM pg_database WHERE datname = '"+name(t, u.(string))+"'"); got != "0" {
			t.Errorf("%s is still there", u)
		}
		return true
	})
}

func TestEmptyHasNoSchema(t *testing.T) {
	t.Parallel()
	if got := value(t, storetest.Empty(t), "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"); got != "0" {
		t.Errorf("relations: %s", got)
	}
}

func TestDatabaseIsDroppedUnderOpenConnections(t *testing.T) {
	t.Parallel()
	var conn *pgx.Conn
	t.Run("test that leaves a connection open", func(t *testing.T) {
		var err error
		if conn, err = pgx.Connect(context.Background(), storetest.Empty(t)); err != nil {
			t.Fatal(err)
		}
	})
	if err := conn.Ping(context.Background()); err == nil {
		t.Error("the connection still works")
	}
}

func TestKilledTestProcessLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("of a server of its own", func(t *testing.T) {
		t.Parallel()
		c := startChild(t, "")
		dir := param(t, c.url, "host")
		if !strings.HasPrefix(dir, os.TempDir()) {
			t.Skip("this machine has a Docker engine, which does this itself")
		}
		value(t, c.url, "SELECT 1")
		c.kill(t)
		for end := time.Now().Add(10 * time.Second); ; <-time.After(20 * time.Millisecond) {
			if _, err := os.Stat(dir); os.IsNotExist(err) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s is still there", dir)
			}
		}
		if _, err := pgx.Connect(t.Context(), c.url); err == nil {
			t.Error("the server still runs")
		}
	})
	t.Run("on a shared server, once the next one comes", func(t *testing.T) {
		t.Parallel()
		shared := storetest.Empty(t)
		count := func(c *child) string {
			process, _, _ := strings.Cut(strings.TrimPrefix(name(t, c.url), "flow_test_"), "_")
			return value(t, shared, "SELECT count(*) FROM pg_database WHERE datname LIKE 'flow\\_test\\_"+process+"\\_%'")
		}
		killed, living := startChild(t, shared), startChild(t, shared)
		killed.kill(t)
		if got := count(killed); got != "2" { // one and the template
			t.Fatalf("databases before: %s", got)
		}
		startChild(t, shared).stop(t)
		if got := count(killed); got != "0" {
			t.Errorf("databases of the dead process: %s", got)
		}
		if got := count(living); got != "2" {
			t.Errorf("databases of the living process: %s", got)
		}
		living.stop(t)
		if got := count(living); got != "0" {
			t.Errorf("databases of a process that ended well: %s", got)
		}
	})
}

func TestMissingServerIsAFailure(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{
		"postgres://nobody@127.0.0.1:1/none": "there is no database to test on: FLOW_TEST_DATABASE_URL: ",
		"host=127.0.0.1":                     "it is not of the form postgres://",
	} {
		cmd := exec.Command(program, "-test.run=^TestEmptyHasNoSchema$")
		cmd.Env = append(os.Environ(), storetest.URLEnv+"="+env)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", env, err, out)
		}
	}
}

// TestChild is the other process of the tests above.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	fmt.Println(storetest.New(t))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type child struct {
	url string
	cmd *exec.Cmd
	in  io.Closer
}

func startChild(t *testing.T, server string) *child {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(program, "-test.run=^TestChild$")}
	c.cmd.Env = append(os.Environ(), childEnv+"=1", storetest.URLEnv+"="+server)
	c.cmd.Stderr = os.Stderr
	c.in, _ = c.cmd.StdinPipe()
	out, _ := c.cmd.StdoutPipe()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.kill(t) })
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "postgres://") {
		rest, _ := io.ReadAll(r)
		t.Fatalf("child: %s%s (%v)", line, rest, err)
	}
	c.url = strings.TrimSpace(line)
	return c
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) stop(t *testing.T) {
	t.Helper()
	_ = c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("child: %v", err)
	}
}

// value runs a statement and returns its one value as text.
func value(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return ""
	}
	return string(results[0].Rows[0][0])
}

// name is the database in a URL.
func name(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func param(t *testing.T, text, key string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(key)
}
