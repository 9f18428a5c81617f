package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"rackflow.dev/flow/api/gen/flowv1"
)

// importAtOnce is how many racks are sent at a time: enough to keep a server busy that others use as well.
const importAtOnce = 8

// importOutcome is what became of a document.
type importOutcome string

const (
	importCreated    importOutcome = "created"
	importRefused    importOutcome = "refused"
	importUnanswered importOutcome = "unanswered" // it was sent; nobody knows
	importNotSent    importOutcome = "not sent"
)

// importedRack is a document and what became of it.
type importedRack struct {
	File  string `json:"file"`
	Name  string `json:"name"`
	ID    string `json:"id"` // empty when there is no such rack
	Error string `json:"error"`

	rack    *flowv1.Rack // nil when the document is no good
	outcome importOutcome
}

// rackImport takes many racks in. Each is created on its own: what one is refused for does not stop the others.
type rackImport struct {
	c    *cli
	list []importedRack
	bar  importBar

	mu sync.Mutex // guards the bar, and what the list says of racks that are sent
}

// importRacks checks all documents, sends the good ones, and says what became of each.
func (c *cli) importRacks(cmd *cobra.Command, sources []rackSource) error {
	s, err := c.dial(cmd)
	if err != nil {
		return err
	}
	m := &rackImport{c: c, list: make([]importedRack, len(sources)), bar: c.importBar(len(sources))}
	for i, source := range sources {
		m.check(&m.list[i], source)
	}
	m.send(cmd.Context(), s)
	m.bar.end()
	if err := c.printValue(m.list, m.table); err != nil {
		return err
	}
	return m.result(cmd.Context())
}

// check reads a document; what is wrong with it is said at once.
func (m *rackImport) check(r *importedRack, source rackSource) {
	r.File = source.name
	if source.err != nil {
		m.refuse(r, importRefused, source.reason())
		return
	}
	rack, warnings, err := parseRack(source.doc, asNew)
	if n := len(warnings); n > 0 {
		text := line(fmt.Sprintf("Warning: %s: %s", r.File, warnings[0]))
		if n > 1 { // a rack has dozens of controllers
			text += fmt.Sprintf(" (and %s more)", counted(n-1, "value"))
		}
		m.bar.show(text)
	}
	if err != nil {
		m.refuse(r, importRefused, err)
		return
	}
	r.rack, r.Name, r.outcome = rack, rack.GetInfo().GetName(), importNotSent
}

// send sends the good racks. An interrupt, or a server that can't be reached, lets the calls under way end and sends no
// more.
func (m *rackImport) send(ctx context.Context, s *client) {
	going, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var g errgroup.Group
	g.SetLimit(importAtOnce)
	for i := range m.list {
		r := &m.list[i]
		if r.rack == nil {
			continue
		}
		g.Go(func() error {
			switch {
			case ctx.Err() != nil:
				r.Error = "not sent: interrupted"
				return nil
			case going.Err() != nil:
				r.Error = "not sent: " + m.c.cause(context.Cause(going)).Error()
				return nil
			}
			call, cancel := m.c.deadline(context.WithoutCancel(ctx))
			defer cancel()
			_, err := s.flow.CreateExpectedRack(call, &flowv1.CreateExpectedRackRequest{Rack: r.rack})
			m.sent(r, err)
			if err != nil && !connect.IsWireError(err) && call.Err() == nil {
				stop(err)
			}
			return nil
		})
	}
	_ = g.Wait() // what went wrong is in the list
}

// sent takes over how a call ended.
func (m *rackImport) sent(r *importedRack, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answered := err == nil || connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeDeadlineExceeded
	if err == nil || !answered {
		r.ID = r.rack.GetInfo().GetId().GetId()
	}
	switch {
	case err == nil:
		r.outcome = importCreated
		m.bar.created++
		m.bar.show()
	case answered:
		m.refuse(r, importRefused, m.c.cause(err))
	default:
		m.refuse(r, importUnanswered, m.c.cause(err))
	}
}

// refuse says why a rack is not there, a line for each problem.
func (m *rackImport) refuse(r *importedRack, outcome importOutcome, err error) {
	problems := strings.Split(err.Error(), "\n")
	r.outcome, r.Error = outcome, strings.Join(problems, "; ")
	for i, p := range problems {
		problems[i] = line(r.File + ": " + p)
	}
	m.bar.others++
	m.bar.show(problems...)
}

func (m *rackImport) table(w io.Writer) error {
	rows := make([][]string, len(m.list))
	for i, r := range m.list {
		rows[i] = []string{r.File, r.Name, r.ID, string(r.outcome)}
	}
	return grid(w, []string{"FILE", "RACK", "ID", "RESULT"}, rows)
}

// result sums up, and is an error when a rack was not created.
func (m *rackImport) result(ctx context.Context) error {
	count := map[importOutcome]int{}
	for _, r := range m.list {
		count[r.outcome]++
	}
	text := fmt.Sprintf("%s created", counted(count[importCreated], "rack"))
	for _, o := range []importOutcome{importRefused, importUnanswered, importNotSent} {
		if count[o] > 0 {
			text += fmt.Sprintf(", %d %s", count[o], o)
		}
	}
	switch {
	case count[importCreated] == len(m.list):
		_, err := fmt.Fprintln(m.c.err, text)
		return err
	case count[importNotSent] > 0 && errors.Is(ctx.Err(), context.Canceled):
		return interrupted("Interrupted: " + text)
	}
	return &outcomeError{code: exitError, text: text}
}

// counted is a number of things in words.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
