package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// checkedAtHeader says when the inventory was last compared with Core, in RFC 3339; absent when it never was.
const checkedAtHeader = "flow-inventory-checked-at"

// diffWidths are those of NICo Flow's table; the details take what they need.
var diffWidths = []int{15, 38, 30}

func (c *cli) componentDiffCommand() *cobra.Command {
	scope := selector{optional: true, typeWords: comparedTypeWords}
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff [" + scopeUsage + "]",
		Short: "How the inventory differs from what Core has",
		Long: `How the inventory differs from what Core has: components that are missing there, unexpected ones, and those that are
elsewhere. Nothing is compared now; the answer is from the last time the server did, and the table says how old that is.

Without racks, domains or components it is about the whole inventory.

Prints JSON unless -o says else. With --exit-code the exit code is 3 when there are differences.`,
		Example: `  flow component diff -o table
  flow component diff --rack-names rack-1 --type compute
  flow component diff rack-1 --exit-code`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.jsonByDefault(cmd)
			target, err := scope.target(cmd, args)
			if err != nil {
				return err
			}
			all := &flowv1.ValidateComponentsResponse{}
			var checked time.Time
			err = c.everyPage(cmd, func(ctx context.Context, s *client, p *flowv1.Pagination) (int, int32, error) {
				call, info := connect.NewClientContext(ctx)
				resp, err := s.flow.ValidateComponents(call, &flowv1.ValidateComponentsRequest{
					TargetSpec: target, Filters: scope.typeFilter(target), Pagination: p,
				})
				if err != nil {
					return 0, 0, err
				}
				checked, _ = time.Parse(time.RFC3339, info.ResponseHeader().Get(checkedAtHeader)) // what can't be read is never
				n := len(resp.GetDiffs())
				resp.Diffs = append(all.GetDiffs(), resp.GetDiffs()...)
				all = resp
				return n, resp.GetTotalDiffs(), nil
			})
			if err != nil {
				return err
			}
			if checked.IsZero() && c.output != formatTable {
				fmt.Fprintln(c.err, "Warning: the inventory was never compared with Core")
			}
			if err := c.print(all, func(w io.Writer) error { return c.diffTable(w, all, checked) }); err != nil {
				return err
			}
			if n := int(all.GetTotalDiffs()); exitCode && n > 0 {
				return &outcomeError{code: exitDiffers, text: counted(n, "difference")}
			}
			return nil
		},
	}
	scope.register(c, cmd)
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 3 when there are differences")
	return cmd
}

// diffTable prints the counts, and the differences where there are some.
func (c *cli) diffTable(w io.Writer, all *flowv1.ValidateComponentsResponse, checked time.Time) error {
	age := "never compared"
	if !checked.IsZero() {
		age = "compared " + ago(c.now().Sub(checked)) + " ago"
	}
	number := func(n int32) string { return strconv.Itoa(int(n)) }
	err := facts(w, [][2]string{
		{"Differences", fmt.Sprintf("%d (%s)", all.GetTotalDiffs(), age)},
		{"Missing", number(all.GetMissingCount())},
		{"Unexpected", number(all.GetUnexpectedCount())},
		{"Mismatch", number(all.GetMismatchCount())},
		{"Match", number(all.GetMatchCount())},
	})
	if err != nil {
		return err
	}
	if len(all.GetDiffs()) == 0 {
		_, err := fmt.Fprintln(w, "\nNo differences found.")
		return err
	}
	fmt.Fprintln(w)
	rows := [][]string{{"TYPE", "UUID", "COMPONENT_ID", "DETAILS"}}
	for _, d := range all.GetDiffs() {
		rows = append(rows, []string{
			diffTypeNames[d.GetType()],
			cmp.Or(d.GetId().GetId(), d.GetExpected().GetInfo().GetId().GetId()),
			d.GetComponentId(),
			diffDetails(d),
		})
	}
	return columns(w, diffWidths, rows)
}

// diffTypeNames are NICo Flow's words.
var diffTypeNames = map[flowv1.DiffType]string{
	flowv1.DiffType_DIFF_TYPE_UNKNOWN:    "Unknown",
	flowv1.DiffType_DIFF_TYPE_MISSING:    "Missing",
	flowv1.DiffType_DIFF_TYPE_UNEXPECTED: "Unexpected",
	flowv1.DiffType_DIFF_TYPE_MISMATCH:   "Mismatch",
}

// diffDetails says which component it is, and in what it differs.
func diffDetails(d *flowv1.ComponentDiff) string {
	var parts []string
	if e := d.GetExpected(); e != nil {
		parts = append(parts, typeName(e.GetType())+" "+e.GetInfo().GetName())
	}
	if d.GetComponentMacAddress() != "" {
		parts = append(parts, "BMC "+d.GetComponentMacAddress())
	}
	for _, f := range d.GetFieldDiffs() {
		parts = append(parts, fmt.Sprintf("%s: expected %s, actual %s", f.GetFieldName(), f.GetExpectedValue(), f.GetActualValue()))
	}
	return strings.Join(parts, "; ")
}

// ago rounds an age to what a person wants to know of it.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
