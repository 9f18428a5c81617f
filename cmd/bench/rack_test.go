package main

import (
	"encoding/json"
	"testing"
	"time"

	"rackflow.dev/flow/rules"
)

func TestRacksShareNothing(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	once := func(kind, v string) {
		if seen[kind+v] {
			t.Errorf("%s %s occurs twice", kind, v)
		}
		seen[kind+v] = true
	}
	for _, n := range []int{0, 1, 255, 256, largeRacks - 1, inventoryRacks + 500} {
		r := fullRack(n)
		once("id", r.GetInfo().GetId().GetId())
		once("serial", r.GetInfo().GetSerialNumber())
		once("external id", r.GetExternalId())
		if len(r.GetComponents()) != 18+9+8 {
			t.Errorf("rack %d has %d components", n, len(r.GetComponents()))
		}
		for _, c := range r.GetComponents() {
			once("id", c.GetInfo().GetId().GetId())
			once("serial", c.GetInfo().GetSerialNumber())
			once("external id", c.GetComponentId())
			for _, b := range c.GetBmcs() {
				once("MAC", b.GetMacAddress())
				once("IP", b.GetIpAddress())
			}
		}
	}
}

func TestRulesAreValid(t *testing.T) {
	t.Parallel()
	for _, kind := range []ruleKind{{}, {verify: true}, {hold: time.Second}} {
		for _, state := range []string{"on", "off"} {
			t.Run(kind.String()+" "+state, func(t *testing.T) {
				t.Parallel()
				doc, err := json.Marshal(ruleDocument(kind, state, []string{"PowerShelf", "NVSwitch", "Compute"}))
				if err != nil {
					t.Fatal(err)
				}
				def, err := rules.ParseStrict(doc)
				if err != nil {
					t.Fatal(err)
				}
				if err := def.Validate(rules.Operation{Type: rules.TaskPowerControl, Code: "power_" + state}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
