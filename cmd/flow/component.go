package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

func (c *cli) componentCommand() *cobra.Command {
	const long = `Look at the trays, switches and power shelves of racks, change them, and compare them with what Core has.

add, update, expected and diff print JSON unless -o says else, as NICo Flow does; the others print tables.`
	return parent("component", "Components of racks, one by one", long,
		c.componentListCommand(), c.componentGetCommand(),
		c.componentAddCommand(), c.componentUpdateCommand(), c.componentDeleteCommand(), c.componentPurgeCommand(),
		c.componentExpectedCommand(), c.componentDiffCommand())
}

// componentID is the id of a component by whatever the operator knows it by.
func (s *client) componentID(ctx context.Context, key string) (*flowv1.UUID, error) {
	resp, err := s.flow.GetComponentInfoByID(ctx, &flowv1.GetComponentInfoByIDRequest{Id: &flowv1.UUID{Id: key}})
	return resp.GetComponent().GetInfo().GetId(), err
}

func (c *cli) componentDeleteCommand() *cobra.Command {
	return c.objectCommand(objectCommand{
		use:   "delete (COMPONENT | --id ID)",
		short: "Take a component out of inventory",
		long: `Take a component out of inventory. COMPONENT is its id, its external id, or the MAC address of one of its BMCs.

Tasks that run go on with it, waiting ones leave it out.`,
		example: `  flow component delete machine-17
  flow component delete --id 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		noun: "component", done: "deleted",
		find: func(ctx context.Context, s *client, key string) (*flowv1.UUID, error) { return s.componentID(ctx, key) },
		call: func(ctx context.Context, s *client, id *flowv1.UUID) error {
			_, err := s.flow.DeleteComponent(ctx, &flowv1.DeleteComponentRequest{Id: id})
			return err
		},
		complete: cobra.NoFileCompletions,
	})
}

func (c *cli) componentPurgeCommand() *cobra.Command {
	return c.objectCommand(objectCommand{
		use:   "purge (ID | --id ID)",
		short: "Remove a deleted component for good",
		long: `Remove a deleted component and its BMCs for good. It is known by its id only.

It is refused while an active task names the component. Nothing is asked.`,
		example: `  flow component purge 5b8f4f0e-7a64-4c1c-9d0e-0a1f5c3b2d11`,
		noun:    "component", done: "purged", idOnly: true,
		call: func(ctx context.Context, s *client, id *flowv1.UUID) error {
			_, err := s.flow.PurgeComponent(ctx, &flowv1.PurgeComponentRequest{Id: id})
			return err
		},
		complete: cobra.NoFileCompletions,
	})
}

// printComponent prints a component that was added or changed.
func (c *cli) printComponent(cmd *cobra.Command, m *flowv1.Component) error {
	c.jsonByDefault(cmd)
	return c.print(m, func(w io.Writer) error { return componentReport(w, m, nil) })
}

// componentReport prints a component for people. The rack may be nil.
func componentReport(w io.Writer, m *flowv1.Component, rack *flowv1.Rack) error {
	place := m.GetRackId().GetId()
	if name := rack.GetInfo().GetName(); name != "" {
		place = fmt.Sprintf("%s (%s)", name, place)
	}
	status := ""
	if m.GetStatus() != nil {
		status = phaseWord(m.GetStatus().GetPhase())
	}
	var blocked []string
	for _, op := range m.GetStatus().GetBlockedOperations() {
		blocked = append(blocked, plainWord(op, "OPERATION_TYPE_"))
	}
	err := facts(w, [][2]string{
		{"Name", m.GetInfo().GetName()},
		{"ID", m.GetInfo().GetId().GetId()},
		{"External ID", m.GetComponentId()},
		{"Type", typeName(m.GetType())},
		{"Manufacturer", m.GetInfo().GetManufacturer()},
		{"Model", m.GetInfo().GetModel()},
		{"Serial", m.GetInfo().GetSerialNumber()},
		{"Description", line(m.GetInfo().GetDescription())},
		{"Firmware", m.GetFirmwareVersion()},
		{"Rack", place},
		{"Position", position(m.GetPosition())},
		{"NVLink domain", m.GetNvlDomainId().GetId()},
		{"Power", m.GetPowerState()},
		{"Status", status},
		{"Reason", line(m.GetStatus().GetReason())},
		{"Blocked", strings.Join(blocked, ", ")},
		{"Leak", plainWord(m.GetLeakStatus(), "LEAK_STATUS_")},
		{"Leak handling", plainWord(m.GetLeakHandlingStatus(), "LEAK_HANDLING_STATUS_")},
		{"Tasks", taskStats(m.GetTaskStats())},
	})
	if err != nil || len(m.GetBmcs()) == 0 {
		return err
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(m.GetBmcs()))
	for i, b := range m.GetBmcs() {
		rows[i] = []string{strings.TrimPrefix(b.GetType().String(), "BMC_TYPE_"), b.GetMacAddress(), b.GetIpAddress()}
	}
	return grid(w, []string{"BMC", "MAC", "IP"}, rows)
}

// position names the parts of a position that are known.
func position(p *flowv1.RackPosition) string {
	var parts []string
	for _, part := range []struct {
		name   string
		number int32
	}{{"slot", p.GetSlotId()}, {"tray", p.GetTrayIdx()}, {"host", p.GetHostId()}} {
		if p != nil && part.number >= 0 {
			parts = append(parts, fmt.Sprintf("%s %d", part.name, part.number))
		}
	}
	return strings.Join(parts, ", ")
}

// taskStats counts unfinished tasks in words.
func taskStats(t *flowv1.TaskStats) string {
	return fmt.Sprintf("%d running, %d pending, %d waiting", t.GetRunningTaskCount(), t.GetPendingTaskCount(), t.GetWaitingTaskCount())
}
