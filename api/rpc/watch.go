package rpc

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/store"
	"rackflow.dev/flow/store/db"
)

// opsService is flow.ops.v1.FlowOps.
type opsService struct {
	flowopsv1connect.UnimplementedFlowOpsHandler

	store *store.Store
	tasks *task.Service
	watch *task.Hub
}

var eventKinds = map[db.EventKind]flowopsv1.TaskEventKind{
	db.EventKindTaskCreated:   flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_CREATED,
	db.EventKindTaskStarted:   flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_STARTED,
	db.EventKindStageStarted:  flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_STARTED,
	db.EventKindStepProgress:  flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_PROGRESS,
	db.EventKindStepFinished:  flowopsv1.TaskEventKind_TASK_EVENT_KIND_STEP_FINISHED,
	db.EventKindStageFinished: flowopsv1.TaskEventKind_TASK_EVENT_KIND_STAGE_FINISHED,
	db.EventKindTaskFinished:  flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED,
	db.EventKindTaskMessage:   flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_MESSAGE,
}

// WatchTasks implements flowopsv1connect.FlowOpsHandler.
func (s *opsService) WatchTasks(ctx context.Context, m *flowopsv1.WatchTasksRequest, stream *connect.ServerStream[flowopsv1.TaskEvent]) error {
	f := task.WatchFilter{After: m.GetAfterEventId()}
	if f.After < 0 {
		return fault.Invalid("after_event_id", "%d must not be negative", f.After)
	}
	if len(m.GetTaskIds()) > maxPage || len(m.GetRackIds()) > maxPage {
		return fault.Invalid("task_ids", "at most %d tasks and as many racks can be watched by id; name none to watch all", maxPage)
	}
	var err error
	if f.Tasks, err = taskIDs(m.GetTaskIds()); err != nil {
		return err
	}
	if _, err := s.tasks.Get(ctx, f.Tasks); err != nil { // a task that does not exist would be waited for for ever
		return err
	}
	for i, id := range m.GetRackIds() {
		rack, err := requiredID(fmt.Sprintf("rack_ids[%d]", i), id)
		if err != nil {
			return err
		}
		f.Racks = append(f.Racks, rack)
	}
	if m.AfterEventId == nil {
		if f.After, err = s.watch.Newest(ctx); err != nil {
			return err
		}
	}
	// The headers tell a client that it misses nothing from here on.
	if err := stream.Send(nil); err != nil {
		return err
	}
	return s.watch.Follow(ctx, f, func(e db.Event) error { return stream.Send(eventMessage(e)) })
}

func eventMessage(e db.Event) *flowopsv1.TaskEvent {
	return &flowopsv1.TaskEvent{
		Id:                  e.ID,
		At:                  timestamppb.New(e.At),
		TaskId:              idMessage(e.TaskID),
		RackId:              idMessage(e.RackID),
		Kind:                eventKinds[e.Kind],
		Status:              taskStatuses[e.State],
		Message:             e.Message,
		Stage:               e.Stage,
		Stages:              e.Stages,
		ComponentType:       e.ComponentType,
		Action:              e.Action,
		TotalComponents:     e.Total,
		CompletedComponents: e.Completed,
		FailedComponents:    e.Failed,
		Error:               e.Error,
	}
}
