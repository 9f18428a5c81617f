package rules

import (
	"math"
	"testing"
	"time"

	"rackflow.dev/flow/hardware"
)

func verify(timeout time.Duration) Action {
	return Action{
		Name: ActionVerifyPowerStatus, Timeout: Duration(timeout), PollInterval: Duration(10 * time.Second),
		Parameters: Parameters{"expected_status": "on"},
	}
}

func sleep(text string) Action {
	return Action{Name: ActionSleep, Parameters: Parameters{"duration": text}}
}

// budgetStep is a step for compute trays, with PowerControl as its main action.
func budgetStep(timeout time.Duration, retry *Retry, change func(*Step)) Step {
	s := Step{ComponentType: hardware.Compute, Stage: 1, Timeout: Duration(timeout), Retry: retry, Main: Action{Name: ActionPowerControl}}
	if change != nil {
		change(&s)
	}
	return s
}

func TestReferenceBudgetVectors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		step Step
		n    int
		want string
	}{
		"15m and three attempts":                  {budgetStep(15*time.Minute, &Retry{3, Duration(5 * time.Second), 2, 0}, nil), 9, "47m10s"},
		"20m, three attempts and a verification":  {budgetStep(20*time.Minute, &Retry{3, Duration(time.Second), 2, 0}, func(s *Step) { s.Post = []Action{verify(5 * time.Minute)} }), 18, "1h7m2s"},
		"20m in three batches":                    {budgetStep(20*time.Minute, nil, func(s *Step) { s.MaxParallel = 8 }), 18, "1h2m0s"},
		"45m and two attempts":                    {budgetStep(45*time.Minute, &Retry{2, Duration(30 * time.Second), 1.5, 0}, nil), 18, "1h32m30s"},
		"no timeout":                              {budgetStep(0, nil, nil), 1, "32m0s"},
		"max_interval stands for every wait":      {budgetStep(time.Minute, &Retry{3, Duration(time.Second), 2, Duration(time.Minute)}, nil), 1, "7m0s"},
		"a single attempt has no wait":            {budgetStep(time.Minute, &Retry{1, Duration(time.Hour), 2, 0}, nil), 1, "3m0s"},
		"whole actions are not counted per batch": {budgetStep(time.Minute, nil, func(s *Step) { s.MaxParallel = 1; s.Main = sleep("1h") }), 18, "3m0s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := referenceBudget(tt.step, tt.n).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStepBudgetCountsEverythingDeclared(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	single := &Retry{1, Duration(time.Second), 1, 0}
	firmware := Action{Name: ActionFirmwareControl, Parameters: Parameters{"poll_timeout": "35m", "poll_interval": "1m"}}
	tests := map[string]struct {
		step Step
		n    int
		want time.Duration
	}{
		"overhead and one attempt":             {budgetStep(10*minute, single, nil), 1, 12 * minute},
		"the attempts of the default policy":   {budgetStep(10*minute, nil, nil), 1, 32*minute + 3*time.Second},
		"waits that grow":                      {budgetStep(10*minute, &Retry{4, Duration(minute), 2, Duration(3 * minute)}, nil), 1, 51 * minute}, // the reference's 3 waits of 3m
		"waits that grow without a cap":        {budgetStep(10*minute, &Retry{4, Duration(minute), 2, 0}, nil), 1, 49 * minute},
		"a step without a timeout":             {budgetStep(0, single, nil), 1, 32 * minute},
		"sleeps and the delay":                 {budgetStep(10*minute, single, func(s *Step) { s.Pre = []Action{sleep("7m")}; s.DelayAfter = Duration(5 * minute) }), 1, 24 * minute},
		"sleeps once for all batches":          {budgetStep(10*minute, single, func(s *Step) { s.MaxParallel = 1; s.Post = []Action{sleep("7m")} }), 3, 39 * minute},
		"firmware polls":                       {budgetStep(10*minute, single, func(s *Step) { s.Main = firmware }), 1, 48 * minute},
		"firmware polls of each batch":         {budgetStep(10*minute, single, func(s *Step) { s.Main = firmware; s.MaxParallel = 3 }), 9, 140 * minute},
		"a call before the main action":        {budgetStep(10*minute, single, func(s *Step) { s.Pre = []Action{{Name: ActionPowerControl}} }), 1, 22 * minute},
		"an action's own timeout":              {budgetStep(10*minute, single, func(s *Step) { s.Main.Timeout = Duration(40 * minute) }), 1, 42 * minute},
		"an action's own shorter timeout":      {budgetStep(10*minute, single, func(s *Step) { s.Main.Timeout = Duration(minute) }), 1, 12 * minute},
		"a shorter one before the main action": {budgetStep(10*minute, single, func(s *Step) { s.Pre = []Action{{Name: ActionPowerControl, Timeout: Duration(minute)}} }), 1, 13 * minute},
		"a verification and its last query":    {budgetStep(10*minute, single, func(s *Step) { s.Post = []Action{verify(5 * minute)} }), 1, 17*minute + 10*time.Second},
		"a verification as the main action":    {budgetStep(minute, single, func(s *Step) { s.Main = verify(30 * minute) }), 1, 32*minute + 10*time.Second},
		"a reset is tried once, yet keeps the reference's budget": {
			budgetStep(10*minute, &Retry{3, Duration(minute), 1, 0}, func(s *Step) { s.Main.Parameters = Parameters{"operation": "cold_reset"} }), 1, 34 * minute,
		},
		"what is longer than the longest duration": {
			budgetStep(168*time.Hour, &Retry{100, MaxDuration, 2, 0}, func(s *Step) { s.MaxParallel = 1 }), 1000, math.MaxInt64,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Plan{Operation: powerOn, Components: components(tt.step.ComponentType, tt.n)}
			if got := p.planStep(tt.step).Budget; time.Duration(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTaskBudgetIsTheLongestStepsAndATenthAndNeverBelowTheReference(t *testing.T) {
	t.Parallel()
	step := func(d time.Duration) PlanStep { return PlanStep{Budget: Duration(d)} }
	stages := func(stages ...[]PlanStep) []PlanStage {
		var out []PlanStage
		for _, s := range stages {
			out = append(out, PlanStage{Steps: s})
		}
		return out
	}
	tests := map[string]struct {
		typ    TaskType
		stages []PlanStage
		want   time.Duration
	}{
		"parallel steps take the time of the longest": {TaskPowerControl, stages([]PlanStep{step(time.Hour), step(2 * time.Hour)}, []PlanStep{step(3 * time.Hour)}), 330 * time.Minute},
		"a short power task has an hour":              {TaskPowerControl, stages([]PlanStep{step(time.Minute)}), time.Hour},
		"a short firmware task has an hour":           {TaskFirmwareControl, nil, time.Hour},
		"a short bring-up has two hours":              {TaskBringUp, nil, 2 * time.Hour},
		"a short decommissioning has four hours":      {TaskDecommission, nil, 4 * time.Hour},
		"endless steps do not overflow":               {TaskPowerControl, stages([]PlanStep{step(math.MaxInt64)}, []PlanStep{step(math.MaxInt64)}), math.MaxInt64},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Plan{Operation: Operation{Type: tt.typ}, Stages: tt.stages}
			if got := p.taskBudget(); time.Duration(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAPlanTakesAsLongAsTheLongestStepOfEachStage(t *testing.T) {
	t.Parallel()
	waits := func(kind hardware.ComponentType, stage int, delay time.Duration, pre ...string) Step {
		s := Step{ComponentType: kind, Stage: stage, Main: Action{Name: ActionPowerControl}, DelayAfter: Duration(delay)}
		for _, text := range pre {
			s.Pre = append(s.Pre, sleep(text))
		}
		return s
	}
	p, err := NewPlan(Input{
		Operation: Operation{TaskPowerControl, "power_on"},
		Rule: Rule{Name: "r", Definition: Definition{Steps: []Step{
			waits(hardware.Compute, 1, time.Minute, "10s", "5s"),
			waits(hardware.NVSwitch, 1, 0, "30s"),
			waits(hardware.CDU, 1, time.Hour), // there is none
			waits(hardware.NVSwitch, 4, 0),
			waits(hardware.Compute, 6, 20*time.Second),
		}}},
		Components: append(targets(hardware.Compute, 18), targets(hardware.NVSwitch, 2)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	budget := func(stage, step int) Duration { return p.Stages[stage].Steps[step].Budget }
	if got, want := p.Shortest(), Duration(75*time.Second+20*time.Second); got != want {
		t.Errorf("shortest %s, want %s", got, want)
	}
	if got, want := p.Longest(), budget(0, 0)+budget(1, 0)+budget(2, 0); got != want {
		t.Errorf("longest %s, want %s", got, want)
	}
	done := &p.Stages[0].Steps[0]
	done.Done, done.Skipped = true, true
	if got, want := p.Shortest(), Duration(30*time.Second+20*time.Second); got != want {
		t.Errorf("shortest without what is done %s, want %s", got, want)
	}
	if got, want := p.Longest(), budget(0, 1)+budget(1, 0)+budget(2, 0); got != want {
		t.Errorf("longest without what is done %s, want %s", got, want)
	}
}
