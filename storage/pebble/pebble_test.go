package pebble_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/storagetest"
)

// moment is when the tests take place.
var moment = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

// small keeps tests light: memory for memtables is allocated in advance.
var small = pebble.Options{CacheSize: 1 << 20, MemTableSize: 1 << 20}

func TestStoreInMemory(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		fs := vfs.NewCrashableMem()
		o := small
		o.FS = fs
		return inMemory{open(t, "db", o), fs}
	})
}

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

// inMemory is a store on a machine that can lose power.
type inMemory struct {
	*pebble.Store
	fs *vfs.MemFS
}

func (s inMemory) Crash(t testing.TB) storage.Store {
	// Some unsynced writes survive, as on a real machine.
	left := s.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 30, RNG: rand.New(rand.NewPCG(1, 1))})
	o := small
	o.FS = left
	return inMemory{open(t, "db", o), left}
}

func (s inMemory) Restore(t testing.TB, folder string) storage.Store { return open(t, folder, small) }
