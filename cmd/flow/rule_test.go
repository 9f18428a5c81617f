package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

const (
	power    = flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL
	firmware = flowv1.OperationType_OPERATION_TYPE_FIRMWARE_CONTROL
)

// definition is a rule document in an unusual layout, which must not change on its way.
const definition = ` {"steps": [ {"component_type":"compute","stage":1,"note":"x","main_operation":{"name":"PowerControl"}} ]}` + "\n"

// batchText has a default rule with the one it needs, and one that is no default.
const batchText = `version: v1
rules:
- {name: on, operation_type: power_control, operation: power_on, description: all at once,
   steps: [{component_type: Compute, stage: 2, main_operation: {name: Sleep, parameters: {duration: 90s}}},
           {component_type: CDU, stage: 2, main_operation: {name: PowerControl}},
           {component_type: CDU, stage: 7, main_operation: {name: PowerControl}}]}
- {name: off, operation_type: power_control, operation: power_off}
- {name: later, operation_type: firmware_control, operation: rollback, is_default: false}
`

// written puts a text into a file of the test.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ruled is a fake with rules.
func ruled() *fake {
	return &fake{
		rules: []*flowv1.OperationRule{
			{
				Id: &flowv1.UUID{Id: ruleOne}, Name: "site power on", Description: "shelf by shelf", OperationType: power, OperationCode: "power_on",
				RuleDefinitionJson: `{"version":"v1","steps":[]}`, IsDefault: true, CreatedAt: after(0), UpdatedAt: after(time.Hour),
			},
			{
				Id: &flowv1.UUID{Id: ruleTwo}, Name: "b\x1b[2J", OperationType: firmware, OperationCode: "upgrade",
				RuleDefinitionJson: `{`, CreatedAt: after(time.Second), UpdatedAt: after(time.Second),
			},
		},
		associations: []*flowv1.RackRuleAssociation{
			{OperationType: power, OperationCode: "power_on", RuleId: &flowv1.UUID{Id: ruleOne}, CreatedAt: after(0)},
			{OperationType: firmware, OperationCode: "upgrade", RuleId: &flowv1.UUID{Id: taskOne}, CreatedAt: after(0)},
		},
	}
}

func TestRuleCommands(t *testing.T) {
	t.Parallel()
	rack, rule := &flowv1.UUID{Id: rackOne}, &flowv1.UUID{Id: ruleOne}
	file := written(t, "rule.json", definition)
	for line, test := range map[string]struct {
		want proto.Message
		out  string
	}{
		"create --name a --operation-type power_control --operation power_on --rule-file " + file: {
			&flowv1.CreateOperationRuleRequest{Name: "a", OperationType: power, OperationCode: "power_on", RuleDefinitionJson: definition},
			"Successfully created rule\nID:   " + ruleOne + "\nName: a",
		},
		"create --name a --description d --operation-type FIRMWARE_control --operation upgrade --is-default -o json --rule-file " + file: {
			&flowv1.CreateOperationRuleRequest{
				Name: "a", Description: "d", OperationType: firmware, OperationCode: "upgrade", RuleDefinitionJson: definition, IsDefault: true,
			},
			"{\n  \"id\": \"" + ruleOne + "\",\n  \"name\": \"a\"\n}",
		},
		"update " + ruleOne + " --name b --description= --rule-file " + file: {
			&flowv1.UpdateOperationRuleRequest{
				RuleId: rule, Name: proto.String("b"), Description: proto.String(""), RuleDefinitionJson: proto.String(definition),
			}, "Successfully updated rule " + ruleOne,
		},
		"update " + ruleOne + " --name b": {
			&flowv1.UpdateOperationRuleRequest{RuleId: rule, Name: proto.String("b")}, "Successfully updated rule " + ruleOne,
		},
		"delete " + ruleOne: {&flowv1.DeleteOperationRuleRequest{RuleId: rule}, "Successfully deleted rule " + ruleOne},
		"set-default --id " + ruleOne: {
			&flowv1.SetRuleAsDefaultRequest{RuleId: rule}, "Successfully set rule as default\nRule ID: " + ruleOne,
		},
		"associate --rack-id " + rackOne + " --rule-id " + ruleOne: {
			&flowv1.AssociateRuleWithRackRequest{RackId: rack, RuleId: rule},
			"Successfully associated rule " + ruleOne + " with rack " + rackOne,
		},
		"disassociate --rack-id " + rackOne + " --operation-type power_control --operation power_on": {
			&flowv1.DisassociateRuleFromRackRequest{RackId: rack, OperationType: power, OperationCode: "power_on"},
			"Successfully removed rule association from rack " + rackOne + " for power_control/power_on",
		},
		"list": {
			&flowv1.ListOperationRulesRequest{Offset: proto.Int32(0), Limit: proto.Int32(100)}, `
ID                                    NAME           OPERATION TYPE    OPERATION CODE  DEFAULT  CREATED AT
-------------------------------------------------------------------------------------------------------------------
33333333-0000-4000-8000-000000000001  site power on  power_control     power_on        yes      2026-03-04 09:15:00
33333333-0000-4000-8000-000000000002  b?[2J          firmware_control  upgrade         no       2026-03-04 09:15:01

Total: 2 rules`,
		},
		"list --rack-id " + rackOne: {
			&flowv1.ListRackRuleAssociationsRequest{RackId: rack}, `
OPERATION TYPE    OPERATION CODE  RULE ID                               NAME           CREATED AT
----------------------------------------------------------------------------------------------------------
power_control     power_on        33333333-0000-4000-8000-000000000001  site power on  2026-03-04 09:15:00
firmware_control  upgrade         22222222-0000-4000-8000-000000000001  -              2026-03-04 09:15:00

Total: 2 rules`,
		},
		"get " + ruleOne: {nil, `
ID:             33333333-0000-4000-8000-000000000001
Name:           site power on
Description:    shelf by shelf
Operation Type: power_control
Operation Code: power_on
Is Default:     true
Created At:     2026-03-04 09:15:00
Updated At:     2026-03-04 10:15:00

Rule Definition (JSON):
{
  "version": "v1",
  "steps": []
}`},
		"get --file - " + ruleOne: {nil, "{\n  \"version\": \"v1\",\n  \"steps\": []\n}"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := ruled()
			got := against(t, f, append([]string{"rule"}, strings.Fields(line)...)...)
			if diff := cmp.Diff(picture(test.out)+"\n", got.out); diff != "" || got.code != exitOK || got.err != "" {
				t.Error(diff, got.err)
			}
			if test.want == nil {
				return
			}
			if diff := cmp.Diff([]proto.Message{test.want}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRuleListFiltersAndFormats(t *testing.T) {
	t.Parallel()
	f := ruled()
	got := against(t, f, "rule", "list", "--operation-type", "power_control", "--default-only", "--offset", "5", "--limit", "7", "-o", "json")
	kind := power
	want := &flowv1.ListOperationRulesRequest{
		OperationType: &kind, IsDefault: proto.Bool(true), Offset: proto.Int32(5), Limit: proto.Int32(7),
	}
	if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" || got.code != exitOK {
		t.Error(diff, got.err)
	}
	if !strings.Contains(got.out, `"total_count": 2`) {
		t.Error(got.out)
	}
	for _, line := range []string{"list", "list --rack-id " + rackOne} {
		if got := against(t, &fake{}, append([]string{"rule"}, strings.Fields(line)...)...); got.out != "No rules found\n" || got.code != exitOK {
			t.Errorf("%+v", got)
		}
	}
}

func TestRuleGetOfOneThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, f := range []*fake{{}, {lax: true}} {
		got := against(t, f, "rule", "get", ruleOne)
		if got.code != exitError || got.out != "" || !strings.HasPrefix(got.err, "Error: rule get: operation rule "+ruleOne+" not found") {
			t.Errorf("%+v", got)
		}
	}
}

func TestRuleGetWritesWhatCreateReads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rule.json")
	if got := against(t, ruled(), "rule", "get", ruleOne, "--file", path); got.code != exitOK || got.out != "Definition written to "+path+"\n" {
		t.Fatalf("%+v", got)
	}
	f := ruled()
	got := against(t, f, "rule", "create", "--strict", "--name", "a", "--operation-type", "power_control", "--operation", "power_on", "--rule-file", path)
	sent, _ := f.asked()[0].(*flowv1.CreateOperationRuleRequest)
	if got.code != exitOK || sent.GetRuleDefinitionJson() != "{\n  \"version\": \"v1\",\n  \"steps\": []\n}\n" {
		t.Errorf("%+v, %v", got, sent)
	}
	got = against(t, ruled(), "rule", "get", ruleOne, "--file", filepath.Join(path, "x"))
	if got.code != exitError || !strings.HasPrefix(got.err, "Error: rule get: open ") {
		t.Errorf("%+v", got)
	}
}

func TestRuleCommandsRefuseBeforeAnyCall(t *testing.T) {
	t.Parallel()
	good, list := written(t, "rule.json", definition), written(t, "list.json", "[]")
	broken, null := written(t, "broken.json", "{\n\"steps\": }"), written(t, "null.json", "null")
	large := written(t, "large.json", `{"note": "`+strings.Repeat("x", 4<<20)+`"}`)
	const single = "create --name a --operation-type power_control --operation power_on "
	for line, want := range map[string]struct {
		text  string
		usage bool
	}{
		"create": {
			"rule create: --name, --operation-type, --operation, --rule-file are required for single rule mode", true,
		},
		single:                                              {"rule create: --rule-file is required for single rule mode", true},
		"create --from-yaml x --name a":                     {"rule create: --from-yaml and --name are mutually exclusive", true},
		"create --from-yaml x --rule-file a":                {"rule create: --from-yaml and --rule-file are mutually exclusive", true},
		"create --from-yaml x --operation-type a":           {"rule create: --from-yaml and --operation-type are mutually exclusive", true},
		"create --from-yaml x --operation a":                {"rule create: --from-yaml and --operation are mutually exclusive", true},
		"create --from-yaml x --is-default":                 {"rule create: --from-yaml and --is-default are mutually exclusive", true},
		"create --from-yaml x --description a":              {"rule create: --from-yaml and --description are mutually exclusive", true},
		"create --from-yaml x --dry-run --overwrite":        {"rule create: --overwrite and --dry-run are mutually exclusive", true},
		"create --overwrite":                                {"rule create: --overwrite goes with --from-yaml", true},
		"create --dry-run":                                  {"rule create: --dry-run goes with --from-yaml", true},
		"create x":                                          {`rule create: unexpected argument "x"`, true},
		"create --bogus":                                    {"unknown flag: --bogus", true},
		single + "--rule-file no-such.json":                 {"rule create: open no-such.json: no such file or directory", false},
		single + "--rule-file " + list:                      {"rule create: " + list + ": a rule is a JSON object", false},
		single + "--rule-file " + null:                      {"rule create: " + null + ": a rule is a JSON object", false},
		single + "--rule-file " + broken:                    {"rule create: " + broken + ": line 2, column 10: invalid character '}' looking for beginning of value", false},
		single + "--rule-file " + large:                     {"rule create: " + large + ": makes a request of 4194336 bytes, at most 4194304 can be sent", false},
		"update " + ruleOne + " --rule-file " + large:       {"rule update: " + large + ": makes a request of 4194361 bytes, at most 4194304 can be sent", false},
		single + "--strict --rule-file " + good:             {"rule create: " + good + ": step 0: unknown key 'note'", false},
		single + "--operation-type fan --rule-file " + good: {`rule create: unknown operation type "fan": must be one of power_control, firmware_control`, false},
		single + "--operation upgrade --rule-file " + good: {
			"rule create: invalid operation code 'upgrade' for operation type 'power_control': must be one of power_on, force_power_on, " +
				"power_off, force_power_off, restart, force_restart, warm_reset, cold_reset", false,
		},
		"update":                     {"rule update: needs the id of a rule", true},
		"update " + ruleOne:          {"rule update: needs --name, --description or --rule-file", true},
		"update x --name a":          {`rule update: rule id "x" is not a valid UUID`, false},
		"list x":                     {`rule list: unexpected argument "x"`, true},
		"list --limit 0":             {"rule list: --limit must be greater than 0, got 0", true},
		"list --offset -1":           {"rule list: --offset must not be negative, got -1", true},
		"list --operation-type x":    {`rule list: unknown operation type "x": must be one of power_control, firmware_control`, false},
		"list --rack-id rack-1":      {`rule list: --rack-id "rack-1" is not a valid UUID`, false},
		"list --rack-id x --limit 3": {"rule list: --rack-id and --limit are mutually exclusive", true},
		"get":                        {"rule get: needs the id of a rule", true},
		"get x":                      {`rule get: rule id "x" is not a valid UUID`, false},
		"get a b":                    {`rule get: unexpected argument "b"`, true},
		"delete":                     {"rule delete: needs the id of a rule", true},
		"delete x":                   {`rule delete: rule id "x" is not a valid UUID`, false},
		"set-default":                {"rule set-default: --id is required", true},
		"set-default --id x":         {`rule set-default: --id "x" is not a valid UUID`, false},
		"set-default " + ruleOne:     {`rule set-default: unexpected argument "` + ruleOne + `"`, true},
		"associate":                  {"rule associate: --rack-id, --rule-id are required", true},
		"associate --rack-id x --rule-id " + ruleOne: {`rule associate: --rack-id "x" is not a valid UUID`, false},
		"associate --rule-id x --rack-id " + rackOne: {`rule associate: --rule-id "x" is not a valid UUID`, false},
		"disassociate --rack-id x":                   {"rule disassociate: --operation-type, --operation are required", true},
		"disassociate --rack-id x --operation-type power_control --operation power_on": {
			`rule disassociate: --rack-id "x" is not a valid UUID`, false,
		},
		"disassociate --rack-id " + rackOne + " --operation-type bring_up --operation bring_up": {
			`rule disassociate: unknown operation type "bring_up": must be one of power_control, firmware_control`, false,
		},
		"lint":                      {"rule lint: --file is required", true},
		"lint x --operation y":      {"rule lint: --operation-type is required with --operation", true},
		"lint x --operation-type y": {`rule lint: unknown operation type "y": must be one of power_control, firmware_control`, false},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := ruled()
			got := against(t, f, append([]string{"rule"}, strings.Fields(line)...)...)
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

func TestRuleBatch(t *testing.T) {
	t.Parallel()
	path := written(t, "rules.yaml", batchText)
	replaced := func(outcomes ...flowopsv1.RuleOutcome) []*flowopsv1.ReplacedRule {
		list := make([]*flowopsv1.ReplacedRule, len(outcomes))
		for i, o := range outcomes {
			list[i] = &flowopsv1.ReplacedRule{Id: &flowv1.UUID{Id: ruleOne}, Outcome: o}
		}
		return list
	}
	created, overwritten, skipped := flowopsv1.RuleOutcome_RULE_OUTCOME_CREATED,
		flowopsv1.RuleOutcome_RULE_OUTCOME_OVERWRITTEN, flowopsv1.RuleOutcome_RULE_OUTCOME_SKIPPED
	for name, test := range map[string]struct {
		flags    string
		replaced []*flowopsv1.ReplacedRule
		want     string
	}{
		"new rules and one that is there": {"", replaced(created, skipped, created), `
Loading rules from: ` + path + `
Created: on (power_control/power_on)
Skipped: off (power_control/power_off) - already exists
Created: later (firmware_control/rollback)

Created: 2 rules
Skipped: 1 rules (already exist)`},
		"rules in place of others": {"--overwrite", replaced(overwritten, created, overwritten), `
Loading rules from: ` + path + `
Overwriting: on (power_control/power_on)
Created: off (power_control/power_off)
Overwriting: later (firmware_control/rollback)

Created: 1 rules
Overwritten: 2 rules`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{replaced: test.replaced}
			got := against(t, f, append([]string{"rule", "create", "--from-yaml", path}, strings.Fields(test.flags)...)...)
			if diff := cmp.Diff(picture(test.want)+"\n", got.out); diff != "" || got.code != exitOK || got.err != "" {
				t.Error(diff, got.err)
			}
			want := &flowopsv1.ReplaceOperationRulesRequest{Overwrite: test.flags != "", Rules: []*flowopsv1.OperationRuleDraft{
				{
					Name: "on", Description: "all at once", OperationType: power, OperationCode: "power_on", IsDefault: true,
					RuleDefinitionJson: `{"version":"v1","steps":[` +
						`{"component_type":"Compute","stage":2,"max_parallel":0,"main_operation":{"name":"Sleep","parameters":{"duration":"90s"}}},` +
						`{"component_type":"CDU","stage":2,"max_parallel":0,"main_operation":{"name":"PowerControl"}},` +
						`{"component_type":"CDU","stage":7,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`,
				},
				{
					Name: "off", OperationType: power, OperationCode: "power_off", IsDefault: true,
					RuleDefinitionJson: `{"version":"v1","steps":[]}`,
				},
				{Name: "later", OperationType: firmware, OperationCode: "rollback", RuleDefinitionJson: `{"version":"v1","steps":[]}`},
			}}
			if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	f := &fake{replaced: replaced(created, skipped, created)}
	got := against(t, f, "rule", "create", "--from-yaml", path, "-o", "json")
	if got.code != exitOK || !strings.Contains(got.out, `"outcome": "skipped"`) || strings.Contains(got.out, "Loading") {
		t.Errorf("%+v", got)
	}
	f = &fake{submit: connect.NewError(connect.CodeInvalidArgument, errors.New("rules[1]: no"))}
	got = against(t, f, "rule", "create", "--from-yaml", path)
	if got.code != exitError || strings.Count(got.out, "\n") != 1 || got.err != "Error: rule create: rules[1]: no (invalid_argument)\n" {
		t.Errorf("%+v", got)
	}
	f = &fake{replaced: replaced(created)}
	got = against(t, f, "rule", "create", "--from-yaml", path)
	if got.code != exitError || strings.Count(got.out, "\n") != 1 || got.err != "Error: rule create: the server stored the batch, but answers for 1 of 3 rules\n" {
		t.Errorf("%+v", got)
	}
}

func TestRuleBatchWithoutAServer(t *testing.T) {
	t.Parallel()
	path := written(t, "rules.yaml", batchText)
	got := flow(t.Context(), nil, "", "rule", "create", "--from-yaml", path, "--dry-run", "-H", "rack.example", "--port", "77")
	want := picture(`
Loading rules from: `+path+`

Validation successful!

power_control:
  power_on: on - all at once (2 stages, default)
  power_off: off (0 stages, default)

firmware_control:
  rollback: later (0 stages)

Would create: 3 rules

To create them, run:
  flow rule create --host rack.example --port 77 --from-yaml `+path) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK || got.err != "" {
		t.Error(diff, got.err)
	}
	got = flow(t.Context(), nil, batchText, "rule", "create", "--from-yaml", "-", "--dry-run", "-o", "json")
	if got.code != exitOK || !strings.Contains(got.out, `"stages": 2`) || strings.Contains(got.out, "outcome") {
		t.Errorf("%+v", got)
	}
	got = flow(t.Context(), nil, "rules: []", "rule", "create", "--from-yaml", "-")
	if got.code != exitOK || got.out != "Loading rules from: standard input\nNo rules in the file\n" {
		t.Errorf("%+v", got)
	}
	got = flow(t.Context(), nil, "", "rule", "create", "--from-yaml", "no-such.yaml")
	if got.code != exitError || got.out != "Loading rules from: no-such.yaml\n" || got.err != "Error: rule create: YAML file not found: no-such.yaml\n" {
		t.Errorf("%+v", got)
	}
	got = flow(t.Context(), nil, "", "rule", "create", "--from-yaml", "no-such.yaml", "-o", "json")
	if got.code != exitError || got.out != "" {
		t.Errorf("%+v", got)
	}
	got = flow(t.Context(), nil, "rules: []", "rule", "create", "--from-yaml", "-", "--dry-run")
	if got.code != exitOK || strings.Contains(got.out, "To create them") { // standard input has been read
		t.Errorf("%+v", got)
	}
	odd := written(t, "it's a rule.yaml", batchText)
	got = flow(t.Context(), nil, "", "rule", "create", "--from-yaml", odd, "--dry-run", "--strict")
	run := "  flow rule create --from-yaml '" + strings.ReplaceAll(odd, "'", `'\''`) + "' --strict\n"
	if got.code != exitOK || !strings.HasSuffix(got.out, run) {
		t.Errorf("%+v, want %q at the end", got, run)
	}
	large := "rules:\n"
	for i := range 5 {
		large += fmt.Sprintf("- {name: a%d, operation_type: power_control, operation: restart, is_default: false, description: %s}\n",
			i, strings.Repeat("x", 1<<20))
	}
	for _, flag := range []string{"--dry-run", "--overwrite"} {
		got = flow(t.Context(), nil, large, "rule", "create", "--from-yaml", "-", flag)
		if !regexp.MustCompile(`^Error: rule create: standard input: makes a request of \d+ bytes, at most 4194304 can be sent\n$`).MatchString(got.err) {
			t.Errorf("%+v", got)
		}
	}
	bad := "site: x\nrules:\n- {name: a, operation_type: power_control, operation: on, is_default: false}\n" +
		"- {name: b, operation_type: power_control, operation: power_off, is_default: false, steps: [{timeout: 5}]}\n"
	got = flow(t.Context(), nil, bad, "rule", "create", "--from-yaml", "-", "--dry-run", "--strict")
	want = picture(`
Error: rule create: standard input: unknown key 'site'
standard input: invalid rule 0 from YAML file: a: invalid operation code 'on' for operation type 'power_control'
standard input: rule 1 (b) from YAML file: step[0]: invalid timeout ('5'): no duration such as 90s or 1h30m`) + "\n"
	if diff := cmp.Diff(want, got.err); diff != "" || got.code != exitError || got.out != "Loading rules from: standard input\n" {
		t.Error(diff, got.out)
	}
	many := "rules:\n"
	for i := range 1001 {
		many += fmt.Sprintf("- {name: a%d, operation_type: power_control, operation: restart, is_default: false}\n", i)
	}
	got = flow(t.Context(), nil, many, "rule", "create", "--from-yaml", "-")
	if got.err != "Error: rule create: standard input: has 1001 rules, at most 1000 can be stored in one piece\n" {
		t.Errorf("%+v", got)
	}
}

func TestRuleLint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	good := file("good.json", "\ufeff"+`{"steps":[{"component_type":"compute","stage":1,"main_operation":{"name":"PowerControl"}}]}`)
	batch := file("good.yml", batchText)
	bare := file("bare", "\n"+batchText)
	brace := file("brace", `{"steps":[{"stage":0,"component_type":"cdu","note":1,"main_operation":{"name":"PowerControl"}}]}`)
	bad := file("bad.yaml", "rules:\n- {name: a, operation_type: power_control, operation: restart}\n")
	gone := filepath.Join(dir, "gone.json")
	for line, want := range map[string]result{
		"-f " + good: {code: exitOK},
		"-f " + good + " -f " + batch + " " + bare: {code: exitOK},
		good + " --operation-type power_control":   {code: exitOK},
		good + " --operation-type firmware_control --operation upgrade": {exitError, good + ": steps[0].main_operation.parameters.operation: " +
			"step 0: main_operation: action PowerControl missing required parameter: operation, only a power_control rule has one to inherit\n",
			"Error: rule lint: 1 problem in 1 of 1 file\n"},
		good + " " + brace + " " + bad + " " + gone: {exitError, brace + ": steps[0].note: step 0: unknown key 'note'\n" +
			brace + ": steps[0].stage: step 0: stage must be >= 1, got 0\n" +
			bad + ": rules: required operation 'power_on' missing for operation type power_control\n" +
			bad + ": rules: required operation 'power_off' missing for operation type power_control\n" +
			gone + ": open " + gone + ": no such file or directory\n",
			"Error: rule lint: 5 problems in 3 of 4 files\n"},
		good + " -o json": {code: exitOK, out: "[]\n"},
	} {
		got := flow(t.Context(), nil, "", append([]string{"rule", "lint"}, strings.Fields(line)...)...)
		if got != want {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	got := flow(t.Context(), nil, "{", "rule", "lint", "-f", "-", "-o", "json")
	if got.code != exitError || !strings.Contains(got.out, `"reason": "not valid JSON: unexpected end of JSON input (at byte 1)"`) {
		t.Errorf("%+v", got)
	}
}

func TestEveryFaultOfARequestIsNamed(t *testing.T) {
	t.Parallel()
	first := &errdetails.BadRequest_FieldViolation{Field: "name", Description: "is required"}
	second := &errdetails.BadRequest_FieldViolation{Description: "no\nway"}
	for name, test := range map[string]struct {
		detail proto.Message
		want   string
	}{
		"two": {
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{first, second}},
			"the request has several faults (invalid_argument)\n  name: is required\n  no way",
		},
		"one": {
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{first}}, "name: is required (invalid_argument)",
		},
		"something else": {&flowv1.UUID{Id: ruleOne}, "name: is required (invalid_argument)"},
		"nothing that is known": {
			&anypb.Any{TypeUrl: "type.googleapis.com/site.Unknown", Value: []byte{1}}, "name: is required (invalid_argument)",
		},
	} {
		err := connect.NewError(connect.CodeInvalidArgument, errors.New("name: is required"))
		d, detailErr := connect.NewErrorDetail(test.detail)
		if detailErr != nil {
			t.Fatal(detailErr)
		}
		err.AddDetail(d)
		got := against(t, &fake{submit: err}, "rule", "delete", ruleOne)
		if got.code != exitError || got.out != "" || got.err != "Error: rule delete: "+test.want+"\n" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRuleCompletion(t *testing.T) {
	t.Parallel()
	f := ruled()
	f.racks = stocked().racks
	env := f.env(t)
	all := ruleOne + "\tsite power on power_control/power_on " + ruleTwo + "\tb?[2J firmware_control/upgrade :36"
	for line, want := range map[string]string{
		"rule get":                   all,
		"rule get x":                 ":4",
		"rule delete":                all,
		"rule update":                all,
		"rule set-default --id":      all,
		"rule associate --rule-id":   all,
		"rule explain":               "power_on power_off force_power_off restart force_restart cold_reset upgrade bring_up ingest decommission :4",
		"rule explain power_on":      "rack-1\t" + rackOne + " rack-2\t" + rackTwo + " :4",
		"rule associate --rack-id":   rackOne + "\track-1 " + rackTwo + "\track-2 :36",
		"power on --rule-id":         all,
		"rule list --operation-type": "power_control firmware_control :4",
		"rule disassociate --operation-type firmware_control --operation": "upgrade downgrade rollback :4",
	} {
		got := flow(t.Context(), env, "", append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if diff := cmp.Diff(want, strings.ReplaceAll(strings.TrimSpace(got.out), "\n", " ")); diff != "" || got.code != exitOK {
			t.Errorf("%s: %s%s", line, diff, got.err)
		}
	}
}
