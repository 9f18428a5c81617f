package rpc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

func explainOff(options *flowv1.QueueOptions, targets ...*flowv1.RackTarget) *flowopsv1.ExplainRequest {
	return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOff{
		PowerOff: &flowv1.PowerOffRackRequest{TargetSpec: racks(targets...), QueueOptions: options},
	}}
}

func explainOn(rule *flowv1.UUID, targets ...*flowv1.RackTarget) *flowopsv1.ExplainRequest {
	return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOn{
		PowerOn: &flowv1.PowerOnRackRequest{TargetSpec: racks(targets...), RuleId: rule},
	}}
}

// explained asks what a request would do, and fails the test when the question changes anything.
func (s *site) explained(t *testing.T, req *flowopsv1.ExplainRequest) []*flowopsv1.RackExplanation {
	t.Helper()
	before := s.contents()
	res, err := s.ops.Explain(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if s.contents() != before {
		t.Error("the question has changed something")
	}
	return res.GetRacks()
}

// TestAnExplanationSaysWhatWouldBecomeOfEachRack has rack 1 free, rack 2 in other hands with a task that waits, rack 3 the
// same with its queue full.
func TestAnExplanationSaysWhatWouldBecomeOfEachRack(t *testing.T) {
	t.Parallel()
	overEachParked(t, func(s *task.Service) { s.Settings.QueueLimit = 2 }, func(t *testing.T, p *plant) {
		var targets []*flowv1.RackTarget
		for n := 1; n <= 3; n++ {
			targets = append(targets, p.wholeRack(n))
		}
		var tasks [][]string // those of racks 2 and 3
		for n := 2; n <= 3; n++ {
			active := p.must(nil, byID(testID(1, n, 0), compute)).GetId().GetId()
			ids := []string{active}
			for range n - 1 {
				ids = append(ids, p.must(queue(0), targets[n-1]).GetId().GetId())
			}
			tasks = append(tasks, ids)
		}
		started, queued, refusedOne := flowopsv1.Admission_ADMISSION_STARTED, flowopsv1.Admission_ADMISSION_QUEUED, flowopsv1.Admission_ADMISSION_REFUSED
		for name, c := range map[string]struct {
			options *flowv1.QueueOptions
			want    []flowopsv1.Admission
		}{
			"when conflicts are refused": {nil, []flowopsv1.Admission{started, refusedOne, refusedOne}},
			"when it may wait":           {queue(60), []flowopsv1.Admission{started, queued, refusedOne}},
		} {
			t.Run(name, func(t *testing.T) {
				all := p.explained(t, explainOff(c.options, targets[2], targets[0], targets[1]))
				if len(all) != 3 {
					t.Fatalf("%d racks", len(all))
				}
				for i, e := range all {
					if want := testID(1, i+1, 0).GetId(); e.GetRackId().GetId() != want || e.GetRackName() != fmt.Sprint("rack-", i+1) {
						t.Errorf("rack %s %q in place %d", e.GetRackId().GetId(), e.GetRackName(), i)
					}
					if e.GetAdmission() != c.want[i] || e.GetRuleSource() != flowopsv1.RuleSource_RULE_SOURCE_BUILTIN {
						t.Errorf("rack %d: %v by %v: %s", i+1, e.GetAdmission(), e.GetRuleSource(), e.GetReason())
					}
					var got []string
					for j, conflict := range e.GetConflicts() {
						got = append(got, conflict.GetTaskId().GetId())
						status := waiting
						if j == 0 {
							status = pending
						}
						if conflict.GetStatus() != status || conflict.GetOperation() != "power_control/power_off" || conflict.GetRule() != "C1" {
							t.Errorf("rack %d: conflict %v", i+1, conflict)
						}
					}
					var want []string
					if i > 0 {
						want = tasks[i-1]
					}
					if d := cmp.Diff(want, got); d != "" {
						t.Errorf("rack %d: conflicts, oldest first (-want +got):\n%s", i+1, d)
					}
					if (e.GetReason() == "") != (i == 0) || i > 0 && !strings.Contains(e.GetReason(), tasks[i-1][0]) {
						t.Errorf("rack %d: reason %q", i+1, e.GetReason())
					}
					if e.GetPlan() == nil {
						t.Errorf("rack %d has no plan", i+1)
					}
				}
				// What is said is what happens.
				ids, trailers, err := p.powerOff(t.Context(), c.options, targets...)
				p.exec("DELETE FROM task WHERE id = ANY ($1::uuid[])", each(ids, (*flowv1.UUID).GetId))
				p.exec("UPDATE rack SET waiting = (SELECT count(*) FROM task WHERE rack_id = rack.id AND state = 'waiting')")
				if err != nil || len(trailers) != 3-len(ids) {
					t.Fatalf("%d tasks, trailers %q, %v", len(ids), trailers, err)
				}
				for _, e := range all {
					refusal := slices.IndexFunc(trailers, func(s string) bool { return strings.HasPrefix(s, e.GetRackId().GetId()) })
					if (refusal >= 0) != (e.GetAdmission() == refusedOne) || refusal >= 0 && !strings.HasSuffix(trailers[refusal], e.GetReason()) {
						t.Errorf("rack %s: explained %v because %q, and then %q", e.GetRackId().GetId(), e.GetAdmission(), e.GetReason(), trailers)
					}
				}
			})
		}
	})
}

func TestAnExplanationSaysWhereTheRuleComesFrom(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		one, two := p.wholeRack(1), p.wholeRack(2)
		trays := func(n int) string {
			return fmt.Sprintf(`{"steps": [{"component_type": "Compute", "stage": %d, "main_operation": {"name": "PowerControl"}}]}`, n)
		}
		asked, bound, standard := p.rule("asked", trays(1)), p.rule("bound", trays(2)), p.rule("standard", trays(3))
		sources := func(rule *flowv1.UUID) string {
			var got []string
			for _, e := range p.explained(t, explainOn(rule, one, two)) {
				got = append(got, strings.TrimPrefix(e.GetRuleSource().String(), "RULE_SOURCE_")+" "+e.GetPlan().GetRuleName())
			}
			return strings.Join(got, ", ")
		}
		check := func(rule *flowv1.UUID, want string) {
			t.Helper()
			if got := sources(rule); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		builtin := strings.TrimPrefix(strings.Split(sources(nil), ", ")[0], "BUILTIN ")
		check(nil, "BUILTIN "+builtin+", BUILTIN "+builtin)
		p.exec("UPDATE operation_rule SET is_default = true WHERE id = $1", standard.GetId())
		check(nil, "DEFAULT standard, DEFAULT standard")
		p.exec("INSERT INTO rack_rule (rack_id, operation_type, operation_code, rule_id) VALUES ($1, 'power_control', 'power_on', $2)", two.GetId().GetId(), bound.GetId())
		check(nil, "DEFAULT standard, ASSOCIATION bound")
		check(asked, "REQUEST asked, REQUEST asked")
	})
}

// TestAnExplanationNamesWhatIsNotReady has four trays of a rack in several phases, and another rack whose tray is in error.
func TestAnExplanationNamesWhatIsNotReady(t *testing.T) {
	t.Parallel()
	for missing, c := range map[task.Missing]struct{ whole, tray string }{
		task.MissingAllow:  {"a blocks: it is ERROR, c: its status is not known, d: its status is too old", "d: its status is too old"},
		task.MissingBlock:  {"a blocks: it is ERROR, c blocks: its status is not known, d blocks: its status is too old", "d blocks: its status is too old"},
		task.MissingIgnore: {"a blocks: it is ERROR", ""},
	} {
		t.Run(string(missing), func(t *testing.T) {
			t.Parallel()
			p := serveTasks(t, func(s *task.Service) { s.Settings.Readiness.Missing = missing })
			for n := 1; n <= 2; n++ {
				r := testRack(n, 0)
				for i, name := range []string{"d", "c", "b", "a"}[:5-n*n] {
					r.Components = append(r.Components, part(n, i+1, compute, name, fmt.Sprintf("core-%d-%d", n, i)))
				}
				r.Components = append(r.Components, part(n, 9, shelf, "p", fmt.Sprintf("core-%d-9", n)))
				p.create(r)
			}
			p.exec(`UPDATE component SET phase = CASE name WHEN 'a' THEN 'ERROR' WHEN 'b' THEN 'READY' WHEN 'c' THEN 'UNKNOWN' ELSE 'IN_USE' END,
				phase_at = now() - CASE name WHEN 'd' THEN interval '6 minutes' ELSE interval '4 minutes' END WHERE rack_id = $1`, testID(1, 1, 0).GetId())
			p.exec("UPDATE component SET phase = 'ERROR', phase_at = now() WHERE rack_id = $1", testID(1, 2, 0).GetId())
			unready := func(req *flowopsv1.ExplainRequest) string {
				var got []string
				for _, e := range p.explained(t, req)[:1] {
					for _, b := range e.GetBlockedComponents() {
						how := b.GetName()
						if b.GetBlocks() {
							how += " blocks"
						}
						got = append(got, how+": "+b.GetReason())
						if b.GetComponentId().GetId() == "" || b.GetComponentType() != "Compute" {
							t.Errorf("component %v", b)
						}
					}
				}
				return strings.Join(got, ", ")
			}
			check := func(what, want string, req *flowopsv1.ExplainRequest) {
				t.Helper()
				if got := unready(req); got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			rack := byID(testID(1, 1, 0))
			check("the whole rack", c.whole, explainOff(nil, rack))
			check("with another rack", c.whole, explainOff(nil, rack, byID(testID(1, 2, 0))))
			check("the shelf, which feeds every tray", c.whole, explainOff(nil, byID(testID(1, 1, 0), shelf)))
			tray := func(n int) *flowopsv1.ExplainRequest {
				return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOff{
					PowerOff: &flowv1.PowerOffRackRequest{TargetSpec: components(componentID(testID(2, 1, n)))},
				}}
			}
			check("a tray", c.tray, tray(1))
			check("a tray that is ready", "", tray(3))
			over := explainOff(nil, rack)
			over.GetPowerOff().OverrideReadinessCheck = true
			check("the check overridden", "", over)
			looks := p.rule("looks", `{"steps": [{"component_type": "PowerShelf", "stage": 1, "main_operation": {"name": "GetPowerStatus", "timeout": "5s"}}]}`)
			check("nothing disruptive", "", explainOn(looks, rack))
		})
	}
}

// TestAnExplanationIsRefusedAsTheOperationIs compares the two word by word.
func TestAnExplanationIsRefusedAsTheOperationIs(t *testing.T) {
	t.Parallel()
	p := yard(t)
	none := p.rule("none", `{}`)
	rack := func(n int) *flowv1.RackTarget { return byID(testID(1, n, 0)) }
	for name, c := range map[string]struct {
		spec *flowv1.OperationTargetSpec
		rule *flowv1.UUID
	}{
		"no spec":            {nil, nil},
		"an empty spec":      {&flowv1.OperationTargetSpec{}, nil},
		"a malformed rule":   {racks(rack(1)), &flowv1.UUID{Id: "x"}},
		"an unknown rule":    {racks(rack(1)), testID(9, 9, 9)},
		"an unknown rack":    {racks(byName("nobody")), nil},
		"an ambiguous rack":  {racks(byName("twin")), nil},
		"no racks":           {domains(domainName("void")), nil},
		"no components":      {racks(rack(1), rack(14)), nil},
		"loose components":   {racks(rack(11)), nil},
		"a rule of no steps": {racks(rack(1)), none},
		"no applicable step": {racks(rack(13)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			req := &flowv1.PowerOnRackRequest{TargetSpec: c.spec, RuleId: c.rule}
			_, want := p.grpc.PowerOnRack(t.Context(), req)
			if want == nil {
				t.Fatal("the operation is not refused")
			}
			p.refuses(t, func() error {
				_, err := p.ops.Explain(t.Context(), &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOn{PowerOn: req}})
				if err != nil && err.Error() != want.Error() {
					t.Errorf("explained: %v; refused: %v", err, want)
				}
				return err
			}, connect.CodeOf(want))
		})
	}
	p.refuses(t, func() error {
		_, err := p.ops.Explain(t.Context(), &flowopsv1.ExplainRequest{})
		return err
	}, connect.CodeInvalidArgument, "operation")
}

func TestEveryOperationCanBeExplained(t *testing.T) {
	t.Parallel()
	overEachParked(t, nil, func(t *testing.T, p *plant) {
		spec := racks(p.wholeRack(1))
		for want, req := range map[string]*flowopsv1.ExplainRequest{
			"power_control/power_on":        {Operation: &flowopsv1.ExplainRequest_PowerOn{PowerOn: &flowv1.PowerOnRackRequest{TargetSpec: spec}}},
			"power_control/power_off":       {Operation: &flowopsv1.ExplainRequest_PowerOff{PowerOff: &flowv1.PowerOffRackRequest{TargetSpec: spec}}},
			"power_control/force_power_off": {Operation: &flowopsv1.ExplainRequest_PowerOff{PowerOff: &flowv1.PowerOffRackRequest{TargetSpec: spec, Forced: true}}},
			"power_control/restart":         {Operation: &flowopsv1.ExplainRequest_PowerReset{PowerReset: &flowv1.PowerResetRackRequest{TargetSpec: spec}}},
			"power_control/force_restart":   {Operation: &flowopsv1.ExplainRequest_PowerReset{PowerReset: &flowv1.PowerResetRackRequest{TargetSpec: spec, Forced: true}}},
			"power_control/cold_reset":      {Operation: &flowopsv1.ExplainRequest_AcPowerCycle{AcPowerCycle: &flowv1.ACPowerCycleRackRequest{TargetSpec: spec}}},
			"bring_up/bring_up":             {Operation: &flowopsv1.ExplainRequest_BringUp{BringUp: &flowv1.BringUpRackRequest{TargetSpec: spec}}},
			"bring_up/ingest":               {Operation: &flowopsv1.ExplainRequest_Ingest{Ingest: &flowv1.IngestRackRequest{TargetSpec: spec}}},
			"decommission/decommission":     {Operation: &flowopsv1.ExplainRequest_Decommission{Decommission: &flowv1.DecommissionRackRequest{TargetSpec: spec}}},
		} {
			all := p.explained(t, req)
			if len(all) != 1 || all[0].GetPlan().GetOperation() != want || all[0].GetAdmission() != flowopsv1.Admission_ADMISSION_STARTED {
				t.Errorf("%s: %v", want, all)
			}
		}
	})
}

func TestFiftyRacksAreExplainedInAsManyStatementsAsOne(t *testing.T) {
	t.Parallel()
	p := serveParked(t)
	var targets []*flowv1.RackTarget
	for n := 1; n <= 50; n++ {
		p.create(testRack(n, 2))
		p.task(n, 1, "running", testID(2, n, 0))
		targets = append(targets, byID(testID(1, n, 0)))
	}
	count := func(n int) int {
		return p.sql.during(func() {
			res, err := p.ops.Explain(t.Context(), explainOff(nil, targets[:n]...))
			if err != nil || len(res.GetRacks()) != n {
				t.Fatalf("%d racks, %v", len(res.GetRacks()), err)
			}
		})
	}
	count(1) // the first call may open connections
	if one, fifty := count(1), count(50); one != fifty || fifty > 14 {
		t.Errorf("%d statements for one rack, %d for fifty", one, fifty)
	}
}
