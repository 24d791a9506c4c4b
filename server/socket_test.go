package server_test

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// socketConfig returns the configuration of a listener on a socket in a folder of its own.
func socketConfig(t *testing.T, api *server.API) (server.ListenConfig, string) {
	path := filepath.Join(t.TempDir(), "api.sock")
	return server.ListenConfig{Address: "unix:" + path, SocketMode: 0o660, Handler: api, GRPC: api.GRPC()}, path
}

func TestTheAPIIsServedOnAUnixSocket(t *testing.T) {
	n := newNode(t)
	c, path := socketConfig(t, n.handler())
	l := listenTo(t, c)
	if l.Addr().String() != path || !l.Loopback() {
		t.Errorf("the address is %v", l.Addr())
	}
	if file, err := os.Lstat(path); err != nil || file.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("the file is %v, %v", file, err)
	}
	library, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	res := new(taskenginev1.VersionResponse)
	if err := library.Invoke(t.Context(), taskenginev1connect.TaskServiceVersionProcedure, &taskenginev1.VersionRequest{}, res); err != nil || res.GetNode() != "n1" {
		t.Errorf("by gRPC it answers %v, %v", res, err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	other := taskenginev1connect.NewTaskServiceClient(&http.Client{Transport: transport}, "http://localhost")
	if res, err := other.Version(t.Context(), &taskenginev1.VersionRequest{}); err != nil || res.GetNode() != "n1" {
		t.Errorf("by HTTP it answers %v, %v", res, err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("the listener leaves %v, %v", left, err)
	}
}

func TestASocketThatWasLeftIsReplacedAndNoOtherFile(t *testing.T) {
	n := newNode(t)
	c, path := socketConfig(t, n.handler())
	left, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false) // as after a kill
	c.Log = discard
	if _, err := server.Listen(t.Context(), c); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("beside another listener: %v", err)
	}
	left.Close()
	first := listenTo(t, c)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.GRPC = n.handler().GRPC()
	if _, err := server.Listen(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("on a file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "text" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
