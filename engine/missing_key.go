package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

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
