//go:build unix

package zk_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/internal/zktest"
)

func TestServersAway(t *testing.T) {
	coordtest.RunServers(t, func(t *testing.T) (coordtest.Servers, func(time.Duration) coord.Semaphore) {
		three, err := zktest.Start(3)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := three.Close(); err != nil {
				t.Error(err)
			}
		})
		return three, func(lease time.Duration) coord.Semaphore {
			c, err := zk.New(zk.Options{Endpoints: three.Endpoints(), Lease: lease})
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
	})
}
