//go:build unix

package zk_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
)

func TestServersAway(t *testing.T) {
	coordtest.RunServers(t, func(t *testing.T) (coordtest.Servers, func(time.Duration) coord.Semaphore) {
		three := start(t, 3)
		return three, func(lease time.Duration) coord.Semaphore {
			return connect(t, zk.Options{Endpoints: three.Endpoints(), Lease: lease})
		}
	})
}
