package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"rackflow.dev/flow/store/embedded"
)

// image is of the version that the bundle has.
const image = "postgres:18-alpine"

// forgetful are settings of a server that only tests use: nothing is kept safe,
// and nothing happens behind a test's back.
var forgetful = map[string]string{
	"fsync":                     "off",
	"synchronous_commit":        "off",
	"full_page_writes":          "off",
	"wal_level":                 "minimal",
	"max_wal_senders":           "0",
	"autovacuum":                "off", // a worker in the template would keep it from being copied
	"checkpoint_timeout":        "1h",
	"shared_buffers":            "64MB", // small: a checkpoint, one per database made, looks at all of it
	"max_connections":           "200",  // tests are parallel and have pools of their own
	"max_locks_per_transaction": "128",
}

// Start starts a server for tests, as Main does when there is none to share. It
// is gone after stop, or when this process is.
func Start(ctx context.Context) (url string, stop func(context.Context) error, err error) {
	if dockerAnswers(ctx) {
		url, stop, err = startContainer(ctx)
		if err == nil {
			return url, stop, nil
		}
		fmt.Fprintf(os.Stderr, "storetest: Docker answers but gives no PostgreSQL, so the embedded one it is: %v\n", err)
	}
	url, stop, err = startEmbedded(ctx)
	if err != nil {
		err = fmt.Errorf("%s is not set, no Docker engine gives one, and here: %w", URLEnv, err)
	}
	return url, stop, err
}

// dockerAnswers asks the engine where it usually is, and doesn't wait: most
// machines have none.
func dockerAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	home, _ := os.UserHomeDir()
	places := []string{
		"unix:///var/run/docker.sock",
		"unix://" + os.Getenv("XDG_RUNTIME_DIR") + "/docker.sock",
		"unix://" + home + "/.docker/run/docker.sock",
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		places = []string{host}
	}
	for _, place := range places {
		network, address, _ := strings.Cut(place, "://")
		client := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
		if err != nil {
			return false
		}
		res, err := client.Do(req)
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return true
		}
	}
	return false
}

func startContainer(ctx context.Context) (string, func(context.Context) error, error) {
	args := []string{"postgres"}
	for name, value := range forgetful {
		args = append(args, "-c", name+"="+value)
	}
	c, err := postgres.Run(ctx, image,
		postgres.WithDatabase("flow"), postgres.WithUsername("flow"), postgres.WithPassword("flow"),
		testcontainers.WithCmd(args...), postgres.BasicWaitStrategies())
	stop := func(ctx context.Context) error {
		return testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx))
	}
	if err != nil {
		return "", nil, errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	url, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return "", nil, errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	return url, stop, nil
}

// startEmbedded starts a server in a directory that is gone with it.
func startEmbedded(ctx context.Context) (string, func(context.Context) error, error) {
	dir, err := os.MkdirTemp("", "flow-storetest-*")
	if err != nil {
		return "", nil, err
	}
	// As root the server runs as somebody else, who has to get there.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	release, err := watch(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	s, err := embedded.Start(ctx, embedded.Config{
		Dir: filepath.Join(dir, "flow"), BinDir: os.Getenv("FLOW_POSTGRES_BIN"), NoFsync: true, Settings: forgetful,
	})
	if err != nil {
		return "", nil, errors.Join(err, release())
	}
	return s.URL(), func(ctx context.Context) error { return errors.Join(s.Stop(ctx), release()) }, nil
}

// watchdog waits for the end of its input, which is the end of the test process
// however it came, ends the server that is still there and removes its files;
// again if an initdb was still writing some.
const watchdog = `
cat >/dev/null
while pid=$(head -n 1 "$1/flow/postgres/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null; do sleep 0.1; done
for again in 1 2 3 4 5; do rm -rf "$1" 2>/dev/null && exit; sleep 1; done
rm -rf "$1"
`

// watch sets a watchdog on dir. Release lets it do its work and waits for it.
func watch(dir string) (release func() error, err error) {
	cmd := exec.Command("/bin/sh", "-c", watchdog, "watchdog", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the test process
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(in.Close(), cmd.Wait()) }, nil
}
