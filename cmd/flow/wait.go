package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// renderer picks how a watch is shown: live where the stream is a terminal that can do it, as lines elsewhere.
func (c *cli) renderer(w io.Writer, p *progress, endless bool) renderer {
	_, _, terminal := c.size(w)
	s, able := newStyle(c.getenv)
	if !terminal || !able {
		return &lines{w: w, progress: p, now: c.now, endless: endless}
	}
	l := newLive(w, p, s, func() (int, int) {
		width, height, ok := c.size(w)
		if !ok {
			return 80, 24
		}
		return width, height
	}, c.now)
	l.endless = endless
	return l
}

// waitFor follows tasks that were just submitted until all have ended. What it shows goes to standard error: standard
// output has the ids, or with -o json the tasks as they ended.
func (c *cli) waitFor(cmd *cobra.Command, s *client, ids []*flowv1.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	p := newProgress()
	w := &watch{s: s, progress: p, renderer: c.renderer(c.err, p, false), ids: idTexts(ids), patient: true}
	err := w.run(cmd.Context())
	if c.output != formatTable {
		if printErr := c.printOutcomes(p); printErr != nil {
			return printErr
		}
	}
	return c.outcome(cmd, p, w.ids, err)
}

// outcome is how a command ends that followed tasks to their end.
func (c *cli) outcome(cmd *cobra.Command, p *progress, ids []string, err error) error {
	doing := commandName(cmd)
	switch {
	case errors.Is(err, context.Canceled):
		return interrupted(stillRunning(cmd, p, ids))
	case err != nil:
		return c.callError(cmd.Context(), doing, err)
	}
	var bad []string
	for _, id := range ids {
		if t := p.byID[id]; t.status != flowv1.TaskStatus_TASK_STATUS_COMPLETED {
			bad = append(bad, fmt.Sprintf("task %s of rack %s is %s", t.id, line(t.rack), statusWord(t.status)))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	text := bad[0]
	if len(ids) > 1 {
		text = fmt.Sprintf("%d of %d tasks did not complete: %s", len(bad), len(ids), strings.Join(bad[:min(3, len(bad))], "; "))
		if len(bad) > 3 {
			text += "; ..."
		}
	}
	return &outcomeError{code: exitTaskFailed, text: fmt.Sprintf("Error: %s: %s", doing, text)}
}

// stillRunning says what goes on after a watch was interrupted, and how to get back to it.
func stillRunning(cmd *cobra.Command, p *progress, ids []string) string {
	var open []string
	for _, id := range ids {
		if t, ok := p.byID[id]; !ok || !final(t.status) {
			open = append(open, id)
		}
	}
	what := "the task goes on"
	if len(open) > 1 {
		what = fmt.Sprintf("%d tasks go on", len(open))
	}
	flags := connectionFlags(cmd)
	watch, cancel := "flow task watch"+flags+" "+strings.Join(open, " "), "flow task cancel"+flags+" "+strings.Join(open, " ")
	if len(open) > 5 {
		watch, cancel = "flow task watch"+flags+" --all", "flow task cancel"+flags+" ID..., by flow task list"+flags+" --active"
	}
	return fmt.Sprintf("\nStopped watching; %s.\n  watch:   %s\n  cancel:  %s", what, watch, cancel)
}

// connectionFlags repeats the flags that say where the server is.
func connectionFlags(cmd *cobra.Command) string {
	var b strings.Builder
	for _, name := range clientFlags {
		if name == "timeout" || name == "output" {
			continue
		}
		f := cmd.Flags().Lookup(name)
		switch {
		case f == nil || !cmd.Root().PersistentFlags().Changed(name):
		case f.Value.Type() == "bool":
			fmt.Fprintf(&b, " --%s", name)
		default:
			fmt.Fprintf(&b, " --%s %s", name, shellWord(f.Value.String()))
		}
	}
	return b.String()
}

// shellWord is a text as a shell takes it for one word.
func shellWord(text string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_./:@%+=,-", r)
	}
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// taskOutcome is how a task ended, for scripts.
type taskOutcome struct {
	ID      string `json:"id"`
	RackID  string `json:"rack_id"`
	Rack    string `json:"rack"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Error   string `json:"error,omitempty"`
}

func (c *cli) printOutcomes(p *progress) error {
	list := struct {
		TaskIDs []string      `json:"task_ids"`
		Tasks   []taskOutcome `json:"tasks"`
	}{}
	for _, t := range p.tasks {
		list.TaskIDs = append(list.TaskIDs, t.id)
		list.Tasks = append(list.Tasks, taskOutcome{
			ID: t.id, RackID: t.rackID, Rack: t.rack, Status: statusWord(t.status), Message: t.message, Error: t.err,
		})
	}
	return c.printValue(list, func(io.Writer) error { return nil })
}

// documents shows a watch as JSON, one event a line.
type documents struct {
	w, err io.Writer
}

func (*documents) known(*taskProgress) {}

func (d *documents) event(_ *taskProgress, ev *flowopsv1.TaskEvent) {
	doc, err := messageJSON(ev)
	if err == nil {
		_, err = d.w.Write(append(doc, '\n'))
	}
	if err != nil {
		d.notice(err.Error())
	}
}

func (d *documents) notice(text string) {
	if text != "" {
		fmt.Fprintf(d.err, "Warning: %s\n", line(text))
	}
}

func (*documents) tick() {}

func (*documents) end() {}
