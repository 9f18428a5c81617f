package rpc

import (
	"context"

	"rackflow.dev/flow/api/gen/flowv1"
	"rackflow.dev/flow/api/gen/flowv1/flowv1connect"
	"rackflow.dev/flow/engine/task"
	"rackflow.dev/flow/store"
)

// service is v1.Flow. What it does not implement answers Unimplemented.
type service struct {
	flowv1connect.UnimplementedFlowHandler

	store *store.Store
	build Build
	tasks *task.Service
}

// Version implements flowv1connect.FlowHandler.
func (s *service) Version(context.Context, *flowv1.VersionRequest) (*flowv1.BuildInfo, error) {
	return &flowv1.BuildInfo{Version: s.build.Version, BuildTime: s.build.BuildTime, GitCommit: s.build.GitCommit}, nil
}
