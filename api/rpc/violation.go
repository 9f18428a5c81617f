package rpc

import (
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/engine/fault"
)

// What an error lists beside its text. gRPC sends both as headers, the text twice and the list in base64, and some clients
// take no more than 8 KiB of those; what does not fit is found when the rest has been put right.
const (
	maxViolations     = 100
	maxViolationBytes = 3600
)

// addViolations attaches to a malformed request what is wrong with it, field by field, for programs to read.
func addViolations(leaves *connect.Error, err error) {
	refusal, ok := errors.AsType[*fault.Error](err)
	if !ok || refusal.Kind != fault.KindInvalid {
		return
	}
	list := &errdetails.BadRequest{}
	size := 0
	for _, v := range refusal.Wrong() {
		m := &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Reason}
		size += proto.Size(m) + 3 // with its tag and length
		if len(list.FieldViolations) == maxViolations || size > maxViolationBytes {
			break
		}
		list.FieldViolations = append(list.FieldViolations, m)
	}
	if len(list.FieldViolations) == 0 {
		return
	}
	if detail, err := connect.NewErrorDetail(list); err == nil {
		leaves.AddDetail(detail)
	}
}
