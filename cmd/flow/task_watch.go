package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func (c *cli) taskWatchCommand() *cobra.Command {
	var racks listValue
	var all bool
	cmd := &cobra.Command{
		Use:   "watch (ID... | --rack RACKS | --all)",
		Short: "Follow tasks as they run",
		Long: `Follow tasks as they run: live on a terminal, a line for each event elsewhere, and with -o json a JSON object for each
event, one a line. A connection that breaks is made again, and no event is left out.

Tasks named by id are followed until all have ended; the exit code is 2 when one did not complete. With --rack or --all
Flow goes on with every task that comes until it is interrupted.`,
		Example: `  flow task watch 6f2c91d0-3b7e-4d7a-9d55-2f6f4f1d8a10
  flow task watch --rack rack-1
  flow task watch --all -o json`,
		ValidArgsFunction: c.completeTasks(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			ways := 0
			for _, given := range []bool{len(args) > 0, len(racks) > 0, all} {
				if given {
					ways++
				}
			}
			if ways != 1 {
				return &usageError{cmd: cmd, err: errors.New("task watch: give exactly one of ID, --rack and --all")}
			}
			if c.output == formatYAML {
				return fmt.Errorf("task watch: --output must be table or json, got %s", c.output)
			}
			ids, err := taskIDs(cmd, args)
			if err != nil {
				return err
			}
			s, err := c.dial(cmd)
			if err != nil {
				return err
			}
			p := newProgress()
			w := &watch{s: s, progress: p, ids: idTexts(ids), renderer: c.renderer(c.out, p, len(ids) == 0)}
			if c.output == formatJSON {
				w.renderer = &documents{w: c.out, err: c.err}
			}
			ctx, cancel := c.deadline(cmd.Context())
			defer cancel()
			for _, rack := range racks {
				id, err := s.rackID(ctx, rack)
				if err != nil {
					return c.callError(ctx, "task watch", err)
				}
				w.rackIDs = append(w.rackIDs, id.GetId())
			}
			err = w.run(cmd.Context())
			if len(w.ids) == 0 && errors.Is(err, context.Canceled) {
				return nil // the only way for it to end
			}
			return c.outcome(cmd, p, w.ids, err)
		},
	}
	cmd.Flags().Var(&racks, "rack", "follow the tasks of these racks, by id, external id or name, until interrupted")
	cmd.Flags().BoolVar(&all, "all", false, "follow all tasks until interrupted")
	must(cmd.RegisterFlagCompletionFunc("rack", c.completeRacks))
	return cmd
}
