package pebble_test

import (
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/storagetest"
)

func BenchmarkBacklogOfKeys(b *testing.B) {
	storagetest.BenchmarkBacklogOfKeys(b, func(folder string) (storage.Store, error) { return pebble.Open(folder, pebble.Options{}) })
}
