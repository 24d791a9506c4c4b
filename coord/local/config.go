package local

import (
	"bytes"
	"context"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// setting names one stored value; scope "" is the default of all scopes.
type setting struct{ name, scope string }

// Set implements [coord.Config].
func (n *Node) Set(ctx context.Context, name, scope string, value []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.isClosed() {
		return coord.ErrClosed
	}
	if at := (setting{name, scope}); value == nil {
		delete(c.settings, at)
	} else {
		c.settings[at] = slices.Clone(value)
	}
	for changed := range c.watches[name] {
		changed.Set()
	}
	return nil
}

// Watch implements [coord.Config]. fn may keep and change the value that it is given.
func (n *Node) Watch(ctx context.Context, name, scope string, fn func(value []byte)) error {
	changed := wakeup.New()
	n.cluster.watch(name, changed)
	defer n.cluster.unwatch(name, changed)

	var last []byte // that fn was called with
	for first := true; ctx.Err() == nil; first = false {
		if n.isClosed() {
			return coord.ErrClosed
		}
		now := n.cluster.effective(name, scope)
		if first || !same(last, now) {
			last = now
			fn(slices.Clone(now))
		}
		select {
		case <-ctx.Done():
		case <-changed.C():
		case <-n.closed:
		}
	}
	return nil
}

func (c *cluster) watch(name string, changed wakeup.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[name] == nil {
		c.watches[name] = map[wakeup.Signal]bool{}
	}
	c.watches[name][changed] = true
}

func (c *cluster) unwatch(name string, changed wakeup.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches[name], changed)
	if len(c.watches[name]) == 0 {
		delete(c.watches, name)
	}
}

// effective returns the value of scope, else the default, else nil.
func (c *cluster) effective(name, scope string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.settings[setting{name, scope}]; ok {
		return v
	}
	return c.settings[setting{name, ""}]
}

// same reports whether two values are equal; an empty one differs from none.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
