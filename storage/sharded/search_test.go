package sharded_test

import (
	"testing"

	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/storage"
)

func TestRandomFiltersFindTasksOfAllDatabases(t *testing.T) {
	enginetest.RunSearch(t, enginetest.Config{
		Open: func(t testing.TB) storage.Store { return open(t, backends(3)...) },
	})
}
