package rules

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rackflow.dev/flow/hardware"
)

// builtinTable is the specification's table of built-in rules in its own notation.
const builtinTable = `
power_control/power_on ("Power On")
	1 | PS        | 15m | R(3,5s,2)   | -                                       | PC                        | VPS(on,5m,10s)
	2 | NV        | 15m | R(3,5s,2)   | -                                       | PC                        | VPS(on,5m,10s)
	3 | C         | 20m | R(3,1s,2)   | -                                       | PC                        | VPS(on,5m,10s)
power_control/power_off ("Power Off")
	1 | C         | 20m | R(3,1s,2)   | -                                       | PC                        | VPS(off,5m,10s)
	2 | NV        | 15m | R(3,5s,2)   | -                                       | PC                        | VPS(off,5m,10s)
	3 | PS        | 15m | R(3,5s,2)   | -                                       | PC                        | VPS(off,5m,10s)
power_control/force_power_on ("Force Power On")
	1 | PS        | 15m | R(3,5s,2)   | -                                       | PC                        | -
	2 | NV        | 15m | R(3,5s,2)   | -                                       | PC                        | -
	3 | C         | 20m | R(3,1s,2)   | -                                       | PC                        | Sleep 10s
	4 | PS, NV, C | 20m | R(2,5s,1.5) | -                                       | VPS(on,5m,5s)             | -
power_control/force_power_off ("Force Power Off")
	1 | C         | 20m | R(3,1s,2)   | -                                       | PC                        | Sleep 10s
	2 | NV        | 15m | R(3,5s,2)   | -                                       | PC                        | Sleep 5s
	3 | PS        | 15m | R(3,5s,2)   | -                                       | PC                        | Sleep 5s
	4 | PS, NV, C | 20m | R(2,5s,1.5) | -                                       | VPS(off,5m,5s)            | -
power_control/restart ("Restart")
	1 | C         | 20m | R(3,1s,2)   | -                                       | PC(power_off)             | VPS(off,10m,15s)
	2 | NV        | 15m | R(3,5s,2)   | -                                       | PC(power_off)             | VPS(off,10m,15s)
	3 | PS        | 15m | R(3,5s,2)   | -                                       | PC(power_off)             | VPS(off,10m,15s)
	4 | PS        | 15m | R(3,5s,2)   | -                                       | PC(power_on)              | VPS(on,10m,15s)
	5 | NV        | 15m | R(3,5s,2)   | -                                       | PC(power_on)              | VPS(on,10m,15s)
	6 | C         | 20m | R(3,1s,2)   | -                                       | PC(power_on)              | VPS(on,10m,15s)
power_control/force_restart ("Force Restart")
	1 | C         | 20m | R(3,1s,2)   | -                                       | PC(force_power_off)       | Sleep 10s
	2 | NV        | 15m | R(3,5s,2)   | -                                       | PC(force_power_off)       | Sleep 5s
	3 | PS        | 15m | R(3,5s,2)   | -                                       | PC(force_power_off)       | Sleep 5s
	4 | PS, NV, C | 20m | R(2,5s,1.5) | -                                       | VPS(off,5m,15s)           | -
	5 | PS        | 15m | R(3,5s,2)   | -                                       | PC(force_power_on)        | Sleep 10s
	6 | NV        | 15m | R(3,5s,2)   | -                                       | PC(force_power_on)        | Sleep 15s
	7 | C         | 20m | R(3,1s,2)   | -                                       | PC(force_power_on)        | Sleep 10s
	8 | PS, NV, C | 20m | R(2,5s,1.5) | -                                       | VPS(on,5m,5s)             | -
power_control/cold_reset ("AC Power Cycle")
	1 | C         | 20m | default     | -                                       | PC                        | -
firmware_control/upgrade ("Firmware Upgrade")
	1 | C         | 45m | R(2,30s,1.5) | -                                       | FW                        | -
	2 | NV        | 45m | R(2,30s,1.5) | -                                       | FW                        | -
firmware_control/downgrade ("Firmware Upgrade")
	1 | C         | 45m | R(2,30s,1.5) | -                                       | FW                        | -
	2 | NV        | 45m | R(2,30s,1.5) | -                                       | FW                        | -
firmware_control/rollback ("Firmware Upgrade")
	1 | C         | 45m | R(2,30s,1.5) | -                                       | FW                        | -
	2 | NV        | 45m | R(2,30s,1.5) | -                                       | FW                        | -
bring_up/bring_up ("Bring-Up")
	1 | PS        | 15m | R(3,10s,2)  | -                                       | PC(power_on)              | VPS(on,10m,15s)
	2 | C         | 15m | R(3,10s,2)  | -                                       | PC(power_on)              | VPS(on,10m,15s)
	3 | C         | 60m | R(2,30s,2)  | -                                       | FW                        | -
	4 | NV        | 15m | R(3,10s,2)  | -                                       | PC(power_on)              | VPS(on,10m,15s)
	5 | NV        | 10m | R(2,10s,2)  | -                                       | VerifyFirmwareConsistency | -
	6 | C         | 20m | R(2,10s,2)  | PC(power_off); VPS(off,5m,15s); Sleep 30s | PC(power_on)            | VPS(on,10m,15s)
bring_up/ingest ("Ingestion")
	1 | C, NV     | 10m | default     | -                                       | InjectExpectation         | -
decommission/decommission ("Decommission")
	1 | C         | 4h  | R(3,30s,2)  | -                                       | DecommissionControl       | WD
	2 | NV        | 4h  | R(3,30s,2)  | -                                       | DecommissionControl       | WD
	3 | PS        | 4h  | R(3,30s,2)  | -                                       | DecommissionControl       | WD
`

func TestBuiltinRulesAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	want := map[string][]string{}
	var title string
	for line := range strings.Lines(strings.TrimSpace(builtinTable)) {
		if !strings.HasPrefix(line, "\t") {
			title = strings.TrimSpace(line)
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for kind := range strings.SplitSeq(cells[1], ", ") {
			row := slices.Clone(cells)
			row[1] = kind
			want[title] = append(want[title], strings.Join(row, " | "))
		}
	}
	got := map[string][]string{}
	for op, r := range builtins() {
		title := fmt.Sprintf("%s (%q)", op, strings.TrimPrefix(r.Name, "Hardcoded Default "))
		for _, s := range r.Definition.Steps {
			got[title] = append(got[title], tableRow(s))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("built-in rules (-table +documents):\n%s", diff)
	}
}

func TestEveryOperationHasABuiltinRuleExceptWarmResetAndInjection(t *testing.T) {
	t.Parallel()
	for _, typ := range []TaskType{TaskPowerControl, TaskFirmwareControl, TaskBringUp, TaskDecommission, TaskInjectExpectation} {
		for _, code := range typ.Codes() {
			want := code != "warm_reset" && typ != TaskInjectExpectation
			if _, ok := Builtin(Operation{typ, code}); ok != want {
				t.Errorf("%s/%s has a built-in rule: %t, want %t", typ, code, ok, want)
			}
		}
	}
}

func TestBuiltinPowerAndFirmwareRulesCouldBeStored(t *testing.T) {
	t.Parallel()
	for op, r := range builtins() {
		if op.Type != TaskPowerControl && op.Type != TaskFirmwareControl {
			continue
		}
		if err := r.Definition.Validate(op); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestBuiltinDocumentsHaveNoUnknownKeys(t *testing.T) {
	t.Parallel()
	for op, r := range builtins() {
		doc, err := r.Definition.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseStrict(doc); err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestReadBuiltinsRefusesWhatAnOperatorCouldNotStore(t *testing.T) {
	t.Parallel()
	const good = `{"name": "x", "operation_type": "power_control", "operation_codes": ["power_on"], "rule_definition": {}}`
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"text that is not JSON":      {map[string]string{"a": "{"}, "builtin/a.json: unexpected end of JSON input"},
		"an operation nobody knows":  {map[string]string{"a": strings.Replace(good, "power_on", "nap", 1)}, "builtin/a.json: invalid operation code 'nap'"},
		"two rules for an operation": {map[string]string{"a": good, "b": good}, "builtin/b.json: second rule for power_control/power_on"},
		"a definition that is invalid": {
			map[string]string{"a": strings.Replace(good, "{}", `{"steps": [{"component_type": "CDU", "stage": 0, "main_operation": {"name": "BringUpControl"}}]}`, 1)},
			"builtin/a.json: step 0: stage must be >= 1, got 0",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			for name, text := range tt.files {
				files["builtin/"+name+".json"] = &fstest.MapFile{Data: []byte(text), Mode: fs.ModePerm}
			}
			if _, err := readBuiltins(files); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// tableRow writes a step in the notation of the table.
func tableRow(s Step) string {
	retry := "default"
	if r := s.Retry; r != nil {
		retry = fmt.Sprintf("R(%d,%s,%v)", r.MaxAttempts, short(r.InitialInterval), r.BackoffCoefficient)
		if r.MaxInterval != 0 {
			retry += " capped"
		}
	}
	if s.MaxParallel != 0 || s.DelayAfter != 0 {
		retry += " with batches or delay"
	}
	kind := map[hardware.ComponentType]string{hardware.PowerShelf: "PS", hardware.NVSwitch: "NV", hardware.Compute: "C"}[s.ComponentType]
	return fmt.Sprintf("%d | %s | %s | %s | %s | %s | %s", s.Stage, kind, short(s.Timeout), retry,
		tableCell(s.Pre), tableCell([]Action{s.Main}), tableCell(s.Post))
}

func tableCell(list []Action) string {
	if len(list) == 0 {
		return "-"
	}
	cells := make([]string, len(list))
	for i, a := range list {
		set, _ := a.settings()
		cell := string(a.Name)
		switch {
		case a.Name == ActionPowerControl && set.operation == "":
			cell = "PC"
		case a.Name == ActionPowerControl:
			cell = fmt.Sprintf("PC(%s)", set.operation)
		case a.Name == ActionVerifyPowerStatus:
			cell = fmt.Sprintf("VPS(%s,%s,%s)", strings.ToLower(string(set.expectedStatus)), short(a.Timeout), short(a.PollInterval))
		case a.Name == ActionSleep:
			cell = "Sleep " + short(set.duration)
		case a.Name == ActionFirmwareControl && short(set.pollInterval) == "2m" && short(set.pollTimeout) == "45m":
			cell = "FW"
		case a.Name == ActionWaitDecommissioned && short(a.Timeout) == "4h" && short(a.PollInterval) == "30s":
			cell = "WD"
		}
		cells[i] = cell
	}
	return strings.Join(cells, "; ")
}

// short writes a duration as the table does: "15m", and "60m" for the hour that is not a multiple.
func short(d Duration) string {
	switch {
	case d%Duration(time.Hour) == 0 && d != Duration(time.Hour):
		return fmt.Sprintf("%dh", d/Duration(time.Hour))
	case d%Duration(time.Minute) == 0:
		return fmt.Sprintf("%dm", d/Duration(time.Minute))
	default:
		return d.String()
	}
}
