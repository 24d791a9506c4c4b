//go:build !race

package pairs

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/internal/zktest"
	"github.com/taskengine/taskengine/storage/memory"
)

// meshed is the network among servers.
type meshed struct {
	*wiretest.Mesh
	pids []int
}

// Isolate implements [enginetest.Network].
func (m meshed) Isolate(server int) { m.Mesh.Isolate(server, m.pids) }

func TestLimitsAndLeadersHoldWhileServersOfEtcdAreCutOffFromEachOther(t *testing.T) {
	t.Parallel()
	mesh := wiretest.NewMesh(t)
	servers, err := etcdtest.Start(3, etcdtest.WithNetwork(mesh.Reach))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	enginetest.RunPartition(t, besideMemory(servers.Endpoints(), func(endpoint string, lease time.Duration) (remote, error) {
		return etcd.New(etcd.Options{Endpoints: []string{endpoint}, Prefix: "storm", Lease: lease})
	}), meshed{mesh, servers.PIDs()})
}

// A server of ZooKeeper that is cut off answers reads for six seconds, which is twice the lease.
func TestLimitsAndLeadersHoldWhileServersOfZooKeeperAreCutOffFromEachOther(t *testing.T) {
	t.Parallel()
	mesh := wiretest.NewMesh(t)
	servers, err := zktest.Start(3, zktest.WithNetwork(mesh.Reach), zktest.WithLines("tickTime=300"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	enginetest.RunPartition(t, besideMemory(servers.Endpoints(), func(endpoint string, lease time.Duration) (remote, error) {
		return zk.New(zk.Options{Endpoints: []string{endpoint}, Prefix: "storm", Lease: lease})
	}), meshed{mesh, servers.PIDs()})
}

// besideMemory returns the pairs of nodes that keep their tasks in the memory of this process, and coordinate by
// servers, each by another one. Hints stay in this process.
func besideMemory(endpoints []string, connect func(endpoint string, lease time.Duration) (remote, error)) enginetest.Cluster {
	return enginetest.Cluster{New: func(t *testing.T, s enginetest.Setup) func() *enginetest.Member {
		store, hints := memory.New(), local.New()
		t.Cleanup(func() {
			if err := hints.Close(); err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		nodes := 0
		return func() *enginetest.Member {
			c, err := connect(endpoints[nodes%len(endpoints)], s.Lease)
			nodes++
			if err != nil {
				t.Fatal(err)
			}
			bus := hints.Peer()
			by := c.Coordinator()
			by.Bus = bus
			return &enginetest.Member{
				Store: &linked{Store: store, link: newLink()}, Coordinator: by,
				ToStore: newLink(), ToCoordinator: newLink(), ToBus: newLink(), ToLimits: newLink(),
				Disconnect: func() {
					if err := bus.Close(); err != nil {
						t.Error(err)
					}
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				},
			}
		}
	}}
}
