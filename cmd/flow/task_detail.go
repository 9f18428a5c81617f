package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"connectrpc.com/connect"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/task"
)

// taskDetails is what is shown of tasks besides themselves.
type taskDetails struct {
	racks      map[string]string                         // names by id
	components map[string]string                         // names by id, of the components that a report names
	links      map[string]*flowopsv1.GetTaskPlanResponse // by task; absent where the server does not tell
}

// taskDetails reads them.
func (s *client) taskDetails(ctx context.Context, tasks []*flowv1.Task) (taskDetails, error) {
	var d taskDetails
	var err error
	if d.racks, err = s.rackNames(ctx, racksOf(tasks)); err != nil {
		return d, err
	}
	if d.links, err = s.taskLinks(ctx, tasks); err != nil {
		return d, err
	}
	var named []*flowv1.Task
	for _, t := range tasks {
		if len(troubled(t.GetReport())) > 0 {
			named = append(named, t)
		}
	}
	d.components, err = s.componentNames(ctx, racksOf(named))
	return d, err
}

// taskLinks asks which tasks go on from which. A server may not know such a thing.
func (s *client) taskLinks(ctx context.Context, tasks []*flowv1.Task) (map[string]*flowopsv1.GetTaskPlanResponse, error) {
	links := make(map[string]*flowopsv1.GetTaskPlanResponse)
	for _, t := range tasks {
		resp, err := s.ops.GetTaskPlan(ctx, &flowopsv1.GetTaskPlanRequest{TaskId: t.GetId()})
		switch {
		case err == nil:
			links[t.GetId().GetId()] = resp
		case connect.CodeOf(err) == connect.CodeUnimplemented:
			return links, nil
		case connect.CodeOf(err) == connect.CodeNotFound: // gone since it was read
		default:
			return nil, err
		}
	}
	return links, nil
}

// componentNames finds the names of the components of racks. Names are decoration: of racks that are gone there are none.
func (s *client) componentNames(ctx context.Context, racks []string) (map[string]string, error) {
	names := make(map[string]string)
	if len(racks) == 0 {
		return names, nil
	}
	var scope []*flowv1.Identifier
	for _, id := range slices.Compact(slices.Sorted(slices.Values(racks))) {
		scope = append(scope, &flowv1.Identifier{Id: &flowv1.UUID{Id: id}})
	}
	resp, err := s.flow.GetComponents(ctx, &flowv1.GetComponentsRequest{
		TargetSpec: rackScope(scope, nil), Pagination: &flowv1.Pagination{Limit: pageSize},
	})
	switch {
	case connect.CodeOf(err) == connect.CodeNotFound:
		return names, nil
	case err != nil:
		return nil, err
	}
	for _, m := range resp.GetComponents() {
		names[m.GetInfo().GetId().GetId()] = m.GetInfo().GetName()
	}
	return names, nil
}

// detailedReport is what a report may say beyond task.Report: it depends on the server.
type detailedReport struct {
	Stages []struct {
		Number int `json:"number"`
		Steps  []struct {
			ComponentType string            `json:"component_type"`
			Status        task.ReportStatus `json:"status"`
			Warning       string            `json:"warning"`
			Components    []componentResult `json:"components"`
		} `json:"steps"`
	} `json:"stages"`
}

// componentResult is what became of one component in a step.
type componentResult struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  string `json:"error"`
}

// details reads what a report says beyond task.Report.
func details(report string) (d detailedReport) {
	_ = json.Unmarshal([]byte(report), &d) // what can't be read is not shown
	return d
}

// troubledComponent is a component to show.
type troubledComponent struct {
	stage         int
	componentType string
	componentResult
}

// troubled are the components to show of a report: those that failed, and in a step that failed all the others, too, so
// that it can be seen how far each has come.
func troubled(report string) (list []troubledComponent) {
	for _, s := range details(report).Stages {
		for _, p := range s.Steps {
			for _, r := range p.Components {
				if p.Status == task.ReportFailed || r.Status == string(task.ReportFailed) || r.Error != "" {
					list = append(list, troubledComponent{s.Number, p.ComponentType, r})
				}
			}
		}
	}
	return list
}

// printDetails prints the warnings of a report, and its components that are to be shown.
func (d taskDetails) printDetails(w io.Writer, report string) error {
	for _, s := range details(report).Stages {
		for _, p := range s.Steps {
			if p.Warning == "" {
				continue
			}
			if _, err := fmt.Fprintf(w, "\nWarning: stage %d, %s: %s\n", s.Number, line(p.ComponentType), line(p.Warning)); err != nil {
				return err
			}
		}
	}
	list := troubled(report)
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(list))
	for i, r := range list {
		rows[i] = []string{
			strconv.Itoa(r.stage), line(r.componentType), line(cmp.Or(d.components[r.ID], r.ID)), line(r.Status), line(r.Error),
		}
	}
	return grid(w, []string{"STAGE", "TYPE", "COMPONENT", "STATUS", "ERROR"}, rows)
}
