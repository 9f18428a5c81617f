package rpc

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/netip"

	"connectrpc.com/connect"
)

// compressMinBytes is from where on answers are compressed: below, they fit a packet anyway.
const compressMinBytes = 1 << 10

// compression is connect's gzip at its fastest. A page of 100 racks with their components is 1 MB: packing it takes
// 25 ms at the default level, half of what the whole call may take, and 8 ms at this one.
func compression() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCompressMinBytes(compressMinBytes),
		connect.WithCompression("gzip", nil, nil), // takes connect's own away, which would be named beside it
		connect.WithCompression("gzip",
			func() connect.Decompressor { return &gzip.Reader{} },
			func() connect.Compressor {
				w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // fails for levels there are not
				return w
			}),
	)
}

// plainLoopback leaves answers to the same machine uncompressed, whatever the client would accept: there is no wire to
// save, and both ends would share the cost.
func plainLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && peer.Addr().Unmap().IsLoopback() {
			for _, name := range []string{"Accept-Encoding", "Connect-Accept-Encoding", "Grpc-Accept-Encoding"} {
				r.Header.Del(name)
			}
		}
		next.ServeHTTP(w, r)
	})
}
