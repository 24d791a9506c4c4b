//go:build !race

package slicer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
)

// onStores runs a test in made-up time on each kind of store of a node alone.
func onStores(t *testing.T, fn func(t *testing.T, store storage.Store)) {
	for name, open := range map[string]func(t *testing.T) (storage.Store, error){
		"memory": func(*testing.T) (storage.Store, error) { return memory.New(), nil },
		"pebble": func(t *testing.T) (storage.Store, error) { return pebble.Open(t.TempDir(), pebble.Options{}) },
		"bolt": func(t *testing.T) (storage.Store, error) {
			return bolt.Open(filepath.Join(t.TempDir(), "tasks.db"), bolt.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := store.Close(); err != nil {
						t.Error(err)
					}
				})
				fn(t, store)
			})
		})
	}
}

// weather is a store that fails as decide says.
type weather struct {
	storage.Store
	storage.Inspector

	decide atomic.Pointer[func(storagetest.Call) storagetest.Fault]
}

func newWeather(under storage.Store) *weather {
	w := &weather{Inspector: under.(storage.Inspector)}
	w.Store = storagetest.Faulty(under, func(c storagetest.Call) storagetest.Fault {
		if decide := w.decide.Load(); decide != nil {
			return (*decide)(c)
		}
		return storagetest.Fault{}
	})
	return w
}

// Lost answers of the store neither double nor lose a slice: a cursor and the task that it adds are one commit.
func TestLostAnswersOfTheStoreNeitherDoubleNorLoseASlice(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		begin, w := time.Now(), newWeather(store)
		n := startAlone(t, w, definition(t, map[string]string{"interval": "1m"}, "a", "b", "c"), nil)
		time.Sleep(time.Second)
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 2))
		lossy := func(c storagetest.Call) storagetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case c != storagetest.Update || random.IntN(3) > 0:
				return storagetest.Fault{}
			case random.IntN(2) == 0:
				return storagetest.Fault{Before: storage.ErrUnavailable}
			}
			return storagetest.Fault{After: storage.ErrUnavailable}
		}
		w.decide.Store(&lossy)
		time.Sleep(2 * time.Hour)
		w.decide.Store(nil)
		time.Sleep(5*time.Minute - 2*time.Second)
		for _, platform := range []string{"a", "b", "c"} {
			calls := n.fetched(platform)
			ids := make(map[task.ID]bool)
			for _, c := range calls {
				ids[c.id] = true
			}
			if len(ids) != 124 {
				t.Errorf("%d tasks for 124 slices", len(ids))
			}
			tiles(t, once(calls), begin, begin.Add(124*time.Minute))
		}
	})
}

// While the store is away, running slices end and no slice is made. When it is back, the ends are stored, no slice is fetched again, and the
// missed slices are made.
func TestAStoreThatIsAwayForTenMinutesLosesNothing(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		begin, w := time.Now(), newWeather(store)
		n := startAlone(t, w, definition(t, map[string]string{"interval": "1m"}, "a"), func(timeslice.Work, *task.Task) error {
			time.Sleep(20 * time.Second)
			return nil
		})
		time.Sleep(5*time.Minute + 10*time.Second)
		away := func(storagetest.Call) storagetest.Fault { return storagetest.Fault{Before: storage.ErrUnavailable} }
		w.decide.Store(&away)
		before := len(n.fetched("a"))
		time.Sleep(10 * time.Minute)
		if calls := n.fetched("a"); before != 5 || len(calls) > 0 {
			t.Errorf("%d attempts before, and %d while the store is away", before, len(calls))
		}
		w.decide.Store(nil)
		time.Sleep(5 * time.Minute)
		calls := n.fetched("a")
		tiles(t, calls, begin.Add(5*time.Minute), begin.Add(20*time.Minute))
		if s := n.get("a"); s.State.Low().Before(begin.Add(19*time.Minute)) || len(s.State.Open) > 1 {
			t.Errorf("%+v", s.State)
		}
	})
}

// After three days without a node, all slices are made, the earliest first, and no more run at once than threads allows.
func TestThreeDaysAreCaughtUpWithinTheThreads(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		var running, most atomic.Int64
		values := map[string]string{"interval": "10m", "max_open": "20", "threads.cluster": "3"}
		n := startAlone(t, store, definition(t, values, "a"), func(timeslice.Work, *task.Task) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(5 * time.Second)
			return nil
		})
		time.Sleep(10*time.Minute + time.Minute)
		begin := n.get("a").State.Low()
		n.close()
		n.fetched("a")
		time.Sleep(72 * time.Hour)
		n.open(definition(t, values, "a"))
		time.Sleep(30 * time.Minute)
		calls := n.fetched("a")
		if !slices.IsSortedFunc(calls, func(a, b call) int { return a.at.Compare(b.at) }) || most.Load() != 3 {
			t.Errorf("%d slices have run at once", most.Load())
		}
		s := n.get("a").State
		tiles(t, calls, begin, s.Cursor)
		if behind := time.Since(s.Low()); behind > 11*time.Minute {
			t.Errorf("it is %v behind", behind)
		}
	})
}

// A platform of which the attempts hang keeps its own threads, and those of no other.
func TestAPlatformThatHangsDelaysNoOther(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		begin, release := time.Now(), make(chan struct{})
		names := []string{"hangs"}
		for i := range 20 {
			names = append(names, fmt.Sprint("p", i))
		}
		n := startAlone(t, store, definition(t, map[string]string{"interval": "1m", "threads.cluster": "2", "timeout": "10h"}, names...), func(w timeslice.Work, _ *task.Task) error {
			if w.Platform == "hangs" {
				<-release
			}
			return nil
		})
		time.Sleep(time.Hour + time.Second)
		if calls := n.fetched("hangs"); len(calls) != 2 {
			t.Errorf("%d attempts of the one that hangs", len(calls))
		}
		for _, name := range names[1:] {
			calls := n.fetched(name)
			for _, c := range calls {
				if late := c.at.Sub(c.End); late > 2*time.Second {
					t.Errorf("%s is %v late", name, late)
				}
			}
			tiles(t, calls, begin, begin.Add(time.Hour))
		}
		if s := n.get("hangs"); !s.State.Low().Equal(begin) {
			t.Errorf("%+v", s.State)
		}
		close(release)
	})
}

// startAlone is start with a store.
func startAlone(t *testing.T, store storage.Store, d timeslice.Definition, answer func(timeslice.Work, *task.Task) error) *node {
	t.Helper()
	n := &node{t: t, record: new(record), store: store, answer: answer}
	n.open(d)
	t.Cleanup(n.close)
	return n
}

// An order becomes visible some time after it was made, by a clock of the platform that is slow. With a lag and an overlap that cover both,
// each is fetched.
func TestLagAndOverlapCoverOrdersThatBecomeVisibleLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type order struct{ at, visible time.Time }
		begin := time.Now()
		random := rand.New(rand.NewPCG(3, 4))
		var orders []order
		for at := begin; at.Before(begin.Add(2 * time.Hour)); at = at.Add(time.Second) {
			stamped := at.Add(-time.Duration(random.IntN(4000)) * time.Millisecond) // by the slow clock of the platform
			orders = append(orders, order{stamped, at.Add(time.Duration(random.IntN(9500)) * time.Millisecond)})
		}
		end := begin.Add(time.Minute)
		orders = append(orders, order{end.Add(-time.Second), end.Add(9 * time.Second)}) // a moment before its slice is due
		got := make(map[order]int)
		n := start(t, definition(t, map[string]string{"interval": "1m", "lag": "10s", "overlap": "5s"}, "a"), func(w timeslice.Work, _ *task.Task) error {
			now := time.Now()
			for _, o := range orders {
				if !o.at.Before(w.From) && o.at.Before(w.End) && !o.visible.After(now) {
					got[o]++
				}
			}
			return nil
		})
		time.Sleep(2*time.Hour + 2*time.Minute)
		twice := 0
		for _, o := range orders {
			if got[o] == 0 && !o.at.Before(begin) {
				t.Errorf("the order of %v is missing", o.at)
			}
			if got[o] > 1 {
				twice++
			}
		}
		if n.close(); twice == 0 || twice > len(orders)/6 {
			t.Errorf("%d of %d orders were fetched twice", twice, len(orders))
		}
		n.open(definition(t, map[string]string{"interval": "1m"}, "a"))
	})
}

// A cursor runs some times for each slice, and not all the time.
func TestACursorRestsUntilItsNextSlice(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		n := startAlone(t, store, definition(t, map[string]string{"interval": "10m"}, "a"), nil)
		time.Sleep(time.Minute)
		version := func() uint64 {
			c, err := n.Get(context.Background(), a.Cursor())
			if err != nil {
				t.Fatal(err)
			}
			return c.Version
		}
		before := version()
		time.Sleep(10 * time.Hour)
		if changes := version() - before; changes > 60*4 || len(n.fetched("a")) != 60 { // a grab and an end for the slice, and to see its end
			t.Errorf("%d changes of the cursor for 60 slices", changes)
		}
	})
}

// The failed slices of a platform are retried once, however often that is asked for, also while they run.
func TestARetryThatIsAskedForTwiceIsMadeOnce(t *testing.T) {
	onStores(t, func(t *testing.T, store storage.Store) {
		var isDown atomic.Bool
		isDown.Store(true)
		n := startAlone(t, store, definition(t, map[string]string{"interval": "1m", "retries": "0", "breaker": "0"}, "a"), func(timeslice.Work, *task.Task) error {
			if isDown.Load() {
				return errors.New("the platform is down")
			}
			time.Sleep(10 * time.Second)
			return nil
		})
		time.Sleep(2*time.Minute + 10*time.Second)
		isDown.Store(false)
		if failed := n.fetched("a"); len(failed) != 2 {
			t.Fatalf("%d attempts", len(failed))
		}
		low := n.get("a").State.Low()
		for range 5 {
			if err := n.sources.Retry(context.Background(), n.Engine, a, timeslice.Range{}, by); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if s := n.get("a"); !s.State.Low().Equal(low) {
			t.Errorf("the low-water mark has moved to %v", s.State.Low())
		}
		time.Sleep(20 * time.Second)
		calls := n.fetched("a")
		if len(calls) != 2 {
			t.Errorf("%d attempts", len(calls))
		}
		for _, c := range calls {
			if one, err := n.Get(context.Background(), c.id); err != nil || one.State != task.Done || len(one.History) != 1 {
				t.Errorf("%+v, %v", one, err)
			}
		}
	})
}
