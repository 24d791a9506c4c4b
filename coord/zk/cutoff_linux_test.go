package zk_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/internal/wiretest"
	"github.com/taskengine/taskengine/internal/zktest"
	"github.com/taskengine/taskengine/task"
)

// A server that is cut off answers reads for 72 s here, which is twice the lease. Most likely one of the nodes is there.
func TestNodesKeepTheirLeasesWhenOneServerIsCutOffFromTheOthers(t *testing.T) {
	t.Parallel()
	const (
		nodes = 6
		lease = 36 * time.Second // a node has a sixth of it to go to another server, on a busy machine, too
	)
	mesh := wiretest.NewMesh(t)
	servers := start(t, 3, zktest.WithNetwork(mesh.Reach), zktest.WithLines("syncLimit=720"))
	var ended atomic.Int64
	var proves [nodes]func() bool
	for i := range nodes {
		n := connect(t, zk.Options{Endpoints: servers.Endpoints(), Lease: lease})
		self := coord.Member{Incarnation: task.ID{byte(i + 1)}}
		ctx, leave := context.WithCancel(context.Background())
		t.Cleanup(leave)
		joined := make(chan struct{})
		go func() {
			sent := false
			err := n.Join(ctx, self, func(all []coord.Member) {
				if !sent {
					sent = true
					close(joined)
				}
			})
			if err != nil {
				ended.Add(1)
			}
		}()
		select {
		case <-joined:
		case <-time.After(time.Minute):
			t.Fatal("a node does not become a member")
		}
		proves[i] = func() bool { return n.Proves(self.Incarnation) }
	}
	follower, err := servers.Follower(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mesh.Isolate(follower, servers.PIDs())
	defer mesh.Heal()
	for end := time.Now().Add(lease); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for i, isProved := range proves {
			if !isProved() || ended.Load() > 0 {
				t.Fatalf("node %d does not prove that it lives; %d nodes have lost their leases", i, ended.Load())
			}
		}
	}
}
