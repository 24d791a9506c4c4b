package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/storagetest"
)

func BenchmarkBacklogOfKeys(b *testing.B) {
	storagetest.BenchmarkBacklogOfKeys(b, func(folder string) (storage.Store, error) {
		return bolt.Open(filepath.Join(folder, "tasks.db"), bolt.Options{})
	})
}
