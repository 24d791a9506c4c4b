package local

import (
	"context"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// Backlog is how many hints may wait for a subscriber. Further ones are dropped.
const Backlog = 1 << 16

// subscriber is one caller of Subscribe.
type subscriber struct {
	filled wakeup.Signal // set when pending has something

	mu      sync.Mutex
	pending []task.Hint // guarded by mu; at most Backlog
}

// Publish implements [coord.Bus]. It copies the hints for each subscriber and does not wait for any.
func (n *Node) Publish(_ context.Context, ts ...task.Hint) error {
	if n.isClosed() {
		return coord.ErrClosed
	}
	if len(ts) == 0 {
		return nil
	}
	for _, s := range *n.cluster.subscribers.Load() {
		if lost := s.put(ts); lost > 0 {
			n.cluster.dropped.Add(uint64(lost))
		}
	}
	return nil
}

// Subscribe implements [coord.Bus]. Hints that are published while fn runs are passed to the
// next call of fn.
func (n *Node) Subscribe(ctx context.Context, fn func([]task.Hint)) error {
	s := &subscriber{filled: wakeup.New()}
	n.cluster.subscribe(s)
	defer n.cluster.unsubscribe(s)

	var batch []task.Hint
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.closed:
			return coord.ErrClosed
		case <-s.filled.C():
			batch = s.take(batch)
			if ctx.Err() == nil {
				fn(batch)
			}
		}
	}
}

// Dropped returns how many hints were dropped so far because [Backlog] hints were waiting for
// a subscriber, for all subscribers of the cluster together.
func (n *Node) Dropped() uint64 { return n.cluster.dropped.Load() }

// put appends the hints that there is room for and returns the number of the others.
func (s *subscriber) put(ts []task.Hint) (lost int) {
	s.mu.Lock()
	fit := min(len(ts), Backlog-len(s.pending))
	s.pending = append(s.pending, ts[:fit]...)
	s.mu.Unlock()
	s.filled.Set()
	return len(ts) - fit
}

// take returns the pending hints, and reuses the memory of empty for the next ones.
func (s *subscriber) take(empty []task.Hint) []task.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.pending
	clear(empty) // release the strings
	s.pending = empty[:0]
	return full
}

func (c *cluster) subscribe(s *subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(slices.Clone(*c.subscribers.Load()), s)
	c.subscribers.Store(&all)
}

func (c *cluster) unsubscribe(s *subscriber) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*c.subscribers.Load()), func(o *subscriber) bool { return o == s })
	c.subscribers.Store(&all)
}
