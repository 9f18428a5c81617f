package main

import (
	"testing"

	"rackflow.dev/flow/store/storetest"
)

func TestCommandHasAServerAndItsExitCodeCounts(t *testing.T) {
	t.Setenv(storetest.URLEnv, "")
	code, err := run(t.Context(), []string{"/bin/sh", "-c", `test -n "$` + storetest.URLEnv + `" && exit 7`})
	if code != 7 || err != nil {
		t.Errorf("code %d, err %v", code, err)
	}
}

func TestServerThatIsNamedIsUsed(t *testing.T) {
	t.Setenv(storetest.URLEnv, "postgres://named")
	code, err := run(t.Context(), []string{"/bin/sh", "-c", `test "$` + storetest.URLEnv + `" = postgres://named`})
	if code != 0 || err != nil {
		t.Errorf("code %d, err %v", code, err)
	}
}

func TestNothingToRun(t *testing.T) {
	if _, err := run(t.Context(), nil); err == nil {
		t.Error("no error")
	}
	t.Setenv(storetest.URLEnv, "postgres://named")
	if _, err := run(t.Context(), []string{"/no/such/command"}); err == nil {
		t.Error("no error")
	}
}
