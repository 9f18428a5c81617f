package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"rackflow.dev/flow/engine/fault"
	"rackflow.dev/flow/store"
)

// codes gives errors their code; the first row that fits decides. What fits none is a fault of ours.
var codes = []struct {
	is   func(error) bool
	code connect.Code
}{
	{kind(fault.KindInvalid), connect.CodeInvalidArgument},
	{kind(fault.KindNotFound), connect.CodeNotFound},
	{kind(fault.KindExists), connect.CodeAlreadyExists},
	{kind(fault.KindPrecondition), connect.CodeFailedPrecondition},
	{kind(fault.KindExhausted), connect.CodeResourceExhausted},
	{kind(fault.KindUnimplemented), connect.CodeUnimplemented},
	{store.Unavailable, connect.CodeUnavailable},
	// The call's own end has been looked at before: this one is the server's, or that of a connection attempt.
	{is(context.Canceled), connect.CodeUnavailable},
	{is(context.DeadlineExceeded), connect.CodeUnavailable},
}

var (
	errInternal    = errors.New("internal error")
	errUnavailable = errors.New("the database is not available; try again")
)

// toConnect gives an error the form that leaves. Only texts made for callers do.
func toConnect(ctx context.Context, err error) *connect.Error {
	// One of our own making or of connect's, not one that another server has sent us.
	if ce, ok := errors.AsType[*connect.Error](err); ok && !connect.IsWireError(ce) {
		return ce
	}
	switch code := errorCode(ctx, err); code {
	case connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return connect.NewError(code, ctx.Err())
	case connect.CodeUnavailable:
		return connect.NewError(code, errUnavailable)
	case connect.CodeInternal:
		return connect.NewError(code, errInternal)
	default:
		leaves := connect.NewError(code, errors.New(err.Error()))
		addViolations(leaves, err)
		return leaves
	}
}

// errorCode looks an error up. After the call itself has ended, whatever broke then broke because of that.
func errorCode(ctx context.Context, err error) connect.Code {
	if fault.KindOf(err) == fault.KindUnknown {
		switch ctx.Err() {
		case context.Canceled:
			return connect.CodeCanceled
		case context.DeadlineExceeded:
			return connect.CodeDeadlineExceeded
		}
	}
	for _, row := range codes {
		if row.is(err) {
			return row.code
		}
	}
	return connect.CodeInternal
}

func kind(k fault.Kind) func(error) bool {
	return func(err error) bool { return fault.KindOf(err) == k }
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// serverFault reports whether a code is for an operator to look into rather than for the caller.
func serverFault(code connect.Code) bool {
	switch code {
	case connect.CodeInternal, connect.CodeUnknown, connect.CodeDataLoss, connect.CodeUnavailable:
		return true
	default:
		return false
	}
}
