//go:build unix

package etcd_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
)

func TestAnEtcdThatGoesBackInTime(t *testing.T) {
	coordtest.RunRestored(t, func(t *testing.T) (coordtest.Restorable, func() coordtest.Node) {
		one := start(t, 1)
		return one, func() coordtest.Node {
			return connect(t, etcd.Options{Endpoints: one.Endpoints(), Prefix: "restored", Lease: 2 * time.Second})
		}
	})
}
