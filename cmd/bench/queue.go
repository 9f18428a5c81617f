package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

const (
	queueRacks    = 100
	queueDeep     = 5 // one that runs and four that wait
	explainRacks  = bigRacks
	explainCalls  = 10
	queueTimeout  = 600 // s; longer than it takes
	reportDetails = "--report-components"
)

// measureQueue fills the queues of that many racks, five tasks deep, and notes how they drain. By the built-in rule, which
// has nothing to wait for here, the racks together ask for all that the server can do: what lies between two tasks of a rack
// is then the turns of all others. By a rule that takes its time it is what a promotion takes.
func (b *bench) measureQueue(ctx context.Context, racks int, r rule) error {
	before, began := b.server.cpu(), time.Now()
	var rounds [][]string // ids of the tasks, a list for each round of submissions
	var all []string
	for range queueDeep {
		ids, err := b.submitQueued(ctx, racks, r)
		if err != nil {
			return err
		}
		rounds, all = append(rounds, ids), append(all, ids...)
	}
	ends, err := b.watch.await(ctx, all)
	if err != nil {
		return err
	}
	last := began
	for i, e := range ends {
		if e.status != flowv1.TaskStatus_TASK_STATUS_COMPLETED {
			return fmt.Errorf("task %s ended as %s: %s %s", all[i], e.status, e.message, e.reason)
		}
		if e.seen.After(last) {
			last = e.seen
		}
	}
	gaps, overtakings := b.watch.queueGaps(rounds)
	if len(gaps) != (queueDeep-1)*racks {
		return fmt.Errorf("%d tasks followed another one, want %d", len(gaps), (queueDeep-1)*racks)
	}
	add := func(q quantity, v float64) { b.report.add(key{quantity: q, racks: racks, rule: r.kind}, v) }
	if used := b.server.cpu().flow - before.flow; used > 0 {
		add(queueCPU, milliseconds(used)/float64(len(all)))
	}
	add(queueDrain, last.Sub(began).Seconds())
	add(queueOvertakings, float64(overtakings))
	add(queueGapMedian, percentile(gaps, 50))
	add(queueGapP95, percentile(gaps, 95))
	add(queueGapMax, percentile(gaps, 100))
	return nil
}

// submitQueued asks for one more task on every rack, by a stored rule or else the built-in one.
func (b *bench) submitQueued(ctx context.Context, racks int, r rule) ([]string, error) {
	req := &flowv1.PowerOnRackRequest{
		TargetSpec: rackTargets(b.racks[:racks]),
		QueueOptions: &flowv1.QueueOptions{
			ConflictStrategy: flowv1.ConflictStrategy_CONFLICT_STRATEGY_QUEUE, QueueTimeoutSeconds: queueTimeout,
		},
	}
	if r.on != "" {
		req.RuleId = &flowv1.UUID{Id: r.on}
	}
	res, err := b.client.flow.PowerOnRack(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	ids := make([]string, len(res.GetTaskIds()))
	for i, id := range res.GetTaskIds() {
		ids[i] = id.GetId()
	}
	if len(ids) != racks {
		return nil, fmt.Errorf("submit: %d racks got %d tasks", racks, len(ids))
	}
	return ids, nil
}

func rackTargets(racks []rack) *flowv1.OperationTargetSpec {
	targets := &flowv1.RackTargets{}
	for _, r := range racks {
		targets.Targets = append(targets.Targets, &flowv1.RackTarget{Identifier: &flowv1.RackTarget_Id{Id: &flowv1.UUID{Id: r.id}}})
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: targets}}
}

// span is when a task ran, as the server recorded it.
type span struct {
	rack       string
	start, end time.Time
}

// queueGaps is how long each rack was left alone between two tasks, in ms, and how many of the tasks began before one that
// was submitted earlier. The tasks are those of rounds of submissions.
func (w *watcher) queueGaps(rounds [][]string) (gaps []float64, overtakings int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := map[string]span{}
	for _, ids := range rounds {
		for _, id := range ids {
			s := w.spans[id]
			if before, ok := last[s.rack]; ok {
				gaps = append(gaps, milliseconds(s.start.Sub(before.end)))
				if s.start.Before(before.end) {
					overtakings++
				}
			}
			last[s.rack] = s
		}
	}
	return gaps, overtakings
}

// measureExplain times the explanation of an operation on many racks.
func (b *bench) measureExplain(ctx context.Context) error {
	req := &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOn{
		PowerOn: &flowv1.PowerOnRackRequest{TargetSpec: rackTargets(b.racks[:explainRacks])},
	}}
	var took []float64
	for range explainCalls {
		began := time.Now()
		res, err := b.client.ops.Explain(ctx, req)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		if len(res.GetRacks()) != explainRacks {
			return fmt.Errorf("explain: %d racks of %d", len(res.GetRacks()), explainRacks)
		}
		took = append(took, milliseconds(time.Since(began)))
	}
	b.report.add(key{quantity: explainMedian, racks: explainRacks}, percentile(took, 50))
	return nil
}

// measureReport notes how large the report of a task on a whole rack is.
func (b *bench) measureReport(ctx context.Context, q quantity) error {
	res, err := b.client.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: rackTargets(b.racks[:1])})
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	if _, err := b.watch.await(ctx, []string{res.GetTaskIds()[0].GetId()}); err != nil {
		return err
	}
	got, err := b.client.flow.GetTasksByIDs(ctx, &flowv1.GetTasksByIDsRequest{TaskIds: res.GetTaskIds()})
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	size := len(got.GetTasks()[0].GetReport())
	if size == 0 {
		return errors.New("report: there is none")
	}
	b.report.add(key{quantity: q}, float64(size))
	return nil
}

// measureDetails measures the report of a server that tells of single components. It is a server of its own for the
// moment: what is measured otherwise is one with the defaults.
func (b *bench) measureDetails(ctx context.Context, dataDir string) (err error) {
	d := &bench{options: b.options, progress: b.progress, report: &report{}}
	if d.server, _, err = startServer(ctx, b.flow, dataDir, reportDetails); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.server.stop()) }()
	d.client, d.watch = dial(d.server.addr), newWatcher()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go d.watch.run(ctx, d.client)
	if err := d.createRacks(ctx, 1); err != nil {
		return err
	}
	d.report = b.report
	return d.measureReport(ctx, reportDetailed)
}
