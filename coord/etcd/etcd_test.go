//go:build unix

package etcd_test

import (
	"os"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/internal/etcdtest"
)

var cluster *etcdtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(etcdtest.Run(m, 1, func(c *etcdtest.Cluster) { cluster = c }))
}

// start starts members of etcd that end with the test.
func start(t *testing.T, members int, options ...etcdtest.Option) *etcdtest.Cluster {
	t.Helper()
	c, err := etcdtest.Start(members, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// connect returns a node that is closed at the end of the test.
func connect(t *testing.T, o etcd.Options) *etcd.Coord {
	t.Helper()
	c, err := etcd.New(o)
	return coordtest.Connected(t, c, err)
}

func TestPorts(t *testing.T) {
	connectTo := func(t *testing.T, address, prefix string, lease time.Duration) coordtest.Node {
		return connect(t, etcd.Options{Endpoints: []string{address}, Prefix: prefix, Lease: lease})
	}
	coordtest.RunPorts(t, cluster.Endpoints()[0], time.Second, connectTo)
}
