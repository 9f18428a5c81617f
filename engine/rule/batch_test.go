package rule

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"rackflow.dev/flow/rules"
	"rackflow.dev/flow/store/db"
)

func ids(n int) uuid.UUID { return uuid.UUID{0: 1, 15: byte(n)} }

func row(n int, op rules.Operation, name string, isDefault bool) db.RuleListForBatchRow {
	return db.RuleListForBatchRow{ID: ids(n), Name: name, OperationType: string(op.Type), OperationCode: op.Code, IsDefault: isDefault}
}

// TestBatchesStandForStoredRules has the rows in the order they are read in: those that are no default first, then the
// newest. An id of 0 stands for a rule that is created.
func TestBatchesStandForStoredRules(t *testing.T) {
	t.Parallel()
	type drafts []Draft
	def := func(name string) Draft { return Draft{Name: name, Operation: powerOn, IsDefault: true} }
	plain := func(name string) Draft { return Draft{Name: name, Operation: powerOn} }
	stored := []db.RuleListForBatchRow{
		row(1, powerOn, "twin", false), row(2, powerOn, "twin", false), row(3, powerOff, "other", false), row(4, powerOn, "main", true),
	}
	for name, c := range map[string]struct {
		drafts    drafts
		rows      []db.RuleListForBatchRow
		keep      []int // stored ids without overwrite, which are skipped
		overwrite []int // and with it
	}{
		"a default stands for the default, whatever its name": {drafts{def("new")}, stored, []int{4}, []int{4}},
		"a default has no eye for names":                      {drafts{def("twin")}, stored[:3], []int{0}, []int{0}},
		"any other stands for the newest of its name":         {drafts{plain("twin")}, stored, []int{1}, []int{1}},
		"a default is found by its name":                      {drafts{plain("main")}, stored, []int{4}, []int{4}},
		"one that is no default is found first": {
			drafts{plain("main")}, []db.RuleListForBatchRow{row(5, powerOn, "main", false), row(4, powerOn, "main", true)}, []int{5}, []int{5},
		},
		"names count within an operation": {drafts{plain("other")}, stored, []int{0}, []int{0}},
		"two drafts never overwrite one rule": {
			drafts{plain("main"), def("new")}, stored, []int{4, 4}, []int{0, 4},
		},
		"nor in the other order": {
			drafts{def("new"), plain("main")}, stored, []int{4, 4}, []int{4, 0},
		},
		"an empty site": {drafts{def("a"), plain("b")}, nil, []int{0, 0}, []int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for overwrite, want := range map[bool][]int{false: c.keep, true: c.overwrite} {
				var got []int
				for i, r := range match(c.drafts, c.rows, overwrite) {
					n := int(r.ID[15])
					if r.Outcome == Created {
						n = 0
					} else if (r.Outcome == Overwritten) != overwrite {
						t.Errorf("rule %d: outcome %d", i, r.Outcome)
					}
					got = append(got, n)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("overwrite %t (-want +got):\n%s", overwrite, d)
				}
			}
		})
	}
}

// TestNoTwoDraftsAreWrittenOverOneRule also holds that every written default finds its place free.
func TestNoTwoDraftsAreWrittenOverOneRule(t *testing.T) {
	t.Parallel()
	ops := []rules.Operation{powerOn, powerOff, upgrade}
	rapid.Check(t, func(t *rapid.T) {
		var drafts []Draft
		for range rapid.IntRange(1, 8).Draw(t, "drafts") {
			drafts = append(drafts, Draft{
				Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), Operation: rapid.SampledFrom(ops).Draw(t, "operation"),
				IsDefault: rapid.Bool().Draw(t, "default"), Definition: `{}`,
			})
		}
		if _, wrong := checkBatch(drafts); wrong != nil {
			t.Skip("twins")
		}
		var rows []db.RuleListForBatchRow
		for _, isDefault := range []bool{false, true} {
			for _, op := range ops {
				for range rapid.IntRange(0, 1).Draw(t, "rows") {
					rows = append(rows, row(len(rows)+1, op, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "stored"), isDefault))
				}
			}
		}
		seen := map[uuid.UUID]bool{}
		for i, r := range match(drafts, rows, true) {
			if seen[r.ID] {
				t.Fatalf("%v: two drafts are written over one of %v", drafts, rows)
			}
			seen[r.ID] = true
			for _, stored := range rows {
				if drafts[i].IsDefault && r.Outcome == Created && stored.IsDefault && stored.OperationCode == drafts[i].Operation.Code {
					t.Fatalf("%v is created next to the default %v", drafts[i], stored)
				}
			}
		}
	})
}

func TestBatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	good := func(name string) Draft { return Draft{Name: name, Operation: powerOn, Definition: one} }
	def := func(name string) Draft {
		return Draft{Name: name, Operation: powerOn, Definition: one, IsDefault: true}
	}
	firmware := Draft{Name: "a", Operation: upgrade, Definition: `{}`, IsDefault: true}
	for name, c := range map[string]struct {
		drafts []Draft
		want   []string // "" is a batch that is not refused
	}{
		"an empty batch":                   {nil, nil},
		"one name for several operations":  {[]Draft{good("a"), firmware}, nil},
		"one default for each operation":   {[]Draft{def("a"), firmware}, nil},
		"two rules of one name":            {[]Draft{good("a"), good("b"), good("a")}, []string{"rules[2].name: rules[0] has the same name and is for power_control/power_on as well"}},
		"two defaults of one operation":    {[]Draft{def("a"), def("b")}, []string{"rules[1].is_default: rules[0] is a default rule of power_control/power_on as well"}},
		"a name that a default has, twice": {[]Draft{def("a"), good("a")}, []string{"rules[1].name: rules[0] has the same name and is for power_control/power_on as well"}},
		"what is wrong with several": {
			[]Draft{{Name: "x", Operation: powerOn, Definition: `{"steps": [{"component_type": "CDU", "stage": 1}]}`}, good("a"), {Operation: powerOn, Definition: one}},
			[]string{
				"rules[0].rule_definition_json:steps[0].main_operation: step 0: main_operation is required",
				"rules[2].name: rule validation failed: rule name is required",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, err := checkBatch(c.drafts)
			var got []string
			if err != nil {
				for _, v := range err.Wrong() {
					got = append(got, v.Field+": "+v.Reason)
				}
			} else if len(docs) != len(c.drafts) {
				t.Errorf("%d documents", len(docs))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("violations (-want +got):\n%s", d)
			}
		})
	}
	var many []Draft
	for i := range MaxBatch + 1 {
		many = append(many, good(fmt.Sprint(i)))
	}
	if _, err := checkBatch(many[1:]); err != nil {
		t.Errorf("%d rules are refused: %v", MaxBatch, err)
	}
	if _, err := checkBatch(many); err == nil || err.Field != "rules" {
		t.Errorf("%d rules: %v", len(many), err)
	}
}
