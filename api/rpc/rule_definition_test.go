package rpc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
)

// onlyStep is a definition of one step that is valid when the members are.
func onlyStep(members string) string {
	for _, usual := range []string{`"component_type": "Compute"`, `"stage": 1`, `"main_operation": {"name": "PowerControl"}`} {
		if key, _, _ := strings.Cut(usual, ":"); !strings.Contains(members, key) {
			members += ", " + usual
		}
	}
	return `{"steps": [{` + strings.TrimPrefix(members, ", ") + `}]}`
}

// mainAction is onlyStep with a main operation of that name and those members.
func mainAction(name, members string) string {
	return onlyStep(`"main_operation": {"name": "` + name + `"` + members + `}`)
}

const polling = `, "timeout": "1m", "poll_interval": "1s"`

// violations are the fields that an error says are wrong.
func violations(t *testing.T, err error) (fields, reasons []string) {
	t.Helper()
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("%v is no error of connect", err)
	}
	for _, d := range ce.Details() {
		m, err := d.Value()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range m.(*errdetails.BadRequest).GetFieldViolations() {
			fields, reasons = append(fields, v.GetField()), append(reasons, v.GetDescription())
		}
	}
	return fields, reasons
}

// vectors are those of the chapter, by number. What is returned of a valid one is the canonical form; of any other, the
// path of what is wrong and words that the text has.
var vectors = map[string]struct {
	doc    string
	change func(*flowv1.CreateOperationRuleRequest)
	want   string // canonical form
	path   string
	words  string
}{
	"1 an empty object": {doc: `{}`, want: `{"version":"v1","steps":[]}`},
	"2 another version": {doc: `{"version":"v2","steps":[]}`, path: "version", words: "unsupported rule definition version 'v2', want 'v1'"},
	"3 a type in capitals": {
		doc:  onlyStep(`"component_type": "POWERSHELF"`),
		want: `{"version":"v1","steps":[{"component_type":"PowerShelf","stage":1,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`,
	},
	"4 a type in another spelling": {doc: onlyStep(`"component_type": "power_shelf"`), path: "steps[0].component_type", words: "power_shelf"},
	"5 stage 0":                    {doc: onlyStep(`"stage": 0`), path: "steps[0].stage", words: "step 0: stage must be >= 1, got 0"},
	"6 stages with a gap": {
		doc: `{"steps": [{"component_type": "CDU", "stage": 7, "main_operation": {"name": "PowerControl"}},
			{"component_type": "UMS", "stage": 3, "main_operation": {"name": "PowerControl"}}]}`,
		want: `{"version":"v1","steps":[{"component_type":"CDU","stage":7,"max_parallel":0,"main_operation":{"name":"PowerControl"}},` +
			`{"component_type":"UMS","stage":3,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`,
	},
	"7 a type twice in a stage": {
		doc: `{"steps": [{"component_type": "Compute", "stage": 2, "main_operation": {"name": "PowerControl"}},
			{"component_type": "Compute", "stage": 2, "main_operation": {"name": "PowerControl"}}]}`,
		path: "steps[1].component_type", words: "step 1: duplicate component type Compute in stage 2",
	},
	"8 a type in two stages": {
		doc: `{"steps": [{"component_type": "Compute", "stage": 2, "main_operation": {"name": "PowerControl"}},
			{"component_type": "Compute", "stage": 3, "main_operation": {"name": "PowerControl"}}]}`,
		want: `{"version":"v1","steps":[{"component_type":"Compute","stage":2,"max_parallel":0,"main_operation":{"name":"PowerControl"}},` +
			`{"component_type":"Compute","stage":3,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`,
	},
	"9 max_parallel -1":            {doc: onlyStep(`"max_parallel": -1`), path: "steps[0].max_parallel", words: "max_parallel must be >= 0"},
	"10 a timeout as a number":     {doc: onlyStep(`"timeout": 600`), path: "steps[0].timeout", words: "must be of type string"},
	"11 a timeout without a unit":  {doc: onlyStep(`"timeout": "600"`), path: "steps[0].timeout", words: "'600' is no duration"},
	"12 a timeout of 0":            {doc: onlyStep(`"timeout": "0"`), want: `{"version":"v1","steps":[{"component_type":"Compute","stage":1,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`},
	"13 a retry without attempts":  {doc: onlyStep(`"retry": {"initial_interval": "1s", "backoff_coefficient": 1}`), path: "steps[0].retry.max_attempts", words: "invalid retry policy: max_attempts must be >= 1"},
	"14 a backoff that shrinks":    {doc: onlyStep(`"retry": {"max_attempts": 2, "initial_interval": "1s", "backoff_coefficient": 0.5}`), path: "steps[0].retry.backoff_coefficient", words: "must be >= 1.0"},
	"15 no main operation":         {doc: onlyStep(`"main_operation": {}`), path: "steps[0].main_operation", words: "main_operation is required"},
	"16 a reserved action":         {doc: mainAction("BringUpControl", ``), path: "steps[0].main_operation.name", words: "unknown action: BringUpControl"},
	"17 an expected status of On":  {doc: mainAction("VerifyPowerStatus", polling+`, "parameters": {"expected_status": "On"}`), path: "steps[0].main_operation.parameters.expected_status", words: "must be 'on' or 'off'"},
	"18 no poll interval":          {doc: mainAction("VerifyPowerStatus", `, "timeout": "1m", "parameters": {"expected_status": "on"}`), path: "steps[0].main_operation.poll_interval", words: "requires poll_interval"},
	"19 a sleep in nanoseconds":    {doc: mainAction("Sleep", `, "parameters": {"duration": 5000000000}`), want: `{"version":"v1","steps":[{"component_type":"Compute","stage":1,"max_parallel":0,"main_operation":{"name":"Sleep","parameters":{"duration":5000000000}}}]}`},
	"20 a sleep without a unit":    {doc: mainAction("Sleep", `, "parameters": {"duration": "5"}`), path: "steps[0].main_operation.parameters.duration", words: "'5' is no duration"},
	"21 a type instead of a list":  {doc: mainAction("VerifyReachability", polling+`, "parameters": {"component_types": "compute"}`), path: "steps[0].main_operation.parameters.component_types", words: "must be of type array"},
	"22 an unknown key in a step":  {doc: onlyStep(`"comment": "x"`), want: `{"version":"v1","steps":[{"component_type":"Compute","stage":1,"max_parallel":0,"main_operation":{"name":"PowerControl"}}]}`},
	"23 nothing to inherit":        {doc: onlyStep(``), change: upgradeRule, path: "steps[0].main_operation.parameters.operation", words: "missing required parameter: operation"},
	"24 a firmware code for power": {doc: `{}`, change: func(r *flowv1.CreateOperationRuleRequest) { r.OperationCode = "upgrade" }, words: "invalid operation code 'upgrade' for operation type 'power_control'"},
}

func upgradeRule(r *flowv1.CreateOperationRuleRequest) {
	r.OperationType, r.OperationCode = firmwareRule, "upgrade"
}

func TestEveryValidationVectorOverTheAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for i := range 24 {
		names := slices.DeleteFunc(slices.Collect(maps.Keys(vectors)), func(name string) bool {
			return !strings.HasPrefix(name, fmt.Sprintf("%d ", i+1))
		})
		if len(names) != 1 {
			t.Errorf("vector %d is tested as %q", i+1, names)
		}
	}
	for name, v := range vectors {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				req := newRule(name, v.change)
				req.RuleDefinitionJson = v.doc
				var id *flowv1.UUID
				create := func() error {
					res, err := flow.CreateOperationRule(t.Context(), req)
					id = res.GetId()
					return err
				}
				if v.want == "" {
					s.refuses(t, create, connect.CodeInvalidArgument, v.words)
					want := "operation_code"
					if v.path != "" {
						want = "rule_definition_json:" + v.path
					}
					if fields, _ := violations(t, create()); !slices.Equal(fields, []string{want}) {
						t.Errorf("violations of %q, want %q", fields, want)
					}
					return
				}
				if err := create(); err != nil {
					t.Fatal(err)
				}
				got, err := flow.GetOperationRule(t.Context(), &flowv1.GetOperationRuleRequest{RuleId: id})
				if err != nil || got.GetRuleDefinitionJson() != v.want {
					t.Errorf("read as %v: %v", got.GetRuleDefinitionJson(), err)
				}
			})
		})
	}
}

// TestWhatTheReferenceTakesAndFlowRefuses has the deviations of the chapter that are about what can be stored, by number;
// each document is stored by the reference.
func TestWhatTheReferenceTakesAndFlowRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	retry := func(attempts, most string) string {
		return onlyStep(`"retry": {"max_attempts": ` + attempts + `, "initial_interval": "10s", "backoff_coefficient": 1` + most + `}`)
	}
	const verify = polling + `, "parameters": {"component_types": `
	for name, c := range map[string]struct {
		doc      string
		firmware bool
		path     string
	}{
		"D-31.2 a negative timeout of an action": {doc: mainAction("PowerControl", `, "timeout": "-1s"`), path: "main_operation.timeout"},
		"D-31.2 a negative poll interval": {
			doc: mainAction("VerifyPowerStatus", `, "timeout": "1m", "poll_interval": "-1s", "parameters": {"expected_status": "on"}`), path: "main_operation.poll_interval",
		},
		"D-31.3 attempts without end":                {doc: retry("101", ""), path: "retry.max_attempts"},
		"D-31.3 a cap below the first wait":          {doc: retry("2", `, "max_interval": "9s"`), path: "retry.max_interval"},
		"D-31.4 a sleep of empty text":               {doc: mainAction("Sleep", `, "parameters": {"duration": ""}`), path: "main_operation.parameters.duration"},
		"D-31.4 a sleep of days":                     {doc: mainAction("Sleep", `, "parameters": {"duration": "1d"}`), path: "main_operation.parameters.duration"},
		"D-31.4 a sleep of a fraction":               {doc: mainAction("Sleep", `, "parameters": {"duration": 1.5}`), path: "main_operation.parameters.duration"},
		"D-31.4 a sleep back in time":                {doc: mainAction("Sleep", `, "parameters": {"duration": "-5s"}`), path: "main_operation.parameters.duration"},
		"D-31.4 a poll timeout without a unit":       {doc: mainAction("FirmwareControl", `, "parameters": {"poll_timeout": "30"}`), firmware: true, path: "main_operation.parameters.poll_timeout"},
		"D-31.5 more than 168 h in a step":           {doc: onlyStep(`"timeout": "168h0m1s"`), path: "timeout"},
		"D-31.5 more than 168 h in a parameter":      {doc: mainAction("Sleep", `, "parameters": {"duration": "169h"}`), path: "main_operation.parameters.duration"},
		"D-31.7 decommissioning":                     {doc: mainAction("DecommissionControl", ``), path: "main_operation.name"},
		"D-31.7 waiting for the end of it":           {doc: mainAction("WaitDecommissioned", polling), path: "main_operation.name"},
		"D-31.9 an unknown power operation":          {doc: mainAction("PowerControl", `, "parameters": {"operation": "explode"}`), path: "main_operation.parameters.operation"},
		"D-31.9 a firmware rule that inherits power": {doc: onlyStep(``), firmware: true, path: "main_operation.parameters.operation"},
		"D-31.10 nothing to reach":                   {doc: mainAction("VerifyReachability", verify+`[]}`), path: "main_operation.parameters.component_types"},
		"D-31.10 require_all in text":                {doc: mainAction("VerifyReachability", verify+`["cdu"], "require_all": "true"}`), path: "main_operation.parameters.require_all"},
	} {
		t.Run(name, func(t *testing.T) {
			s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
				req := newRule(name, nil)
				if c.firmware {
					upgradeRule(req)
				}
				req.RuleDefinitionJson = c.doc
				var refusal error
				s.refuses(t, func() error {
					_, refusal = flow.CreateOperationRule(t.Context(), req)
					return refusal
				}, connect.CodeInvalidArgument, "rule_definition_json", "rule validation failed")
				if fields, _ := violations(t, refusal); !slices.Equal(fields, []string{"rule_definition_json:steps[0]." + c.path}) {
					t.Errorf("violations of %q", fields)
				}
			})
		})
	}
	overAll := newRule("at the limits", nil)
	overAll.RuleDefinitionJson = onlyStep(`"timeout": "168h", "delay_after": "168h", "max_parallel": 2147483647, "stage": 2147483647,
		"retry": {"max_attempts": 100, "initial_interval": "168h", "backoff_coefficient": 1, "max_interval": "168h"}`)
	s.storeRule(overAll)
}

// TestAllThatIsWrongWithARuleIsSaidAtOnce is D-31.1.
func TestAllThatIsWrongWithARuleIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.overBoth(t, func(t *testing.T, flow flowv1connect.FlowClient) {
		_, err := flow.CreateOperationRule(t.Context(), newRule("", func(r *flowv1.CreateOperationRuleRequest) {
			r.RuleDefinitionJson = onlyStep(`"stage": 0, "pre_operation": [{"name": "Sleep"}], "main_operation": {"name": "Nothing"}`)
		}))
		refused(t, err, connect.CodeInvalidArgument, "rule name is required", "rule_definition_json")
		fields, reasons := violations(t, err)
		const doc = "rule_definition_json:steps[0]."
		if d := cmp.Diff([]string{"name", doc + "stage", doc + "pre_operation[0].parameters.duration", doc + "main_operation.name"}, fields); d != "" {
			t.Errorf("fields (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{
			"rule validation failed: rule name is required",
			"step 0: stage must be >= 1, got 0",
			"step 0: pre_operation[0]: action Sleep missing required parameter: duration",
			"step 0: main_operation: unknown action: Nothing",
		}, reasons); d != "" {
			t.Errorf("reasons (-want +got):\n%s", d)
		}
	})
}

// TestWhatTheDatabaseCannotHoldIsRefused has parameters that are good JSON, up to the limits of the database and beyond.
func TestWhatTheDatabaseCannotHoldIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for name, c := range map[string]struct {
		parameter string
		stored    bool
	}{
		"a number beyond every one":    {`1e400`, false},
		"a number below every one":     {`1e-20000`, false},
		"zero, in far too many digits": {`0e-20000`, false},
		"zero, in another way":         {`0e2000000000`, false},
		"a number as small as they go": {`5e-324`, true},
		"a number without an end":      {`0.` + strings.Repeat("1", 20000), false},
		"a long number":                {strings.Repeat("9", 300) + `.` + strings.Repeat("9", 600), true},
		"a NUL in a list in a list":    {`[["\u0000"]]`, false},
		"lists in lists, very deep":    {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), true},
		"lists in lists, too deep":     {strings.Repeat("[", 10001) + strings.Repeat("]", 10001), false},
		"half a character":             {`"\ud800"`, true}, // and read as the replacement for one
		"a very long text":             {`"` + strings.Repeat("x", 1<<20) + `"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.grpc.CreateOperationRule(t.Context(), newRule(name, func(r *flowv1.CreateOperationRuleRequest) {
				r.RuleDefinitionJson = mainAction("PowerControl", `, "parameters": {"x": `+c.parameter+`}`)
			}))
			if !c.stored {
				refused(t, err, connect.CodeInvalidArgument, "rule_definition_json")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
