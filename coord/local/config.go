package local

import (
	"bytes"
	"context"
	"slices"

	"github.com/taskengine/taskengine/coord"
)

// setting names one stored value; scope "" is the default of all scopes.
type setting struct{ name, scope string }

// watch is one caller of Watch.
type watch struct {
	changed bell // rung after every Set of the name, whatever the scope
}

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
	for w := range c.watches[name] {
		w.changed.ring()
	}
	return nil
}

// Watch implements [coord.Config]. The value given to fn is fn's.
func (n *Node) Watch(ctx context.Context, name, scope string, fn func(value []byte)) error {
	w := &watch{changed: newBell()}
	n.cluster.watch(name, w)
	defer n.cluster.unwatch(name, w)

	var told []byte
	for first := true; ctx.Err() == nil; first = false {
		if n.isClosed() {
			return coord.ErrClosed
		}
		now := n.cluster.effective(name, scope)
		if first || !same(told, now) {
			told = now
			fn(slices.Clone(now))
		}
		select {
		case <-ctx.Done():
		case <-w.changed:
		case <-n.closed:
		}
	}
	return nil
}

func (c *cluster) watch(name string, w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[name] == nil {
		c.watches[name] = map[*watch]bool{}
	}
	c.watches[name][w] = true
}

func (c *cluster) unwatch(name string, w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches[name], w)
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

// same tells an empty value from none.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
