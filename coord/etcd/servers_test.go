//go:build unix

package etcd_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
)

func TestServersAway(t *testing.T) {
	coordtest.RunServers(t, func(t *testing.T) (coordtest.Servers, func(time.Duration) coord.Semaphore) {
		three := start(t, 3)
		return three, func(lease time.Duration) coord.Semaphore {
			return connect(t, etcd.Options{Endpoints: three.Endpoints(), Lease: lease})
		}
	})
}

func TestServersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	coordtest.RunFailover(t, cluster.Endpoints()[0], func(t *testing.T, endpoints []string) coordtest.Node {
		return connect(t, etcd.Options{Endpoints: endpoints, Prefix: coordtest.Prefix(), User: "app", Password: "secret"})
	})
}

func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	coordtest.RunHang(t, cluster.Endpoints()[0], func(t *testing.T, endpoints []string, lease time.Duration) coord.Semaphore {
		return connect(t, etcd.Options{Endpoints: endpoints, Prefix: coordtest.Prefix(), Lease: lease})
	})
}
