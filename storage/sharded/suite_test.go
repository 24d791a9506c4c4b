package sharded_test

import (
	"slices"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// divided is a store under test. Its backends do not change.
type divided struct {
	*sharded.Store
	backends []*backend
}

// Place implements [storagetest.Placer].
func (d divided) Place(id task.ID) int {
	return slices.IndexFunc(d.backends, func(p *backend) bool { return p.home.Load().Owned.Has(id.Shard()) })
}

func runSuite(t *testing.T, n int) {
	storagetest.Run(t, func(t testing.TB) storage.Store {
		ps := backends(n)
		return divided{open(t, ps...), ps}
	})
}
