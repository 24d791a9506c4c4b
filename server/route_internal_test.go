package server

import (
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestALibraryOfGRPCIsKnownByItsNameAlsoBehindThatOfAnApplication(t *testing.T) {
	for agent, want := range map[string]bool{
		"grpc-go/1.80.0": true,
		"grpc-python/1.66.1 grpc-c/43.0.0 (linux; chttp2)": true,
		"taskengine-client grpc-node-js/1.13.0":            true,
		"taskengine-client grpc-python/1.66.1":             true,
		"taskengine-client grpc-java-netty/1.85.1":         true,
		"shop/2 tonic/0.12":                                true,
		"tonic/0.12":                                       true,
		"":                                                 false,
		"curl/8.5":                                         false,
		"connect-go/1.18 (go1.26)":                         false,
		"grpc-go-connect/1.18 (go1.26)":                    false,
		"shop grpc-go-connect/1.18":                        false,
		"my-grpc-proxy/1":                                  false,
	} {
		f := &http2.MetaHeadersFrame{Fields: []hpack.HeaderField{
			{Name: ":path", Value: "/"}, {Name: "user-agent", Value: agent}, {Name: "content-type", Value: "application/grpc"},
		}}
		if got := isOfLibrary(f); got != want {
			t.Errorf("%q is a library: %t, want %t", agent, got, want)
		}
	}
}
