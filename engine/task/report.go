package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

// reportVersion is the version of the report document; consumers refuse any other.
const reportVersion = 1

// Report is what became of each stage and step. It is derived from the plan and the step rows whenever it is read, so
// it is never behind them.
type Report struct {
	Version int           `json:"version"`
	Stages  []StageReport `json:"stages"`
	Error   string        `json:"error,omitempty"`
}

// StageReport is one stage of a report.
type StageReport struct {
	Number     int          `json:"number"`
	Status     ReportStatus `json:"status"`
	Steps      []StepReport `json:"steps"`
	StartedAt  *time.Time   `json:"started_at,omitempty"`
	FinishedAt *time.Time   `json:"finished_at,omitempty"`
	Error      string       `json:"error,omitempty"`
}

// StepReport is one step of a report.
type StepReport struct {
	ComponentType hardware.ComponentType `json:"component_type"`
	Status        ReportStatus           `json:"status"`
	Total         int32                  `json:"total_components,omitempty"`
	Completed     int32                  `json:"completed_components,omitempty"`
	Failed        int32                  `json:"failed_components,omitempty"`
	StartedAt     *time.Time             `json:"started_at,omitempty"`
	FinishedAt    *time.Time             `json:"finished_at,omitempty"`
	Error         string                 `json:"error,omitempty"`
	Warning       string                 `json:"warning,omitempty"`    // ours: what did not fail the step
	Components    []ComponentReport      `json:"components,omitempty"` // ours, only where the site wants it (D-30.25)
}

// ComponentReport is what is known of one component of a step.
type ComponentReport struct {
	ID     uuid.UUID    `json:"id"`
	Status ReportStatus `json:"status"`
	Error  string       `json:"error,omitempty"`
}

// ReportStatus is the status of a stage or step in a report.
type ReportStatus string

// The statuses of stages and steps.
const (
	ReportPending   ReportStatus = "pending"
	ReportRunning   ReportStatus = "running"
	ReportCompleted ReportStatus = "completed"
	ReportFailed    ReportStatus = "failed"
	ReportSkipped   ReportStatus = "skipped"
)

// reportText renders the report of a task, or nothing for one that never started.
func reportText(t db.Task, plan rules.Plan, steps []db.TaskStep, components bool) (string, error) {
	if t.StartedAt == nil {
		return "", nil
	}
	var doc strings.Builder
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false) // devices answer in HTML at times, and this would make six bytes of each bracket
	err := enc.Encode(NewReport(t, plan, steps, components))
	return strings.TrimSuffix(doc.String(), "\n"), err
}

// NewReport makes the report of a task from its plan and its opened steps, which are in stage and step order; with what is
// known of single components where that is wanted.
func NewReport(t db.Task, plan rules.Plan, steps []db.TaskStep, components bool) Report {
	type place struct{ stage, step int32 }
	rows := make(map[place]db.TaskStep, len(steps))
	for _, s := range steps {
		rows[place{s.Stage, s.Step}] = s
	}
	r := Report{Version: reportVersion, Stages: make([]StageReport, len(plan.Stages))}
	for i, stage := range plan.Stages {
		sr := StageReport{Number: stage.Number, Status: ReportSkipped, Steps: make([]StepReport, len(stage.Steps))}
		var first *db.TaskStep // the step that failed first
		running := false
		for j, step := range stage.Steps {
			row, opened := rows[place{int32(i), int32(j)}]
			sp := StepReport{ComponentType: step.ComponentType, Status: ReportPending}
			switch {
			case step.Skipped:
				sp.Status = ReportSkipped
			case !opened:
				sp.Total = int32(len(plan.Components[step.ComponentType]))
				if sr.Status == ReportSkipped {
					sr.Status = ReportPending
				}
			default:
				row = settled(t, row)
				sp = stepReport(step, row)
				if components {
					sp.Components = componentReports(plan, step, row)
				}
				running = running || row.State == db.StepStateRunning
				if row.State == db.StepStateFailed && (first == nil || row.FinishedAt.Before(*first.FinishedAt)) {
					first = &row
					sr.Error = cut(fmt.Sprintf("component type %s failed: %s", step.ComponentType, *row.Error), maxMessage)
				}
				sr.Status = ReportCompleted
				sr.StartedAt = earlier(sr.StartedAt, sp.StartedAt)
				sr.FinishedAt = later(sr.FinishedAt, sp.FinishedAt)
			}
			sr.Steps[j] = sp
		}
		switch {
		case running:
			// A failed step shows at once; the stage has failed only when its siblings have ended.
			sr.Status, sr.FinishedAt, sr.Error = ReportRunning, nil, ""
		case first != nil:
			sr.Status = ReportFailed
			if t.StageError != nil { // what the message says, too
				sr.Error = cut(*t.StageError, maxMessage)
			}
			if t.State == db.TaskStateTerminated {
				sr.Error = MessageCancelled
			}
			if r.Error == "" {
				r.Error = sr.Error
			}
		}
		r.Stages[i] = sr
	}
	return r
}

// settled shows a step that was running when its task was cancelled as what it is then: failed. The row itself is left
// as it was, for whoever asks how far the step had come.
func settled(t db.Task, row db.TaskStep) db.TaskStep {
	if Terminal(t.State) && row.State == db.StepStateRunning {
		text := t.Message
		row.State, row.Error, row.FinishedAt = db.StepStateFailed, &text, t.FinishedAt
	}
	return row
}

func stepReport(step rules.PlanStep, row db.TaskStep) StepReport {
	sp := StepReport{
		ComponentType: step.ComponentType,
		Status:        ReportStatus(row.State),
		Total:         row.Total,
		Completed:     row.Completed,
		Failed:        row.Failed,
		StartedAt:     seconds(&row.StartedAt),
		FinishedAt:    seconds(row.FinishedAt),
		Warning:       cut(row.Warning, maxMessage),
	}
	if row.Error != nil {
		sp.Error = cut(*row.Error, maxMessage)
	}
	return sp
}

// componentReports says what is known of the components of an opened step: from the batch the step is at, or has failed at,
// what it has noted of each; those of earlier batches are done with the action, those of later ones are still to come.
func componentReports(plan rules.Plan, step rules.PlanStep, row db.TaskStep) []ComponentReport {
	list := make([]ComponentReport, 0, row.Total)
	if row.State == db.StepStateCompleted || int(row.Action) >= len(step.Actions) {
		for _, c := range plan.Components[step.ComponentType] {
			list = append(list, ComponentReport{ID: c.ID, Status: ReportStatus(row.State)})
		}
		return list
	}
	var known map[uuid.UUID]string
	if err := json.Unmarshal(row.Results, &known); err != nil {
		known = nil // of a Flow that wrote them in another form; nothing is known then
	}
	for i, batch := range plan.Batches(step, step.Actions[row.Action]) {
		for _, c := range batch {
			r := ComponentReport{ID: c.ID, Status: ReportPending}
			text, noted := known[c.ID]
			switch {
			case i < int(row.Batch) || i == int(row.Batch) && noted && text == "":
				r.Status = ReportCompleted
			case i > int(row.Batch):
			case noted && row.State == db.StepStateFailed:
				r.Status, r.Error = ReportFailed, cut(text, maxComponentError)
			case row.State == db.StepStateRunning:
				r.Status = ReportRunning
			default: // how it came out is not known
				r.Status, r.Error = ReportFailed, cut(*row.Error, maxComponentError)
			}
			list = append(list, r)
		}
	}
	return list
}

// maxComponentError keeps the report of a rack whose every component has failed within 32 KB.
const maxComponentError = 128

// seconds gives a time in the report's form: UTC, whole seconds.
func seconds(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	s := t.UTC().Truncate(time.Second)
	return &s
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

func later(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}
