package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

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
		"get":                         "task get: needs the id of a task",
		"get x":                       `task get: task id "x" is not a valid UUID`,
		"cancel":                      "task cancel: needs the id of a task",
		"cancel " + taskOne + ",x":    `task cancel: task id "x" is not a valid UUID`,
		"watch":                       "task watch: give exactly one of ID, --rack and --all",
		"watch --all --rack a":        "task watch: give exactly one of ID, --rack and --all",
		"watch " + taskOne + " --all": "task watch: give exactly one of ID, --rack and --all",
		"watch x":                     `task watch: task id "x" is not a valid UUID`,
		"watch --all -o yaml":         "task watch: --output must be table or json, got yaml",
		"list --limit 0":              "task list: --limit must be greater than 0, got 0",
		"list x":                      `task list: unexpected argument "x"`,
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
