package task

import (
	"fmt"

	"rackflow.dev/flow/store/db"
)

// Event is what makes a task move from one state to another.
type Event string

// The events of a task's life.
const (
	Promote Event = "promote" // a finishing task, or the sweep at start: nothing conflicts any more
	Start   Event = "start"   // the first worker to take it
	Finish  Event = "finish"  // the worker that ends its last stage
	Fail    Event = "fail"    // a failed stage, a spent budget, or a plan that can't be made at promotion
	Expire  Event = "expire"  // the queue's deadline, or a queue that is full while a component can't be addressed
	Cancel  Event = "cancel"  // a client, or the deletion of the rack while the task waits
)

// taskMoves is the whole life of a task. A pair that is absent is refused; the table task_move in the database says the
// same.
var taskMoves = map[db.TaskState]map[Event]db.TaskState{
	db.TaskStateWaiting: {
		Promote: db.TaskStatePending,
		Expire:  db.TaskStateTerminated,
		Cancel:  db.TaskStateTerminated,
	},
	db.TaskStatePending: {
		Start:  db.TaskStateRunning,
		Fail:   db.TaskStateFailed,
		Cancel: db.TaskStateTerminated,
	},
	db.TaskStateRunning: {
		Finish: db.TaskStateCompleted,
		Fail:   db.TaskStateFailed,
		Cancel: db.TaskStateTerminated,
	},
	db.TaskStateCompleted:  {},
	db.TaskStateFailed:     {},
	db.TaskStateTerminated: {},
}

// MoveError is a move the table does not allow.
type MoveError struct {
	From  db.TaskState
	Event Event
}

func (e *MoveError) Error() string { return fmt.Sprintf("a %s task cannot %s", e.From, e.Event) }

// Next decides a move.
func Next(from db.TaskState, ev Event) (db.TaskState, error) {
	to, ok := taskMoves[from][ev]
	if !ok {
		return from, &MoveError{From: from, Event: ev}
	}
	return to, nil
}

// Terminal reports whether a task in this state has ended for good.
func Terminal(s db.TaskState) bool { return len(taskMoves[s]) == 0 }
