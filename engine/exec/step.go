package exec

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

// stepMoves is the whole life of an opened step.
var stepMoves = map[db.StepState]map[outcome]db.StepState{
	db.StepStateRunning: {
		succeeded: db.StepStateCompleted, // its last action is done
		failed:    db.StepStateFailed,    // an action failed, or its time is over
	},
	db.StepStateCompleted: {},
	db.StepStateFailed:    {},
}

// outcome is how a step ends.
type outcome int

const (
	succeeded outcome = iota + 1
	failed
)

// cursor is a step's place in the plan and in time, as its row has it.
type cursor struct {
	stage, step   int // indexes in the plan
	epoch         int32
	action, batch int
	attempt       int       // calls or polls made for this batch of this action
	actionStarted time.Time // when this batch of this action began
	deadline      time.Time // of the step
	intent        bool      // a command that must not be sent twice may have been sent
	completed     int
	failed        int
	results       map[uuid.UUID]string // components of the current batch: "" is confirmed, else the error or a mark
	resumed       bool                 // an earlier driver may have acted on this batch
	gateSince     time.Time            // since when it waits until components are ready; zero: it does not
	warning       string               // what an operator should know although the step goes on
	unknown       []string             // components of which this driver does not know whether they are ready
}

// cursorOf reads a claimed step.
func cursorOf(row db.TaskStep) (cursor, error) {
	c := cursor{
		stage: int(row.Stage), step: int(row.Step), epoch: row.Epoch,
		action: int(row.Action), batch: int(row.Batch), attempt: int(row.Attempt),
		actionStarted: row.ActionStartedAt, deadline: row.DeadlineAt, intent: row.Intent,
		completed: int(row.Completed), failed: int(row.Failed),
		resumed: row.Epoch > 0, warning: row.Warning,
	}
	if row.GateSince != nil {
		c.gateSince = *row.GateSince
	}
	if err := json.Unmarshal(row.Results, &c.results); err != nil {
		return cursor{}, fmt.Errorf("stored results: %w", err)
	}
	return c, nil
}

func (c *cursor) resultsJSON() json.RawMessage {
	if len(c.results) == 0 {
		return json.RawMessage("{}")
	}
	doc, err := json.Marshal(c.results)
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	return doc
}

// next moves to the following batch, or to the first one of the following action.
func (c *cursor) next(now time.Time, batches int) {
	c.batch++
	if c.batch >= batches {
		c.action, c.batch = c.action+1, 0
	}
	c.attempt, c.intent, c.resumed = 0, false, false
	c.results = nil
	c.actionStarted = now
}

// confirm notes that a component is done with the current action.
func (c *cursor) confirm(id uuid.UUID) { c.note(id, "") }

// note keeps what is known of a component of the current batch.
func (c *cursor) note(id uuid.UUID, text string) {
	if c.results == nil {
		c.results = map[uuid.UUID]string{}
	}
	c.results[id] = storable(text)
}

// forget drops what was noted of components.
func (c *cursor) forget(list []hardware.Component) {
	for _, comp := range list {
		delete(c.results, comp.ID)
	}
}

// Marks are notes that are no outcome but the memory of whoever drives on: since when something holds of a component.
const (
	markStarted = "update started at "
	markSilent  = "no answer since "
)

// mark notes that something holds of a component since a time.
func (c *cursor) mark(id uuid.UUID, what string, since time.Time) {
	c.note(id, what+since.UTC().Format(time.RFC3339Nano))
}

// marked tells since when something holds of a component.
func (c *cursor) marked(id uuid.UUID, what string) (time.Time, bool) {
	text, ok := strings.CutPrefix(c.results[id], what)
	if !ok {
		return time.Time{}, false
	}
	since, err := time.Parse(time.RFC3339Nano, text)
	return since, err == nil
}

// without lists the components of a batch that have no such mark.
func (c *cursor) without(what string, batch []hardware.Component) []hardware.Component {
	var list []hardware.Component
	for _, comp := range batch {
		if _, ok := c.marked(comp.ID, what); !ok {
			list = append(list, comp)
		}
	}
	return list
}

// unmark drops all marks: nothing is known of the components that have one.
func (c *cursor) unmark() {
	for id := range c.results {
		for _, what := range []string{markStarted, markSilent} {
			if _, ok := c.marked(id, what); ok {
				delete(c.results, id)
			}
		}
	}
}

// storable makes text from outside fit for the database.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// open lists the components of a batch that are not confirmed.
func (c *cursor) open(batch []hardware.Component) []hardware.Component {
	if len(c.results) == 0 {
		return batch
	}
	var open []hardware.Component
	for _, comp := range batch {
		if text, known := c.results[comp.ID]; !known || text != "" {
			open = append(open, comp)
		}
	}
	return open
}

// where names an action the way messages do.
func where(a rules.PlanAction) string {
	switch a.Phase {
	case rules.PhasePre:
		return fmt.Sprintf("pre-operation failed: action %d (%s) failed", a.Index, a.Name)
	case rules.PhasePost:
		return fmt.Sprintf("post-operation failed: action %d (%s) failed", a.Index, a.Name)
	case rules.PhaseDelay:
		return "delay after the operation failed"
	default:
		return "main operation failed"
	}
}
