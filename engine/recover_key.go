package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// missingKeysSetting is the setting that has the names of the keys that nodes of the store have missed: while it is empty,
// no node looks for tasks that wait for a key.
const missingKeysSetting = "missing-keys"

const (
	// keysEvery is how often a node looks whether tasks wait for a key that it has.
	keysEvery = time.Minute
	// keysRest is the least time between two writes of the setting by one node.
	keysRest = 10 * time.Second
	// keysPatience bounds each use of the store.
	keysPatience = time.Minute
	// freedPage is how many rows are read at a time, and freedAtOnce how many of them are changed at once.
	freedPage   = 500
	freedAtOnce = 32
)

// keyLoop records the keys that this node misses, and starts tasks that waited for a key that it has: tasks of a node that
// was started without, which is this one before its restart, or has left its tasks to this one.
func (e *Engine) keyLoop(ctx context.Context) {
	store, ok := e.store.(storage.Settings)
	if !ok || e.contents.keyed == nil {
		return
	}
	var cost wakeup.Cost
	for rest := time.Duration(0); ; {
		select {
		case <-e.missing.found.C():
			e.changeMissingKeys(ctx, store, e.missing.names(), nil)
			if wakeup.Sleep(ctx, keysRest) != nil {
				return
			}
			continue
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
		begin := time.Now()
		err := e.freeKeyed(ctx, store)
		if err != nil && ctx.Err() == nil {
			e.unanswered(ctx, "tasks that wait for a key", err)
		}
		rest = max(keysEvery, reconcileShare*cost.After(time.Since(begin), err == nil))
	}
}

// missingKeysOf returns the names of the setting, and its value.
func missingKeysOf(ctx context.Context, store storage.Settings) (names []string, value []byte, err error) {
	value, err = store.Setting(ctx, missingKeysSetting)
	if err == nil && len(value) > 0 {
		err = json.Unmarshal(value, &names)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the names of missing keys: %w", err)
	}
	return names, value, nil
}

// changeMissingKeys adds names to the setting and removes others. If that fails, a later try makes up for it.
func (e *Engine) changeMissingKeys(ctx context.Context, store storage.Settings, add, remove []string) {
	ctx, cancel := context.WithTimeout(ctx, keysPatience)
	defer cancel()
	for range editTries {
		names, old, err := missingKeysOf(ctx, store)
		if err != nil {
			return
		}
		after := slices.DeleteFunc(append(slices.Clone(names), add...), func(name string) bool { return slices.Contains(remove, name) })
		slices.Sort(after)
		if after = slices.Compact(after); len(after) > maxMissingKeys {
			after = after[:maxMissingKeys]
		}
		if slices.Equal(after, names) {
			return
		}
		value, err := json.Marshal(after)
		if err != nil {
			return
		}
		swapped := true
		if shared, ok := e.store.(storage.Shared); ok {
			swapped, err = shared.SwapSetting(ctx, missingKeysSetting, old, value)
		} else {
			err = store.SetSetting(ctx, missingKeysSetting, value)
		}
		if err != nil || swapped {
			return
		}
	}
}

// freeKeyed has the tasks of this node run that wait for a key that it has.
func (e *Engine) freeKeyed(ctx context.Context, store storage.Settings) error {
	reading, cancel := context.WithTimeout(ctx, keysPatience)
	defer cancel()
	names, _, err := missingKeysOf(reading, store)
	if err != nil {
		return err
	}
	have := slices.DeleteFunc(names, func(name string) bool { return !e.contents.keyed.HasKey(name) })
	if len(have) == 0 {
		return nil
	}
	left, freed := 0, 0
	for before, more := (task.ID{}), true; more; more = !before.IsZero() {
		var page []*task.Task
		page, before, err = e.List(ctx, storage.Filter{States: []task.State{task.Waiting}}, before, freedPage)
		if errors.Is(err, ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		page = slices.DeleteFunc(page, func(t *task.Task) bool { return !waitsForOneOf(have, t) })
		done := e.freePage(ctx, page)
		left, freed = left+len(page)-done, freed+done
	}
	if freed > 0 {
		e.log.Info("tasks that waited for a key run now: this node has it", "tasks", freed)
	}
	if left == 0 {
		e.changeMissingKeys(ctx, store, nil, have)
	}
	return nil
}

// freePage lets the rows of this node among some run that it can decode. It returns how many.
func (e *Engine) freePage(ctx context.Context, page []*task.Task) (freed int) {
	var ours []*task.Task
	e.decide(func(c *core.Core, _ time.Time) {
		for _, t := range page {
			if c.Owns(t.Queue(), t.Shard) {
				ours = append(ours, t)
			}
		}
	})
	var mu sync.Mutex
	var work sync.WaitGroup
	slots := make(chan struct{}, freedAtOnce)
	for _, t := range ours {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			if e.freeRow(ctx, t) {
				mu.Lock()
				defer mu.Unlock()
				freed++
			}
		})
	}
	work.Wait()
	return freed
}

// freeRow lets a task run if this node can decode it, and reports whether it does not wait for a key any more.
func (e *Engine) freeRow(ctx context.Context, t *task.Task) bool {
	ctx, cancel := context.WithTimeout(ctx, keysPatience)
	defer cancel()
	_, err := e.edit(ctx, t.Ref(), "release", func(row *task.Task, c *task.Change) bool {
		decoded := *row
		c.To, c.NextEventAt = task.Waiting, c.At
		return e.contents.decode(&decoded) == nil
	})
	return err == nil || errors.Is(err, ErrStale) || errors.Is(err, task.ErrNotFound)
}

const (
	// keyPauseLeast and keyPauseMost bound the pause of a task with a missing key. Between them it is as long as the
	// key has been missing.
	keyPauseLeast = time.Second
	keyPauseMost  = 5 * time.Minute
	// keyPauseStep is the least time between two of these tasks: each costs a grab and a save, and takes a slot in between.
	keyPauseStep = 20 * time.Millisecond
	// maxMissingKeys bounds the names that are kept: anything that can write to the store can choose them.
	maxMissingKeys = 100
)

// MissingKey is a key that this node does not have, and that tasks of this node wait for.
type MissingKey struct {
	Name  string    // "" if the codec fails for another reason
	Tasks int       // how many wait for it, about
	Since time.Time // when this node first missed it
	Type  string    // of the task that missed it last
	Task  task.ID   // likewise
	Error string    // likewise
}

// MissingKeys returns the keys that tasks of this node wait for, sorted by name.
func (e *Engine) MissingKeys() []MissingKey { return e.missing.all(e.Now()) }

// KeysUsed returns, for each key that this node has, how often it has decrypted data with it since it was opened. It is empty
// unless [Config.Codec] is a [codec.Keyed].
func (e *Engine) KeysUsed() map[string]uint64 {
	if e.contents.keyed == nil {
		return nil
	}
	return e.contents.keyed.Decrypted()
}

// missingKeys spaces the tries of tasks that cannot be decoded, so that they neither delay other tasks nor keep the store
// writing. Only the row of such a task shows that it is one, so each is grabbed now and then.
type missingKeys struct {
	found wakeup.Signal // set when a key was missed

	mu   sync.Mutex
	keys map[string]*missingKey // guarded by mu: by name
	last time.Time              // guarded by mu: the latest time at which a task is tried again
}

// missingKey is the state of a missing key, guarded by the mutex of its missingKeys.
type missingKey struct {
	MissingKey
	tries map[int64]int // how many tasks are tried again, by the minute
}

// pause returns for how long a task that cannot be decoded is left alone.
func (m *missingKeys) pause(now time.Time, t *task.Task, why error) time.Duration {
	name := ""
	var missing *codec.MissingKeyError
	if errors.As(why, &missing) {
		name = missing.Key
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[name]
	if k == nil {
		if len(m.keys) >= maxMissingKeys {
			name = "others"
			k = m.keys[name]
		}
		if k == nil {
			k = &missingKey{MissingKey: MissingKey{Name: name, Since: now}, tries: make(map[int64]int)}
			if m.keys == nil {
				m.keys = make(map[string]*missingKey)
			}
			m.keys[name] = k
		}
	}
	k.Type, k.Task, k.Error = t.Type, t.ID, why.Error()
	at := now.Add(min(max(now.Sub(k.Since), keyPauseLeast), keyPauseMost))
	if next := m.last.Add(keyPauseStep); next.After(at) {
		at = next
	}
	m.last = at
	k.forget(now)
	k.tries[at.Unix()/60]++
	m.found.Set()
	return at.Sub(now)
}

// forget drops the tries of minutes that are over.
func (k *missingKey) forget(now time.Time) {
	maps.DeleteFunc(k.tries, func(minute int64, _ int) bool { return minute < now.Unix()/60 })
}

// all returns the keys that tasks wait for.
func (m *missingKeys) all(now time.Time) (all []MissingKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		k.forget(now)
		k.Tasks = 0
		for _, n := range k.tries {
			k.Tasks += n
		}
		if k.Tasks > 0 {
			all = append(all, k.MissingKey)
		}
	}
	slices.SortFunc(all, func(a, b MissingKey) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// names returns the names of all keys that were missed since the last call.
func (m *missingKeys) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.keys))
}

// waitsForKey begins the error of a task that waits for a key, so that such tasks are found again.
const waitsForKey = "it waits until its content can be decoded: "

// undecoded returns the verdict on an attempt that cannot begin, because the contents of its task cannot be decoded.
func (e *Engine) undecoded(t *task.Task, err error) task.Verdict {
	if errors.Is(err, codec.ErrDamaged) || errors.Is(err, codec.ErrTooLarge) {
		return task.VerdictOf(nil, task.Permanent(task.WithClass("damaged", fmt.Errorf("the content of the task cannot be decoded, now or later: %w", err))))
	}
	v := task.Verdict{Outcome: task.HandedBack, Error: waitsForKey + err.Error(), Delay: -1, Pause: e.missing.pause(e.Now(), t, err)}
	if e.handlers.undecoded.Allow() {
		e.log.Error("the content of tasks cannot be decoded; they wait, and are tried again from time to time", "task_id", t.ID, "type", t.Type, "error", err)
	}
	return v
}

// waitsForOneOf reports whether a row waits for one of these keys.
func waitsForOneOf(keys []string, t *task.Task) bool {
	return t.State == task.Waiting && strings.HasPrefix(t.LastError, waitsForKey) &&
		slices.ContainsFunc(keys, func(name string) bool { return strings.Contains(t.LastError, fmt.Sprintf("key %q", name)) })
}

// withKey adds to the reasons of a stored row that this node cannot decode it.
func (e *Engine) withKey(t *task.Task, rs []Reason) []Reason {
	decoded := *t
	decoded.Result = nil
	err := e.contents.decode(&decoded)
	if err == nil || t.State == task.Processing {
		return rs
	}
	return append([]Reason{{Code: CodeKey, Text: "this node cannot decode its content: " + err.Error()}}, rs...)
}
