//go:build unix

package zk_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/coordtest"
	taskzk "github.com/taskengine/taskengine/coord/zk"
)

// BenchmarkSemaphore compares permits with a bare transaction of the same server: a node that is changed if it has a
// certain version.
func BenchmarkSemaphore(b *testing.B) {
	conn, _, err := zk.Connect(cluster.Endpoints(), 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	if _, err := conn.Create("/bare", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		b.Fatal(err)
	}
	b.Run("transaction", func(b *testing.B) {
		_, stat, err := conn.Get("/bare")
		if err != nil {
			b.Fatal(err)
		}
		for version := stat.Version; b.Loop(); version++ {
			if _, err := conn.Multi(&zk.SetDataRequest{Path: "/bare", Data: []byte("value"), Version: version}); err != nil {
				b.Fatal(err)
			}
		}
	})
	n, err := taskzk.New(taskzk.Options{Endpoints: cluster.Endpoints(), Prefix: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close() })
	coordtest.BenchmarkSemaphore(b, n)
}
