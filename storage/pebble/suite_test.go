//go:build !race

// With the race detector pebble checks its own invariants, which takes six times as long as the suite. The suites of bolt and
// memory run with it, and the tests of the goroutines of this package.

package pebble_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/storagetest"
)

func TestStoreInMemory(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		fs := vfs.NewCrashableMem()
		o := small
		o.FS = fs
		return inMemory{open(t, "db", o), fs}
	})
}

func TestStoreOnDisk(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		dir := t.TempDir()
		return onDisk{open(t, dir, small), dir}
	})
}

// onDisk is a store that can be reopened.
type onDisk struct {
	*pebble.Store
	dir string
}

func (s onDisk) Reopen(t testing.TB) storage.Store {
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return onDisk{open(t, s.dir, small), s.dir}
}

func (s onDisk) Restore(t testing.TB, folder string) storage.Store { return open(t, folder, small) }

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
