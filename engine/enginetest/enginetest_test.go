package enginetest_test

import (
	"path/filepath"
	"testing"

	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/pebble"
)

func TestOnMemory(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Open: func(testing.TB) storage.Store { return memory.New() },
	})
}

func TestOnPebble(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Open: func(t testing.TB) storage.Store { return openPebble(t, filepath.Join(t.TempDir(), "tasks")) },
	})
}

// onPebble is a store that can be reopened.
type onPebble struct {
	*pebble.Store
	dir string
}

func openPebble(t testing.TB, dir string) onPebble {
	t.Helper()
	// Small, because the memory for the tables is allocated at once.
	s, err := pebble.Open(dir, pebble.Options{CacheSize: 4 << 20, MemTableSize: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, s)
	return onPebble{s, dir}
}

func (s onPebble) Reopen(t testing.TB) storage.Store {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return openPebble(t, s.dir)
}

func closeWith(t testing.TB, s storage.Store) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
