package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"
)

// Sizes of the loads. Rounds are even in number, so that every rack is on again after a run.
const (
	idleRounds  = 30 // tasks one after the other on an idle server
	smallRacks  = 50
	smallRounds = 6
	gapRacks    = 200
	gapRounds   = 2
	bigRacks    = 500
	bigRounds   = 2
	largeRacks  = 5000
	largeTasks  = 1000

	// How long a stage lasts where tasks are to overlap: shortly for gaps, and long enough that all of them have
	// started before the first ends where memory is measured.
	holdGap    = time.Second
	holdMemory = 2 * time.Second
	holdLarge  = 5 * time.Second

	idlePause = 50 * time.Millisecond // between tasks on an idle server, give or take a half
	settle    = 1500 * time.Millisecond
)

// bench is one execution of the program.
type bench struct {
	options
	progress io.Writer
	report   *report

	server *server
	client *client
	watch  *watcher
	racks  []rack
}

// measure runs everything and fills the report.
func (b *bench) measure(ctx context.Context) (err error) {
	if b.addr != "" {
		b.server = &server{addr: b.addr, pid: b.pid, dataDir: b.dataDir, source: "of the server measured"}
	} else {
		dir, err := os.MkdirTemp("", "flow-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		// The server may run PostgreSQL under another account, which must be able to pass.
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
		start := b.coldStarts
		if b.inventory {
			start = b.startOnce
		}
		if err := start(ctx, dir); err != nil {
			return err
		}
		if !b.inventory {
			b.say("a report with components")
			if err := b.measureDetails(ctx, dir+"/details"); err != nil {
				return errors.Join(err, b.server.stop())
			}
		}
		defer func() {
			if stop := b.server.stop(); err == nil {
				err = stop
			}
		}()
	}
	b.client = dial(b.server.addr)
	if err := b.report.describe(ctx, b.server, b.client); err != nil {
		return err
	}
	if b.inventory {
		return b.measureInventory(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.watch = newWatcher()
	go b.watch.run(ctx, b.client)
	return b.loads(ctx)
}

func (b *bench) startOnce(ctx context.Context, dir string) (err error) {
	b.server, _, err = startServer(ctx, b.flow, dir+"/0")
	return err
}

// coldStarts starts a server for the first time ever and again, each run in a new directory, and leaves the last one
// running.
func (b *bench) coldStarts(ctx context.Context, dir string) error {
	for run := range b.runs {
		b.say("run %d of %d: cold start", run+1, b.runs)
		dataDir := fmt.Sprintf("%s/%d", dir, run)
		for _, q := range []quantity{coldFirst, coldAgain} {
			if b.server != nil {
				if err := b.server.stop(); err != nil {
					return err
				}
			}
			var err error
			var took time.Duration
			if b.server, took, err = startServer(ctx, b.flow, dataDir); err != nil {
				return err
			}
			b.report.add(key{quantity: q}, took.Seconds())
		}
		if err := sleep(ctx, settle); err != nil {
			return err
		}
		b.report.add(key{quantity: memoryIdle}, b.server.memory().resident)
		began, before := time.Now(), b.server.cpu()
		if err := sleep(ctx, settle); err != nil {
			return err
		}
		b.report.add(key{quantity: cpuIdle}, milliseconds(b.server.cpu().flow-before.flow)/time.Since(began).Seconds())
	}
	return nil
}

// loads puts the loads on the server, run by run, so that a disturbance hits one run of each rather than all of one.
func (b *bench) loads(ctx context.Context) error {
	if err := b.createRacks(ctx, bigRacks); err != nil {
		return err
	}
	var stored []rule
	for _, kind := range []ruleKind{{}, {verify: true}, {hold: holdGap}, {hold: holdMemory}} {
		r, err := b.createRule(ctx, kind)
		if err != nil {
			return err
		}
		defer b.deleteRule(ctx, r)
		stored = append(stored, r)
	}
	bare, verified, slow, slower := stored[0], stored[1], stored[2], stored[3]

	b.say("warming up")
	if err := b.load(ctx, load{rule: verified, racks: smallRacks, rounds: 2}); err != nil {
		return err
	}
	for run := range b.runs {
		before := b.server.usage()
		for _, r := range []rule{bare, verified} {
			for _, l := range []load{
				{rule: r, racks: 1, rounds: idleRounds, pause: idlePause},
				{rule: r, racks: smallRacks, rounds: smallRounds},
				{rule: r, racks: gapRacks, rounds: gapRounds},
				{rule: r, racks: bigRacks, rounds: bigRounds},
			} {
				b.say("run %d of %d: %s, racks: %d", run+1, b.runs, r.kind, l.racks)
				l.report = true
				if err := b.load(ctx, l); err != nil {
					return err
				}
			}
		}
		b.say("run %d of %d: %s, racks: %d", run+1, b.runs, slow.kind, gapRacks)
		if err := b.load(ctx, load{rule: slow, racks: gapRacks, rounds: 1, gapsOnly: true, report: true}); err != nil {
			return err
		}
		for _, q := range []struct {
			racks int
			rule  rule
		}{{1, rule{}}, {queueRacks, rule{}}, {queueRacks, slow}} {
			b.say("run %d of %d: tasks queued %d deep, racks: %d", run+1, b.runs, queueDeep, q.racks)
			if err := b.measureQueue(ctx, q.racks, q.rule); err != nil {
				return err
			}
		}
		b.say("run %d of %d: explaining and reporting", run+1, b.runs)
		if err := errors.Join(b.measureExplain(ctx), b.measureReport(ctx, reportPlain)); err != nil {
			return err
		}
		b.say("run %d of %d: memory with %d tasks running", run+1, b.runs, bigRacks)
		if err := b.memoryUnder(ctx, slower, memoryBusy, bigRacks); err != nil {
			return err
		}
		if after := b.server.usage(); after.served {
			b.report.add(key{quantity: cpuOthers}, after.othersSince(before))
		}
	}
	if b.large {
		return b.measureLarge(ctx)
	}
	return nil
}

func (b *bench) measureLarge(ctx context.Context) error {
	if err := b.createRacks(ctx, largeRacks); err != nil {
		return err
	}
	r, err := b.createRule(ctx, ruleKind{hold: holdLarge})
	if err != nil {
		return err
	}
	defer b.deleteRule(ctx, r)
	for run := range b.runs {
		b.say("run %d of %d: memory with %d racks and %d tasks running", run+1, b.runs, largeRacks, largeTasks)
		if err := b.memoryUnder(ctx, r, memoryLarge, largeTasks); err != nil {
			return err
		}
	}
	return nil
}

// memoryUnder notes the most memory the server had while that many tasks ran at once.
func (b *bench) memoryUnder(ctx context.Context, r rule, q quantity, tasks int) error {
	most := b.server.watchMemory()
	err := b.load(ctx, load{rule: r, racks: tasks, rounds: 1})
	resident := most()
	if err != nil {
		return err
	}
	k := key{quantity: q, racks: len(b.racks), rule: r.kind}
	b.report.add(k, resident)
	k.quantity = tasksAtOnce
	b.report.add(k, float64(b.watch.peak()))
	b.report.add(key{quantity: memoryEver}, b.server.memory().highest)
	return nil
}

// sleepAbout waits for d give or take a half, so that nothing falls into step with the server's own rhythms.
func sleepAbout(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	return sleep(ctx, d/2+rand.N(d))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, format+"\n", args...)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
