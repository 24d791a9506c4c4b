//go:build !race

package sharded_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

func TestTasksRunAfterOthersInTwoDatabasesWhateverFails(t *testing.T) { runsAfter(t, false) }

func TestTreesInTwoDatabasesAreJoinedWhateverFails(t *testing.T) { treesGrow(t, false) }

// Handlers fail before their end is committed, and transactions fail before and after their commits, so that attempts of what
// carries the children end at every point. The children are deleted when they are done.
func TestEveryChildArrivesOnceInAnotherDatabaseWhateverFails(t *testing.T) { whateverFails(t, false) }

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

// Attempts end between the commit of the parent and the delivery, transactions fail before and after their commits, and an
// attempt that is over delivers its row again when the tasks have ended and are deleted.
func TestATaskThatLeavesForAnotherDatabaseArrivesOnceWhateverFails(t *testing.T) {
	r := startRelays(t, forgotten())
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rng, left := rand.New(rand.NewPCG(seed, 1)), 60
	roll := func(int) error {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || rng.IntN(6) > 0 {
			return nil
		}
		left--
		return errFault
	}
	var over []*engine.Relay // of attempts that have failed before they delivered
	r.store.set(roll, roll)
	r.add(5000, func(_ context.Context, relay *engine.Relay) error {
		mu.Lock()
		failed, fails := slices.Clone(over), rng.IntN(3) == 0
		if fails {
			over = append(over, relay)
		}
		mu.Unlock()
		if fails {
			return errFault
		}
		for _, one := range failed[max(0, len(failed)-2):] {
			_ = one.Deliver(t.Context()) // it fails: the attempt is over
		}
		return nil
	})
	r.check(5000)
	r.store.set(nil, nil)
	mu.Lock()
	again := over
	mu.Unlock()
	for _, one := range again {
		_ = one.Deliver(t.Context())
	}
	r.check(5000)
	if r.stop(); len(again) == 0 {
		t.Error("no attempt ended before its delivery")
	}
	r.start() // of another incarnation
	r.add(6000, nil)
	r.check(6000)
}

// Handlers fail, transactions fail before and after their commits, and the engine is stopped within attempts, so that the
// attempts of the carriers of signals end at every point.
func TestEverySignalIsTakenOnceInAnotherDatabaseWhateverFails(t *testing.T) { signalsArrive(t, false) }

func TestWorkflowsInTwoDatabasesAreJoinedWhateverFails(t *testing.T) { workflowsRun(t, false) }
