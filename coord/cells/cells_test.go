package cells_test

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/coord/coordtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const lease = 400 * time.Millisecond

func node(t *testing.T, c cells.Store) *cells.Node {
	n := cells.New(c, cells.Options{Driver: "memory", Name: "test", Lease: lease, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// backend makes nodes of one cluster in memory for the suite of a port, in simulated time. With faults, answers are
// lost, and requests are late.
func backend[P any](faulty bool) coordtest.Backend[P] {
	var clients sync.Map // a *client for each node
	return coordtest.Backend[P]{
		New: func(t *testing.T) func() P {
			m := newMemory()
			return func() P {
				var faults *rand.Rand
				if faulty {
					seed := rand.Uint64()
					t.Logf("the faults of a node have the seed %d", seed)
					faults = rand.New(rand.NewPCG(seed, 0))
				}
				c := m.connect(faults)
				n := node(t, c)
				clients.Store(any(n), c)
				return any(n).(P)
			}
		},
		Sever: func(_ *testing.T, node P) {
			c, _ := clients.Load(any(node))
			c.(*client).sever(2 * lease)
		},
		Patience: time.Minute,
		Bubble:   true,
	}
}

func TestPorts(t *testing.T) {
	t.Run("Elector", func(t *testing.T) { coordtest.RunElector(t, backend[coord.Elector](false)) })
	t.Run("Semaphore", func(t *testing.T) { coordtest.RunSemaphore(t, backend[coord.Semaphore](false)) })
	t.Run("Rates", func(t *testing.T) { coordtest.RunRates(t, backend[coord.Rates](false)) })
	t.Run("Membership", func(t *testing.T) { coordtest.RunMembership(t, backend[coord.Membership](false)) })
	t.Run("Config", func(t *testing.T) { coordtest.RunConfig(t, backend[coord.Config](false)) })
}

// What does not return errors tries again.
func TestPortsThatTryAgainAfterFaults(t *testing.T) {
	t.Run("Elector", func(t *testing.T) { coordtest.RunElector(t, backend[coord.Elector](true)) })
	t.Run("Semaphore", func(t *testing.T) { coordtest.RunSemaphore(t, backend[coord.Semaphore](true)) })
	t.Run("Membership", func(t *testing.T) { coordtest.RunMembership(t, backend[coord.Membership](true)) })
}
