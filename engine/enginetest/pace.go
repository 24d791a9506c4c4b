package enginetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// stalling is a store that can hold up commits.
type stalling struct {
	storage.Store
	gate sync.RWMutex // held for reading by a commit that is under way, and for writing while the store stalls
}

func (s *stalling) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.Later(func() (storage.Outcome, error) {
		s.gate.RLock()
		defer s.gate.RUnlock()
		return s.Store.Commit(ctx, b).Wait()
	})
}

// stallingShared is a store of several nodes that can hold up commits.
type stallingShared struct {
	*stalling
	storage.Settings
	storage.Shared
}

// pace has the times at which handlers began.
type pace struct {
	mu sync.Mutex
	at []time.Time // guarded by mu
}

func (p *pace) handle(context.Context, *task.Task) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Now())
	return nil, nil
}

func (p *pace) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.at)
}

// check fails if from a time on, before which nothing was about to begin, more began than some at once and then one
// in every interval.
func (p *pace) check(t *testing.T, from time.Time, atOnce int, every time.Duration) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, at := range p.at {
		if at.Before(from) {
			continue
		}
		if count++; count > atOnce+int(at.Sub(from)/every) {
			t.Fatalf("%d tasks began within %v; the rate allows %d, and one in every %v", count, at.Sub(from), atOnce, every)
		}
	}
}

// rest waits for a time in which the process runs again and again, so that all begins that is about to, also on a busy machine.
func rest(d time.Duration) {
	const pieces = 40
	for range pieces {
		time.Sleep(d / pieces)
	}
}

// stalledRate stalls the store while tasks wait for a rate: plain tasks, which are grabbed with their submit, and
// tasks of ordering keys, which are grabbed with the end of the task before.
func stalledRate(n *node) {
	const burst, every, stall = 2, 10 * time.Millisecond, 400 * time.Millisecond
	set := types(50, func(p *policy.Type) { p.Limits = []string{"own", "calls"} }, "call")
	set.Limits["own"] = policy.Limit{Name: "own", Max: 40}
	set.Limits["calls"] = policy.Limit{Name: "calls", Rate: policy.Rate{Count: 100, Per: time.Second, Burst: burst}}
	store := &stalling{Store: n.store}
	n.config.Store = store
	var p pace
	n.start(set, map[string]handle{"call": p.handle})
	ids := n.submit(repeat(90, func(i int) engine.Request {
		r := engine.Request{Type: "call"}
		if i%3 == 0 {
			r.OrderingKey = "k"
		}
		return r
	})...)
	n.eventually("some have begun", func() bool { return p.count() > burst })
	store.gate.Lock()
	rest(stall)
	from := time.Now()
	store.gate.Unlock()
	n.ranOnce(ids...)
	p.check(n.T, from, burst, every)
}

// stalledRateOfCluster is the same for a rate of the cluster and the stores of two nodes.
func stalledRateOfCluster(c *cluster) {
	const burst, perSecond, stall = 2, 40, 1500 * time.Millisecond
	const drawn = 2 * perSecond / 10 // by two nodes, for 100 ms each
	set := shared(policy.Limit{Name: "slow", Rate: policy.Rate{Count: perSecond, Per: time.Second, Burst: burst}})
	var p pace
	var stores []*stalling
	for range 2 {
		c.join(set, map[string]handle{"pay": p.handle}, func(p *peer) {
			s := &stalling{Store: p.Store}
			stores = append(stores, s)
			p.config.Store = stallingShared{s, p.Store.(storage.Settings), p.Store.(storage.Shared)}
		})
	}
	c.meet()
	ids := c.spread(c.peers, 80, ofType("pay"))
	c.peers[0].eventually("some have begun", func() bool { return p.count() > burst })
	for _, s := range stores {
		s.gate.Lock()
	}
	rest(stall)
	from := time.Now()
	for _, s := range stores {
		s.gate.Unlock()
	}
	c.peers[0].ranOnce(ids...)
	p.check(c.T, from, burst+drawn, time.Second/perSecond)
}
