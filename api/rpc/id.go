package rpc

import (
	"github.com/google/uuid"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/engine/fault"
)

// requiredID reads an id that must be there.
func requiredID(field string, id *flowv1.UUID) (uuid.UUID, error) {
	if id.GetId() == "" {
		return uuid.Nil, fault.Invalid(field, "is required")
	}
	return optionalID(field, id)
}

// optionalID reads an id that may be absent, which is uuid.Nil; one that is there must name something.
func optionalID(field string, id *flowv1.UUID) (uuid.UUID, error) {
	if id == nil {
		return uuid.Nil, nil
	}
	// The hyphenated form only: the package reads others too.
	u, err := uuid.Parse(id.GetId())
	if err != nil || len(id.GetId()) != 36 || u == uuid.Nil {
		return uuid.Nil, fault.Invalid(field, "%.64q must be a valid non-zero UUID", id.GetId())
	}
	return u, nil
}
