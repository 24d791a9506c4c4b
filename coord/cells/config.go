package cells

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// settingCells is how many cells have the settings of a name, by the hash of their scopes. A change changes one of them, and
// the cell with the newest version.
const settingCells = 1024

// settings is the value of a cell with the settings of a name for some scopes.
type settings struct {
	Version uint64             `json:"version"` // of the newest change of any of these scopes
	Scopes  map[string]setting `json:"scopes"`
}

type setting struct {
	Version uint64 `json:"version"`
	Value   []byte `json:"value"`
}

// settingsOf returns the key of the cell that has the newest version of the settings of a name. The keys of the cells with
// the settings follow from it by a colon, which it does not have, and a number.
func settingsOf(name string) string {
	return settingKey + strings.ReplaceAll(escape(name), ":", "%3A")
}

// settingCell returns the key of the cell with the setting of a scope.
func settingCell(name, scope string) string {
	return fmt.Sprintf("%s:%03x", settingsOf(name), bucket(scope, settingCells))
}

// settingName returns the name of the settings in a cell, and reports false if that has the newest version.
func settingName(key string) (string, bool) {
	part, _, hasSettings := strings.Cut(strings.TrimPrefix(key, settingKey), ":")
	return unescape(part), hasSettings
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

// listSettings returns the settings of cells, sorted by scope.
func listSettings(cells []Cell) ([]coord.Setting, error) {
	all := []coord.Setting{}
	for _, c := range cells {
		s, err := parseSettings(c)
		if err != nil {
			return nil, err
		}
		all = append(all, s.list()...)
	}
	slices.SortFunc(all, func(a, b coord.Setting) int { return cmp.Compare(a.Scope, b.Scope) })
	return all, nil
}

func (s *settings) list() []coord.Setting {
	all := make([]coord.Setting, 0, len(s.Scopes))
	for scope, one := range s.Scopes {
		all = append(all, coord.Setting{Scope: scope, Value: bytes.Clone(one.Value), Version: one.Version})
	}
	return all
}

// Settings implements [coord.Config].
func (n *Node) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if err := checkText("setting", name); err != nil {
		return nil, err
	}
	if n.isClosed() {
		return nil, coord.ErrClosed
	}
	cells, err := n.store.List(ctx, settingsOf(name)+":")
	var all []coord.Setting
	if err == nil {
		all, err = listSettings(cells)
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings %q: %w", name, err)
	}
	return all, nil
}

// Swap implements [coord.Config]. A change that would make the cell of its scope larger than the coordinator takes is
// refused with a [TooLargeError].
func (n *Node) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	if err := errors.Join(checkText("setting", name), checkText("the scope of a setting", scope)); err != nil {
		return coord.Setting{}, false, err
	}
	if n.isClosed() {
		return coord.Setting{}, false, coord.ErrClosed
	}
	now, swapped, err := n.swapSetting(ctx, name, scope, version, value)
	if err != nil {
		return coord.Setting{}, false, fmt.Errorf("set %q in scope %q: %w", name, scope, err)
	}
	return now, swapped, nil
}

func (n *Node) swapSetting(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	era := n.presentEra()
	cells, err := n.store.Read(ctx, settingCell(name, scope), settingsOf(name))
	for {
		if err != nil {
			return coord.Setting{}, false, err
		}
		s, err := parseSettings(cells[0])
		if err != nil {
			return coord.Setting{}, false, err
		}
		was := s.Scopes[scope]
		now := coord.Setting{Scope: scope, Version: was.Version, Value: bytes.Clone(was.Value)}
		if was.Version != version || was.Version == 0 && value == nil {
			return now, was.Version == version, nil
		}
		s.Version = coord.NextVersion(max(s.Version, newestOf(cells[1])), n.options.Now())
		now = coord.Setting{Scope: scope}
		if value == nil {
			delete(s.Scopes, scope)
		} else {
			s.Scopes[scope] = setting{Version: s.Version, Value: append([]byte{}, value...)}
			now.Version, now.Value = s.Version, bytes.Clone(s.Scopes[scope].Value)
		}
		text, _ := json.Marshal(s) // text and numbers can be marshalled
		if large := n.isTooLarge(cells[0].Key, text); large != nil && len(text) > len(cells[0].Value) {
			return coord.Setting{}, false, large
		}
		changes := []Change{{Was: cells[0], Value: text}, {Was: cells[1], Value: strconv.AppendUint(nil, s.Version, 10)}}
		out, err := n.store.Swap(ctx, changes...)
		if err != nil {
			return coord.Setting{}, false, err
		}
		n.learnIn(era, out[0].Now, out[1].Now)
		cells[0], cells[1] = out[0].Now, out[1].Now
		if out[0].Swapped {
			return now, true, n.raiseNewest(ctx, cells[1], s.Version)
		}
	}
}

// newestOf returns the newest version that a cell has; 0 if it has none.
func newestOf(c Cell) uint64 {
	version, _ := strconv.ParseUint(string(c.Value), 10, 64) // a value that another program wrote is no version
	return version
}

// raiseNewest makes the newest version at least a certain one. Changes that follow get higher ones.
func (n *Node) raiseNewest(ctx context.Context, c Cell, version uint64) error {
	era := n.presentEra()
	for newestOf(c) < version {
		out, err := n.store.Swap(ctx, Change{Was: c, Value: strconv.AppendUint(nil, version, 10)})
		if err != nil {
			return err
		}
		n.learnIn(era, out[0].Now)
		c = out[0].Now
	}
	return nil
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
	known := map[string]Cell{} // that fn was called with
	for first := true; ; {
		cells, seen := n.knownSettings(name)
		if n.isClosed() {
			return coord.ErrClosed
		}
		if seen && ctx.Err() == nil && (first || !maps.EqualFunc(known, cells, sameCell)) {
			all, err := listSettings(slices.Collect(maps.Values(cells)))
			if err != nil {
				return err
			}
			first, known = false, cells
			fn(all)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed.C():
		case <-n.closed:
		}
	}
}

// sameCell reports whether two states of a cell are the same. The store may have gone back in time between them.
func sameCell(a, b Cell) bool {
	if !a.Exists() || !b.Exists() {
		return a.Exists() == b.Exists()
	}
	return a.Version == b.Version && bytes.Equal(a.Value, b.Value)
}

// knownSettings returns the cells with settings of a name by their keys, and reports whether all are known.
func (n *Node) knownSettings(name string) (map[string]Cell, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, prefix := map[string]Cell{}, settingsOf(name)+":"
	for key, c := range n.cells {
		if strings.HasPrefix(key, prefix) {
			known[key] = c
		}
	}
	return known, n.seen
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
