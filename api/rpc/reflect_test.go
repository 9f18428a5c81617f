package rpc

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// TestAClientThatKnowsOnlyReflection finds a method, makes its request and reads its answer with nothing but what the
// server says of itself.
func TestAClientThatKnowsOnlyReflection(t *testing.T) {
	t.Parallel()
	s := serveAlone(t, nil)
	stream := grpcreflect.NewClient(s.http, s.url, connect.WithGRPC()).NewStream(t.Context())
	defer func() { _, _ = stream.Close() }()
	known := map[string]bool{}
	set := &descriptorpb.FileDescriptorSet{}
	var learn func(files []*descriptorpb.FileDescriptorProto)
	learn = func(files []*descriptorpb.FileDescriptorProto) {
		for _, f := range files {
			if known[f.GetName()] {
				continue
			}
			known[f.GetName()] = true
			set.File = append(set.File, f)
			for _, dep := range f.GetDependency() {
				more, err := stream.FileByFilename(dep)
				if err != nil {
					t.Fatal(err)
				}
				learn(more)
			}
		}
	}
	files, err := stream.FileContainingSymbol("v1.Flow")
	if err != nil {
		t.Fatal(err)
	}
	learn(files)
	registry, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	method := version(t, registry)

	frame, err := proto.Marshal(dynamicpb.NewMessage(method.Input()))
	if err != nil {
		t.Fatal(err)
	}
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(frame))), frame...)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1.Flow/Version", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	res, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || len(answer) < 5 {
		t.Fatalf("%q: %v", answer, err)
	}
	m := dynamicpb.NewMessage(method.Output())
	if err := proto.Unmarshal(answer[5:], m); err != nil {
		t.Fatal(err)
	}
	if got := m.Get(method.Output().Fields().ByName("version")).String(); got != "1.2.3" {
		t.Errorf("version %q", got)
	}
}

func version(t *testing.T, registry *protoregistry.Files) protoreflect.MethodDescriptor {
	t.Helper()
	d, err := registry.FindDescriptorByName("v1.Flow.Version")
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MethodDescriptor)
}
