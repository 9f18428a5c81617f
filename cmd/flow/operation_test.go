package main

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

func TestOperationsSendWhatTheirWordsSay(t *testing.T) {
	t.Parallel()
	compute := flowv1.ComponentType_COMPONENT_TYPE_COMPUTE
	rule := &flowv1.UUID{Id: ruleOne}
	for line, want := range map[string]proto.Message{
		"bring-up rack-1 " + rackOne: &flowv1.BringUpRackRequest{TargetSpec: racks(nil, byName("rack-1"), byID(rackOne))},
		"bring-up --rack-names a --description x --override-readiness --rule-id " + ruleOne: &flowv1.BringUpRackRequest{
			TargetSpec: racks(nil, byName("a")), Description: "x", RuleId: rule, OverrideReadinessCheck: true,
		},
		"bring-up --component-ids m1": &flowv1.BringUpRackRequest{TargetSpec: components(external(compute, "m1"))},
		"ingest --rack-ids " + rackOne + " --description x --rule-id " + ruleOne: &flowv1.IngestRackRequest{
			TargetSpec: racks(nil, byID(rackOne)), Description: "x", RuleId: rule,
		},
		"ingest --domain a --name ct% --manufacturer NVIDIA --model b,c --type compute": &flowv1.IngestRackRequest{
			TargetSpec: domains([]flowv1.ComponentType{compute}, domainByName("a")),
			Filters: []*flowv1.Filter{
				componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_NAME, contains(listValue{"ct%"})),
				componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MANUFACTURER, contains(listValue{"NVIDIA"})),
				componentFilter(flowv1.ComponentFilterField_COMPONENT_FILTER_FIELD_MODEL, contains(listValue{"b", "c"})),
			},
		},
		"decommission a --yes": &flowv1.DecommissionRackRequest{TargetSpec: racks(nil, byName("a"))},
		"decommission --domain-ids " + domainOne + " --yes --description x --queue --queue-timeout 4h --rule-id " + ruleOne: &flowv1.DecommissionRackRequest{
			TargetSpec: domains(nil, domainByID(domainOne)), Description: "x", QueueOptions: queued(14400), RuleId: rule,
		},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := oneRack(nil)
			got := against(t, f, strings.Fields(line)...)
			if got.code != exitOK || got.out != taskOne+"\n" || got.err != "" {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOperationsRefuseBeforeAnyCall(t *testing.T) {
	t.Parallel()
	const ways = "name racks in exactly one way: as arguments, by --rack-ids, --rack-names, --domain, --domain-ids"
	for line, want := range map[string]struct {
		text  string
		usage bool
	}{
		"bring-up":                                    {"bring-up: " + ways + ", --domain-names or --component-ids", true},
		"bring-up a --rack-names b":                   {"bring-up: " + ways + ", --domain-names or --component-ids", true},
		"bring-up --rack-ids a":                       {`bring-up: --rack-ids "a" is not a valid UUID`, false},
		"bring-up a -t fan":                           {`bring-up: unknown component type "fan": must be one of compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu`, false},
		"bring-up a --rule-id x":                      {`bring-up: --rule-id "x" is not a valid UUID`, false},
		"bring-up a --queue":                          {"unknown flag: --queue", true},
		"bring-up a --name x":                         {"unknown flag: --name", true},
		"ingest":                                      {"ingest: " + ways + ", --domain-names or --component-ids", true},
		"ingest a --domain b":                         {"ingest: " + ways + ", --domain-names or --component-ids", true},
		"ingest --domain-ids b":                       {`ingest: --domain-ids "b" is not a valid UUID`, false},
		"ingest a --override-readiness":               {"unknown flag: --override-readiness", true},
		"ingest a --queue":                            {"unknown flag: --queue", true},
		"ingest a --yes":                              {"unknown flag: --yes", true},
		"decommission --yes":                          {"decommission: " + ways + " or --domain-names", true},
		"decommission a --rack-ids b --yes":           {"decommission: " + ways + " or --domain-names", true},
		"decommission --component-ids b":              {"unknown flag: --component-ids", true},
		"decommission a --override-readiness":         {"unknown flag: --override-readiness", true},
		"decommission a":                              {"decommission: there is no terminal to ask on: give --yes", false},
		"rule explain":                                {"rule explain: needs an operation: " + accepted(explained), true},
		"rule explain on a":                           {`rule explain: unknown operation "on": must be one of ` + accepted(explained), false},
		"rule explain power_on":                       {"rule explain: " + ways + ", --domain-names or --component-ids", true},
		"rule explain power_on a --rule-id x":         {`rule explain: --rule-id "x" is not a valid UUID`, false},
		"rule explain power_on a --operation restart": {"rule explain: --operation-type and --operation go with --file", true},
		"rule explain Warm_Reset a":                   {"rule explain: operation Warm_Reset can't be requested by itself: -f and --rack try a rule for it", false},
		"rule explain force_power_on a":               {"rule explain: operation force_power_on can't be requested by itself: -f and --rack try a rule for it", false},
		"rule explain downgrade a":                    {"rule explain: operation downgrade can't be requested by itself: -f and --rack try a rule for it", false},
		"rule explain rollback":                       {"rule explain: operation rollback can't be requested by itself: -f and --rack try a rule for it", false},
		"rule explain -f x":                           {"rule explain: --rack is required to try a rule without a server", true},
		"rule explain --rack x":                       {"rule explain: --file is required to try a rule without a server", true},
		"rule explain power_on -f x --rack y":         {"rule explain: --file and --rack take no operation, racks or rule of a server", true},
		"rule explain -f - --rack -":                  {"rule explain: only one of --file and --rack can be standard input", true},
		"rule explain -f x --rack y --operation z":    {"rule explain: --operation-type is required with --operation", true},
		"rule explain -f no-such --rack y":            {"rule explain: open no-such: no such file or directory", false},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := oneRack(nil)
			got := against(t, f, strings.Fields(line)...)
			first, rest, _ := strings.Cut(got.err, "\n")
			if got.code != exitError || got.out != "" || first != "Error: "+want.text || strings.Contains(rest, "Usage:") != want.usage {
				t.Errorf("%+v", got)
			}
			if len(f.asked()) != 0 {
				t.Errorf("%d calls were made", len(f.asked()))
			}
		})
	}
}

func TestOperationsReportWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	for line, doing := range map[string]string{
		"bring-up a": "bring-up a", "ingest a": "ingest a", "decommission a --yes": "decommission a", "bring-up a --explain": "bring-up",
	} {
		f := oneRack(nil)
		f.submit = connect.NewError(connect.CodeFailedPrecondition, errors.New("in other hands"))
		got := against(t, f, strings.Fields(line)...)
		if got.code != exitError || got.out != "" || got.err != "Error: "+doing+": in other hands (failed_precondition)\n" {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestOperationsWait(t *testing.T) {
	t.Parallel()
	watched := func(int, *flowopsv1.WatchTasksRequest, func(*flowopsv1.TaskEvent)) error { return nil }
	for _, line := range []string{"bring-up rack-1 --wait", "ingest rack-1 --wait", "decommission rack-1 --yes --wait"} {
		f := oneRack(watched)
		f.tasks[0].Status = flowv1.TaskStatus_TASK_STATUS_COMPLETED
		f.tasks[0].FinishedAt = after(time.Minute)
		got := against(t, f, strings.Fields(line)...)
		if got.code != exitOK || got.out != taskOne+"\n" || !strings.Contains(got.err, "completed") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestTheIdempotencyKeyGoesIntoTheHeader(t *testing.T) {
	t.Parallel()
	f := oneRack(nil)
	for _, words := range [][]string{{"power", "on"}, {"bring-up"}, {"ingest"}, {"decommission", "--yes"}} {
		if got := against(t, f, append(words, "a", "--idempotency-key", "night 7")...); got.code != exitOK {
			t.Errorf("%+v", got)
		}
	}
	if diff := cmp.Diff([]string{"night 7", "night 7", "night 7", "night 7"}, f.keys); diff != "" {
		t.Error(diff)
	}
}

// keyboard is a terminal on which somebody types.
type keyboard struct{ io.Reader }

func (keyboard) Write(p []byte) (int, error) { return len(p), nil }

func TestDecommissionAsksOnATerminal(t *testing.T) {
	t.Parallel()
	for answer, goes := range map[string]bool{"yes\n": true, " YES\r\n": true, "y\n": false, "\n": false, "": false} {
		f := oneRack(nil)
		u, err := url.Parse(f.serve(t).URL)
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), process{
			in: keyboard{strings.NewReader(answer)}, out: &out, err: &errs,
			getenv: func(string) string { return "" },
			now:    epoch,
			size:   func(io.Writer) (int, int, bool) { return 80, 24, true },
		}, []string{"decommission", "rack-1", "rack-2", "--port", u.Port(), "--host", u.Hostname()})
		const question = "This takes the components of rack-1, rack-2 out of service, which nothing here can undo. Type yes to go on: "
		if !strings.HasPrefix(errs.String(), question) || (code == exitOK) != goes || (len(f.asked()) == 1) != goes {
			t.Errorf("%q: exit code %d, %d calls, %q", answer, code, len(f.asked()), errs.String())
		}
		if !goes && errs.String() != question+"Error: decommission: nothing was done, as the answer was not yes\n" {
			t.Errorf("%q: %q", answer, errs.String())
		}
	}
}

// seconds is a duration of a plan.
func seconds(n int64) *durationpb.Duration { return &durationpb.Duration{Seconds: n} }

// planned is a plan with everything in it that is shown.
func planned() *flowopsv1.TaskPlan {
	return &flowopsv1.TaskPlan{
		Operation: "power_control/power_on", RuleId: &flowv1.UUID{Id: ruleOne}, RuleName: "site power on",
		Shortest: seconds(30), Longest: seconds(3600 + 90),
		Stages: []*flowopsv1.PlannedStage{
			{Number: 1, Steps: []*flowopsv1.PlannedStep{{ComponentType: "PowerShelf", Skipped: true}}},
			{Number: 2, Steps: []*flowopsv1.PlannedStep{
				{
					ComponentType: "Compute", TotalComponents: 18, MaxParallel: 6, Shortest: seconds(30), Longest: seconds(3600),
					Actions: []*flowopsv1.PlannedAction{
						{Phase: "main", Name: "PowerControl", Detail: "power_on", Batches: 3, AttemptTimeout: seconds(1200), MaxAttempts: 3},
						{
							Phase: "post", Name: "VerifyPowerStatus", Detail: "until On", Batches: 3, AttemptTimeout: seconds(1200),
							Timeout: seconds(300), PollInterval: seconds(10),
						},
						{Phase: "delay", Name: "Sleep", Detail: "30s", Batches: 1},
					},
				},
				{ComponentType: "NVSwitch", Done: true, TotalComponents: 9, MaxParallel: 9},
				{
					ComponentType: "CDU", TotalComponents: 1, MaxParallel: 6, Longest: seconds(7200),
					Actions: []*flowopsv1.PlannedAction{
						{Phase: "main", Name: "GetPowerStatus", Batches: 1, AttemptTimeout: seconds(61), MaxAttempts: 1},
					},
				},
			}},
		},
	}
}

const plannedTable = `
STAGE  COMPONENTS               TAKES                            PHASE  ACTION                      TIMES  LIMITS
1      PowerShelf               skipped                          -      -                           -      -
2      18 Compute, 6 at a time  at least 30s, given up after 1h  main   PowerControl power_on       3      20m a call, 3 attempts
                                                                 post   VerifyPowerStatus until On  3      within 5m, every 10s
                                                                 delay  Sleep 30s                   1      -
       9 NVSwitch               done already                     -      -                           -      -
       1 CDU                    given up after 2h                main   GetPowerStatus              1      1m1s a call
`

// explanation is of two racks.
func explanation() []*flowopsv1.RackExplanation {
	return []*flowopsv1.RackExplanation{
		{
			RackId: &flowv1.UUID{Id: rackOne}, RackName: "rack-1", Plan: planned(),
			RuleSource: flowopsv1.RuleSource_RULE_SOURCE_ASSOCIATION, Admission: flowopsv1.Admission_ADMISSION_QUEUED,
			Reason: "the rack is in other hands",
			Conflicts: []*flowopsv1.TaskConflict{
				{TaskId: &flowv1.UUID{Id: taskOne}, Status: flowv1.TaskStatus_TASK_STATUS_RUNNING, Operation: "power_control/power_off", Rule: "C1"},
			},
			BlockedComponents: []*flowopsv1.BlockedComponent{
				{ComponentId: &flowv1.UUID{Id: partOne}, Name: "ct01", ComponentType: "Compute", Reason: "in use", Blocks: true},
				{ComponentId: &flowv1.UUID{Id: partTwo}, ComponentType: "CDU", Reason: "no status\x1b[2J"},
			},
		},
		{
			RackId: &flowv1.UUID{Id: rackTwo}, RackName: "rack-2", Admission: flowopsv1.Admission_ADMISSION_STARTED,
			RuleSource: flowopsv1.RuleSource_RULE_SOURCE_BUILTIN,
			Plan: &flowopsv1.TaskPlan{
				Operation: "power_control/power_on", RuleName: "Hardcoded Default Power On", Longest: seconds(5400),
			},
		},
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	want := picture(`
Rack       rack-1 (11111111-0000-4000-8000-000000000001)
Task       would wait
Reason     the rack is in other hands
Operation  power_control/power_on
Rule       site power on, 33333333-0000-4000-8000-000000000001, associated with the rack
Takes      at least 30s, given up after 1h1m30s

In the way:
TASK                                  STATUS   OPERATION                CONFLICT
22222222-0000-4000-8000-000000000001  running  power_control/power_off  C1

Not known to be ready:
TYPE     COMPONENT                             HOLDS UP  REASON
Compute  ct01                                  yes       in use
CDU      44444444-0000-4000-8000-000000000002  no        no status?[2J
`+plannedTable+`
Rack       rack-2 (11111111-0000-4000-8000-000000000002)
Task       would start now
Operation  power_control/power_on
Rule       Hardcoded Default Power On, brought along by Flow
Takes      given up after 1h30m

STAGE  COMPONENTS  TAKES  PHASE  ACTION  TIMES  LIMITS`) + "\n"
	spec, rule := racks(nil, byName("rack-1")), &flowv1.UUID{Id: ruleOne}
	powerOff := func(r *flowv1.PowerOffRackRequest) *flowopsv1.ExplainRequest {
		return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOff{PowerOff: r}}
	}
	powerReset := func(r *flowv1.PowerResetRackRequest) *flowopsv1.ExplainRequest {
		return &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerReset{PowerReset: r}}
	}
	powerOn := &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_PowerOn{PowerOn: &flowv1.PowerOnRackRequest{TargetSpec: spec}}}
	cycle := &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_AcPowerCycle{
		AcPowerCycle: &flowv1.ACPowerCycleRackRequest{TargetSpec: spec},
	}}
	up := &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_BringUp{BringUp: &flowv1.BringUpRackRequest{TargetSpec: spec}}}
	take := &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_Ingest{Ingest: &flowv1.IngestRackRequest{TargetSpec: spec}}}
	end := &flowopsv1.ExplainRequest{Operation: &flowopsv1.ExplainRequest_Decommission{
		Decommission: &flowv1.DecommissionRackRequest{TargetSpec: spec},
	}}
	for line, request := range map[string]*flowopsv1.ExplainRequest{
		"power off rack-1 --explain --forced --queue --description x --override-readiness --rule-id " + ruleOne: powerOff(&flowv1.PowerOffRackRequest{
			TargetSpec: spec, Forced: true, QueueOptions: queued(0), Description: "x", OverrideReadinessCheck: true, RuleId: rule,
		}),
		"power on rack-1 --explain":                                powerOn,
		"power ac-cycle rack-1 --explain":                          cycle,
		"power control --op restart -t compute rack-1 --explain":   powerReset(&flowv1.PowerResetRackRequest{TargetSpec: racks([]flowv1.ComponentType{flowv1.ComponentType_COMPONENT_TYPE_COMPUTE}, byName("rack-1"))}),
		"bring-up rack-1 --explain":                                up,
		"ingest rack-1 --explain":                                  take,
		"decommission rack-1 --explain":                            end,
		"rule explain power_on rack-1":                             powerOn,
		"rule explain Power_Off --rack-names rack-1":               powerOff(&flowv1.PowerOffRackRequest{TargetSpec: spec}),
		"rule explain force_power_off rack-1 --rule-id " + ruleOne: powerOff(&flowv1.PowerOffRackRequest{TargetSpec: spec, Forced: true, RuleId: rule}),
		"rule explain restart rack-1":                              powerReset(&flowv1.PowerResetRackRequest{TargetSpec: spec}),
		"rule explain force_restart rack-1":                        powerReset(&flowv1.PowerResetRackRequest{TargetSpec: spec, Forced: true}),
		"rule explain cold_reset rack-1":                           cycle,
		"rule explain bring_up rack-1":                             up,
		"rule explain ingest rack-1":                               take,
		"rule explain decommission rack-1":                         end,
		"rule explain upgrade rack-1": {Operation: &flowopsv1.ExplainRequest_UpgradeFirmware{
			UpgradeFirmware: &flowv1.UpgradeFirmwareRequest{TargetSpec: spec},
		}},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := oneRack(nil)
			f.explained = explanation()
			got := against(t, f, strings.Fields(line)...)
			if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK || got.err != "" {
				t.Error(diff, got.err)
			}
			if diff := cmp.Diff([]proto.Message{request}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	f := oneRack(nil)
	f.explained = explanation()
	got := against(t, f, "power", "on", "rack-1", "--explain", "-o", "json")
	if got.code != exitOK || !strings.Contains(got.out, `"admission": "ADMISSION_QUEUED"`) || !strings.Contains(got.out, `"longest": "3690s"`) {
		t.Errorf("%+v", got)
	}
}

func TestRuleExplainWithoutAServer(t *testing.T) {
	t.Parallel()
	rule := written(t, "serial.json", `{"steps": [
		{"component_type": "Compute", "stage": 2, "max_parallel": 4, "timeout": "10m", "delay_after": "30s", "note": "ignored",
		 "main_operation": {"name": "PowerControl"},
		 "post_operation": [{"name": "VerifyReachability", "timeout": "5m", "poll_interval": "30s",
		                     "parameters": {"component_types": ["compute"]}}]},
		{"component_type": "UMS", "stage": 2, "main_operation": {"name": "PowerControl"}}]}`)
	const rack = "../../testdata/racks/gb200-nvl72.json"
	got := flow(t.Context(), nil, "", "rule", "explain", "-f", rule, "--rack", rack, "--operation-type", "power_control", "--operation", "force_power_off")
	want := picture(`
Operation  power_control/force_power_off
Rule       serial
Takes      at least 30s, given up after 2h38m15s

STAGE  COMPONENTS               TAKES                                  PHASE  ACTION                             TIMES  LIMITS
2      18 Compute, 4 at a time  at least 30s, given up after 2h38m15s  main   PowerControl force_power_off       5      10m a call, 3 attempts
                                                                       post   VerifyReachability of any Compute  1      within 5m, every 30s
                                                                       delay  Sleep 30s                          1      -
       UMS                      skipped                                -      -                                  -      -`) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK || got.err != "" {
		t.Error(diff, got.err)
	}
	got = flow(t.Context(), nil, "", "rule", "explain", "-f", rule, "--rack", rack, "-o", "json")
	if got.code != exitOK || !strings.Contains(got.out, `"operation": "power_control/power_on"`) || strings.Contains(got.out, "rule_id") {
		t.Errorf("%+v", got)
	}
	for stdin, want := range map[string]string{
		`{`:           "standard input: not valid JSON: unexpected end of JSON input (at byte 1)",
		`{"steps":3}`: "standard input: steps must be of type array, got number",
		`{}`:          "standard input: rule has no steps",
		`{"steps":[{"component_type":"UMS","stage":1,"main_operation":{"name":"PowerControl"}}]}`://
		"standard input: no step applies to the targeted component types: Compute, NVSwitch, PowerShelf",
		`{"steps":[{"component_type":"UMS","stage":0,"main_operation":{"name":"PowerControl"}},{"component_type":"UMS","stage":1}]}`://
		"standard input: step 0: stage must be >= 1, got 0\nstandard input: step 1: main_operation is required",
	} {
		got := flow(t.Context(), nil, stdin, "rule", "explain", "-f", "-", "--rack", rack)
		if got.code != exitError || got.out != "" || got.err != "Error: rule explain: "+want+"\n" {
			t.Errorf("%s: %+v", stdin, got)
		}
	}
	got = flow(t.Context(), nil, `{"info":{"nmae":"x"}}`, "rule", "explain", "-f", rule, "--rack", "-")
	if got.code != exitError || !strings.HasPrefix(got.err, "Error: rule explain: standard input: info.nmae: unknown key") {
		t.Errorf("%+v", got)
	}
}
