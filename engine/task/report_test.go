package task

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// planOf makes a plan of so many trays, numbered from 1, in one step of batches of two: a command and its verification.
func planOf(trays int) rules.Plan {
	p := rules.Plan{
		Version: rules.PlanVersion, Operation: rules.Operation{Type: power, Code: string(hardware.PowerOn)},
		Components: map[hardware.ComponentType][]hardware.Component{},
		Stages: []rules.PlanStage{{Number: 1, Steps: []rules.PlanStep{{
			ComponentType: hardware.Compute, MaxParallel: 2,
			Actions: []rules.PlanAction{{Phase: rules.PhaseMain, Name: rules.ActionPowerControl}, {Phase: rules.PhasePost, Name: rules.ActionVerifyPowerStatus}},
		}}}},
	}
	for n := range trays {
		p.Components[hardware.Compute] = append(p.Components[hardware.Compute], hardware.Component{ID: id(byte(n + 1)), Type: hardware.Compute})
	}
	return p
}

func TestWhatAReportSaysOfSingleComponents(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 3, 4, 9, 15, 2, 0, time.UTC)
	failure, text := "power control failed for 3: no answer", "no answer"
	for name, c := range map[string]struct {
		state  db.TaskState
		step   db.TaskStep
		opened bool
		want   string // status of each tray, with its error
	}{
		"before the step is opened":     {db.TaskStateRunning, db.TaskStep{}, false, ""},
		"in the first batch":            {db.TaskStateRunning, db.TaskStep{State: db.StepStateRunning}, true, "running running pending pending pending"},
		"with one confirmed":            {db.TaskStateRunning, db.TaskStep{State: db.StepStateRunning, Results: noted(1, "")}, true, "completed running pending pending pending"},
		"with one that is tried again":  {db.TaskStateRunning, db.TaskStep{State: db.StepStateRunning, Results: noted(1, text)}, true, "running running pending pending pending"},
		"in the second batch":           {db.TaskStateRunning, db.TaskStep{State: db.StepStateRunning, Batch: 1}, true, "completed completed running running pending"},
		"in the next action":            {db.TaskStateRunning, db.TaskStep{State: db.StepStateRunning, Action: 1}, true, "running running pending pending pending"},
		"when it has succeeded":         {db.TaskStateCompleted, db.TaskStep{State: db.StepStateCompleted, Action: 2}, true, "completed completed completed completed completed"},
		"when one has failed":           {db.TaskStateFailed, db.TaskStep{State: db.StepStateFailed, Batch: 1, Error: &failure, Results: noted(3, text, 4, "")}, true, "completed completed failed:" + text + " completed pending"},
		"when nothing is known of them": {db.TaskStateFailed, db.TaskStep{State: db.StepStateFailed, Batch: 1, Error: &failure}, true, "completed completed failed:" + failure + " failed:" + failure + " pending"},
		"when it is cancelled":          {db.TaskStateTerminated, db.TaskStep{State: db.StepStateRunning, Batch: 1, Results: noted(3, "")}, true, "completed completed completed failed:Cancelled by user pending"},
		"when its notes are unreadable": {db.TaskStateRunning, db.TaskStep{State: db.StepStateRunning, Results: []byte("[]")}, true, "running running pending pending pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := db.Task{State: c.state, StartedAt: &started, Message: MessageCancelled}
			if Terminal(c.state) {
				row.FinishedAt = &started
			}
			if c.step.State == db.StepStateCompleted || c.step.State == db.StepStateFailed {
				c.step.FinishedAt = &started
			}
			if c.step.Results == nil {
				c.step.Results = []byte("{}")
			}
			c.step.Total = 5
			var steps []db.TaskStep
			if c.opened {
				steps = append(steps, c.step)
			}
			var got []string
			for _, r := range NewReport(row, planOf(5), steps, true).Stages[0].Steps[0].Components {
				how := string(r.Status)
				if r.Error != "" {
					how += ":" + r.Error
				}
				got = append(got, how)
			}
			if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
				t.Error(d)
			}
			if doc, err := reportText(row, planOf(5), steps, false); err != nil || strings.Contains(doc, `"components"`) {
				t.Errorf("components in a report of a site that did not ask for them: %s, %v", doc, err)
			}
		})
	}
}

// noted is what a step knows of trays: pairs of a number and a text.
func noted(pairs ...any) json.RawMessage {
	known := map[uuid.UUID]string{}
	for i := 0; i < len(pairs); i += 2 {
		known[id(byte(pairs[i].(int)))] = pairs[i+1].(string)
	}
	doc, err := json.Marshal(known)
	if err != nil {
		panic(err)
	}
	return doc
}

// TestTheReportOfAWholeRackThatFailedStaysSmall has each of 35 components fail in the last of eight stages.
func TestTheReportOfAWholeRackThatFailedStaysSmall(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"long":       strings.Repeat("the BMC does not answer, ", 400),
		"of a page":  strings.Repeat("<html><body>&nbsp;503</body></html>", 300),
		"in quotes":  strings.Repeat(`"`, 9000),
		"all tags":   strings.Repeat("<", 9000),
		"multi-byte": strings.Repeat("ü", 9000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := time.Date(2026, 3, 4, 9, 15, 2, 0, time.UTC)
			plan := rules.Plan{Version: rules.PlanVersion, Components: map[hardware.ComponentType][]hardware.Component{}}
			n := byte(0)
			for kind, count := range map[hardware.ComponentType]int{hardware.Compute: 18, hardware.NVSwitch: 9, hardware.PowerShelf: 8} {
				for range count {
					n++
					plan.Components[kind] = append(plan.Components[kind], hardware.Component{ID: id(n), Type: kind})
				}
			}
			task := db.Task{State: db.TaskStateFailed, StartedAt: &at, FinishedAt: &at, StageError: &text}
			var steps []db.TaskStep
			for stage := range 8 {
				s := rules.PlanStage{Number: stage + 1}
				for i, kind := range []hardware.ComponentType{hardware.PowerShelf, hardware.NVSwitch, hardware.Compute} {
					if stage != 3 && stage != 7 && i != stage%3 { // as in the built-in rules
						continue
					}
					row := db.TaskStep{
						Stage: int32(stage), Step: int32(len(s.Steps)), State: db.StepStateCompleted, StartedAt: at, FinishedAt: &at,
						Total: int32(len(plan.Components[kind])), Action: 1, Results: []byte("{}"),
					}
					if stage == 7 {
						known := map[uuid.UUID]string{}
						for _, c := range plan.Components[kind] {
							known[c.ID] = text
						}
						row.State, row.Action, row.Error, row.Failed = db.StepStateFailed, 0, &text, row.Total
						var err error
						if row.Results, err = json.Marshal(known); err != nil {
							t.Fatal(err)
						}
					}
					s.Steps = append(s.Steps, rules.PlanStep{ComponentType: kind, Actions: []rules.PlanAction{{Phase: rules.PhaseMain, Name: rules.ActionPowerControl}}})
					steps = append(steps, row)
				}
				plan.Stages = append(plan.Stages, s)
			}
			doc, err := reportText(task, plan, steps, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(doc, `"status":"failed","error"`); got < 35 {
				t.Errorf("%d components have failed, want 35", got)
			}
			if len(doc) >= 32<<10 {
				t.Errorf("the report has %d bytes", len(doc))
			}
			var read Report
			if err := json.Unmarshal([]byte(doc), &read); err != nil || len(read.Stages) != 8 {
				t.Errorf("%d stages, %v", len(read.Stages), err)
			}
		})
	}
}

func TestMessagesOfFailures(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 300)
	for text, want := range map[string]string{
		"":                      "Failed",
		" \n\t ":                "Failed",
		"one line":              "one line",
		"  the first \n second": "the first",
		"\nnot empty":           "not empty",
		long:                    long[:512],
		"x" + long:              ("x" + long)[:511], // ends with a whole character
	} {
		if got := FailureMessage(text); got != want {
			t.Errorf("%.20q: got %d bytes %.40q, want %d %.40q", text, len(got), got, len(want), want)
		}
	}
}
