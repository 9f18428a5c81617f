package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

// eachCommand calls fn for every command but those cobra brings.
func eachCommand(cmd *cobra.Command, fn func(*cobra.Command)) {
	if cmd.Name() == "completion" || cmd.Name() == "help" {
		return
	}
	fn(cmd)
	for _, c := range cmd.Commands() {
		eachCommand(c, fn)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	eachCommand(newRootCommand(process{getenv: func(string) string { return "" }}), func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no short help", cmd.CommandPath())
		}
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" && cmd.Args == nil {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		got := flow(t.Context(), nil, "", append(path, "--help")...)
		if got.code != exitOK || got.err != "" || !strings.Contains(got.out, cmd.Short) && cmd.Long == "" {
			t.Errorf("%s --help: %+v", cmd.CommandPath(), got)
		}
		if cmd.Runnable() && !strings.Contains(got.out, "Usage:") {
			t.Errorf("%s --help has no usage: %s", cmd.CommandPath(), got.out)
		}
	})
}

func TestFlagsOfClientsAreShownWhereTheyWorkOnly(t *testing.T) {
	t.Parallel()
	for line, shown := range map[string]bool{
		"rack list": true, "power on": true, "version": true, "demo": false, "serve": false, "db migrate": false,
	} {
		got := flow(t.Context(), nil, "", append(strings.Fields(line), "--help")...)
		if strings.Contains(got.out, "--host") != shown {
			t.Errorf("help of %s: --host is there: %t, want %t", line, !shown, shown)
		}
	}
	for _, line := range []string{"demo --host x", "serve -H x", "demo --port 1", "db migrate --tls-key x", "serve --timeout 1s"} {
		got := flow(t.Context(), nil, "", strings.Fields(line)...)
		if got.code != exitError || !strings.HasPrefix(got.err, "Error: unknown flag: --") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestUnknownCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"bogus":      `Error: unknown command "bogus" for "flow" (see flow --help)`,
		"rak":        `Error: unknown command "rak" for "flow"; did you mean rack or task? (see flow --help)`,
		"rack lits":  `Error: unknown command "lits" for "flow rack"; did you mean list? (see flow rack --help)`,
		"task bogus": `Error: unknown command "bogus" for "flow task" (see flow task --help)`,
	} {
		got := flow(t.Context(), nil, "", strings.Fields(line)...)
		if got.code != exitError || got.out != "" || got.err != want+"\n" {
			t.Errorf("%s: %+v", line, got)
		}
	}
	for _, line := range []string{"", "rack", "component", "domain", "power", "rule", "task"} {
		got := flow(t.Context(), nil, "", strings.Fields(line)...)
		if got.code != exitOK || got.err != "" || !strings.Contains(got.out, "Usage:") {
			t.Errorf("%q alone: %+v", line, got)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := against(t, &fake{}, "version")
	if got.code != exitOK || !strings.Contains(got.out, "server  v9.9.9  commit abc  built 2026-01-02T03:04:05Z\n") {
		t.Errorf("%+v", got)
	}
	got = flow(t.Context(), nil, "", "version", "-P", "1")
	if got.code != exitOK || !strings.Contains(got.out, "server  no server at localhost:1: connection refused\n") {
		t.Errorf("%+v", got)
	}
	got = flow(t.Context(), nil, "", "version", "-P", "1", "-o", "json")
	if got.code != exitOK || !strings.Contains(got.out, `"error": "no server at localhost:1: connection refused"`) {
		t.Errorf("%+v", got)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	f := stocked()
	f.tasks = []*flowv1.Task{outlined(), // and one in each status it may have ended in
		{Id: &flowv1.UUID{Id: taskTwo}, Operation: "PowerOn", Status: flowv1.TaskStatus_TASK_STATUS_COMPLETED},
		{Id: &flowv1.UUID{Id: ruleOne}, Operation: "PowerOn", Status: flowv1.TaskStatus_TASK_STATUS_FAILED},
		{Id: &flowv1.UUID{Id: ruleTwo}, Operation: "PowerOn", Status: flowv1.TaskStatus_TASK_STATUS_TERMINATED},
	}
	f.domains = []*flowv1.NVLDomain{{Identifier: &flowv1.Identifier{Id: &flowv1.UUID{Id: domainOne}, Name: "nvl-1"}}}
	env := f.env(t)
	for line, want := range map[string]string{
		"rack list -o":         "table json yaml protojson :4",
		"rack list --order-by": "name manufacturer model :4",
		"power on --type":      "compute nvswitch nvl-switch power-shelf tor-switch ums cdu :6",
		"power on --type compute,": "compute,compute compute,nvswitch compute,nvl-switch compute,power-shelf compute,tor-switch " +
			"compute,ums compute,cdu :6",
		"power control --op":       "on force-on off force-off restart force-restart warm-reset cold-reset :4",
		"power off":                "rack-1\t" + rackOne + " rack-2\t" + rackTwo + " :4",
		"task cancel":              taskOne + "\trunning PowerOn, forced false :36",
		"task retry":               ruleOne + "\tfailed PowerOn " + ruleTwo + "\tterminated PowerOn :36",
		"task list --rack":         "rack-1\t" + rackOne + " rack-2\t" + rackTwo + " :4",
		"domain racks":             "nvl-1\t" + domainOne + " :4",
		"domain attach":            "nvl-1\t" + domainOne + " :4",
		"domain attach nvl-1":      "rack-1\t" + rackOne + " rack-2\t" + rackTwo + " :4",
		"component diff --type":    "compute nvswitch nvl-switch power-shelf :6",
		"component add --bmc-type": "host dpu :4",
		"task list -P 1 --rack":    ":4", // no server: nothing, and at once
		"power on --rack-ids":      ":4",
		"power on --domain-ids":    ":4",
		"power on --component-ids": ":4",
	} {
		words := append([]string{"__complete"}, strings.Fields(line)...)
		if !strings.HasSuffix(line, ",") {
			words = append(words, "")
		}
		got := flow(t.Context(), env, "", words...)
		if diff := cmp.Diff(want, strings.ReplaceAll(strings.TrimSpace(got.out), "\n", " ")); diff != "" || got.code != exitOK {
			t.Errorf("%s: %s%s", line, diff, got.err)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := flow(t.Context(), nil, "", "completion", shell); got.code != exitOK || !strings.Contains(got.out, "flow") {
			t.Errorf("completion %s: exit code %d", shell, got.code)
		}
	}
}

func TestCompletionAsksForNamesThatBeginLikeTheTyped(t *testing.T) {
	t.Parallel()
	first := &flowv1.Pagination{Limit: completionLimit}
	racks := func(pattern string) *flowv1.GetListOfRacksRequest {
		q := &flowv1.StringQueryInfo{Patterns: []string{pattern}, IsWildcard: true}
		return &flowv1.GetListOfRacksRequest{
			Filters: []*flowv1.Filter{rackFilter(flowv1.RackFilterField_RACK_FILTER_FIELD_NAME, q)}, Pagination: first,
		}
	}
	for line, want := range map[string]proto.Message{
		"rack get lab":              racks("lab%"),
		`rack get 100%\a_`:          racks(`100\%\\a_%`),
		"task list --rack r":        racks("r%"),
		"domain attach nvl-1 rack-": racks("rack-%"),
		"domain attach nvl": &flowv1.GetListOfNVLDomainsRequest{
			Info: &flowv1.StringQueryInfo{Patterns: []string{"nvl%"}, IsWildcard: true}, Pagination: first,
		},
		"power on --domain %": &flowv1.GetListOfNVLDomainsRequest{
			Info: &flowv1.StringQueryInfo{Patterns: []string{`\%%`}, IsWildcard: true}, Pagination: first,
		},
	} {
		f := &fake{}
		got := against(t, f, append([]string{"__complete"}, strings.Fields(line)...)...)
		if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" || got.code != exitOK {
			t.Errorf("%s: %s%s", line, diff, got.err)
		}
	}
}

func TestInterruptedCallSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := flow(ctx, stocked().env(t), "", "rack", "list")
	if got.code != exitInterrupted || got.err != "Interrupted: rack list\n" || got.out != "" {
		t.Errorf("%+v", got)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := &cli{process: process{out: &b}, settings: settings{output: formatYAML}}
	if err := c.print(&flowv1.UUID{Id: "x: y"}, nil); err != nil || b.String() != "id: \"x: y\"\n" {
		t.Errorf("%v, %q", err, b.String())
	}
}
