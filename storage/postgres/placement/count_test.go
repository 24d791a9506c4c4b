package placement_test

import (
	"maps"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
)

// total returns the number of tasks of some shards, by state and type.
func total(ts map[task.ID]*task.Task, shards task.Shards) map[storage.StateType]int64 {
	n := make(map[storage.StateType]int64)
	for id, r := range ts {
		if shards.Has(id.Shard()) {
			n[storage.StateType{State: r.State, Type: r.Type}]++
		}
	}
	return n
}

func TestTasksThatAreMovedAreCountedInOneOfTheDatabasesAtLeast(t *testing.T) {
	ps := parts(t, "a", "b")
	all, every, shards := crowd(t, ps[0].Store, 2500), task.AllShards(), set(t, "0-199")
	divide(t, ps...)
	everything, moved, rest := total(all, every), total(all, shards), total(all, every.Without(&shards))
	look := func() (arrived, forgotten bool) {
		a := counted(t, ps[0].Store)
		b := counted(t, ps[1].Store)
		arrived, forgotten = len(b) > 0, !maps.Equal(a, everything)
		if forgotten && !maps.Equal(a, rest) || arrived && !maps.Equal(b, moved) || forgotten && !arrived {
			t.Errorf("a counts %v, and then b %v", a, b)
		}
		return arrived, forgotten
	}
	stop := again(func() { look() })
	packed, both := 0, 0 // how often this was seen
	if err := placement.Move(t.Context(), ps[0], ps[1], shards, func(placement.Moved) {
		if arrived, forgotten := look(); !arrived {
			packed++
		} else if !forgotten {
			both++
		}
	}); err != nil {
		t.Error(err)
	}
	stop()
	if packed == 0 || both == 0 {
		t.Errorf("tasks were seen on their way %d times, and in both databases %d times", packed, both)
	}
	if arrived, forgotten := look(); !arrived || !forgotten {
		t.Error("in the end they are counted where they were")
	}
}

// counted returns the counts of a store.
func counted(t *testing.T, s *postgres.Store) map[storage.StateType]int64 {
	n, err := s.Count(t.Context(), storage.Filter{})
	if err != nil {
		t.Error(err)
	}
	return n
}

// again calls fn repeatedly until stop is called, which waits for the last call.
func again(fn func()) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				fn()
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

func TestOnlyThoseAreCountedOnTheirWayThatAreAskedFor(t *testing.T) {
	ps := parts(t, "a", "b")
	all := crowd(t, ps[0].Store, 100)
	divide(t, ps...)
	waiting := storage.StateType{State: task.Waiting, Type: "mail"}
	some := map[storage.StateType]int64{waiting: total(all, task.AllShards())[waiting]}
	seen := 0
	if err := placement.Move(t.Context(), ps[0], ps[1], task.AllShards(), func(at placement.Moved) {
		if at.Packed < len(all) || at.Delivered > 0 {
			return
		}
		seen++
		for _, c := range []struct {
			filter storage.Filter
			want   map[storage.StateType]int64
		}{
			{storage.Filter{States: []task.State{task.Waiting}}, some},
			{storage.Filter{States: []task.State{task.Waiting}, Types: []string{"ship", "mail"}}, some},
			{storage.Filter{Types: []string{"ship"}}, nil},
		} {
			if got, err := ps[0].Count(t.Context(), c.filter); err != nil || !maps.Equal(got, c.want) {
				t.Errorf("of %+v there are %v, %v; want %v", c.filter, got, err, c.want)
			}
		}
	}); err != nil || seen == 0 {
		t.Errorf("they were counted %d times: %v", seen, err)
	}
}
