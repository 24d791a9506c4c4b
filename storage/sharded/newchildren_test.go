package sharded_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// treeRequest is a request with children: three in the database of their parent, and three that an ordering key binds.
func treeRequest(r engine.Request, name string) engine.Request {
	r.Type, r.Payload, r.Children = "tree", []byte("1"), new(task.NewChildren)
	var near, far []engine.Request
	for i := range 3 {
		child := engine.Request{Type: "tree", Payload: []byte("0")}
		near = append(near, child)
		child.OrderingKey = fmt.Sprint("key ", name, i)
		far = append(far, child)
	}
	r.Children.Sets = []task.ChildRequests{{Name: "near", Requests: near}, {Name: "far", Requests: far}}
	r.Children.Waits = []task.ChildrenWait{{Name: "far"}}
	return r
}

func TestTasksAreSubmittedWithChildrenInTwoDatabasesWhateverFails(t *testing.T) {
	const parents = 24
	l := startLetters(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng, left := rand.New(rand.NewPCG(seed, 2)), 150
	roll := func(int) error {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(4) > 0 {
			return nil
		}
		if left--; rng.IntN(2) == 0 {
			return storage.ErrUnavailable
		}
		return errFault
	}
	l.store.set(roll, roll)
	for i := range parents {
		name := fmt.Sprint("parent ", i)
		switch r := treeRequest(engine.Request{Key: name}, name); {
		case i%3 == 0: // with an id
			r.ID, r.Key = inShard(uint16(i*10)), ""
			fallthrough
		case i%3 == 1: // with a key
			l.await("it is submitted", func() bool {
				_, err := l.Submit(t.Context(), r)
				return err == nil
			})
		default: // in a transaction of the first database, in which half of them do not belong
			l.await("it is submitted in a transaction", func() bool {
				return l.store.UpdateIn(t.Context(), 0, func(tx storage.Tx) error {
					_, err := l.SubmitTx(t.Context(), tx, r)
					return err
				}) == nil
			})
		}
		if i%8 == 7 {
			l.kill(10 * time.Millisecond)
			l.start() // of another incarnation
		}
	}
	l.await("all trees are joined", func() bool { return l.live("tree") == 0 && l.live("taskengine.relay") == 0 })
	all, err := l.store.Count(t.Context(), storage.Filter{Types: []string{"tree"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(parents * 7); len(all) != 1 || all[storage.StateType{State: task.Done, Type: "tree"}] != want {
		t.Errorf("there are %v, want %d that are done", all, want)
	}
	page, err := l.store.List(t.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"tree"}}, Limit: 1000, Scan: 1000})
	rows := page.Tasks
	if err != nil {
		t.Fatal(err)
	}
	homes := make(map[int]int)
	for _, row := range rows {
		if row.Parent == nil {
			homes[l.store.DatabaseOf(row.ID.Shard())]++
		}
		if full, err := l.Get(t.Context(), row.ID); err != nil || row.Parent == nil && string(full.Result) != "tree" {
			t.Errorf("a parent has the result %q, %v", full.Result, err)
		}
	}
	if len(homes) != 2 || homes[0]+homes[1] != parents {
		t.Errorf("the parents are in the databases %v", homes)
	}
}

func TestARolledBackTransactionLeavesNothingOfATaskWithChildrenInTwoDatabases(t *testing.T) {
	l := startLetters(t)
	for i := range 4 {
		r := treeRequest(engine.Request{Key: fmt.Sprint(i)}, fmt.Sprint(i))
		err := l.store.UpdateIn(t.Context(), i%2, func(tx storage.Tx) error {
			if _, err := l.SubmitTx(t.Context(), tx, r); err != nil {
				t.Error(err)
			}
			return errFault
		})
		if err == nil {
			t.Error("the transaction has committed")
		}
	}
	if n := l.live("tree") + l.live("taskengine.relay"); n != 0 {
		t.Errorf("there are %d tasks", n)
	}
}
