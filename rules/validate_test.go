package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
)

var (
	powerOn = Operation{TaskPowerControl, "power_on"}
	upgrade = Operation{TaskFirmwareControl, CodeUpgrade}
)

// vectors are those of the specification, by number. An empty want is a valid document.
var vectors = map[string]struct {
	op   Operation
	doc  string
	want string
}{
	"1 an empty object is a rule without steps":            {powerOn, `{}`, ""},
	"2 another version is refused":                         {powerOn, `{"version":"v2","steps":[]}`, "unsupported rule definition version 'v2', want 'v1'"},
	"3 component types in capitals are known":              {powerOn, oneStep(`"component_type": "POWERSHELF"`), ""},
	"4 power_shelf is no component type":                   {powerOn, oneStep(`"component_type": "power_shelf"`), "step 0: component type 'power_shelf' is unknown or invalid"},
	"5 stages count from 1":                                {powerOn, oneStep(`"stage": 0`), "step 0: stage must be >= 1, got 0"},
	"6 stages may have gaps":                               {powerOn, twoSteps(7, 3), ""},
	"7 a component type occurs once in a stage":            {powerOn, twoSteps(2, 2), "step 1: duplicate component type Compute in stage 2"},
	"8 a component type may occur in several stages":       {powerOn, twoSteps(2, 3), ""},
	"9 max_parallel is not negative":                       {powerOn, oneStep(`"max_parallel": -1`), "step 0: max_parallel must be >= 0, got -1"},
	"10 a timeout is no number":                            {powerOn, oneStep(`"timeout": 600`), "step 0: timeout must be of type string, got number"},
	"11 a timeout has a unit":                              {powerOn, oneStep(`"timeout": "600"`), "step 0: invalid timeout: '600' is no duration such as 90s or 1h30m"},
	"12 a timeout may be 0":                                {powerOn, oneStep(`"timeout": "0"`), ""},
	"13 a retry has max_attempts":                          {powerOn, oneStep(`"retry": {"initial_interval": "1s", "backoff_coefficient": 1}`), "step 0: invalid retry policy: max_attempts must be >= 1, got 0"},
	"14 waits do not shrink":                               {powerOn, oneStep(`"retry": {"max_attempts": 2, "initial_interval": "1s", "backoff_coefficient": 0.5}`), "step 0: invalid retry policy: backoff_coefficient must be >= 1.0, got 0.5"},
	"15 the main operation is required":                    {powerOn, oneStep(`"main_operation": {}`), "step 0: main_operation is required"},
	"16 actions of built-in rules are unknown":             {powerOn, oneStep(`"main_operation": {"name": "BringUpControl"}`), "step 0: main_operation: unknown action: BringUpControl"},
	"17 the expected status is lower case":                 {powerOn, oneMain("VerifyPowerStatus", polled+`, "parameters": {"expected_status": "On"}`), "step 0: main_operation: action VerifyPowerStatus parameter expected_status must be 'on' or 'off', got 'On'"},
	"18 a verification has a poll interval":                {powerOn, oneMain("VerifyPowerStatus", `"timeout": "1m", "parameters": {"expected_status": "on"}`), "step 0: main_operation: action VerifyPowerStatus requires poll_interval"},
	"19 a sleep may be given in nanoseconds":               {powerOn, oneMain("Sleep", `"parameters": {"duration": 5000000000}`), ""},
	"20 a sleep in text has a unit":                        {powerOn, oneMain("Sleep", `"parameters": {"duration": "5"}`), "step 0: main_operation: action Sleep parameter duration '5' is no duration such as 90s or 1h30m"},
	"21 reachability takes a list of types":                {powerOn, oneMain("VerifyReachability", polled+`, "parameters": {"component_types": "compute"}`), "step 0: main_operation: action VerifyReachability parameter component_types must be of type array, got string"},
	"22 unknown keys are dropped":                          {powerOn, oneStep(`"comment": "x"`), ""},
	"23 a firmware rule has no power operation to inherit": {upgrade, oneStep(``), "step 0: main_operation: action PowerControl missing required parameter: operation, only a power_control rule has one to inherit"},
	"24 a power rule cannot be about a firmware code":      {Operation{TaskPowerControl, CodeUpgrade}, `{}`, "invalid operation code 'upgrade' for operation type 'power_control'"},
}

const polled = `"timeout": "1m", "poll_interval": "1s"`

func twoSteps(first, second int) string {
	const step = `{"component_type": "Compute", "stage": %d, "main_operation": {"name": "PowerControl"}}`
	return fmt.Sprintf(`{"steps": [`+step+`, `+step+`]}`, first, second)
}

func oneMain(name, members string) string {
	if members != "" {
		members = ", " + members
	}
	return oneStep(`"main_operation": {"name": "` + name + `"` + members + `}`)
}

func TestValidationVectors(t *testing.T) {
	t.Parallel()
	for name, tt := range vectors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := check(tt.op, tt.doc); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// check is what a caller does with a submitted rule.
func check(op Operation, doc string) string {
	d, err := Parse([]byte(doc))
	if err == nil {
		err = errors.Join(op.Validate(), d.Validate(op))
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestValidateSteps(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		doc  string
		want string
	}{
		"an absent component type":        {oneStep(`"component_type": ""`), "step 0: component type is unknown or invalid"},
		"a component type called Unknown": {oneStep(`"component_type": "Unknown"`), "step 0: component type is unknown or invalid"},
		"a step that is null":             {`{"steps": [null]}`, "step 0: component type is unknown or invalid; step 0: stage must be >= 1, got 0; step 0: main_operation is required"},
		"a negative stage":                {oneStep(`"stage": -2`), "step 0: stage must be >= 1, got -2"},
		"a negative timeout":              {oneStep(`"timeout": "-1s"`), "step 0: timeout must be non-negative, got -1s"},
		"a negative delay":                {oneStep(`"delay_after": "-1s"`), "step 0: delay_after must be non-negative, got -1s"},
		"a timeout of a week":             {oneStep(`"timeout": "168h"`), ""},
		"a timeout beyond a week":         {oneStep(`"timeout": "168h0m1s"`), "step 0: timeout must be at most 168h0m0s, got 168h0m1s"},
		"a delay in place of an action":   {`{"steps": [{"component_type": "CDU", "stage": 1, "delay_after": "1s"}]}`, "step 0: main_operation is required"},
		"a pre action without a name":     {oneStep(`"pre_operation": [{}]`), "step 0: pre_operation[0]: unknown action: "},
		"a post action nobody knows":      {oneStep(`"post_operation": [{"name": "GetPowerStatus", "timeout": "1s"}, {"name": "sleep"}]`), "step 0: post_operation[1]: unknown action: sleep"},
		"the same type three times":       {`{"steps": [` + strings.Repeat(`{"component_type": "CDU", "stage": 4, "main_operation": {"name": "PowerControl"}},`, 2) + `{"component_type": "cdu", "stage": 4, "main_operation": {"name": "PowerControl"}}]}`, "step 1: duplicate component type CDU in stage 4; step 2: duplicate component type CDU in stage 4"},
		"all mistakes of a step in the reference's order": {
			`{"steps": [{"stage": 0, "max_parallel": -1, "delay_after": "-1s", "timeout": "-2s", "retry": {},
				"pre_operation": [{"name": "A"}], "main_operation": {"name": "B"}, "post_operation": [{"name": "C"}]}]}`,
			"step 0: component type is unknown or invalid; " +
				"step 0: stage must be >= 1, got 0; " +
				"step 0: max_parallel must be >= 0, got -1; " +
				"step 0: delay_after must be non-negative, got -1s; " +
				"step 0: timeout must be non-negative, got -2s; " +
				"step 0: invalid retry policy: max_attempts must be >= 1, got 0; " +
				"step 0: invalid retry policy: initial_interval is required and must be positive; " +
				"step 0: invalid retry policy: backoff_coefficient must be >= 1.0, got 0; " +
				"step 0: pre_operation[0]: unknown action: A; " +
				"step 0: main_operation: unknown action: B; " +
				"step 0: post_operation[0]: unknown action: C",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := check(powerOn, tt.doc); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestValidateRetry(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		retry string
		want  string
	}{
		"a hundred attempts":                  {`"max_attempts": 100, "initial_interval": "1s", "backoff_coefficient": 1`, ""},
		"more than a hundred attempts":        {`"max_attempts": 101, "initial_interval": "1s", "backoff_coefficient": 1`, "max_attempts must be <= 100, got 101"},
		"no initial interval":                 {`"max_attempts": 1, "backoff_coefficient": 1`, "initial_interval is required and must be positive"},
		"a negative initial interval":         {`"max_attempts": 1, "initial_interval": "-1s", "backoff_coefficient": 1`, "initial_interval is required and must be positive"},
		"an initial interval beyond a week":   {`"max_attempts": 1, "initial_interval": "169h", "backoff_coefficient": 1`, "initial_interval must be at most 168h0m0s, got 169h0m0s"},
		"no coefficient":                      {`"max_attempts": 1, "initial_interval": "1s"`, "backoff_coefficient must be >= 1.0, got 0"},
		"a negative max_interval":             {`"max_attempts": 1, "initial_interval": "1s", "backoff_coefficient": 1, "max_interval": "-1s"`, "max_interval must be non-negative, got -1s"},
		"max_interval 0":                      {`"max_attempts": 1, "initial_interval": "1s", "backoff_coefficient": 1, "max_interval": "0s"`, ""},
		"max_interval equal to the first one": {`"max_attempts": 1, "initial_interval": "1s", "backoff_coefficient": 1, "max_interval": "1s"`, ""},
		"max_interval below the first one":    {`"max_attempts": 1, "initial_interval": "2s", "backoff_coefficient": 1, "max_interval": "1s"`, "max_interval must be 0 or >= initial_interval, got 1s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			if want != "" {
				want = "step 0: invalid retry policy: " + want
			}
			if got := check(powerOn, oneStep(`"retry": {`+tt.retry+`}`)); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestValidateActions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name, members string
		op            Operation // zero: power_on
		want          string    // without the place
	}{
		"Sleep in text":                         {"Sleep", `"parameters": {"duration": "1h30m"}`, powerOn, ""},
		"Sleep of zero":                         {"Sleep", `"parameters": {"duration": "0"}`, powerOn, ""},
		"Sleep in another form of whole number": {"Sleep", `"parameters": {"duration": 5e9}`, powerOn, ""},
		"Sleep without a duration":              {"Sleep", ``, powerOn, "action Sleep missing required parameter: duration"},
		"Sleep with an empty duration":          {"Sleep", `"parameters": {"duration": ""}`, powerOn, "action Sleep parameter duration must not be empty"},
		"Sleep of a bool":                       {"Sleep", `"parameters": {"duration": true}`, powerOn, "action Sleep parameter duration must be a duration, got bool"},
		"Sleep of an object":                    {"Sleep", `"parameters": {"duration": {}}`, powerOn, "action Sleep parameter duration must be a duration, got object"},
		"Sleep of an array":                     {"Sleep", `"parameters": {"duration": []}`, powerOn, "action Sleep parameter duration must be a duration, got array"},
		"Sleep of null":                         {"Sleep", `"parameters": {"duration": null}`, powerOn, "action Sleep parameter duration must be a duration, got null"},
		"Sleep of a fraction":                   {"Sleep", `"parameters": {"duration": 1.5}`, powerOn, "action Sleep parameter duration must be a whole number of nanoseconds, got 1.5"},
		"Sleep of a negative number":            {"Sleep", `"parameters": {"duration": -1}`, powerOn, "action Sleep parameter duration must be non-negative, got -1ns"},
		"Sleep of a negative text":              {"Sleep", `"parameters": {"duration": "-1s"}`, powerOn, "action Sleep parameter duration must be non-negative, got -1s"},
		"Sleep beyond a week":                   {"Sleep", `"parameters": {"duration": 604800000000001}`, powerOn, "action Sleep parameter duration must be at most 168h0m0s, got 168h0m0.000000001s"},
		"Sleep beyond every number":             {"Sleep", `"parameters": {"duration": 1e30}`, powerOn, "action Sleep parameter duration must be at most 168h0m0s, got 2562047h47m16.854775807s"},
		"Sleep in days":                         {"Sleep", `"parameters": {"duration": "1d"}`, powerOn, "action Sleep parameter duration '1d' is no duration such as 90s or 1h30m"},

		"PowerControl inheriting":                     {"PowerControl", ``, powerOn, ""},
		"PowerControl with each code":                 {"PowerControl", `"timeout": "1m", "parameters": {"operation": "warm_reset"}`, upgrade, ""},
		"PowerControl with an unknown code":           {"PowerControl", `"parameters": {"operation": "upgrade"}`, powerOn, "action PowerControl parameter operation is no power operation: 'upgrade'"},
		"PowerControl with a code in capitals":        {"PowerControl", `"parameters": {"operation": "Power_On"}`, powerOn, "action PowerControl parameter operation is no power operation: 'Power_On'"},
		"PowerControl with a number":                  {"PowerControl", `"parameters": {"operation": 1}`, powerOn, "action PowerControl parameter operation must be of type string, got number"},
		"PowerControl with null":                      {"PowerControl", `"parameters": {"operation": null}`, powerOn, "action PowerControl parameter operation must be of type string, got null"},
		"PowerControl inheriting in a firmware rule":  {"PowerControl", ``, upgrade, "action PowerControl missing required parameter: operation, only a power_control rule has one to inherit"},
		"PowerControl with parameters it has not got": {"PowerControl", `"parameters": {"duration": "soon"}`, powerOn, ""},

		"VerifyPowerStatus on":                        {"VerifyPowerStatus", polled + `, "parameters": {"expected_status": "on"}`, powerOn, ""},
		"VerifyPowerStatus off":                       {"VerifyPowerStatus", polled + `, "parameters": {"expected_status": "off"}`, powerOn, ""},
		"VerifyPowerStatus without a status":          {"VerifyPowerStatus", polled, powerOn, "action VerifyPowerStatus missing required parameter: expected_status"},
		"VerifyPowerStatus with a bool":               {"VerifyPowerStatus", polled + `, "parameters": {"expected_status": true}`, powerOn, "action VerifyPowerStatus parameter expected_status must be of type string, got bool"},
		"VerifyPowerStatus without anything":          {"VerifyPowerStatus", ``, powerOn, "action VerifyPowerStatus missing required parameter: expected_status; step 0: main_operation: action VerifyPowerStatus requires timeout; step 0: main_operation: action VerifyPowerStatus requires poll_interval"},
		"VerifyPowerStatus with a negative timeout":   {"VerifyPowerStatus", `"timeout": "-1m", "poll_interval": "1s", "parameters": {"expected_status": "on"}`, powerOn, "timeout must be non-negative, got -1m0s"},
		"VerifyPowerStatus with an interval too long": {"VerifyPowerStatus", `"timeout": "1m", "poll_interval": "200h", "parameters": {"expected_status": "on"}`, powerOn, "poll_interval must be at most 168h0m0s, got 200h0m0s"},

		"VerifyReachability":                          {"VerifyReachability", polled + `, "parameters": {"component_types": ["compute", "NVSWITCH"], "require_all": false}`, powerOn, ""},
		"VerifyReachability without types":            {"VerifyReachability", polled, powerOn, "action VerifyReachability missing required parameter: component_types"},
		"VerifyReachability of no type":               {"VerifyReachability", polled + `, "parameters": {"component_types": []}`, powerOn, "action VerifyReachability parameter component_types must name at least one component type"},
		"VerifyReachability of a number":              {"VerifyReachability", polled + `, "parameters": {"component_types": ["compute", 1]}`, powerOn, "action VerifyReachability parameter component_types [1] must be of type string, got number"},
		"VerifyReachability of an unknown type":       {"VerifyReachability", polled + `, "parameters": {"component_types": ["tray"]}`, powerOn, "action VerifyReachability parameter component_types [0]: component type 'tray' is unknown or invalid"},
		"VerifyReachability with require_all in text": {"VerifyReachability", polled + `, "parameters": {"component_types": ["CDU"], "require_all": "yes"}`, powerOn, "action VerifyReachability parameter require_all must be of type bool, got string"},
		"VerifyReachability without an interval":      {"VerifyReachability", `"timeout": "1m", "parameters": {"component_types": ["CDU"]}`, powerOn, "action VerifyReachability requires poll_interval"},
		"VerifyReachability without a timeout":        {"VerifyReachability", `"poll_interval": "1m", "parameters": {"component_types": ["CDU"]}`, powerOn, "action VerifyReachability requires timeout"},

		"GetPowerStatus":                   {"GetPowerStatus", `"timeout": "10s"`, powerOn, ""},
		"GetPowerStatus without a timeout": {"GetPowerStatus", ``, powerOn, "action GetPowerStatus requires timeout"},

		"FirmwareControl":                           {"FirmwareControl", ``, upgrade, ""},
		"FirmwareControl with every parameter":      {"FirmwareControl", `"timeout": "5m", "parameters": {"poll_interval": "1m", "poll_timeout": 0, "operation": 5}`, upgrade, ""},
		"FirmwareControl in a power rule":           {"FirmwareControl", ``, powerOn, ""},
		"FirmwareControl with both durations wrong": {"FirmwareControl", `"parameters": {"poll_interval": "30", "poll_timeout": "-1m"}`, upgrade, "action FirmwareControl parameter poll_interval '30' is no duration such as 90s or 1h30m; step 0: main_operation: action FirmwareControl parameter poll_timeout must be non-negative, got -1m0s"},

		"VerifyFirmwareConsistency is for our rules": {"VerifyFirmwareConsistency", ``, upgrade, "unknown action: VerifyFirmwareConsistency"},
		"WaitBringUp is for our rules":               {"WaitBringUp", ``, powerOn, "unknown action: WaitBringUp"},
		"InjectExpectation is for our rules":         {"InjectExpectation", ``, powerOn, "unknown action: InjectExpectation"},
		"DecommissionControl is for our rules":       {"DecommissionControl", ``, powerOn, "unknown action: DecommissionControl"},
		"WaitDecommissioned is for our rules":        {"WaitDecommissioned", polled, powerOn, "unknown action: WaitDecommissioned"},
		"VerifyFirmwareVersion is only a name":       {"VerifyFirmwareVersion", ``, upgrade, "unknown action: VerifyFirmwareVersion"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			if want != "" {
				want = "step 0: main_operation: " + want
			}
			if got := check(tt.op, oneMain(tt.name, tt.members)); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestOurOwnRulesMayUseEveryAction(t *testing.T) {
	t.Parallel()
	for name := range actions {
		a := Action{
			Name: name, Timeout: Duration(time.Minute), PollInterval: Duration(time.Second),
			Parameters: Parameters{"duration": "1s", "operation": "power_on", "expected_status": "on", "component_types": []any{"CDU"}},
		}
		d := Definition{Steps: []Step{{ComponentType: hardware.Compute, Stage: 1, Main: a}}}
		if err := d.validateBuiltin(Operation{TaskBringUp, CodeBringUp}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProblemsOfValidationNameTheirPath(t *testing.T) {
	t.Parallel()
	d, err := Parse([]byte(`{"steps": [{"component_type": "CDU", "stage": 1, "retry": {"max_attempts": 1, "initial_interval": "1s"},
		"pre_operation": [{"name": "Sleep", "parameters": {"duration": "x"}}], "main_operation": {"name": "GetPowerStatus"},
		"post_operation": [{"name": "X"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	problems, _ := errors.AsType[Problems](d.Validate(powerOn))
	var got []string
	for _, p := range problems {
		got = append(got, p.Path)
	}
	want := []string{
		"steps[0].retry.backoff_coefficient",
		"steps[0].pre_operation[0].parameters.duration",
		"steps[0].main_operation.timeout",
		"steps[0].post_operation[0].name",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestOperationValidate(t *testing.T) {
	t.Parallel()
	for op, want := range map[Operation]string{
		powerOn: "", upgrade: "",
		{TaskBringUp, CodeIngest}:            "",
		{TaskPowerControl, "POWER_ON"}:       "invalid operation code 'POWER_ON' for operation type 'power_control'",
		{TaskDecommission, ""}:               "invalid operation code '' for operation type 'decommission'",
		{"reboot", "power_on"}:               "unknown operation type 'reboot'",
		{TaskInjectExpectation, CodeUpgrade}: "invalid operation code 'upgrade' for operation type 'inject_expectation'",
	} {
		got := ""
		if err := op.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", op, got, want)
		}
	}
}

// BenchmarkValidate200Steps reads and checks a rule of 200 steps. Who submits one waits for it, so it is to take well below
// 5 ms.
func BenchmarkValidate200Steps(b *testing.B) {
	d := Definition{}
	for i := range 200 {
		d.Steps = append(d.Steps, Step{
			ComponentType: hardware.Compute, Stage: i + 1, MaxParallel: 4, Timeout: Duration(time.Minute),
			Retry: &Retry{3, Duration(time.Second), 2, 0},
			Pre:   []Action{{Name: ActionSleep, Parameters: Parameters{"duration": "10s"}}},
			Main:  Action{Name: ActionPowerControl},
			Post: []Action{{
				Name: ActionVerifyPowerStatus, Timeout: Duration(time.Minute), PollInterval: Duration(time.Second),
				Parameters: Parameters{"expected_status": "on"},
			}},
		})
	}
	doc, err := json.Marshal(d)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		d, err := Parse(doc)
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Validate(powerOn); err != nil {
			b.Fatal(err)
		}
	}
}
