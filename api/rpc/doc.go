// Package rpc serves the services v1.Flow and flow.ops.v1.FlowOps over gRPC, gRPC-Web, Connect and plain JSON on one
// port, with health, readiness and reflection beside them.
//
// It owns the shape of requests and answers: it refuses what is malformed, calls the engine or a query, and converts.
// It opens no transactions and decides nothing about racks and tasks. Errors get their code in codes.go and nowhere
// else; one that has none there is logged with its cause and leaves as "internal error". A panic ends the call it
// happened in and nothing else.
package rpc
