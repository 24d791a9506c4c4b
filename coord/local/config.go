package local

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// scopes has the settings of one name by their scope. Their values are never changed in place.
type scopes map[string]coord.Setting

// Settings implements [coord.Config].
func (n *Node) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	return n.cluster.settingsOf(name), nil
}

// Swap implements [coord.Config]. Of all settings of the cluster no two have the same version.
func (n *Node) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	if err := ctx.Err(); err != nil {
		return coord.Setting{}, false, err
	}
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.isClosed() {
		return coord.Setting{}, false, coord.ErrClosed
	}
	now := c.settings[name][scope]
	now.Scope = scope
	if now.Version != version || version == 0 && value == nil {
		return now.Clone(), now.Version == version, nil
	}
	c.changes = coord.NextVersion(c.changes, time.Now())
	if value == nil {
		now = coord.Setting{Scope: scope}
		delete(c.settings[name], scope)
	} else {
		now = coord.Setting{Scope: scope, Value: bytes.Clone(value), Version: c.changes}
		if c.settings[name] == nil {
			c.settings[name] = scopes{}
		}
		c.settings[name][scope] = now
	}
	for changed := range c.watches[name] {
		changed.Set()
	}
	return now.Clone(), true, nil
}

// Watch implements [coord.Config]. fn may change the values that it is given.
func (n *Node) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	changed := wakeup.New()
	changed.Set()
	n.cluster.watch(name, changed)
	defer n.cluster.unwatch(name, changed)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.closed:
			return coord.ErrClosed
		case <-changed.C():
			if ctx.Err() == nil && !n.isClosed() {
				fn(n.cluster.settingsOf(name))
			}
		}
	}
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

// settingsOf returns a copy of the settings of a name, sorted by scope.
func (c *cluster) settingsOf(name string) []coord.Setting {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]coord.Setting, 0, len(c.settings[name]))
	for _, s := range c.settings[name] {
		all = append(all, s.Clone())
	}
	slices.SortFunc(all, func(a, b coord.Setting) int { return cmp.Compare(a.Scope, b.Scope) })
	return all
}
