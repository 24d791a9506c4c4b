// Package stored implements [coord.Config] and [coord.Rates] in the store of the tasks, so that settings
// and used tokens of rates last as long as the tasks. It passes the suites of coordtest.
//
// The settings of a name are one value of [storage.Settings], which a change writes as a whole. So it
// is for up to some thousands of settings that operators change.
//
// It is meant for the only process that uses a store. By [NewShared], several processes may use a store
// that is a [storage.Shared]. Their changes do not overwrite each other, but a Watch learns of the changes of
// another process only within half a minute.
package stored

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
)

// pollEvery is how often a Watch reads settings that other processes may have changed.
const pollEvery = 30 * time.Second

// Config keeps settings in a store. It is safe for concurrent use.
type Config struct {
	store  storage.Settings
	shared storage.Shared // the store, if other processes may change its settings; else nil

	changing sync.Mutex // held while settings are changed in the store; locked before mu
	mu       sync.Mutex
	watches  map[wakeup.Signal]string // guarded by mu: the names that are watched
}

var _ coord.Config = (*Config)(nil)

// New returns the settings that a store keeps. No other Config changes them. The caller closes the
// store, after the last call has returned.
func New(store storage.Settings) *Config {
	return &Config{store: store, watches: map[wakeup.Signal]string{}}
}

// NewShared returns the settings that a store keeps, which other processes may change, too. A process
// has one Config for a store.
func NewShared(store interface {
	storage.Settings
	storage.Shared
},
) *Config {
	return &Config{store: store, shared: store, watches: map[wakeup.Signal]string{}}
}

// document is the value of the store for a name, as JSON.
type document struct {
	Changes uint64           `json:"changes"` // the version of the newest change
	Scopes  map[string]entry `json:"scopes"`
}

type entry struct {
	Version uint64 `json:"version"`
	Value   []byte `json:"value"`
}

// settings returns a copy of the settings, sorted by scope.
func (d document) settings() []coord.Setting {
	all := make([]coord.Setting, 0, len(d.Scopes))
	for scope, e := range d.Scopes {
		all = append(all, coord.Setting{Scope: scope, Value: append([]byte{}, e.Value...), Version: e.Version})
	}
	slices.SortFunc(all, func(a, b coord.Setting) int { return cmp.Compare(a.Scope, b.Scope) })
	return all
}

// setting returns a copy of the setting of a scope.
func (d document) setting(scope string) coord.Setting {
	e, ok := d.Scopes[scope]
	if !ok {
		return coord.Setting{Scope: scope}
	}
	return coord.Setting{Scope: scope, Value: append([]byte{}, e.Value...), Version: e.Version}
}

// change sets the setting of a scope at a time, or removes it if value is nil.
func (d *document) change(scope string, value []byte, now time.Time) {
	d.Changes = coord.NextVersion(d.Changes, now)
	if value == nil {
		delete(d.Scopes, scope)
		return
	}
	if d.Scopes == nil {
		d.Scopes = make(map[string]entry)
	}
	d.Scopes[scope] = entry{d.Changes, bytes.Clone(value)}
}

// read returns the settings of a name, also as they are stored.
func (c *Config) read(ctx context.Context, name string) (d document, stored []byte, err error) {
	stored, err = c.store.Setting(ctx, storage.LiveSettings+name)
	if err == nil && stored != nil {
		err = json.Unmarshal(stored, &d)
	}
	if err != nil {
		return document{}, nil, fmt.Errorf("read the settings %q from the store: %w", name, err)
	}
	return d, stored, nil
}

// write replaces the stored value, and reports whether it still was old.
func (c *Config) write(ctx context.Context, name string, old []byte, d document) (bool, error) {
	value, err := json.Marshal(d)
	if err != nil {
		return false, err
	}
	if c.shared != nil {
		return c.shared.SwapSetting(ctx, storage.LiveSettings+name, old, value)
	}
	return true, c.store.SetSetting(ctx, storage.LiveSettings+name, value)
}

// Settings implements [coord.Config].
func (c *Config) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	d, _, err := c.read(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.settings(), nil
}

// Swap implements [coord.Config]. The change is durable when it returns.
func (c *Config) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	for {
		d, old, err := c.read(ctx, name)
		if err != nil {
			return coord.Setting{}, false, err
		}
		now := d.setting(scope)
		if now.Version != version || version == 0 && value == nil {
			return now, now.Version == version, nil
		}
		d.change(scope, value, time.Now())
		written, err := c.write(ctx, name, old, d)
		if err != nil {
			err = fmt.Errorf("write the settings %q to the store: %w", name, err)
		}
		if written || err != nil { // after an error it may be written
			c.wake(name)
			return d.setting(scope), written && err == nil, err
		}
	}
}

// wake wakes the watches of a name.
func (c *Config) wake(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for changed, of := range c.watches {
		if of == name {
			changed.Set()
		}
	}
}

// Watch implements [coord.Config]. fn may change the values that it is given. Watch returns an error
// if the store cannot be read.
func (c *Config) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	changed := wakeup.New()
	c.watch(name, changed)
	defer c.unwatch(changed)

	var poll <-chan time.Time
	if c.shared != nil {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		poll = ticker.C
	}
	var last []byte // the stored value at the last call of fn
	for first := true; ; first = false {
		d, stored, err := c.read(ctx, name)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if first || !bytes.Equal(stored, last) {
			last = stored
			fn(d.settings())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed.C():
		case <-poll:
		}
	}
}

func (c *Config) watch(name string, changed wakeup.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[changed] = name
}

func (c *Config) unwatch(changed wakeup.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches, changed)
}
