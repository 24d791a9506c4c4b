package sharded_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// One of two databases is restored from a backup that is older than the move of a shard from one to the other.
func TestADatabaseThatIsOlderThanTheOthersIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		restored int
		says     string
	}{
		"the one that has given the shard": {0, "the shards 7 are held by a and by b"},
		"the one that has got the shard":   {1, "no database holds the shards 7"},
	} {
		t.Run(name, func(t *testing.T) {
			ps := backends(2)
			s := open(t, ps...)
			of, other := put(t, s, 7)[0], put(t, s, 8)[0]
			was, home := *of, *ps[c.restored].home.Load()
			move(t, ps[0], ps[1], shards(7, 7), nil)
			if _, err := s.Get(t.Context(), of.ID); err != nil {
				t.Fatal(err)
			}
			ps[c.restored].home.Store(&home)
			var err error
			if c.restored == 0 {
				_, err = ps[0].rows.Insert(t.Context(), &was)
			} else {
				_, err = ps[1].rows.Delete(t.Context(), of.Ref())
			}
			if err != nil {
				t.Fatal(err)
			}

			some := []sharded.Database{{Name: "a", Store: ps[0]}, {Name: "b", Store: ps[1]}}
			if again, err := sharded.Open(t.Context(), some, nil); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "backup") {
				t.Errorf("it is opened: %v, %v", again != nil, err)
			}
			ready, err := s.Ready(t.Context(), storage.ReadyQuery{Queue: of.Queue(), Limit: 10})
			if want := 2 - c.restored; err != nil || len(ready) != want {
				t.Errorf("%d tasks are ready, %v; want %d", len(ready), err, want)
			}
			if c.restored == 1 { // its database says that it does not hold the shard
				if _, err := s.Insert(t.Context(), row(7)); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("a task is inserted that no database may hold: %v", err)
				}
				if _, err := s.Get(t.Context(), of.ID); err == nil || errors.Is(err, task.ErrNotFound) {
					t.Errorf("a task of such a shard: %v", err)
				}
			}
			if got, err := s.Swap(t.Context(), grab(other)); err != nil || got[0] == nil {
				t.Errorf("a task of another shard: %v, %v", got, err)
			}
		})
	}
}
