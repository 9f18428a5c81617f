package main

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"rackflow.dev/flow/api/gen/flowopsv1"
	"rackflow.dev/flow/api/gen/flowv1"
)

func TestObjectCommands(t *testing.T) {
	t.Parallel()
	rack, part := &flowv1.UUID{Id: rackOne}, &flowv1.UUID{Id: partOne}
	for line, test := range map[string]struct {
		want proto.Message
		says string
	}{
		"rack delete rack-1":                 {&flowv1.DeleteRackRequest{Id: rack}, "Rack " + rackOne + " deleted successfully."},
		"rack delete " + rackOne:             {&flowv1.DeleteRackRequest{Id: rack}, "Rack " + rackOne + " deleted successfully."},
		"rack delete --id " + rackOne:        {&flowv1.DeleteRackRequest{Id: rack}, "Rack " + rackOne + " deleted successfully."},
		"rack purge --id " + rackOne:         {&flowv1.PurgeRackRequest{Id: rack}, "Rack " + rackOne + " purged successfully."},
		"rack purge " + rackOne:              {&flowv1.PurgeRackRequest{Id: rack}, "Rack " + rackOne + " purged successfully."},
		"rack restore " + rackOne:            {&flowopsv1.RestoreRackRequest{Id: rack}, "Rack " + rackOne + " restored successfully."},
		"component delete m1":                {&flowv1.DeleteComponentRequest{Id: part}, "Component " + partOne + " deleted successfully."},
		"component delete 02:00:00:00:00:01": {&flowv1.DeleteComponentRequest{Id: part}, "Component " + partOne + " deleted successfully."},
		"component delete --id " + partOne:   {&flowv1.DeleteComponentRequest{Id: part}, "Component " + partOne + " deleted successfully."},
		"component purge " + partOne:         {&flowv1.PurgeComponentRequest{Id: part}, "Component " + partOne + " purged successfully."},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			f := furnished()
			got := against(t, f, strings.Fields(line)...)
			if got.code != exitOK || got.out != test.says+"\n" || got.err != "" {
				t.Errorf("%+v", got)
			}
			asked := f.asked()
			if diff := cmp.Diff(test.want, asked[len(asked)-1], protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	got := against(t, furnished(), "rack", "delete", "rack-1", "-o", "json")
	if want := "{\n  \"id\": \"" + rackOne + "\"\n}\n"; got.out != want {
		t.Errorf("%+v", got)
	}
}

func TestObjectCommandsRefuse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		text  string
		usage bool
	}{
		"rack delete":                   {"rack delete: give the rack in exactly one way: as an argument or by --id", true},
		"rack delete a --id " + rackOne: {"rack delete: give the rack in exactly one way: as an argument or by --id", true},
		"rack delete a b":               {`rack delete: unexpected argument "b"`, true},
		"rack delete --id rack-1":       {`rack delete: --id "rack-1" is not a valid UUID`, false},
		"rack delete rack-3":            {`rack delete: no rack has the id or name "rack-3"`, false},
		"rack purge":                    {"rack purge: give the rack in exactly one way: as an argument or by --id", true},
		"rack purge rack-1":             {`rack purge: rack id "rack-1" is not a valid UUID`, false},
		"rack restore rack-1":           {`rack restore: rack id "rack-1" is not a valid UUID`, false},
		"component delete":              {"component delete: give the component in exactly one way: as an argument or by --id", true},
		"component delete m7":           {"component delete: component m7 not found (not_found)", false},
		"component purge m1":            {`component purge: component id "m1" is not a valid UUID`, false},
		"component purge --id x":        {`component purge: --id "x" is not a valid UUID`, false},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			got := against(t, furnished(), strings.Fields(line)...)
			first, rest, _ := strings.Cut(got.err, "\n")
			if got.code != exitError || got.out != "" || first != "Error: "+want.text || strings.Contains(rest, "Usage:") != want.usage {
				t.Errorf("%+v", got)
			}
		})
	}
	f := furnished()
	f.submit = connect.NewError(connect.CodeFailedPrecondition, errors.New("rack "+rackOne+" is not soft-deleted; call DeleteRack first"))
	got := against(t, f, "rack", "purge", rackOne)
	want := "Error: rack purge: rack " + rackOne + " is not soft-deleted; call DeleteRack first (failed_precondition)\n"
	if got.err != want || got.out != "" {
		t.Errorf("%+v", got)
	}
}
