package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `Flow keeps the inventory of GPU racks and runs long operations on them.

Every command but serve, db and demo talks to a running server: --host and --port say where it is. Without
certificates Flow talks plain text to this machine only; see "flow help connection".`

const connectionLong = `Where the server is and how to talk to it, first hit wins:

  flags        --host --port --ca-cert --tls-cert --tls-key --server-name
  environment  FLOW_HOST FLOW_PORT FLOW_CA_CERT FLOW_TLS_CERT FLOW_TLS_KEY FLOW_SERVER_NAME

The three certificate files are given together or not at all. Without them Flow takes ca.crt, tls.crt and tls.key from
the directory in CERTDIR, else from /var/run/secrets/spiffe.io where that exists, as the server does. With certificates
the connection is mutual TLS, 1.2 or newer.

With no certificates anywhere the connection is plain text. That is allowed to this machine (localhost, 127.0.0.0/8,
::1); to any other host Flow refuses unless --insecure says that it is wanted. --insecure also leaves certificates
found in a directory aside.`

// cli is one run of the command line: what the process has, and the global flags.
type cli struct {
	process
	settings
}

// newRootCommand builds the whole command tree.
func newRootCommand(p process) *cobra.Command {
	c := &cli{process: p}
	root := &cobra.Command{
		Use:           "flow",
		Short:         "Inventory and operations of GPU racks",
		Long:          rootLong,
		Version:       buildInfo().GetVersion(),
		Args:          noCommand,
		RunE:          showHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd: cmd, err: err} })
	c.settings.register(root)
	root.AddGroup(
		&cobra.Group{ID: groupClient, Title: "Commands that talk to a server:"},
		&cobra.Group{ID: groupServer, Title: "Commands that are a server:"},
	)
	for _, cmd := range c.clientCommands() {
		cmd.GroupID = groupClient
		root.AddCommand(cmd)
	}
	for _, cmd := range c.serverCommands() {
		cmd.GroupID = groupServer
		root.AddCommand(ownsServer(cmd))
	}
	root.AddCommand(&cobra.Command{Use: "connection", Short: "How a client command finds and trusts the server", Long: connectionLong})
	return root
}

// The groups of the help.
const (
	groupClient = "client"
	groupServer = "server"
)

// clientCommands are the commands that need a running server, in the order of the help.
func (c *cli) clientCommands() []*cobra.Command {
	return []*cobra.Command{
		c.rackCommand(), c.componentCommand(), c.domainCommand(),
		c.powerCommand(), c.bringUpCommand(), c.ingestCommand(), c.decommissionCommand(),
		c.ruleCommand(), c.taskCommand(), c.versionCommand(),
	}
}

// serverCommands are the commands that start a server or work on its database: they take none of the client's flags.
func (c *cli) serverCommands() []*cobra.Command {
	return []*cobra.Command{
		c.serveCommand(),
		c.dbCommand(),
		c.demoCommand(startDemo),
	}
}

// parent is a command that only has commands. Called alone it prints its help.
func parent(use, short, long string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: noCommand, RunE: showHelp}
	cmd.AddCommand(children...)
	return cmd
}

// noCommand refuses an argument of a command that only has commands.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s (see %s --help)", text, cmd.CommandPath())
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// arguments checks the number of arguments; max < 0 is no limit. What says what they are, as in "a task id".
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return &usageError{cmd: cmd, err: fmt.Errorf("%s: needs %s", commandName(cmd), what)}
		case most >= 0 && len(args) > most:
			return &usageError{cmd: cmd, err: fmt.Errorf("%s: unexpected argument %q", commandName(cmd), args[most])}
		}
		return nil
	}
}

// commandName is the command without the name of the binary, as errors begin with it.
func commandName(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// serverUsage is cobra's usage without the global flags, all of which are for clients.
const serverUsage = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Available Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
`

// ownsServer makes a command and those below it refuse the flags that say where a server is, and leaves them out of
// its help. Hiding the flags themselves would hide them from every command.
func ownsServer(cmd *cobra.Command) *cobra.Command {
	cmd.SetUsageTemplate(serverUsage)
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range clientFlags {
			if f := cmd.InheritedFlags().Lookup(name); f != nil && f.Changed {
				return &usageError{cmd: cmd, err: fmt.Errorf("unknown flag: --%s", name)}
			}
		}
		return nil
	}
	return cmd
}
