package sharded_test

import (
	"fmt"
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

func TestStore(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d backends", n), func(t *testing.T) {
			storagetest.Run(t, func(t testing.TB) storage.Store {
				ps := backends(n)
				return divided{open(t, ps...), ps}
			})
		})
	}
}
