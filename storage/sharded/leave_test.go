package sharded_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
)

func TestEveryChildArrivesOnceThoughShardsAreMoved(t *testing.T) { whateverFails(t, true) }

func whateverFails(t *testing.T, moves bool) {
	f := startFamilies(t, forgotten())
	f.moved = moves
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng, left := rand.New(rand.NewPCG(seed, 1)), 400
	fails := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(5) > 0 {
			return false
		}
		left--
		return true
	}
	roll := func(int) error {
		if !fails() {
			return nil
		}
		if rng := rand.IntN(2); rng == 0 {
			return storage.ErrUnavailable // the task goes on
		}
		return errFault // the attempt has failed
	}
	f.fails = fails
	f.store.set(roll, roll)
	f.add(0, 40, 5)
	from, to := f.a, f.b
	for n := 0; moves && n < 4; n++ {
		if err := placement.Move(t.Context(), from, to, shards(0, 60), nil); err != nil {
			t.Error(err)
		}
		from, to = to, from
	}
	f.check(3 * 40 * 5)
	f.store.set(nil, nil)
	f.stop()
	f.start() // of another incarnation
	f.add(40, 20, 2)
	f.check(3 * (40*5 + 20*2))
}

// While a database is away, its children wait in the other one, where they can be seen, and the rest goes on.
func TestChildrenOfADatabaseThatIsAwayWaitAndHoldNothingBack(t *testing.T) {
	f := startFamilies(t, forgotten())
	f.store.set(func(database int) error {
		if database == 1 {
			return storage.ErrUnavailable
		}
		return nil
	}, nil)
	reqs := make([]engine.Request, 60)
	for i := range reqs {
		reqs[i] = engine.Request{Type: "parent", ID: inShard(uint16(i)), Payload: fmt.Appendf(nil, "%d 1", 2*i)} // all in the first database
	}
	if _, err := f.Submit(t.Context(), reqs...); err != nil {
		t.Fatal(err)
	}
	f.await("what is near", func() bool {
		waiting := int(f.live("taskengine.relay"))
		return f.live("parent") == 0 && f.live("child") == 0 && waiting > 0 && f.count()+waiting == 180
	})
	f.await("a report", func() bool {
		page, err := f.store.List(t.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"taskengine.relay"}, States: []task.State{task.Processing}}, Limit: 100, Scan: 1000})
		rows := page.Tasks
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(rows, func(r *task.Task) bool { return strings.Contains(r.Progress().Message, "does not answer") })
	})
	f.store.set(nil, nil)
	f.check(180)
}

// A database that was restored has lost the cursors of the children that wait for it, as far as they were opened.
func TestChildrenThatWaitArriveInADatabaseThatWasRestored(t *testing.T) {
	f := startFamilies(t, forgotten())
	var calls atomic.Int32
	together := make(chan struct{})
	f.store.set(func(database int) error {
		if database == 0 {
			return nil
		}
		switch n := calls.Add(1); {
		case n > 8:
			return storage.ErrUnavailable
		case n == 8: // all of them open cursors
			close(together)
		}
		<-together
		return nil
	}, nil)
	reqs := make([]engine.Request, 60)
	for i := range reqs {
		reqs[i] = engine.Request{Type: "parent", ID: inShard(uint16(i)), Payload: fmt.Appendf(nil, "%d 1", 2*i)}
	}
	if _, err := f.Submit(t.Context(), reqs...); err != nil {
		t.Fatal(err)
	}
	f.await("what is near", func() bool { return calls.Load() > 16 && f.live("parent") == 0 && f.live("child") == 0 })
	all := storage.Filter{Types: []string{"taskengine.relay"}, States: []task.State{task.Done}}
	var cursors []*task.Task
	f.await("a cursor", func() bool { // the calls that open them may take longer than the failing ones
		page, err := f.store.List(t.Context(), storage.ListQuery{Filter: all, Limit: 100, Scan: 1000})
		all := page.Tasks
		if err != nil {
			t.Fatal(err)
		}
		cursors = slices.DeleteFunc(all, func(r *task.Task) bool { return f.store.DatabaseOf(r.ID.Shard()) == 0 })
		return len(cursors) > 0
	})
	for _, one := range cursors {
		if gone, err := f.b.Store.Delete(t.Context(), one.Ref()); err != nil || !gone[0] {
			t.Fatal(gone, err)
		}
	}
	f.store.set(nil, nil)
	f.check(180)
	f.await("no cursor is left", func() bool {
		page, err := f.store.List(t.Context(), storage.ListQuery{Filter: all, Limit: 100, Scan: 1000})
		left := page.Tasks
		return err == nil && len(left) == 0
	})
}
