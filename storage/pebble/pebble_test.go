package pebble_test

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/storagetest"
)

// moment is when the tests take place.
var moment = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

// small keeps tests light: memory for memtables is allocated in advance.
var small = pebble.Options{CacheSize: 1 << 20, MemTableSize: 1 << 20}

func TestAFolderThatIsRemovedStopsTheStore(t *testing.T) {
	storagetest.RunGone(t, func(path string) (storage.Store, error) { return pebble.Open(path, small) })
}

// open opens a store that is closed with the test.
func open(t testing.TB, dir string, o pebble.Options) *pebble.Store {
	t.Helper()
	s, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
