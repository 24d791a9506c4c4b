package coordtest_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/local"
)

// lapsing is a node. Its lease ends once in each test, as on a slow machine.
type lapsing struct {
	*local.Node
	atBegin, atEnd *sync.Once // of a leadership: when the lease ends; nil: not then
	isLate         bool       // a leader that loses its lease at the begin does not run before others have led
}

func (n lapsing) Lead(ctx context.Context, role string, fn func(context.Context) error) error {
	lapse := func(once *sync.Once) (lapsed bool) {
		if once != nil {
			once.Do(func() { lapsed = true; n.Sever() })
		}
		return lapsed
	}
	return n.Node.Lead(ctx, role, func(ctx context.Context) error {
		if lapse(n.atBegin) && n.isLate {
			for range 100 {
				runtime.Gosched()
			}
		}
		defer lapse(n.atEnd)
		return fn(ctx)
	})
}

func TestTheSuiteOfElectorsBeginsAgainWhenALeaseLapses(t *testing.T) {
	for name, when := range map[string]func(*lapsing){
		"at the begin of a leadership": func(n *lapsing) { n.atBegin = new(sync.Once) },
		"before a leader runs":         func(n *lapsing) { n.atBegin, n.isLate = new(sync.Once), true },
		"at the end of a leadership":   func(n *lapsing) { n.atEnd = new(sync.Once) },
	} {
		t.Run(name, func(t *testing.T) {
			var nodes sync.Map // by the name of the test
			coordtest.RunElector(t, coordtest.Backend[coord.Elector]{
				New: func(t *testing.T) func() coord.Elector {
					var n lapsing
					when(&n)
					known, _ := nodes.LoadOrStore(t.Name(), n)
					first := local.New()
					return func() coord.Elector {
						n := known.(lapsing)
						n.Node = first.Peer()
						return n
					}
				},
				Sever: func(_ *testing.T, n coord.Elector) { n.(lapsing).Sever() },
			})
		})
	}
}

// Leases that are too short for the machine lapse in every attempt.
func TestTheNextAttemptHasLongerLeases(t *testing.T) {
	var slower func(lapses int) coordtest.Backend[coord.Elector]
	slower = func(lapses int) coordtest.Backend[coord.Elector] {
		return coordtest.Backend[coord.Elector]{
			New: func(*testing.T) func() coord.Elector {
				first := local.New()
				return func() coord.Elector {
					n := lapsing{Node: first.Peer()}
					if lapses > 0 {
						n.atBegin = new(sync.Once)
					}
					return n
				}
			},
			Sever:  func(_ *testing.T, n coord.Elector) { n.(lapsing).Sever() },
			Slower: func() coordtest.Backend[coord.Elector] { return slower(lapses - 1) },
		}
	}
	coordtest.RunElector(t, slower(2))
}
