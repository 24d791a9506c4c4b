//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/etcd"
)

func TestAMemberSaysItsVersion(t *testing.T) {
	c := connect(t, etcd.Options{Endpoints: cluster.Endpoints()})
	if version := c.Version(t.Context()); !strings.Contains(version, ".") {
		t.Errorf("it is %q", version)
	}
}

// ofVersion is a member of a version, which answers the requests of a check.
type ofVersion struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedMaintenanceServer
	version string
}

func (o *ofVersion) Txn(context.Context, *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	return &etcdserverpb.TxnResponse{Header: new(etcdserverpb.ResponseHeader)}, nil
}

func (o *ofVersion) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: new(etcdserverpb.ResponseHeader), Version: o.version}, nil
}

func TestAMemberThatIsTooOldIsRefused(t *testing.T) {
	for version, refused := range map[string]bool{"3.3.27": true, "3.4.0": false} {
		at, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		member, server := &ofVersion{version: version}, grpc.NewServer()
		etcdserverpb.RegisterKVServer(server, member)
		etcdserverpb.RegisterMaintenanceServer(server, member)
		go server.Serve(at)
		t.Cleanup(server.Stop)
		c, err := etcd.New(etcd.Options{Endpoints: []string{at.Addr().String()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		err = c.Check(t.Context())
		if errors.Is(err, coord.ErrRefused) != refused || refused && !strings.Contains(err.Error(), "needs "+etcd.OldestServer+" or newer: upgrade it") {
			t.Errorf("etcd %s: %v", version, err)
		}
	}
}
