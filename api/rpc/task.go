package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/store/db"
)

var taskStatuses = map[db.TaskState]flowv1.TaskStatus{
	db.TaskStateWaiting:    flowv1.TaskStatus_TASK_STATUS_WAITING,
	db.TaskStatePending:    flowv1.TaskStatus_TASK_STATUS_PENDING,
	db.TaskStateRunning:    flowv1.TaskStatus_TASK_STATUS_RUNNING,
	db.TaskStateCompleted:  flowv1.TaskStatus_TASK_STATUS_COMPLETED,
	db.TaskStateFailed:     flowv1.TaskStatus_TASK_STATUS_FAILED,
	db.TaskStateTerminated: flowv1.TaskStatus_TASK_STATUS_TERMINATED,
}

// ListTasks implements flowv1connect.FlowHandler.
func (s *service) ListTasks(ctx context.Context, m *flowv1.ListTasksRequest) (*flowv1.ListTasksResponse, error) {
	f := task.ListFilter{ActiveOnly: m.GetActiveOnly(), WithReport: m.GetWithReport()}
	var err error
	if f.Offset, f.Limit, err = page(m.GetPagination()); err != nil {
		return nil, err
	}
	// The string in these messages may be an external id; an empty one is no filter.
	if id := m.GetRackId().GetId(); id != "" {
		rack, err := s.tasks.RackByAnyID(ctx, id)
		if err != nil {
			return nil, err
		}
		f.RackID = &rack
	}
	if id := m.GetComponentId().GetId(); id != "" {
		component, err := s.tasks.ComponentByAnyID(ctx, id)
		if err != nil {
			return nil, err
		}
		f.ComponentID = &component
	}
	views, total, err := s.tasks.List(ctx, f)
	if err != nil {
		return nil, err
	}
	return &flowv1.ListTasksResponse{Tasks: each(views, taskMessage), Total: total}, nil
}

// GetTasksByIDs implements flowv1connect.FlowHandler.
func (s *service) GetTasksByIDs(ctx context.Context, m *flowv1.GetTasksByIDsRequest) (*flowv1.GetTasksByIDsResponse, error) {
	if len(m.GetTaskIds()) > maxPage {
		return nil, fault.Invalid("task_ids", "has %d entries, at most %d are allowed", len(m.GetTaskIds()), maxPage)
	}
	ids, err := taskIDs(m.GetTaskIds())
	if err != nil {
		return nil, err
	}
	views, err := s.tasks.Get(ctx, ids)
	if err != nil {
		return nil, err
	}
	return &flowv1.GetTasksByIDsResponse{Tasks: each(views, taskMessage)}, nil
}

func taskIDs(in []*flowv1.UUID) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, len(in))
	for i, id := range in {
		var err error
		if ids[i], err = requiredID(fmt.Sprintf("task_ids[%d]", i), id); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// CancelTask implements flowv1connect.FlowHandler.
func (s *service) CancelTask(ctx context.Context, m *flowv1.CancelTaskRequest) (*flowv1.CancelTaskResponse, error) {
	id, err := requiredID("task_id", m.GetTaskId())
	if err != nil {
		return nil, err
	}
	if err := s.tasks.Cancel(ctx, id); err != nil {
		return nil, err
	}
	views, err := s.tasks.Get(ctx, []uuid.UUID{id})
	if err != nil {
		return nil, err
	}
	return &flowv1.CancelTaskResponse{Task: taskMessage(views[0])}, nil
}

func taskMessage(v task.View) *flowv1.Task {
	m := &flowv1.Task{
		Id:             idMessage(v.ID),
		Operation:      v.Operation,
		RackId:         idMessage(v.RackID),
		ComponentUuids: each(v.ComponentIDs, idMessage),
		Description:    v.Description,
		// Always unknown: a client could try to reach the executor it is told of.
		ExecutorType:   flowv1.TaskExecutorType_TASK_EXECUTOR_TYPE_UNKNOWN,
		Status:         taskStatuses[v.State],
		Message:        v.Message,
		QueueExpiresAt: timeMessage(v.QueueExpiresAt),
		CreatedAt:      timestamppb.New(v.CreatedAt),
		StartedAt:      timeMessage(v.StartedAt),
		FinishedAt:     timeMessage(v.FinishedAt),
		UpdatedAt:      timestamppb.New(v.UpdatedAt),
		Report:         v.Report,
	}
	if v.AppliedRuleID != nil {
		m.AppliedRuleId = idMessage(*v.AppliedRuleID)
	}
	if v.JobID != nil {
		m.ExecutionId = executionID(v.ID, *v.JobID)
	}
	return m
}

// executionID is opaque to clients; not empty means that the task has been handed to the executor.
func executionID(id uuid.UUID, job int64) string {
	doc, err := json.Marshal(struct {
		WorkflowID string `json:"workflow_id"`
		RunID      string `json:"run_id"`
	}{id.String(), strconv.FormatInt(job, 10)})
	if err != nil {
		panic(err) // two strings always marshal
	}
	return string(doc)
}

func timeMessage(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
