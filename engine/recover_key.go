package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
