package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

const (
	// rackErrorTrailer has one entry for each rack that got no task although others did.
	rackErrorTrailer = "flow-rack-error"
	// idempotencyHeader makes a server answer with the tasks of the first request that carried the same key.
	idempotencyHeader = "idempotency-key"

	maxIdempotencyKey = 255
	maxQueueTimeout   = 30 * 24 * time.Hour
)

// operation is one thing that can be done to racks, as the command line has it.
type operation struct {
	word  string
	short string
	long  string

	// What the request has room for.
	canForce     bool
	forceHelp    string
	canQueue     bool
	hasReadiness bool
	racksOnly    bool // no single components
	filters      bool // by what stands on the type plates of components

	// question is what is asked before the operation is started; empty: nothing is.
	question string

	// request is what is sent: to be done, or to be explained.
	request func(o submission) *flowopsv1.ExplainRequest
}

// submission is an operationRequest that has been checked.
type submission struct {
	target            *flowv1.OperationTargetSpec
	filters           []*flowv1.Filter
	rule              *flowv1.UUID
	description       string
	forced            bool
	overrideReadiness bool
	queue             *flowv1.QueueOptions
}

// operationRequest is the flags of a command that starts an operation.
type operationRequest struct {
	selector
	plate             plateFilter
	forced            bool
	description       string
	ruleID            string
	overrideReadiness bool
	queueing          queueing
	idempotencyKey    string
	explain           bool
	yes               bool
	wait              bool
}

func (r *operationRequest) register(c *cli, cmd *cobra.Command, op operation) {
	r.external = flowv1.ComponentType_COMPONENT_TYPE_COMPUTE
	r.racksOnly = op.racksOnly
	r.selector.register(c, cmd)
	f := cmd.Flags()
	if op.filters {
		r.plate.register(f)
	}
	if op.canForce {
		f.BoolVar(&r.forced, "forced", false, op.forceHelp)
	}
	f.StringVar(&r.description, "description", "", "text to keep with the tasks")
	f.StringVar(&r.ruleID, "rule-id", "", "id of the operation rule to follow instead of the one that applies")
	must(cmd.RegisterFlagCompletionFunc("rule-id", c.completeRules))
	if op.hasReadiness {
		f.BoolVar(&r.overrideReadiness, "override-readiness", false, "do not wait until the components are ready for the operation")
	}
	if op.canQueue {
		r.queueing.register(cmd)
	}
	f.StringVar(&r.idempotencyKey, "idempotency-key", "", "`KEY` of the request: sent again, it gives the tasks of the first time")
	f.BoolVar(&r.explain, "explain", false, "say what would be done, and do nothing")
	if op.question != "" {
		f.BoolVar(&r.yes, "yes", false, "do not ask")
	}
	f.BoolVar(&r.wait, "wait", false, "follow the tasks until all have ended")
}

// queueing is the flags that say what becomes of a task whose rack is in other hands.
type queueing struct {
	queue   bool
	timeout time.Duration
}

func (q *queueing) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&q.queue, "queue", false, "wait for the tasks of a rack that are in the way, instead of being refused")
	f.DurationVar(&q.timeout, "queue-timeout", 0, "with --queue: how long to wait at most, in whole seconds, up to 720h (default 1h)")
}

// options checks the flags; nil when none was given.
func (q *queueing) options(cmd *cobra.Command) (*flowv1.QueueOptions, error) {
	given := cmd.Flags().Changed("queue-timeout")
	text := ""
	switch {
	case !given:
	case !q.queue:
		text = "--queue-timeout goes with --queue"
	case q.timeout <= 0:
		text = fmt.Sprintf("--queue-timeout must be greater than 0, got %s", q.timeout)
	case q.timeout > maxQueueTimeout:
		text = fmt.Sprintf("--queue-timeout must be at most 720h (30 days), got %s", q.timeout)
	case q.timeout%time.Second != 0:
		text = fmt.Sprintf("--queue-timeout must be in whole seconds, got %s", q.timeout)
	}
	switch {
	case text != "":
		return nil, &usageError{cmd: cmd, err: fmt.Errorf("%s: %s", commandName(cmd), text)}
	case !q.queue:
		return nil, nil
	}
	return &flowv1.QueueOptions{
		ConflictStrategy:    flowv1.ConflictStrategy_CONFLICT_STRATEGY_QUEUE,
		QueueTimeoutSeconds: int32(q.timeout / time.Second),
	}, nil
}

// check makes a submission of what was typed.
func (r *operationRequest) check(cmd *cobra.Command, args []string) (submission, error) {
	o := submission{description: r.description, forced: r.forced, overrideReadiness: r.overrideReadiness, filters: r.plate.ofComponents()}
	var err error
	if o.target, err = r.target(cmd, args); err != nil {
		return o, err
	}
	if cmd.Flags().Changed("rule-id") {
		if o.rule, err = idFlag(cmd, "rule-id"); err != nil {
			return o, err
		}
	}
	if r.explain && r.wait {
		return o, &usageError{cmd: cmd, err: fmt.Errorf("%s: --explain and --wait are mutually exclusive", commandName(cmd))}
	}
	if r.explain && cmd.Flags().Changed("idempotency-key") {
		return o, &usageError{cmd: cmd, err: fmt.Errorf("%s: --explain and --idempotency-key are mutually exclusive", commandName(cmd))}
	}
	if cmd.Flags().Changed("idempotency-key") && !isKey(r.idempotencyKey) {
		return o, fmt.Errorf("%s: --idempotency-key must have 1 to %d letters, digits and signs of ASCII, and no space at its ends",
			commandName(cmd), maxIdempotencyKey)
	}
	if cmd.Flags().Lookup("queue") != nil {
		o.queue, err = r.queueing.options(cmd)
	}
	return o, err
}

// isKey reports whether a text can be sent in a header as it is.
func isKey(text string) bool {
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxIdempotencyKey && strings.TrimSpace(text) == text
}

// operate checks, submits, prints the ids, and follows the tasks when asked to; or explains.
func (c *cli) operate(cmd *cobra.Command, args []string, op operation, r *operationRequest) error {
	o, err := r.check(cmd, args)
	if err != nil {
		return err
	}
	request := op.request(o)
	if r.explain {
		return c.explain(cmd, request)
	}
	if op.question != "" && !r.yes {
		if err := c.confirm(cmd, fmt.Sprintf(op.question, r.selector.String())); err != nil {
			return err
		}
	}
	doing := commandName(cmd)
	s, err := c.dial(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := c.deadline(cmd.Context())
	defer cancel()
	call, info := connect.NewClientContext(ctx)
	if r.idempotencyKey != "" {
		info.RequestHeader().Set(idempotencyHeader, r.idempotencyKey)
	}
	resp, err := s.submit(call, request)
	if err != nil {
		return c.callError(ctx, doing+" "+r.selector.String(), err)
	}
	refused := info.ResponseTrailer().Values(rackErrorTrailer)
	for _, text := range refused {
		fmt.Fprintf(c.err, "Warning: no task for %s\n", line(refusedRack(text)))
	}
	if !r.wait || c.output == formatTable {
		// Before waiting: the ids are out even when the wait is cut short.
		if err := c.printTaskIDs(resp); err != nil {
			return err
		}
	}
	if r.wait {
		if err := c.waitFor(cmd, s, resp.GetTaskIds()); err != nil {
			return err
		}
	}
	if n := len(refused); n > 0 {
		return fmt.Errorf("%s: %d of %d racks got no task", doing, n, n+len(resp.GetTaskIds()))
	}
	return nil
}

// refusedRack is an entry of the trailer, "<rack> <code> <text>", for people.
func refusedRack(entry string) string {
	rack, rest, _ := strings.Cut(entry, " ")
	code, reason, ok := strings.Cut(rest, " ")
	if !ok {
		return "rack " + entry
	}
	return fmt.Sprintf("rack %s: %s (%s)", rack, reason, strings.ToLower(code))
}

// submit sends a request to be done.
func (s *client) submit(ctx context.Context, request *flowopsv1.ExplainRequest) (*flowv1.SubmitTaskResponse, error) {
	switch op := request.GetOperation().(type) {
	case *flowopsv1.ExplainRequest_PowerOn:
		return s.flow.PowerOnRack(ctx, op.PowerOn)
	case *flowopsv1.ExplainRequest_PowerOff:
		return s.flow.PowerOffRack(ctx, op.PowerOff)
	case *flowopsv1.ExplainRequest_PowerReset:
		return s.flow.PowerResetRack(ctx, op.PowerReset)
	case *flowopsv1.ExplainRequest_AcPowerCycle:
		return s.flow.ACPowerCycleRack(ctx, op.AcPowerCycle)
	case *flowopsv1.ExplainRequest_BringUp:
		return s.flow.BringUpRack(ctx, op.BringUp)
	case *flowopsv1.ExplainRequest_Ingest:
		return s.flow.IngestRack(ctx, op.Ingest)
	case *flowopsv1.ExplainRequest_Decommission:
		return s.flow.DecommissionRack(ctx, op.Decommission)
	}
	return nil, fmt.Errorf("no call does %T", request.GetOperation())
}

// confirm asks a person before something is done that can't be taken back. Where nobody can answer, --yes must have.
func (c *cli) confirm(cmd *cobra.Command, question string) error {
	doing := commandName(cmd)
	terminal := func(stream any) bool {
		w, ok := stream.(io.Writer)
		if !ok {
			return false
		}
		_, _, ok = c.size(w)
		return ok
	}
	if !terminal(c.in) || !terminal(c.err) {
		return errors.New(doing + ": there is no terminal to ask on: give --yes")
	}
	fmt.Fprintf(c.err, "%s Type yes to go on: ", line(question))
	answer := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(c.in).ReadString('\n') // the end of the input is a no
		answer <- text
	}()
	select {
	case <-cmd.Context().Done(): // the reader ends with the process
		return interrupted("\nInterrupted: " + doing)
	case text := <-answer:
		if strings.EqualFold(strings.TrimSpace(text), "yes") {
			return nil
		}
	}
	return errors.New(doing + ": nothing was done, as the answer was not yes")
}

// printTaskIDs prints the ids of new tasks.
func (c *cli) printTaskIDs(resp *flowv1.SubmitTaskResponse) error {
	ids := struct {
		TaskIDs []string `json:"task_ids"`
	}{TaskIDs: idTexts(resp.GetTaskIds())}
	return c.printValue(ids, func(w io.Writer) error {
		for _, id := range ids.TaskIDs {
			if _, err := fmt.Fprintln(w, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func idTexts(ids []*flowv1.UUID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.GetId()
	}
	return texts
}
