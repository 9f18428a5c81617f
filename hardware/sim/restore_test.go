package sim

import (
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

func TestCommandThatCannotBeWrittenDownIsNotDone(t *testing.T) {
	t.Parallel()
	s, err := Open(Config{Journal: filepath.Join(t.TempDir(), "journal")})
	if err != nil {
		t.Fatal(err)
	}
	tray := hardware.Component{ID: uuid.New(), RackID: uuid.New(), Type: hardware.Compute}
	target := hardware.Target{Type: hardware.Compute, Components: []hardware.Component{tray}}
	power := s.Managers()[hardware.Compute].(hardware.PowerController)
	_ = s.journal.f.Close() // stands for a full disk
	for range 2 {
		_, err = power.PowerControl(t.Context(), target, hardware.PowerOff, hardware.PowerOptions{})
		if err == nil || hardware.OutcomeOf(err) != hardware.OutcomeNotDone {
			t.Errorf("error %v, want one that is not done", err)
		}
	}
	got, err := s.Inspect(t.Context(), tray)
	if err != nil || got.Power.State != hardware.PowerStateOn {
		t.Errorf("power %s, %v; want On", got.Power.State, err)
	}
}
