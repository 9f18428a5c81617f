package main

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowv1"
)

func racks(types []flowv1.ComponentType, targets ...*flowv1.RackTarget) *flowv1.OperationTargetSpec {
	for _, t := range targets {
		t.ComponentTypes = types
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: &flowv1.RackTargets{Targets: targets}}}
}

func byName(name string) *flowv1.RackTarget {
	return &flowv1.RackTarget{Identifier: &flowv1.RackTarget_Name{Name: name}}
}

func byID(id string) *flowv1.RackTarget {
	return &flowv1.RackTarget{Identifier: &flowv1.RackTarget_Id{Id: &flowv1.UUID{Id: id}}}
}

func domains(types []flowv1.ComponentType, targets ...*flowv1.NVLDomainTarget) *flowv1.OperationTargetSpec {
	for _, t := range targets {
		t.ComponentTypes = types
	}
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_NvlDomains{NvlDomains: &flowv1.NVLDomainTargets{Targets: targets}}}
}

func domainByName(name string) *flowv1.NVLDomainTarget {
	return &flowv1.NVLDomainTarget{Identifier: &flowv1.NVLDomainTarget_Name{Name: name}}
}

func domainByID(id string) *flowv1.NVLDomainTarget {
	return &flowv1.NVLDomainTarget{Identifier: &flowv1.NVLDomainTarget_Id{Id: &flowv1.UUID{Id: id}}}
}

func components(targets ...*flowv1.ComponentTarget) *flowv1.OperationTargetSpec {
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Components{Components: &flowv1.ComponentTargets{Targets: targets}}}
}

func external(kind flowv1.ComponentType, id string) *flowv1.ComponentTarget {
	return &flowv1.ComponentTarget{Identifier: &flowv1.ComponentTarget_External{External: &flowv1.ExternalRef{Type: kind, Id: id}}}
}

func queued(seconds int32) *flowv1.QueueOptions {
	return &flowv1.QueueOptions{ConflictStrategy: flowv1.ConflictStrategy_CONFLICT_STRATEGY_QUEUE, QueueTimeoutSeconds: seconds}
}

func TestPowerSendsWhatItsWordsSay(t *testing.T) {
	t.Parallel()
	compute, nvSwitch := flowv1.ComponentType_COMPONENT_TYPE_COMPUTE, flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH
	for line, want := range map[string]proto.Message{
		"on rack-1":                  &flowv1.PowerOnRackRequest{TargetSpec: racks(nil, byName("rack-1"))},
		"on rack-1 " + rackOne:       &flowv1.PowerOnRackRequest{TargetSpec: racks(nil, byName("rack-1"), byID(rackOne))},
		"on rack-1,rack-2":           &flowv1.PowerOnRackRequest{TargetSpec: racks(nil, byName("rack-1"), byName("rack-2"))},
		"on --rack-names a,,b":       &flowv1.PowerOnRackRequest{TargetSpec: racks(nil, byName("a"), byName("b"))},
		"on --rack-names " + rackOne: &flowv1.PowerOnRackRequest{TargetSpec: racks(nil, byName(rackOne))},
		"on --rack-ids " + rackOne:   &flowv1.PowerOnRackRequest{TargetSpec: racks(nil, byID(rackOne))},
		"on a -t compute,NVL-Switch": &flowv1.PowerOnRackRequest{
			TargetSpec: racks([]flowv1.ComponentType{compute, nvSwitch}, byName("a")),
		},
		"on --domain nvl-1," + rackOne:      &flowv1.PowerOnRackRequest{TargetSpec: domains(nil, domainByName("nvl-1"), domainByID(rackOne))},
		"on --domain-ids " + rackOne:        &flowv1.PowerOnRackRequest{TargetSpec: domains(nil, domainByID(rackOne))},
		"on --domain-names a -t compute":    &flowv1.PowerOnRackRequest{TargetSpec: domains([]flowv1.ComponentType{compute}, domainByName("a"))},
		"on --component-ids m1":             &flowv1.PowerOnRackRequest{TargetSpec: components(external(compute, "m1"))},
		"on --component-ids s1 -t nvswitch": &flowv1.PowerOnRackRequest{TargetSpec: components(external(nvSwitch, "s1"))},
		"on a --description x --rule-id " + ruleOne + " --override-readiness": &flowv1.PowerOnRackRequest{
			TargetSpec: racks(nil, byName("a")), Description: "x", RuleId: &flowv1.UUID{Id: ruleOne}, OverrideReadinessCheck: true,
		},
		"on a --queue":                      &flowv1.PowerOnRackRequest{TargetSpec: racks(nil, byName("a")), QueueOptions: queued(0)},
		"off a --queue --queue-timeout 90s": &flowv1.PowerOffRackRequest{TargetSpec: racks(nil, byName("a")), QueueOptions: queued(90)},
		"reset a --queue":                   &flowv1.PowerResetRackRequest{TargetSpec: racks(nil, byName("a")), QueueOptions: queued(0)},
		"ac-cycle a --queue --queue-timeout 720h": &flowv1.ACPowerCycleRackRequest{
			TargetSpec: racks(nil, byName("a")), QueueOptions: queued(2592000),
		},
		"control --op on -t compute a --queue": &flowv1.PowerOnRackRequest{
			TargetSpec: racks([]flowv1.ComponentType{compute}, byName("a")), QueueOptions: queued(0),
		},
		"off a":            &flowv1.PowerOffRackRequest{TargetSpec: racks(nil, byName("a"))},
		"off a --forced":   &flowv1.PowerOffRackRequest{TargetSpec: racks(nil, byName("a")), Forced: true},
		"reset a":          &flowv1.PowerResetRackRequest{TargetSpec: racks(nil, byName("a"))},
		"reset a --forced": &flowv1.PowerResetRackRequest{TargetSpec: racks(nil, byName("a")), Forced: true},
		"ac-cycle a":       &flowv1.ACPowerCycleRackRequest{TargetSpec: racks(nil, byName("a"))},
		"control --op ON --rack-names a -t compute": &flowv1.PowerOnRackRequest{
			TargetSpec: racks([]flowv1.ComponentType{compute}, byName("a")),
		},
		"control --op off --component-ids m1": &flowv1.PowerOffRackRequest{TargetSpec: components(external(compute, "m1"))},
		"control --op ForceOff --component-ids m1": &flowv1.PowerOffRackRequest{
			TargetSpec: components(external(compute, "m1")), Forced: true,
		},
		"control --op restart --component-ids m1": &flowv1.PowerResetRackRequest{TargetSpec: components(external(compute, "m1"))},
		"control --op force-restart --component-ids m1": &flowv1.PowerResetRackRequest{
			TargetSpec: components(external(compute, "m1")), Forced: true,
		},
		"control --op cold-reset --component-ids m1": &flowv1.ACPowerCycleRackRequest{TargetSpec: components(external(compute, "m1"))},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := oneRack(nil)
			got := against(t, f, append([]string{"power"}, strings.Fields(line)...)...)
			if got.code != exitOK || got.out != taskOne+"\n" || got.err != "" {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPowerRefusesBeforeAnyCall(t *testing.T) {
	t.Parallel()
	const ways = "name racks in exactly one way: as arguments, by --rack-ids, --rack-names, --domain, --domain-ids, " +
		"--domain-names or --component-ids"
	for line, want := range map[string]struct {
		text  string
		usage bool
	}{
		"on":                              {"power on: " + ways, true},
		"on --rack-names ,":               {"power on: " + ways, true},
		"on a --rack-ids " + rackOne:      {"power on: " + ways, true},
		"on --rack-names a --rack-ids b":  {"power on: " + ways, true},
		"on --rack-ids rack-1":            {`power on: --rack-ids "rack-1" is not a valid UUID`, false},
		"on --rack-ids {" + rackOne + "}": {`power on: --rack-ids "{` + rackOne + `}" is not a valid UUID`, false},
		"on a --domain b":                 {"power on: " + ways, true},
		"on --domain-ids nvl-1":           {`power on: --domain-ids "nvl-1" is not a valid UUID`, false},
		"control --domain a --op on": {
			"power control: --type is required with racks: compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu", true,
		},
		"on a --rule-id x": {`power on: --rule-id "x" is not a valid UUID`, false},
		"on a -t fan": {
			`power on: unknown component type "fan": must be one of compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu`,
			false,
		},
		"on --component-ids m -t cdu,ums":    {"power on: --component-ids takes one --type, got cdu,ums", false},
		"on a --forced":                      {"unknown flag: --forced", true},
		"on a --queue-timeout 1m":            {"power on: --queue-timeout goes with --queue", true},
		"on a --queue --queue-timeout 0":     {"power on: --queue-timeout must be greater than 0, got 0s", true},
		"on a --queue --queue-timeout -1s":   {"power on: --queue-timeout must be greater than 0, got -1s", true},
		"on a --queue --queue-timeout 1.5s":  {"power on: --queue-timeout must be in whole seconds, got 1.5s", true},
		"on a --queue --queue-timeout 721h":  {"power on: --queue-timeout must be at most 720h (30 days), got 721h0m0s", true},
		"on a --explain --wait":              {"power on: --explain and --wait are mutually exclusive", true},
		"on a --explain --idempotency-key k": {"power on: --explain and --idempotency-key are mutually exclusive", true},
		"on a --idempotency-key=": {
			"power on: --idempotency-key must have 1 to 255 letters, digits and signs of ASCII, and no space at its ends", false,
		},
		"on a --idempotency-key é": {
			"power on: --idempotency-key must have 1 to 255 letters, digits and signs of ASCII, and no space at its ends", false,
		},
		"ac-cycle a --forced": {"unknown flag: --forced", true},
		"control a": {
			"power control: --op is required: on, force-on, off, force-off, restart, force-restart, warm-reset, cold-reset", true,
		},
		"control a --op on": {
			"power control: --type is required with racks: compute, nvswitch, nvl-switch, power-shelf, tor-switch, ums, cdu", true,
		},
		"control a -t cdu --op ac-powercycle": {
			`power control: unknown power operation "ac-powercycle": ` +
				"must be one of on, force-on, off, force-off, restart, force-restart, warm-reset, cold-reset",
			false,
		},
		"control a -t cdu --op force-on":  {"power control: force-on: " + noForcedOn, false},
		"control a -t cdu --op warmreset": {"power control: warmreset: " + noWarmReset, false},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := oneRack(nil)
			got := against(t, f, append([]string{"power"}, strings.Fields(line)...)...)
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

func TestPowerReportsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	f := oneRack(nil)
	f.submit = connect.NewError(connect.CodeFailedPrecondition, errors.New("failed to create any tasks: rack-1 is in other hands"))
	got := against(t, f, "power", "off", "rack-1", "rack-2")
	want := "Error: power off rack-1, rack-2: failed to create any tasks: rack-1 is in other hands (failed_precondition)\n"
	if got.code != exitError || got.out != "" || got.err != want {
		t.Errorf("%+v", got)
	}
}

func TestPowerNamesRacksWithoutATask(t *testing.T) {
	t.Parallel()
	f := oneRack(nil)
	f.refused = []string{rackTwo + " failed_precondition task 1: in other hands"}
	got := against(t, f, "power", "off", "rack-1", "rack-2", "-o", "json")
	want := "Warning: no task for rack " + rackTwo + ": task 1: in other hands (failed_precondition)\nError: power off: 1 of 2 racks got no task\n"
	if got.code != exitError || got.err != want || got.out != "{\n  \"task_ids\": [\n    \""+taskOne+"\"\n  ]\n}\n" {
		t.Errorf("%+v", got)
	}
}
