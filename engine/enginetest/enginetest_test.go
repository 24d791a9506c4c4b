package enginetest_test

import (
	"testing"

	"github.com/taskengine/taskengine/engine/enginetest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

func TestOnMemory(t *testing.T) {
	enginetest.Run(t, enginetest.Config{
		Open: func(testing.TB) storage.Store { return memory.New() },
	})
}
