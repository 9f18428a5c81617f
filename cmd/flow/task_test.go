package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

// failedTask is a task that failed in its second stage.
func failedTask() *flowv1.Task {
	return &flowv1.Task{
		Id: &flowv1.UUID{Id: taskOne}, RackId: &flowv1.UUID{Id: rackOne},
		Operation: "PowerOff, forced false", Status: flowv1.TaskStatus_TASK_STATUS_FAILED,
		Message:     "stage 2 failed: component type NVSwitch failed: no answer",
		Description: "before the move", ComponentUuids: make([]*flowv1.UUID, 27),
		CreatedAt: after(0), StartedAt: after(time.Second), FinishedAt: after(11 * time.Second),
		Report: `{"version":1,"error":"component type NVSwitch failed: no answer","stages":[
			{"number":1,"status":"completed","started_at":"2026-03-04T09:15:01Z","finished_at":"2026-03-04T09:15:05Z","steps":[
				{"component_type":"Compute","status":"completed","total_components":18,"completed_components":18,
					"started_at":"2026-03-04T09:15:01Z","finished_at":"2026-03-04T09:15:05Z"},
				{"component_type":"CDU","status":"skipped"}]},
			{"number":2,"status":"failed","started_at":"2026-03-04T09:15:05Z","finished_at":"2026-03-04T09:15:11Z",
				"error":"component type NVSwitch failed: no answer","steps":[
				{"component_type":"NVSwitch","status":"failed","total_components":9,"completed_components":8,"failed_components":1,
					"started_at":"2026-03-04T09:15:05Z","finished_at":"2026-03-04T09:15:11Z","error":"no answer"}]},
			{"number":3,"status":"pending","steps":[{"component_type":"PowerShelf","status":"pending","total_components":8}]}]}`,
	}
}

func TestTaskGetIsAReport(t *testing.T) {
	t.Parallel()
	f := stocked()
	waiting := &flowv1.Task{
		Id: &flowv1.UUID{Id: taskTwo}, RackId: &flowv1.UUID{Id: ruleOne}, Operation: "rack ingest", Status: flowv1.TaskStatus_TASK_STATUS_WAITING,
		Message: "Queued: waiting for rack to become available", CreatedAt: after(0), QueueExpiresAt: after(time.Hour),
		AppliedRuleId: &flowv1.UUID{Id: ruleOne},
	}
	f.tasks = []*flowv1.Task{failedTask(), waiting}
	got := against(t, f, "task", "get", taskOne, taskTwo)
	want := picture(`
Task         22222222-0000-4000-8000-000000000001
Operation    PowerOff, forced false
Status       failed
Message      stage 2 failed: component type NVSwitch failed: no answer
Description  before the move
Rack         rack-1 (11111111-0000-4000-8000-000000000001)
Components   27
Rule         built-in
Created      2026-03-04T09:15:00Z
Started      2026-03-04T09:15:01Z
Finished     2026-03-04T09:15:11Z (took 10s)

STAGE  COMPONENTS  STATUS     DONE   FAILED  TOOK  TIMELINE
1      Compute     completed  18/18  -       4s    |============                  |
       CDU         skipped    -      -       -     -
2      NVSwitch    failed     8/9    1       6s    |            ==================|
3      PowerShelf  pending    0/8    -       -     -

Stage 2: component type NVSwitch failed: no answer

Task          22222222-0000-4000-8000-000000000002
Operation     rack ingest
Status        waiting
Message       Queued: waiting for rack to become available
Rack          33333333-0000-4000-8000-000000000001
Components    0
Rule          33333333-0000-4000-8000-000000000001
Created       2026-03-04T09:15:00Z
Queued until  2026-03-04T10:15:00Z
`) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK {
		t.Error(diff, got.err)
	}
}

func TestTaskGetShowsRetriesWarningsAndComponents(t *testing.T) {
	t.Parallel()
	f := furnished()
	f.tasks = []*flowv1.Task{{
		Id: &flowv1.UUID{Id: taskOne}, RackId: &flowv1.UUID{Id: rackOne},
		Operation: "PowerOff, forced false", Status: flowv1.TaskStatus_TASK_STATUS_FAILED, Message: "stage 2 failed",
		CreatedAt: after(0), StartedAt: after(0), FinishedAt: after(10 * time.Second),
		Report: `{"version":1,"stages":[
			{"number":1,"status":"completed","steps":[
				{"component_type":"CDU","status":"completed","total_components":1,"completed_components":1,
					"started_at":"2026-03-04T09:15:00Z","finished_at":"2026-03-04T09:15:05Z","warning":"status not\nknown",
					"components":[{"id":"` + partTwo + `","status":"completed"}]}]},
			{"number":2,"status":"failed","steps":[
				{"component_type":"Compute","status":"failed","total_components":2,"completed_components":1,"failed_components":1,
					"started_at":"2026-03-04T09:15:05Z","finished_at":"2026-03-04T09:15:10Z","error":"no answer",
					"components":[{"id":"` + partOne + `","status":"failed","error":"no answer"},{"id":"` + taskTwo + `","status":"completed"}]}]}]}`,
	}}
	f.links = map[string]*flowopsv1.GetTaskPlanResponse{
		taskOne: {RetryOf: &flowv1.UUID{Id: taskTwo}, RetriedBy: &flowv1.UUID{Id: ruleOne}},
	}
	want := picture(`
Task        22222222-0000-4000-8000-000000000001
Operation   PowerOff, forced false
Status      failed
Message     stage 2 failed
Rack        rack-1 (11111111-0000-4000-8000-000000000001)
Components  0
Rule        built-in
Retry of    22222222-0000-4000-8000-000000000002
Retried by  33333333-0000-4000-8000-000000000001
Created     2026-03-04T09:15:00Z
Started     2026-03-04T09:15:00Z
Finished    2026-03-04T09:15:10Z (took 10s)

STAGE  COMPONENTS  STATUS     DONE  FAILED  TOOK  TIMELINE
1      CDU         completed  1/1   -       5s    |===============               |
2      Compute     failed     1/2   1       5s    |               ===============|

Stage 2, Compute: no answer

Warning: stage 1, CDU: status not known

STAGE  TYPE     COMPONENT                             STATUS     ERROR
2      Compute  ct01                                  failed     no answer
2      Compute  22222222-0000-4000-8000-000000000002  completed  -
`) + "\n"
	if got := against(t, f, "task", "get", taskOne); got.out != want || got.code != exitOK {
		t.Error(cmp.Diff(want, got.out), got.err)
	}
	// What a retry has taken over is not what nobody targets; and steps and head tell short times in the same way.
	f.tasks[0].FinishedAt = after(200 * time.Millisecond)
	f.tasks[0].Report = `{"version":1,"stages":[
		{"number":1,"status":"skipped","steps":[{"component_type":"CDU","status":"skipped"},{"component_type":"UMS","status":"skipped"}]},
		{"number":2,"status":"completed","steps":[{"component_type":"CDU","status":"completed","total_components":1,"completed_components":1,
			"started_at":"2026-03-04T09:15:00Z","finished_at":"2026-03-04T09:15:00Z"}]}]}`
	f.links[taskOne].Plan = &flowopsv1.TaskPlan{Stages: []*flowopsv1.PlannedStage{
		{Number: 1, Steps: []*flowopsv1.PlannedStep{{ComponentType: "CDU", Done: true}, {ComponentType: "UMS", Skipped: true}}},
		{Number: 2, Steps: []*flowopsv1.PlannedStep{{ComponentType: "CDU"}}},
	}}
	want = picture(`
Finished    2026-03-04T09:15:00Z (took <1s)

STAGE  COMPONENTS  STATUS       DONE  FAILED  TOOK  TIMELINE
1      CDU         done before  -     -       -     -
       UMS         skipped      -     -       -     -
2      CDU         completed    1/1   -       <1s   |=                             |
`) + "\n"
	if got := against(t, f, "task", "get", taskOne); !strings.HasSuffix(got.out, want) || got.code != exitOK {
		t.Error(got.out, got.err)
	}
	f.links = map[string]*flowopsv1.GetTaskPlanResponse{} // the task is gone by then
	if got := against(t, f, "task", "get", taskOne); got.code != exitOK || strings.Contains(got.out, "Retr") {
		t.Errorf("%+v", got)
	}
}

func TestTaskRetry(t *testing.T) {
	t.Parallel()
	id := &flowv1.UUID{Id: taskTwo}
	for line, want := range map[string]*flowopsv1.RetryTaskRequest{
		taskTwo:              {TaskId: id},
		taskTwo + " --queue": {TaskId: id, QueueOptions: queued(0)},
		taskTwo + " --queue --queue-timeout 2m --override-readiness --description x": {
			TaskId: id, QueueOptions: queued(120), OverrideReadinessCheck: proto.Bool(true), Description: proto.String("x"),
		},
		taskTwo + " --override-readiness=false --description=": {
			TaskId: id, OverrideReadinessCheck: proto.Bool(false), Description: proto.String(""),
		},
	} {
		f := &fake{}
		got := against(t, f, append([]string{"task", "retry"}, strings.Fields(line)...)...)
		if got.code != exitOK || got.out != taskOne+"\n" || got.err != "Goes on from stage 2.\n" {
			t.Errorf("%s: %+v", line, got)
		}
		if diff := cmp.Diff([]proto.Message{want}, f.asked(), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
	got := against(t, &fake{}, "task", "retry", taskTwo, "-o", "json")
	if want := "{\n  \"task_ids\": [\n    \"" + taskOne + "\"\n  ],\n  \"stage\": 2\n}\n"; got.out != want {
		t.Errorf("%+v", got)
	}
	f := &fake{submit: connect.NewError(connect.CodeFailedPrecondition, errors.New("task was retried before"))}
	got = against(t, f, "task", "retry", taskTwo)
	if got.code != exitError || got.out != "" || got.err != "Error: task retry: task was retried before (failed_precondition)\n" {
		t.Errorf("%+v", got)
	}
}

func TestTaskRetryWaits(t *testing.T) {
	t.Parallel()
	f := oneRack(func(int, *flowopsv1.WatchTasksRequest, func(*flowopsv1.TaskEvent)) error { return nil })
	f.tasks[0].Status, f.tasks[0].FinishedAt = flowv1.TaskStatus_TASK_STATUS_FAILED, after(time.Minute)
	got := against(t, f, "task", "retry", taskTwo, "--wait")
	if got.code != exitTaskFailed || got.out != taskOne+"\n" ||
		!strings.HasSuffix(got.err, "Error: task retry: task "+taskOne+" of rack rack-1 is failed\n") {
		t.Errorf("%+v", got)
	}
	got = against(t, f, "task", "retry", taskTwo, "--wait", "-o", "json")
	if got.code != exitTaskFailed || !strings.Contains(got.out, `"status": "failed"`) {
		t.Errorf("%+v", got)
	}
}

func TestTaskList(t *testing.T) {
	t.Parallel()
	f := stocked()
	f.tasks = []*flowv1.Task{failedTask(), outlined()}
	got := against(t, f, "task", "list", "--rack", "rack-1", "--component", "m1", "--limit", "2")
	want := picture(`
ID                                    RACK    OPERATION  STATUS   CREATED               TOOK  MESSAGE
22222222-0000-4000-8000-000000000001  rack-1  PowerOff   failed   2026-03-04T09:15:00Z  10s   stage 2 failed: component type NVSwitch failed: no answer
22222222-0000-4000-8000-000000000001  rack-1  PowerOn    running  2026-03-04T09:15:00Z  59s   -
`) + "\n"
	if diff := cmp.Diff(want, got.out); diff != "" || got.code != exitOK {
		t.Error(diff, got.err)
	}
	asked := f.asked()
	wantAsked := &flowv1.ListTasksRequest{
		RackId: &flowv1.UUID{Id: rackOne}, ComponentId: &flowv1.UUID{Id: "m1"}, Pagination: &flowv1.Pagination{Limit: 2},
	}
	if diff := cmp.Diff(proto.Message(wantAsked), asked[len(asked)-1], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestTaskCancelGoesOnAfterARefusal(t *testing.T) {
	t.Parallel()
	got := against(t, &fake{}, "task", "cancel", taskTwo, taskOne)
	if got.code != exitError || got.out != "Task "+taskOne+" is terminated.\n" ||
		got.err != "Error: task cancel: task "+taskTwo+" cannot be cancelled: it is COMPLETED (failed_precondition)\n" {
		t.Errorf("%+v", got)
	}
}

func TestTaskCommandsRefuseBeforeAnyCall(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"get":                              "task get: needs the id of a task",
		"get x":                            `task get: task id "x" is not a valid UUID`,
		"cancel":                           "task cancel: needs the id of a task",
		"cancel " + taskOne + ",x":         `task cancel: task id "x" is not a valid UUID`,
		"watch":                            "task watch: give exactly one of ID, --rack and --all",
		"watch --all --rack a":             "task watch: give exactly one of ID, --rack and --all",
		"watch " + taskOne + " --all":      "task watch: give exactly one of ID, --rack and --all",
		"watch x":                          `task watch: task id "x" is not a valid UUID`,
		"watch --all -o yaml":              "task watch: --output must be table or json, got yaml",
		"retry":                            "task retry: needs the id of a task",
		"retry x":                          `task retry: task id "x" is not a valid UUID`,
		"retry " + taskOne + "," + taskTwo: "task retry: needs the id of one task",
		"retry " + taskOne + " " + taskTwo: `task retry: unexpected argument "` + taskTwo + `"`,
		"retry " + taskOne + " --queue-timeout 1s": "task retry: --queue-timeout goes with --queue",
		"list --limit 0": "task list: --limit must be greater than 0, got 0",
		"list x":         `task list: unexpected argument "x"`,
		"list -o toml": `invalid argument "toml" for "-o, --output" flag: unknown output format "toml": ` +
			"must be one of table, json, yaml, protojson",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			got := against(t, f, append([]string{"task"}, strings.Fields(line)...)...)
			if first, _, _ := strings.Cut(got.err, "\n"); got.code != exitError || got.out != "" || first != "Error: "+want || len(f.asked()) != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}
