package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// versionWait is how long version waits for a server that may not be there.
const versionWait = 3 * time.Second

// versions is what flow version prints. Server is absent when there is none; then error says why.
type versions struct {
	Client build  `json:"client"`
	Server *build `json:"server,omitempty"`
	Error  string `json:"error,omitempty"`
}

type build struct {
	Version   string `json:"version"`
	BuildTime string `json:"build_time"`
	GitCommit string `json:"git_commit"`
}

func newBuild(b *flowv1.BuildInfo) build {
	return build{Version: b.GetVersion(), BuildTime: b.GetBuildTime(), GitCommit: b.GetGitCommit()}
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary and of the server",
		Long: `Print the version of this binary and, when one answers, of the server. A server that does not answer is no error.

Flow waits for it for 3 s at most.`,
		Example: `  flow version
  flow version -o json`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := c.dial(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := c.deadline(cmd.Context())
			defer cancel()
			ctx, cancelWait := context.WithTimeout(ctx, versionWait)
			defer cancelWait()
			v := versions{Client: newBuild(buildInfo())}
			if b, err := s.flow.Version(ctx, &flowv1.VersionRequest{}); err != nil {
				v.Error = c.cause(err).Error()
			} else {
				server := newBuild(b)
				v.Server = &server
			}
			return c.printValue(v, func(w io.Writer) error {
				row := func(name string, b build) [2]string {
					return [2]string{name, fmt.Sprintf("%s  commit %s  built %s", orDash(b.Version), orDash(b.GitCommit), orDash(b.BuildTime))}
				}
				server := [2]string{"server", v.Error}
				if v.Server != nil {
					server = row("server", *v.Server)
				}
				return facts(w, [][2]string{row("client", v.Client), server})
			})
		},
	}
}

// buildInfo is what the toolchain has stamped into this binary.
func buildInfo() *flowv1.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return &flowv1.BuildInfo{Version: "unknown"}
	}
	stamp := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		stamp[s.Key] = s.Value
	}
	return &flowv1.BuildInfo{
		Version:   cmp.Or(info.Main.Version, "(devel)"),
		BuildTime: stamp["vcs.time"], // of the commit: binaries of one commit are equal
		GitCommit: stamp["vcs.revision"],
	}
}
