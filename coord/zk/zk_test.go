//go:build unix

package zk_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/internal/zktest"
)

var cluster *zktest.Ensemble

func TestMain(m *testing.M) {
	os.Exit(zktest.Run(m, 1, func(e *zktest.Ensemble) { cluster = e }))
}

// start starts servers of ZooKeeper that end with the test.
func start(t *testing.T, servers int, options ...zktest.Option) *zktest.Ensemble {
	t.Helper()
	c, err := zktest.Start(servers, options...)
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
func connect(t *testing.T, o zk.Options) *zk.Coord {
	t.Helper()
	c, err := zk.New(o)
	return coordtest.Connected(t, c, err)
}

func TestAServerSaysItsVersion(t *testing.T) {
	c := connect(t, zk.Options{Endpoints: cluster.Endpoints()})
	if version := c.Version(t.Context()); !strings.Contains(version, ".") {
		t.Errorf("it is %q", version)
	}
}

func TestPorts(t *testing.T) {
	connectTo := func(t *testing.T, address, prefix string, lease time.Duration) coordtest.Node {
		return connect(t, zk.Options{Endpoints: []string{address}, Prefix: prefix, Lease: lease})
	}
	coordtest.RunPorts(t, cluster.Endpoints()[0], 2*time.Second, connectTo)
}
