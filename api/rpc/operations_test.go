package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware"
	"rackflow.dev/flow/hardware/sim"
	"rackflow.dev/flow/store"
)

// plant is a served API with an engine and a simulated site behind it.
type plant struct {
	*site
	engine *engine.Engine
	sim    *sim.Site
	tasks  *task.Service // where there is no engine
}

func servePlant(t *testing.T) *plant {
	t.Helper()
	p := &plant{}
	p.site = serve(t, func(cfg *Config) {
		p.engine, p.sim = startEngine(t, cfg.Store)
		cfg.Tasks, cfg.Watch = p.engine.Tasks, p.engine.Watch
	})
	return p
}

func startEngine(t *testing.T, st *store.Store) (*engine.Engine, *sim.Site) {
	t.Helper()
	hw, err := sim.Open(sim.Config{InitialPower: hardware.PowerStateOff})
	if err != nil {
		t.Fatal(err)
	}
	managers := hw.Managers()
	delete(managers, hardware.CDU) // a type without an adapter
	e, err := engine.New(engine.Config{Store: st, Managers: managers, Log: slog.New(slog.DiscardHandler), NodeID: uuid.New(), Speed: 100})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		_ = hw.Close()
	})
	return e, hw
}

// rack takes a rack of so many components of each kind into inventory and returns its id.
func (p *plant) rack(name string, kinds map[flowv1.ComponentType]int) *flowv1.UUID {
	p.t.Helper()
	r := &flowv1.Rack{Info: &flowv1.DeviceInfo{Id: newID(), Name: name}}
	for kind, n := range kinds {
		for i := range n {
			id := newID()
			r.Components = append(r.Components, &flowv1.Component{
				Type: kind, ComponentId: "core-" + id.GetId(),
				Info: &flowv1.DeviceInfo{Id: id, Name: fmt.Sprintf("%s-%s-%d", name, kind, i)},
			})
		}
	}
	if _, err := p.grpc.CreateExpectedRack(p.t.Context(), &flowv1.CreateExpectedRackRequest{Rack: r}); err != nil {
		p.t.Fatal(err)
	}
	return r.Info.Id
}

func newID() *flowv1.UUID { return &flowv1.UUID{Id: uuid.NewString()} }

func racks(targets ...*flowv1.RackTarget) *flowv1.OperationTargetSpec {
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Racks{Racks: &flowv1.RackTargets{Targets: targets}}}
}

func byID(id *flowv1.UUID, types ...flowv1.ComponentType) *flowv1.RackTarget {
	return &flowv1.RackTarget{Identifier: &flowv1.RackTarget_Id{Id: id}, ComponentTypes: types}
}

func byName(name string) *flowv1.RackTarget {
	return &flowv1.RackTarget{Identifier: &flowv1.RackTarget_Name{Name: name}}
}

const (
	compute = flowv1.ComponentType_COMPONENT_TYPE_COMPUTE
	shelf   = flowv1.ComponentType_COMPONENT_TYPE_POWERSHELF
	cdu     = flowv1.ComponentType_COMPONENT_TYPE_CDU
)

// finished waits for tasks to end and returns them.
func (p *plant) finished(ids []*flowv1.UUID) []*flowv1.Task {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	start := int64(0)
	stream, err := p.ops.WatchTasks(ctx, &flowopsv1.WatchTasksRequest{TaskIds: ids, AfterEventId: &start})
	if err != nil {
		p.t.Fatal(err)
	}
	left := len(ids)
	for left > 0 && stream.Receive() {
		if stream.Msg().GetKind() == flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED {
			left--
		}
	}
	if left > 0 {
		p.t.Fatalf("%d tasks have not ended: %v", left, stream.Err())
	}
	cancel()
	_ = stream.Close()
	res, err := p.grpc.GetTasksByIDs(p.t.Context(), &flowv1.GetTasksByIDsRequest{TaskIds: ids})
	if err != nil {
		p.t.Fatal(err)
	}
	return res.GetTasks()
}

func TestPowerOnTakesARackThroughItsStages(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	id := p.rack("r1", map[flowv1.ComponentType]int{compute: 2, shelf: 1})
	res, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byName("r1")), Description: "try it"})
	if err != nil {
		t.Fatal(err)
	}
	task := p.finished(res.GetTaskIds())[0]
	if task.GetStatus() != flowv1.TaskStatus_TASK_STATUS_COMPLETED || task.GetMessage() != "Succeeded" {
		t.Errorf("%s: %s", task.GetStatus(), task.GetMessage())
	}
	if task.GetOperation() != "PowerOn, forced false" || task.GetDescription() != "try it" || task.GetRackId().GetId() != id.GetId() {
		t.Errorf("task %v", task)
	}
	if len(task.GetComponentUuids()) != 3 || task.GetStartedAt() == nil || task.GetFinishedAt() == nil || task.AppliedRuleId != nil {
		t.Errorf("task %v", task)
	}
	if !strings.HasPrefix(task.GetExecutionId(), `{"workflow_id":"`+task.GetId().GetId()+`","run_id":"`) || task.GetExecutorType() != 0 {
		t.Errorf("execution %s by %s", task.GetExecutionId(), task.GetExecutorType())
	}
	for _, want := range []string{`"version":1`, `"number":1,"status":"completed"`, `"status":"skipped"`, `"total_components":2,"completed_components":2`} {
		if !strings.Contains(task.GetReport(), want) {
			t.Errorf("the report lacks %s: %s", want, task.GetReport())
		}
	}
}

func TestBadSubmissionsAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	id := p.rack("r1", map[flowv1.ComponentType]int{compute: 1, shelf: 1, cdu: 1})
	p.rack("twin", map[flowv1.ComponentType]int{compute: 1})
	p.rack("twin", map[flowv1.ComponentType]int{compute: 1})
	p.rack("empty", nil)
	created, err := p.grpc.CreateOperationRule(t.Context(), &flowv1.CreateOperationRuleRequest{
		Name: "cdu", OperationType: flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, OperationCode: "power_on",
		RuleDefinitionJson: `{"steps": [{"component_type": "CDU", "stage": 1, "main_operation": {"name": "PowerControl"}}]}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	noSteps, err := p.grpc.CreateOperationRule(t.Context(), &flowv1.CreateOperationRuleRequest{
		Name: "nothing", OperationType: flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL, OperationCode: "power_on", RuleDefinitionJson: `{}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	unknown := newID()
	request := func(spec *flowv1.OperationTargetSpec, rule *flowv1.UUID) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := p.grpc.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: spec, RuleId: rule})
			return err
		}
	}
	before := p.recorded()
	for name, c := range map[string]struct {
		call  func(context.Context) error
		code  connect.Code
		words []string
	}{
		"no target spec":                       {request(nil, nil), connect.CodeInvalidArgument, []string{"target_spec"}},
		"a target spec of no kind":             {request(&flowv1.OperationTargetSpec{}, nil), connect.CodeInvalidArgument, []string{"target_spec"}},
		"an empty list of racks":               {request(racks(), nil), connect.CodeInvalidArgument, []string{"target_spec.racks.targets", "at least one"}},
		"a target without identifier":          {request(racks(byID(id), &flowv1.RackTarget{}), nil), connect.CodeInvalidArgument, []string{"targets[1]"}},
		"a malformed rack id":                  {request(racks(byID(&flowv1.UUID{Id: "x"})), nil), connect.CodeInvalidArgument, []string{"targets[0].id", "x"}},
		"the nil rack id":                      {request(racks(byID(&flowv1.UUID{Id: uuid.Nil.String()})), nil), connect.CodeInvalidArgument, []string{"targets[0].id"}},
		"an empty rack name":                   {request(racks(byName("")), nil), connect.CodeInvalidArgument, []string{"targets[0].name"}},
		"a name of two racks":                  {request(racks(byName("twin")), nil), connect.CodeInvalidArgument, []string{"twin", "multiple"}},
		"the unknown component type":           {request(racks(byID(id, 0)), nil), connect.CodeInvalidArgument, []string{"component_types[0]"}},
		"a component type that does not exist": {request(racks(byID(id, compute, 99)), nil), connect.CodeInvalidArgument, []string{"component_types[1]", "99"}},
		"an unknown rack":                      {request(racks(byID(unknown)), nil), connect.CodeNotFound, []string{unknown.GetId()}},
		"an unknown rack name":                 {request(racks(byName("nowhere")), nil), connect.CodeNotFound, []string{"nowhere"}},
		"one unknown rack among known ones":    {request(racks(byID(id), byID(unknown)), nil), connect.CodeNotFound, []string{unknown.GetId()}},
		"a malformed rule id":                  {request(racks(byID(id)), &flowv1.UUID{Id: "zz"}), connect.CodeInvalidArgument, []string{"rule_id", "zz"}},
		"the nil rule id":                      {request(racks(byID(id)), &flowv1.UUID{Id: uuid.Nil.String()}), connect.CodeInvalidArgument, []string{"rule_id"}},
		"an unknown rule":                      {request(racks(byID(id)), unknown), connect.CodeNotFound, []string{unknown.GetId()}},
		"a rule without steps":                 {request(racks(byID(id)), noSteps.GetId()), connect.CodeFailedPrecondition, []string{"nothing", noSteps.GetId().GetId()}},
		"a rule without a step for the targets": {request(racks(byID(id, compute)), created.GetId()), connect.CodeFailedPrecondition,
			[]string{"cdu", created.GetId().GetId(), "Compute"}},
		"a type without an adapter":  {request(racks(byID(id)), created.GetId()), connect.CodeFailedPrecondition, []string{"CDU", "no active component manager"}},
		"a rack without components":  {request(racks(byName("empty")), nil), connect.CodeFailedPrecondition, []string{"no selected components"}},
		"types the rack has none of": {request(racks(byID(id, flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH)), nil), connect.CodeFailedPrecondition, []string{id.GetId()}},
		"AC power cycle without a tray": {func(ctx context.Context) error {
			_, err := p.grpc.ACPowerCycleRack(ctx, &flowv1.ACPowerCycleRackRequest{TargetSpec: racks(byID(id, shelf))})
			return err
		}, connect.CodeFailedPrecondition, []string{"PowerShelf"}},
		"no components": {func(ctx context.Context) error {
			_, err := p.grpc.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: &flowv1.OperationTargetSpec{
				Targets: &flowv1.OperationTargetSpec_Components{Components: &flowv1.ComponentTargets{}}}})
			return err
		}, connect.CodeInvalidArgument, []string{"target_spec.components.targets"}},
		"cancelling a malformed id": {func(ctx context.Context) error {
			_, err := p.grpc.CancelTask(ctx, &flowv1.CancelTaskRequest{TaskId: &flowv1.UUID{Id: "7"}})
			return err
		}, connect.CodeInvalidArgument, []string{"task_id", "7"}},
		"cancelling an unknown task": {func(ctx context.Context) error {
			_, err := p.grpc.CancelTask(ctx, &flowv1.CancelTaskRequest{TaskId: unknown})
			return err
		}, connect.CodeNotFound, []string{unknown.GetId()}},
		"getting a malformed id": {func(ctx context.Context) error {
			_, err := p.grpc.GetTasksByIDs(ctx, &flowv1.GetTasksByIDsRequest{TaskIds: []*flowv1.UUID{newID(), {Id: "q"}}})
			return err
		}, connect.CodeInvalidArgument, []string{"task_ids[1]"}},
		"getting an unknown task": {func(ctx context.Context) error {
			_, err := p.grpc.GetTasksByIDs(ctx, &flowv1.GetTasksByIDsRequest{TaskIds: []*flowv1.UUID{unknown}})
			return err
		}, connect.CodeNotFound, []string{unknown.GetId()}},
		"listing with limit zero": {func(ctx context.Context) error {
			_, err := p.grpc.ListTasks(ctx, &flowv1.ListTasksRequest{Pagination: &flowv1.Pagination{}})
			return err
		}, connect.CodeInvalidArgument, []string{"limit"}},
		"listing the tasks of an unknown rack": {func(ctx context.Context) error {
			_, err := p.grpc.ListTasks(ctx, &flowv1.ListTasksRequest{RackId: &flowv1.UUID{Id: "nowhere"}})
			return err
		}, connect.CodeNotFound, []string{"nowhere"}},
		"watching an unknown task": {func(ctx context.Context) error {
			stream, err := p.ops.WatchTasks(ctx, &flowopsv1.WatchTasksRequest{TaskIds: []*flowv1.UUID{unknown}})
			if err != nil {
				return err
			}
			stream.Receive()
			return errors.Join(stream.Err(), stream.Close())
		}, connect.CodeNotFound, []string{unknown.GetId()}},
		"watching from before the beginning": {func(ctx context.Context) error {
			stream, err := p.ops.WatchTasks(ctx, &flowopsv1.WatchTasksRequest{AfterEventId: new(int64(-1))})
			if err != nil {
				return err
			}
			stream.Receive()
			return errors.Join(stream.Err(), stream.Close())
		}, connect.CodeInvalidArgument, []string{"after_event_id", "-1"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.call(t.Context()), c.code, c.words...) })
	}
	if diff := cmp.Diff(before, p.recorded()); diff != "" {
		t.Errorf("a refused request changed tasks: %s", diff)
	}
}

// recorded is everything there is of tasks, to compare.
func (p *plant) recorded() string {
	p.t.Helper()
	var all string
	err := p.store.API.QueryRow(p.t.Context(), `SELECT coalesce((SELECT json_agg(t ORDER BY id) FROM task t)::text, '') ||
		coalesce((SELECT json_agg(e ORDER BY id) FROM event e)::text, '') || (SELECT count(*) FROM river_job)`).Scan(&all)
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

func TestARackInOtherHandsIsRefusedAloneAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	busy := p.rack("busy", map[flowv1.ComponentType]int{shelf: 1})
	p.rack("free", map[flowv1.ComponentType]int{shelf: 1})
	if err := p.sim.Script(sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl, Times: 1}); err != nil {
		t.Fatal(err)
	}
	first, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byID(busy))})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.grpc.PowerOffRack(t.Context(), &flowv1.PowerOffRackRequest{TargetSpec: racks(byID(busy))})
	refused(t, err, connect.CodeFailedPrecondition, "failed to create any tasks", busy.GetId(), first.GetTaskIds()[0].GetId())

	ctx, call := connect.NewClientContext(t.Context())
	both, err := p.grpc.PowerOffRack(ctx, &flowv1.PowerOffRackRequest{TargetSpec: racks(byID(busy), byName("free"))})
	if err != nil {
		t.Fatal(err)
	}
	if len(both.GetTaskIds()) != 1 {
		t.Errorf("%d tasks, want 1", len(both.GetTaskIds()))
	}
	if got := call.ResponseTrailer().Values("flow-rack-error"); len(got) != 1 || !strings.HasPrefix(got[0], busy.GetId()+" failed_precondition ") {
		t.Errorf("trailers %q", got)
	}
	if _, err := p.grpc.CancelTask(t.Context(), &flowv1.CancelTaskRequest{TaskId: first.GetTaskIds()[0]}); err != nil {
		t.Fatal(err)
	}
}

func TestOfTwoSubmissionsAtOnceOneIsAdmitted(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	id := p.rack("r", map[flowv1.ComponentType]int{shelf: 1})
	if err := p.sim.Script(sim.Fault{Kind: sim.Hang, Call: hardware.CapPowerControl}); err != nil {
		t.Fatal(err)
	}
	const n = 8
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byID(id))})
			errs <- err
		}()
	}
	admitted := 0
	for range n {
		if err := <-errs; err == nil {
			admitted++
		} else {
			refused(t, err, connect.CodeFailedPrecondition, id.GetId())
		}
	}
	if admitted != 1 {
		t.Errorf("%d submissions admitted, want 1", admitted)
	}
	list, err := p.grpc.ListTasks(t.Context(), &flowv1.ListTasksRequest{ActiveOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range list.GetTasks() {
		if _, err := p.grpc.CancelTask(t.Context(), &flowv1.CancelTaskRequest{TaskId: task.GetId()}); err != nil {
			t.Error(err)
		}
	}
}

func TestTasksAreListedNewestFirstByRackAndComponent(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	one := p.rack("one", map[flowv1.ComponentType]int{shelf: 1})
	two := p.rack("two", map[flowv1.ComponentType]int{shelf: 1})
	var ids []string
	var components []*flowv1.UUID
	for _, rack := range []*flowv1.UUID{one, two, one} {
		res, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byID(rack))})
		if err != nil {
			t.Fatal(err)
		}
		components = p.finished(res.GetTaskIds())[0].GetComponentUuids()
		ids = append([]string{res.GetTaskIds()[0].GetId()}, ids...)
	}
	for name, c := range map[string]struct {
		req   *flowv1.ListTasksRequest
		want  []string
		total int32
	}{
		"all":                   {&flowv1.ListTasksRequest{}, ids, 3},
		"of a rack":             {&flowv1.ListTasksRequest{RackId: one}, []string{ids[0], ids[2]}, 2},
		"of a component":        {&flowv1.ListTasksRequest{ComponentId: components[0]}, []string{ids[0], ids[2]}, 2},
		"of both":               {&flowv1.ListTasksRequest{RackId: two, ComponentId: components[0]}, nil, 0},
		"by the component's id": {&flowv1.ListTasksRequest{ComponentId: &flowv1.UUID{Id: "core-" + components[0].GetId()}}, []string{ids[0], ids[2]}, 2},
		"none active":           {&flowv1.ListTasksRequest{ActiveOnly: true}, nil, 0},
		"a page":                {&flowv1.ListTasksRequest{Pagination: &flowv1.Pagination{Offset: 1, Limit: 1}}, ids[1:2], 3},
		"past the end":          {&flowv1.ListTasksRequest{Pagination: &flowv1.Pagination{Offset: 9, Limit: 1}}, nil, 3},
		"an empty rack id":      {&flowv1.ListTasksRequest{RackId: &flowv1.UUID{}}, ids, 3},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := p.grpc.ListTasks(t.Context(), c.req)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, task := range res.GetTasks() {
				got = append(got, task.GetId().GetId())
				if task.GetReport() != "" {
					t.Error("a report that was not asked for")
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || res.GetTotal() != c.total {
				t.Errorf("total %d, want %d; %s", res.GetTotal(), c.total, diff)
			}
		})
	}
	res, err := p.grpc.ListTasks(t.Context(), &flowv1.ListTasksRequest{WithReport: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range res.GetTasks() {
		if !strings.Contains(task.GetReport(), `"version":1`) {
			t.Errorf("report %q", task.GetReport())
		}
	}
}

func TestRulesAreStoredCheckedAndApplied(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	p.rack("r", map[flowv1.ComponentType]int{shelf: 1})
	power := flowv1.OperationType_OPERATION_TYPE_POWER_CONTROL
	good := `{"steps": [{"component_type": "powershelf", "stage": 4, "main_operation": {"name": "PowerControl"}}]}`
	create := func(change func(*flowv1.CreateOperationRuleRequest)) (*flowv1.UUID, error) {
		req := &flowv1.CreateOperationRuleRequest{Name: "mine", OperationType: power, OperationCode: "power_on", RuleDefinitionJson: good}
		change(req)
		res, err := p.grpc.CreateOperationRule(t.Context(), req)
		return res.GetId(), err
	}
	id, err := create(func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault = true })
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*flowv1.CreateOperationRuleRequest)
		code   connect.Code
		words  []string
	}{
		"no name":                     {func(r *flowv1.CreateOperationRuleRequest) { r.Name = "" }, connect.CodeInvalidArgument, []string{"rule name is required"}},
		"a long name":                 {func(r *flowv1.CreateOperationRuleRequest) { r.Name = strings.Repeat("ä", 129) }, connect.CodeInvalidArgument, []string{"129"}},
		"a type without stored rules": {func(r *flowv1.CreateOperationRuleRequest) { r.OperationType = 0 }, connect.CodeInvalidArgument, []string{"operation_type"}},
		"a code of another type": {func(r *flowv1.CreateOperationRuleRequest) { r.OperationCode = "upgrade" }, connect.CodeInvalidArgument,
			[]string{"invalid operation code 'upgrade' for operation type 'power_control'"}},
		"no JSON":         {func(r *flowv1.CreateOperationRuleRequest) { r.RuleDefinitionJson = "{" }, connect.CodeInvalidArgument, []string{"invalid rule definition"}},
		"another version": {func(r *flowv1.CreateOperationRuleRequest) { r.RuleDefinitionJson = `{"version": "v2"}` }, connect.CodeInvalidArgument, []string{"v2", "v1"}},
		"two errors are told at once": {func(r *flowv1.CreateOperationRuleRequest) {
			r.RuleDefinitionJson = `{"steps": [{"component_type": "Compute", "stage": 0, "main_operation": {"name": "Nothing"}}]}`
		}, connect.CodeInvalidArgument, []string{"rule validation failed", "stage must be >= 1", "unknown action: Nothing"}},
		"a second default": {func(r *flowv1.CreateOperationRuleRequest) { r.IsDefault = true }, connect.CodeAlreadyExists, []string{"mine", id.GetId()}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := create(c.change)
			refused(t, err, c.code, c.words...)
		})
	}
	got, err := p.grpc.GetOperationRule(t.Context(), &flowv1.GetOperationRuleRequest{RuleId: id})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.GetRuleDefinitionJson(), `"component_type":"PowerShelf"`) || !got.GetIsDefault() || got.GetOperationType() != power {
		t.Errorf("stored rule %v", got)
	}
	_, err = p.grpc.GetOperationRule(t.Context(), &flowv1.GetOperationRuleRequest{RuleId: newID()})
	refused(t, err, connect.CodeNotFound)
	list, err := p.grpc.ListOperationRules(t.Context(), &flowv1.ListOperationRulesRequest{IsDefault: new(true)})
	if err != nil || list.GetTotalCount() != 1 || len(list.GetRules()) != 1 {
		t.Errorf("list %v: %v", list, err)
	}

	// The stored default governs; its deletion clears what tasks say of it and brings the built-in rule back.
	run := func() *flowv1.Task {
		res, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byName("r"))})
		if err != nil {
			t.Fatal(err)
		}
		return p.finished(res.GetTaskIds())[0]
	}
	task := run()
	if task.GetAppliedRuleId().GetId() != id.GetId() || !strings.Contains(task.GetReport(), `"number":4`) {
		t.Errorf("rule %v, report %s", task.GetAppliedRuleId(), task.GetReport())
	}
	for range 2 { // deleting again is no error
		if _, err := p.grpc.DeleteOperationRule(t.Context(), &flowv1.DeleteOperationRuleRequest{RuleId: id}); err != nil {
			t.Fatal(err)
		}
	}
	if old := p.finished([]*flowv1.UUID{task.GetId()})[0]; old.AppliedRuleId != nil || old.GetReport() != task.GetReport() {
		t.Errorf("after the deletion: rule %v, report %s", old.GetAppliedRuleId(), old.GetReport())
	}
	if task := run(); task.AppliedRuleId != nil || !strings.Contains(task.GetReport(), `"number":3`) {
		t.Errorf("rule %v, report %s", task.GetAppliedRuleId(), task.GetReport())
	}
}

func TestAWatcherFromNowOnSeesWhatComes(t *testing.T) {
	t.Parallel()
	p := servePlant(t)
	id := p.rack("r", map[flowv1.ComponentType]int{shelf: 1})
	power := func() {
		if _, err := p.grpc.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: racks(byID(id))}); err != nil {
			t.Fatal(err)
		}
	}
	power()
	list, err := p.grpc.ListTasks(t.Context(), &flowv1.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p.finished([]*flowv1.UUID{list.GetTasks()[0].GetId()})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := p.ops.WatchTasks(ctx, &flowopsv1.WatchTasksRequest{RackIds: []*flowv1.UUID{id}})
	if err != nil {
		t.Fatal(err)
	}
	stream.ResponseHeader() // from here on nothing is missed
	power()
	last := int64(0)
	var kinds []string
	for stream.Receive() {
		e := stream.Msg()
		if e.GetId() <= last {
			t.Errorf("event %d after %d", e.GetId(), last)
		}
		last = e.GetId()
		kinds = append(kinds, strings.TrimPrefix(e.GetKind().String(), "TASK_EVENT_KIND_"))
		if e.GetKind() == flowopsv1.TaskEventKind_TASK_EVENT_KIND_TASK_FINISHED {
			break
		}
	}
	want := []string{"TASK_CREATED", "TASK_STARTED", "STAGE_STARTED", "STEP_PROGRESS", "STEP_FINISHED", "STAGE_FINISHED", "TASK_FINISHED"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}
