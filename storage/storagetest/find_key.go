package storagetest

import (
	"errors"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// findsKeys reports whether s is a [storage.KeyFinder], and not a store of places that are none.
func findsKeys(t *testing.T, s storage.Store) bool {
	in, ok := s.(storage.KeyFinder)
	if !ok {
		return false
	}
	_, err := in.FindKey(t.Context(), "", "", "none")
	return !errors.Is(err, errors.ErrUnsupported)
}

var findKeyCases = []testCase{
	{"a task is found by its type, its ordering key and its key until it is deleted", func(f *fixture) {
		f.together()
		order := f.queue().key
		finder := f.Store.(storage.KeyFinder)
		var rows []*task.Task
		for _, typ := range []string{"mail", "m\x00"} {
			for _, o := range []string{"", order} {
				for _, key := range []string{"k", order, order + "k"} {
					rows = append(rows, f.row(task.Submitted, func(t *task.Task) {
						t.Type, t.OrderingKey, t.Key, t.Payload = typ, o, key, pattern(600)
					}))
				}
			}
		}
		f.put(rows...)
		find := func(want *task.Task) {
			f.Helper()
			got, err := finder.FindKey(f.ctx(), want.Type, want.OrderingKey, want.Key)
			if err != nil {
				f.Fatal(err)
			}
			f.same(got, want)
		}
		for i, t := range rows {
			find(t)
			f.step(t, task.Change{To: task.Cancelled, At: at(1), NextEventAt: at(1000)})
			find(t)
			if i%2 == 0 {
				f.remove(t.Ref())
			}
		}
		for i, t := range rows {
			if i%2 == 1 {
				find(t)
			} else if _, err := finder.FindKey(f.ctx(), t.Type, t.OrderingKey, t.Key); !errors.Is(err, task.ErrNotFound) {
				f.Errorf("a task that is gone: %v", err)
			}
		}
		for _, none := range [][3]string{{"mail", "", "none"}, {"none", "", "k"}, {"mail", "none", "k"}, {"", order, "k"}} {
			if _, err := finder.FindKey(f.ctx(), none[0], none[1], none[2]); !errors.Is(err, task.ErrNotFound) {
				f.Errorf("%q: %v", none, err)
			}
		}
	}},
}
