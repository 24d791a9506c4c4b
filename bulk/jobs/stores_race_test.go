//go:build race

package jobs_test

import (
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
)

// stores are the stores on which jobs are compared with a model. The race detector sees the same jobs on each.
func stores() map[string]func(*testing.T, *storm) storage.Store {
	return map[string]func(*testing.T, *storm) storage.Store{
		"memory": func(_ *testing.T, s *storm) storage.Store { return s.below(memory.New()) },
	}
}
