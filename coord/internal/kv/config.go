package kv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// settings is the value of the cell of a setting's name.
type settings struct {
	Version uint64             `json:"version"` // of the newest change of any scope
	Scopes  map[string]setting `json:"scopes"`
}

type setting struct {
	Version uint64 `json:"version"`
	Value   []byte `json:"value"`
}

func parseSettings(c Cell) (*settings, error) {
	s := &settings{}
	if c.Exists() {
		if err := json.Unmarshal(c.Value, s); err != nil {
			return nil, fmt.Errorf("cell %s has no settings: %w", c.Key, err)
		}
	}
	if s.Scopes == nil {
		s.Scopes = map[string]setting{}
	}
	return s, nil
}

// list returns the settings sorted by scope.
func (s *settings) list() []coord.Setting {
	all := make([]coord.Setting, 0, len(s.Scopes))
	for _, scope := range slices.Sorted(maps.Keys(s.Scopes)) {
		all = append(all, coord.Setting{Scope: scope, Value: bytes.Clone(s.Scopes[scope].Value), Version: s.Scopes[scope].Version})
	}
	return all
}

// Settings implements [coord.Config].
func (n *Node) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	_, s, err := n.readSettings(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the settings %q: %w", name, err)
	}
	return s.list(), nil
}

func (n *Node) readSettings(ctx context.Context, name string) (Cell, *settings, error) {
	if err := checkText("setting", name); err != nil {
		return Cell{}, nil, err
	}
	if n.isClosed() {
		return Cell{}, nil, coord.ErrClosed
	}
	cells, err := n.store.Read(ctx, settingKey+escape(name))
	if err != nil {
		return Cell{}, nil, err
	}
	s, err := parseSettings(cells[0])
	return cells[0], s, err
}

// Swap implements [coord.Config].
func (n *Node) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	if err := checkText("the scope of a setting", scope); err != nil {
		return coord.Setting{}, false, err
	}
	c, s, err := n.readSettings(ctx, name)
	for err == nil {
		was := s.Scopes[scope]
		now := coord.Setting{Scope: scope, Version: was.Version, Value: bytes.Clone(was.Value)}
		if was.Version != version || was.Version == 0 && value == nil {
			return now, was.Version == version, nil
		}
		s.Version++
		now = coord.Setting{Scope: scope}
		if value == nil {
			delete(s.Scopes, scope)
		} else {
			s.Scopes[scope] = setting{Version: s.Version, Value: append([]byte{}, value...)}
			now.Version, now.Value = s.Version, bytes.Clone(s.Scopes[scope].Value)
		}
		text, _ := json.Marshal(s) // text and numbers can be marshalled
		if large := n.isTooLarge(c.Key, text); large != nil && len(text) > len(c.Value) {
			err = large
			break
		}
		var out []Outcome
		if out, err = n.store.Swap(ctx, Change{Was: c, Value: text}); err != nil {
			break
		}
		n.mu.Lock()
		n.learn(out[0].Now)
		n.mu.Unlock()
		if out[0].Swapped {
			return now, true, nil
		}
		c = out[0].Now
		s, err = parseSettings(c)
	}
	return coord.Setting{}, false, fmt.Errorf("set %q in scope %q: %w", name, scope, err)
}

// Watch implements [coord.Config]. fn may change the values that it is given. While the store cannot be used, Watch
// waits.
func (n *Node) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	if err := checkText("setting", name); err != nil {
		return err
	}
	changed := wakeup.New()
	if err := n.watch(changed); err != nil {
		return err
	}
	defer n.unwatch(changed)
	var last uint64 // the version of the cell that fn was called with
	for first := true; ; {
		c, seen := n.settingCell(name)
		if n.isClosed() {
			return coord.ErrClosed
		}
		if seen && ctx.Err() == nil && (first || c.Version > last) {
			s, err := parseSettings(c)
			if err != nil {
				return err
			}
			first, last = false, c.Version
			fn(s.list())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed.C():
		case <-n.closed:
		}
	}
}

// settingCell returns the cell of a setting, and reports whether it is known.
func (n *Node) settingCell(name string) (Cell, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cellOf(settingKey + escape(name)), n.seen
}

func (n *Node) watch(changed wakeup.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watches[changed] = true
	return n.start()
}

func (n *Node) unwatch(changed wakeup.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.watches, changed)
}

// wakeWatches is called with mu held.
func (n *Node) wakeWatches() {
	for w := range n.watches {
		w.Set()
	}
}
