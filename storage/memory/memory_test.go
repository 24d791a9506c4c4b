package memory_test

import (
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Store { return memory.New() })
}
