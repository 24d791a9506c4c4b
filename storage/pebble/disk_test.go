//go:build !race

package pebble_test

import (
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/storagetest"
)

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
