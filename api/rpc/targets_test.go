package rpc

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"rackflow.dev/flow/api/gen/flowopsv1/flowopsv1connect"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/hardware/sim"
)

const (
	nvswitch  = flowv1.ComponentType_COMPONENT_TYPE_NVSWITCH
	torswitch = flowv1.ComponentType_COMPONENT_TYPE_TORSWITCH
	ums       = flowv1.ComponentType_COMPONENT_TYPE_UMS
)

func byExternalID(id string, types ...flowv1.ComponentType) *flowv1.RackTarget {
	return &flowv1.RackTarget{Identifier: &flowv1.RackTarget_ExternalId{ExternalId: id}, ComponentTypes: types}
}

func domains(targets ...*flowv1.NVLDomainTarget) *flowv1.OperationTargetSpec {
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_NvlDomains{NvlDomains: &flowv1.NVLDomainTargets{Targets: targets}}}
}

func domainID(id *flowv1.UUID, types ...flowv1.ComponentType) *flowv1.NVLDomainTarget {
	return &flowv1.NVLDomainTarget{Identifier: &flowv1.NVLDomainTarget_Id{Id: id}, ComponentTypes: types}
}

func domainName(name string) *flowv1.NVLDomainTarget {
	return &flowv1.NVLDomainTarget{Identifier: &flowv1.NVLDomainTarget_Name{Name: name}}
}

func domainExternalID(id string) *flowv1.NVLDomainTarget {
	return &flowv1.NVLDomainTarget{Identifier: &flowv1.NVLDomainTarget_ExternalId{ExternalId: id}}
}

func components(targets ...*flowv1.ComponentTarget) *flowv1.OperationTargetSpec {
	return &flowv1.OperationTargetSpec{Targets: &flowv1.OperationTargetSpec_Components{Components: &flowv1.ComponentTargets{Targets: targets}}}
}

func componentID(id *flowv1.UUID) *flowv1.ComponentTarget {
	return &flowv1.ComponentTarget{Identifier: &flowv1.ComponentTarget_Id{Id: id}}
}

// external names a component by its external id or a MAC; the type 0 is any.
func external(id string, kind flowv1.ComponentType) *flowv1.ComponentTarget {
	return &flowv1.ComponentTarget{Identifier: &flowv1.ComponentTarget_External{External: &flowv1.ExternalRef{Type: kind, Id: id}}}
}

// scoped are the calls that resolve a target spec.
var scoped = map[string]func(ctx context.Context, flow flowv1connect.FlowClient, spec *flowv1.OperationTargetSpec) error{
	"GetComponents": func(ctx context.Context, flow flowv1connect.FlowClient, spec *flowv1.OperationTargetSpec) error {
		_, err := flow.GetComponents(ctx, &flowv1.GetComponentsRequest{TargetSpec: spec})
		return err
	},
	"ValidateComponents": func(ctx context.Context, flow flowv1connect.FlowClient, spec *flowv1.OperationTargetSpec) error {
		_, err := flow.ValidateComponents(ctx, &flowv1.ValidateComponentsRequest{TargetSpec: spec})
		return err
	},
	"PowerOnRack": func(ctx context.Context, flow flowv1connect.FlowClient, spec *flowv1.OperationTargetSpec) error {
		_, err := flow.PowerOnRack(ctx, &flowv1.PowerOnRackRequest{TargetSpec: spec})
		return err
	},
}

// listed returns the names of the components a request lists, in their order.
func listed(t *testing.T, flow flowv1connect.FlowClient, req *flowv1.GetComponentsRequest) (names []string, total int32) {
	t.Helper()
	res, err := flow.GetComponents(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return each(res.GetComponents(), func(c *flowv1.Component) string { return c.GetInfo().GetName() }), res.GetTotal()
}

// submitted powers on what a spec names and returns the names of the components of each task, sorted; then it ends the
// tasks, so that the next ones find the racks free.
func (p *plant) submitted(t *testing.T, flow flowv1connect.FlowClient, spec *flowv1.OperationTargetSpec) []string {
	t.Helper()
	res, err := flow.PowerOnRack(t.Context(), &flowv1.PowerOnRackRequest{TargetSpec: spec})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := flow.GetTasksByIDs(t.Context(), &flowv1.GetTasksByIDsRequest{TaskIds: res.GetTaskIds()})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, task := range tasks.GetTasks() {
		all = append(all, strings.Join(p.namesOf(task.GetComponentUuids()), " "))
	}
	slices.Sort(all)
	p.exec("DELETE FROM task")
	return all
}

// namesOf are the names of components in order, one for each id: an id given twice shows.
func (s *site) namesOf(ids []*flowv1.UUID) []string {
	s.t.Helper()
	rows, err := s.store.API.Query(s.t.Context(), "SELECT name FROM component JOIN unnest($1::uuid[]) AS given ON given = id ORDER BY name",
		each(ids, (*flowv1.UUID).GetId))
	if err != nil {
		s.t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}

// serveParked serves an API without an engine: tasks are admitted and then stay as they are.
func serveParked(t *testing.T) *plant {
	t.Helper()
	return serveTasks(t, nil)
}

// serveTasks is serveParked with a service of tasks that may be changed.
func serveTasks(t *testing.T, change func(*task.Service)) *plant {
	t.Helper()
	hw, err := sim.Open(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	p := &plant{sim: hw}
	p.site = serve(t, func(cfg *Config) {
		cfg.Tasks.Managers, cfg.Tasks.Jobs = hw.Managers(), parked{}
		if change != nil {
			change(cfg.Tasks)
		}
		p.tasks = cfg.Tasks
	})
	return p
}

// overEachParked runs a test with a site of its own for gRPC and for JSON, on which tasks stay as they are; p.flow and p.ops
// speak the protocol.
func overEachParked(t *testing.T, change func(*task.Service), test func(t *testing.T, p *plant)) {
	t.Helper()
	for name, protocol := range map[string]connect.ClientOption{"gRPC": connect.WithGRPC(), "JSON": connect.WithProtoJSON()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serveTasks(t, change)
			p.flow = flowv1connect.NewFlowClient(p.http, p.url, protocol)
			p.ops = flowopsv1connect.NewFlowOpsClient(p.http, p.url, protocol)
			test(t, p)
		})
	}
}

// parked are jobs that nobody does.
type parked struct{}

func (parked) InsertStarts(_ context.Context, _ pgx.Tx, tasks []uuid.UUID) ([]int64, error) {
	return make([]int64, len(tasks)), nil
}
func (parked) InsertExpiries(context.Context, pgx.Tx, []uuid.UUID, time.Time) error { return nil }
func (parked) InsertRelease(context.Context, pgx.Tx, uuid.UUID, time.Time) error    { return nil }
func (parked) Cancel(context.Context, pgx.Tx, []int64) error                        { return nil }
func (parked) Interrupt(uuid.UUID)                                                  {}
