package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// keyUse is how many tasks have data that is encrypted with a key.
type keyUse struct {
	open  int64     // that have not ended
	ended int64     // that have
	until time.Time // when the last of these is removed
	kept  bool      // some of these are kept without a time
}

// examineKeys reports the encryption keys in use by the data of tasks. It reads all tasks.
func examineKeys(ctx context.Context, found *Findings, s stores.Store) error {
	store, ok := s.(storage.Exporter)
	if !ok {
		return nil
	}
	keys := make(map[string]*keyUse) // "" is without encryption
	err := store.Export(ctx, func(string, []byte) error { return nil }, func(t *task.Task) error {
		mine := make(map[string]bool, 1)
		for _, part := range contentOf(t) {
			if len(part) > 0 {
				mine[codec.KeyOf(part)] = true
			}
		}
		for name := range mine {
			if keys[name] == nil {
				keys[name] = new(keyUse)
			}
			keys[name].add(t)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read which keys are in use: %w", err)
	}
	if len(keys) == 0 {
		found.info("keys", "no task carries data")
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		what := fmt.Sprintf("the key %q", name)
		if name == "" {
			what = "no key"
		}
		found.info("keys", "%s: %s", what, keys[name])
	}
	return nil
}

// contentOf returns what may be encrypted of a task.
func contentOf(t *task.Task) [][]byte {
	parts := [][]byte{t.Payload, t.Result, t.Checkpoint(), t.Woken().Signal.Data}
	if t.Signals != nil {
		for i := range t.Signals.Kept {
			parts = append(parts, t.Signals.Kept[i].Data)
		}
	}
	return parts
}

func (u *keyUse) add(t *task.Task) {
	switch {
	case t.State.Live() || t.State == task.Error:
		u.open++
		return
	case t.NextEventAt.IsZero():
		u.kept = true
	case t.NextEventAt.After(u.until):
		u.until = t.NextEventAt
	}
	u.ended++
}

// String says how much a key is used.
func (u *keyUse) String() string {
	text := fmt.Sprintf("%d tasks that have not ended, %d that have", u.open, u.ended)
	switch {
	case u.kept:
		text += ", and some of them are kept forever"
	case u.ended > 0:
		text += ", which are kept until " + u.until.UTC().Format(time.RFC3339)
	}
	return text
}
