package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// control is a word of --op: the command that does what it says, or why none does.
type control struct {
	command string // a word of powerOperations
	forced  bool
	refusal string
}

const (
	noForcedOn  = "there is no forced power-on to ask the server for: use on"
	noWarmReset = "there is no warm reset to ask the server for: use restart, which powers off and on"
)

// controlWords are NICo Flow's words.
var controlWords = []word[control]{
	{"on", control{command: "on"}},
	{"force-on", control{refusal: noForcedOn}},
	{"off", control{command: "off"}},
	{"force-off", control{command: "off", forced: true}},
	{"restart", control{command: "reset"}},
	{"force-restart", control{command: "reset", forced: true}},
	{"warm-reset", control{refusal: noWarmReset}},
	{"cold-reset", control{command: "ac-cycle"}},
}

func (c *cli) powerControlCommand() *cobra.Command {
	r := operationRequest{selector: selector{typeRequired: true}}
	var op string
	cmd := &cobra.Command{
		Use:   "control --op WORD (" + scopeUsage + ")",
		Short: "Power operations by the words of NICo Flow",
		Long: `Power operations by the words of NICo Flow, for scripts written for it:

  on                        flow power on
  off, force-off            flow power off, with --forced
  restart, force-restart    flow power reset, with --forced
  cold-reset                flow power ac-cycle
  force-on, warm-reset      refused: the API has no call for them, and nothing else is done instead

Words may be in any letter case and without the hyphen. With racks, --type is required.`,
		Example: `  flow power control --op force-off --rack-names rack-1 --type compute
  flow power control --op cold-reset --component-ids machine-17 --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if op == "" {
				return &usageError{cmd: cmd, err: fmt.Errorf("power control: --op is required: %s", accepted(controlWords))}
			}
			w, err := parseWord(controlWords, "power operation", op)
			if err != nil {
				return fmt.Errorf("power control: %w", err)
			}
			if w.refusal != "" {
				return fmt.Errorf("power control: %s: %s", op, w.refusal)
			}
			r.forced = w.forced
			i := slices.IndexFunc(powerOperations, func(o operation) bool { return o.word == w.command })
			return c.operate(cmd, args, powerOperations[i], &r)
		},
	}
	r.register(c, cmd, operation{canQueue: true, hasReadiness: true})
	cmd.Flags().StringVar(&op, "op", "", "what to do: "+accepted(controlWords))
	must(cmd.RegisterFlagCompletionFunc("op", completeWords(controlWords)))
	return cmd
}
