package main

import (
	"context"
	"fmt"
	"time"

	"rackflow.dev/flow/api/gen/flowv1"
)

// load is a number of rounds of one task a rack, power off and power on in turn. The tasks of a round are submitted by
// one request; the next round begins when all have ended.
type load struct {
	rule     rule
	racks    int
	rounds   int
	pause    time.Duration // about this long before each round
	report   bool          // else nothing is noted
	gapsOnly bool
}

// load runs a load and notes what it showed.
func (b *bench) load(ctx context.Context, l load) error {
	var spent time.Duration
	var used cpu
	var own time.Duration
	var latencies, recorded, gaps []float64
	b.watch.resetPeak()
	for round := range l.rounds {
		if err := sleepAbout(ctx, l.pause); err != nil {
			return err
		}
		from, err := b.server.journalSize()
		if err != nil {
			return err
		}
		before, ownBefore := b.server.cpu(), ownCPU()
		began := time.Now()
		ids, err := b.submit(ctx, l, round%2 == 0 && l.rounds > 1)
		if err != nil {
			return err
		}
		ends, err := b.watch.await(ctx, ids)
		if err != nil {
			return err
		}
		own += ownCPU() - ownBefore // first: to read the others costs something, too
		after := b.server.cpu()
		used.flow += after.flow - before.flow
		used.postgres += after.postgres - before.postgres
		last := began
		for i, e := range ends {
			if e.status != flowv1.TaskStatus_TASK_STATUS_COMPLETED {
				return fmt.Errorf("task %s ended as %s: %s %s", ids[i], e.status, e.message, e.reason)
			}
			latencies = append(latencies, milliseconds(e.seen.Sub(began)))
			recorded = append(recorded, milliseconds(e.recorded.Sub(began)))
			if e.seen.After(last) {
				last = e.seen
			}
		}
		spent += last.Sub(began)
		found, err := b.server.gaps(from, b.racks[:l.racks], l.rule.kind.hold)
		if err != nil {
			return err
		}
		gaps = append(gaps, found...)
	}
	if !l.report {
		return nil
	}
	add := func(q quantity, v float64) { b.report.add(key{quantity: q, racks: l.racks, rule: l.rule.kind}, v) }
	if len(gaps) > 0 {
		add(gapMedian, percentile(gaps, 50))
		add(gapP95, percentile(gaps, 95))
	}
	if l.gapsOnly {
		return nil
	}
	tasks := float64(len(latencies))
	add(rate, tasks/spent.Seconds())
	if used.flow > 0 {
		add(cpuFlow, milliseconds(used.flow)/tasks)
	}
	if used.postgres > 0 {
		add(cpuPostgres, milliseconds(used.postgres)/tasks)
	}
	add(cpuBench, milliseconds(own)/tasks)
	add(latencyMedian, percentile(latencies, 50))
	add(latencyP95, percentile(latencies, 95))
	if l.racks == 1 {
		add(latencyRecorded, percentile(recorded, 50))
	}
	return nil
}

// submit asks for one operation on the first racks and returns the ids of the tasks.
func (b *bench) submit(ctx context.Context, l load, off bool) ([]string, error) {
	scope := rackTargets(b.racks[:l.racks])
	var res *flowv1.SubmitTaskResponse
	var err error
	if off {
		res, err = b.client.flow.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: scope, RuleId: &flowv1.UUID{Id: l.rule.off}})
	} else {
		res, err = b.client.flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: scope, RuleId: &flowv1.UUID{Id: l.rule.on}})
	}
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	ids := make([]string, len(res.GetTaskIds()))
	for i, id := range res.GetTaskIds() {
		ids[i] = id.GetId()
	}
	if len(ids) != l.racks {
		return nil, fmt.Errorf("submit: %d racks got %d tasks", l.racks, len(ids))
	}
	return ids, nil
}
