package task

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// order is what the tasks of one admission have in common.
type order struct {
	operation   rules.Operation
	description string
	options     Options
	queue       time.Duration // 0: a task that conflicts is refused
	key         string        // idempotency key; "": none
	retryOf     *uuid.UUID
}

// admit inserts the tasks of one batch of racks with their jobs, with the racks locked: those that may run as pending,
// those that conflict and may wait as waiting. It returns the ids in the order of the drafts.
func (s *Service) admit(ctx context.Context, o order, drafts []draft) (ids []uuid.UUID, refusals []Refusal, err error) {
	options, err := json.Marshal(o.options)
	if err != nil {
		return nil, nil, err
	}
	err = s.Releasing(func(release ReleaseFunc) error {
		return store.InTx(ctx, s.Store.Engine, func(tx pgx.Tx) error {
			var fresh []placed
			if ids, refusals, fresh, err = s.place(ctx, tx, o, drafts, release); err != nil || len(fresh) == 0 {
				return err
			}
			return s.insert(ctx, tx, o, options, fresh)
		})
	})
	if err != nil {
		return nil, nil, err
	}
	s.Watch.Poke()
	return ids, refusals, nil
}

// placed is a draft that has been given its place: to run, or to wait.
type placed struct {
	draft
	waits bool
}

// place locks the racks and says what becomes of each draft. ids are those of new tasks and of tasks that exist already.
func (s *Service) place(ctx context.Context, tx pgx.Tx, o order, drafts []draft, release ReleaseFunc) (
	ids []uuid.UUID, refusals []Refusal, fresh []placed, err error,
) {
	q := db.New(tx)
	racks := make([]uuid.UUID, len(drafts))
	for i, d := range drafts {
		racks[i] = d.rackID
	}
	locked, err := q.RackLockMany(ctx, db.RackLockManyParams{Ids: racks})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("lock racks: %w", err)
	}
	live := make(map[uuid.UUID]bool, len(locked))
	for _, r := range locked {
		live[r.ID] = r.DeletedAt == nil
	}
	if o.retryOf != nil { // of two at once the second finds the first now that the rack is locked
		if err := notRetried(ctx, q, *o.retryOf); err != nil {
			return nil, nil, nil, err
		}
	}
	known := map[uuid.UUID]db.TaskGetByKeyRow{}
	if o.key != "" {
		rows, err := q.TaskGetByKey(ctx, db.TaskGetByKeyParams{IdempotencyKey: o.key, RackIds: racks})
		if err != nil {
			return nil, nil, nil, fmt.Errorf("tasks of the idempotency key: %w", err)
		}
		for _, row := range rows {
			known[row.RackID] = row
		}
	}
	strayed, err := strayed(ctx, q, drafts)
	if err != nil {
		return nil, nil, nil, err
	}
	busy, err := s.contenders(ctx, tx, racks, release)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, d := range drafts {
		earlier, again := known[d.rackID]
		component, moved := strayed[d.rackID]
		refuse := func(err error) { refusals = append(refusals, Refusal{d.rackID, err}) }
		switch op := (rules.Operation{Type: rules.TaskType(earlier.OperationType), Code: earlier.OperationCode}); {
		case again && op == o.operation:
			ids = append(ids, earlier.ID)
		case again:
			refuse(fault.Exists("idempotency key %+q is that of task %s (%s)", o.key, earlier.ID, op))
		case !live[d.rackID]:
			refuse(fault.NotFound("rack %s was deleted", d.rackID))
		case moved:
			refuse(fault.Precondition("component %s has been deleted or moved meanwhile; submit again", component))
		default:
			conflicts := s.conflicts(d.footprint, busy[d.rackID])
			if err := s.refusal(o.queue, conflicts, busy[d.rackID]); err != nil {
				refuse(err)
				break
			}
			ids = append(ids, d.id)
			fresh = append(fresh, placed{d, len(conflicts) > 0})
		}
	}
	return ids, refusals, fresh, nil
}

// contenders lists the tasks that a newcomer has to mind on each of the racks, which are locked. One whose time in the queue
// is over ends here, should its own job be a moment late: it must not keep anybody out.
func (s *Service) contenders(ctx context.Context, tx pgx.Tx, racks []uuid.UUID, release ReleaseFunc) (map[uuid.UUID][]other, error) {
	tasks, err := s.unfinished(ctx, db.New(tx), racks)
	if err != nil {
		return nil, err
	}
	overdue := false
	for rack, list := range tasks {
		if slices.ContainsFunc(list, func(o other) bool { return o.due != nil && !o.due.After(s.Now()) }) {
			overdue = true
			if err := release(ctx, tx, rack, nil); err != nil {
				return nil, err
			}
		}
	}
	if overdue {
		return s.unfinished(ctx, db.New(tx), racks)
	}
	return tasks, nil
}

// unfinished lists the unfinished tasks of racks, oldest first.
func (s *Service) unfinished(ctx context.Context, q *db.Queries, racks []uuid.UUID) (map[uuid.UUID][]other, error) {
	rows, err := q.TaskActiveByRacks(ctx, db.TaskActiveByRacksParams{RackIds: racks})
	if err != nil {
		return nil, fmt.Errorf("active tasks: %w", err)
	}
	tasks := map[uuid.UUID][]other{}
	for _, row := range rows {
		tasks[row.RackID] = append(tasks[row.RackID], otherOf(row))
	}
	return tasks, nil
}

// refusal says why a task with these conflicts gets no place on its rack; nil when it may run or wait.
func (s *Service) refusal(queue time.Duration, conflicts []Conflict, tasks []other) error {
	if len(conflicts) == 0 {
		return nil
	}
	if queue <= 0 {
		return fault.Precondition("%s", conflicts[0])
	}
	waiting := 0
	for _, t := range tasks {
		if t.state == db.TaskStateWaiting {
			waiting++
		}
	}
	if limit := s.queueLimit(); waiting >= limit {
		return fault.Exhausted("the queue of the rack is full (%d/%d tasks), and the task %s", waiting, limit, conflicts[0])
	}
	return nil
}

// insert writes the tasks with their jobs.
func (s *Service) insert(ctx context.Context, tx pgx.Tx, o order, options []byte, fresh []placed) error {
	params := db.TaskInsertManyParams{
		OperationType: string(o.operation.Type), OperationCode: o.operation.Code, Description: o.description,
		Message: MessagePending, MessageWaiting: MessageQueued, QueueExpiresAt: s.Now().Add(o.queue),
		RetryOf: o.retryOf, Request: options, JobIds: make([]int64, len(fresh)),
	}
	if o.key != "" {
		params.IdempotencyKey = &o.key
	}
	var starting, waiting []uuid.UUID
	for _, d := range fresh {
		plan, err := json.Marshal(d.plan)
		if err != nil {
			return fmt.Errorf("rack %s: %w", d.rackID, err)
		}
		rule := d.rule
		if d.waits { // which rule it will be is decided when the task is promoted
			rule = uuid.Nil
			waiting = append(waiting, d.id)
		} else {
			starting = append(starting, d.id)
		}
		params.Ids = append(params.Ids, d.id)
		params.RackIds = append(params.RackIds, d.rackID)
		params.Waits = append(params.Waits, d.waits)
		params.AppliedRuleIds = append(params.AppliedRuleIds, rule)
		params.Stages = append(params.Stages, int32(len(d.plan.Stages)))
		params.Plans = append(params.Plans, string(plan))
		params.ComponentTypes = append(params.ComponentTypes, arrayText(d.footprint.Types))
		params.ComponentIds = append(params.ComponentIds, arrayText(d.footprint.Components))
	}
	jobs, err := s.Jobs.InsertStarts(ctx, tx, starting)
	if err != nil {
		return fmt.Errorf("start jobs: %w", err)
	}
	for i, d := range fresh {
		if !d.waits {
			params.JobIds[i], jobs = jobs[0], jobs[1:]
		}
	}
	switch err := db.New(tx).TaskInsertMany(ctx, params); {
	case store.Violates(err, "task_applied_rule_fkey"):
		return fault.Precondition("the rule that applies was deleted meanwhile; submit again")
	case store.Violates(err, "task_retry_of_fkey"): // removed with other old tasks
		return fault.NotFound("task %s not found", *o.retryOf)
	case err != nil:
		return fmt.Errorf("insert tasks: %w", err)
	}
	if err := s.Jobs.InsertExpiries(ctx, tx, waiting, params.QueueExpiresAt); err != nil {
		return fmt.Errorf("expiry jobs: %w", err)
	}
	return nil
}

// strayed finds components that are no longer where the plans have them; called with the racks locked. It names one a
// rack.
func strayed(ctx context.Context, q *db.Queries, drafts []draft) (map[uuid.UUID]uuid.UUID, error) {
	var p db.ComponentStrayedParams
	for _, d := range drafts {
		for _, id := range d.footprint.Components {
			p.Ids, p.RackIds = append(p.Ids, id), append(p.RackIds, d.rackID)
		}
	}
	rows, err := q.ComponentStrayed(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("components of the plans: %w", err)
	}
	found := make(map[uuid.UUID]uuid.UUID, len(rows))
	for _, row := range rows {
		found[row.RackID] = row.ID
	}
	return found, nil
}

// refusedAll is the error of a submission none of whose racks got a task. A full queue is told apart: later it may work. So
// is a key that is taken on every rack: it never will.
func refusedAll(refusals []Refusal) error {
	lines := make([]string, len(refusals))
	full, taken := false, true
	for i, r := range refusals {
		kind := fault.KindOf(r.Err)
		full, taken = full || kind == fault.KindExhausted, taken && kind == fault.KindExists
		lines[i] = fmt.Sprintf("rack %s: %v", r.RackID, r.Err)
	}
	refuse := fault.Precondition
	switch {
	case full:
		refuse = fault.Exhausted
	case taken:
		refuse = fault.Exists
	}
	return refuse("failed to create any tasks: %s", strings.Join(lines, "; "))
}

// arrayText writes a PostgreSQL array of values that need no quoting: one list a task can't be a parameter of its own
// when many tasks go in one statement.
func arrayText[T any](list []T) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func sortIDs(ids []uuid.UUID) {
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
}
