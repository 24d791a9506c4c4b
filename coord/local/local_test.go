package local_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend gives a port's suite nodes of one cluster. In a bubble an event that must not happen
// can be excluded exactly; outside of it goroutines truly run side by side.
func backend[P any](bubble bool) coordtest.Backend[P] {
	return coordtest.Backend[P]{
		New: func(t *testing.T) func() P {
			first := local.New()
			t.Cleanup(func() { _ = first.Close() })
			return func() P {
				n := first.Peer()
				t.Cleanup(func() { _ = n.Close() })
				return any(n).(P)
			}
		},
		Sever:  func(_ *testing.T, node P) { any(node).(*local.Node).Sever() },
		Settle: 5 * time.Millisecond,
		Bubble: bubble,
	}
}

func TestPorts(t *testing.T) {
	for name, bubble := range map[string]bool{"in simulated time": true, "in real time": false} {
		t.Run(name, func(t *testing.T) {
			t.Run("Elector", func(t *testing.T) { coordtest.RunElector(t, backend[coord.Elector](bubble)) })
			t.Run("Semaphore", func(t *testing.T) { coordtest.RunSemaphore(t, backend[coord.Semaphore](bubble)) })
			t.Run("Rates", func(t *testing.T) { coordtest.RunRates(t, backend[coord.Rates](bubble)) })
			t.Run("Membership", func(t *testing.T) { coordtest.RunMembership(t, backend[coord.Membership](bubble)) })
			t.Run("Config", func(t *testing.T) { coordtest.RunConfig(t, backend[coord.Config](bubble)) })
			t.Run("Messages", func(t *testing.T) { coordtest.RunMessages(t, backend[coord.Messages](bubble)) })
			t.Run("Bus", func(t *testing.T) { coordtest.RunBus(t, backend[coord.Bus](bubble)) })
		})
	}
}
