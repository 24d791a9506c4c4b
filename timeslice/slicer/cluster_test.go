package slicer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

var by = slicer.By{Who: "anna"}

// Five nodes that start at the same time, with different configurations, make each of some thousand slices once. The first one begins at
// the start.
func TestNodesThatCompeteMakeEachSliceOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin := time.Now()
		first := begin.Add(-300 * time.Minute)
		var names []string
		for i := range 10 {
			names = append(names, fmt.Sprint("p", i))
		}
		definitionOf := func(interval string) timeslice.Definition {
			return definition(t, map[string]string{"interval": interval, "start": first.Format(time.RFC3339), "max_open": "50"}, names...)
		}
		n := &node{t: t, record: new(record), store: memory.New(), coord: local.New(), answer: func(timeslice.Work, *task.Task) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}}
		nodes := []*node{n}
		var opening sync.WaitGroup
		for range 4 {
			nodes = append(nodes, &node{t: t, record: n.record, store: n.store, coord: n.coord.Peer(), answer: n.answer})
		}
		for i, one := range nodes {
			t.Cleanup(one.close)
			opening.Go(func() { one.open(definitionOf([]string{"1m", "2m"}[i%2])) })
		}
		opening.Wait()
		time.Sleep(10*time.Minute + 2*time.Second)
		made := 0
		for _, name := range names {
			calls := n.fetched(name)
			made += len(calls)
			tiles(t, calls, first, n.get(name).State.Cursor)
			if s := n.get(name); time.Since(s.State.Low()) > 3*time.Minute {
				t.Errorf("%s: %+v", name, s.State)
			}
		}
		if made < 1500 {
			t.Errorf("%d slices", made)
		}
	})
}

// A node that was believed dead while it made a slice has moved nothing when it goes on: the cursor is where another node has moved it.
func TestANodeThatWasBelievedDeadMovesNoCursorBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin := time.Now()
		hold, isHeld := make(chan struct{}), make(chan struct{}, 100)
		var holds atomic.Bool
		n := &node{t: t, record: new(record), store: memory.New(), coord: local.New()}
		n.wrap = func(inner task.Handler) task.Handler {
			return task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
				result, err := inner.Handle(ctx, t) // it has read what is stored, and has decided
				if holds.Load() && t.ID == a.Cursor() {
					isHeld <- struct{}{}
					<-hold
				}
				return result, err
			})
		}
		d := definition(t, map[string]string{"interval": "1m"}, "a")
		n.open(d)
		t.Cleanup(n.close)
		time.Sleep(5*time.Minute + time.Second)
		holds.Store(true)
		<-isHeld
		if err := n.coord.Close(); err != nil { // it is cut off for good
			t.Fatal(err)
		}
		holds.Store(false)
		other := n.join(d)
		time.Sleep(5 * time.Minute)
		moved := other.get("a").State
		close(hold)
		synctest.Wait()
		time.Sleep(time.Second)
		if now := other.get("a").State; now.Cursor.Before(moved.Cursor) || moved.Cursor.Before(begin.Add(10*time.Minute)) {
			t.Errorf("the cursor was at %v, and is at %v", moved.Cursor, now.Cursor)
		}
		time.Sleep(5 * time.Minute)
		state := other.get("a").State
		tiles(t, n.fetched("a"), begin, state.Cursor)
	})
}

// once returns the first attempt of each slice.
func once(calls []call) []call {
	seen := make(map[task.ID]bool)
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool {
		was := seen[c.id]
		seen[c.id] = true
		return was
	})
}

// A node that is cut off while it fetches may finish: its slice is done once, and no other is made for that time.
func TestASliceOfANodeThatIsCutOffIsDoneOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin := time.Now()
		d := definition(t, map[string]string{"interval": "1m"}, "a")
		n := startOn(t, memory.New(), d, func(timeslice.Work, *task.Task) error {
			time.Sleep(40 * time.Second)
			return nil
		})
		other := n.join(d)
		for range 5 {
			time.Sleep(110 * time.Second)
			n.coord.Sever()
			time.Sleep(130 * time.Second)
			other.coord.Sever()
		}
		time.Sleep(5*time.Minute + 30*time.Second) // between two slices
		state := n.get("a").State
		calls := n.fetched("a")
		tiles(t, once(calls), begin, calls[len(calls)-1].End)
		if state.Low().Before(begin.Add(20*time.Minute)) || state.Epoch != 0 || state.Made != uint64(len(once(calls))) {
			t.Errorf("%d attempts, %+v", len(calls), state)
		}
	})
}

// A slice that waits for its last attempt is not touched by nodes that come and go.
func TestASliceInItsLastPauseIsTakenFromNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := definition(t, map[string]string{"interval": "1h", "retries": "3", "retry_interval": "20m", "breaker": "0"}, "a")
		n := startOn(t, memory.New(), d, func(timeslice.Work, *task.Task) error { return errors.New("the platform is down") })
		time.Sleep(time.Hour + time.Second)
		for range 60 { // for two hours: the pauses are 20, 40 and 60 minutes
			other := n.join(d)
			time.Sleep(time.Minute)
			other.coord.Sever()
			other.close()
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Minute)
		all := n.fetched("a")
		first := all[0]
		var delays []time.Duration
		for _, c := range all {
			if c.id == first.id {
				delays = append(delays, c.at.Sub(first.at).Round(time.Minute))
			}
		}
		if fmt.Sprint(delays) != "[0s 20m0s 1h0m0s 2h0m0s]" {
			t.Errorf("attempts after %v", delays)
		}
		if s := n.get("a").State; s.Open[0].Failed.IsZero() || !s.Low().Equal(first.Start) {
			t.Errorf("%+v", s)
		}
	})
}

// Of a thousand edits through nodes that are cut off meanwhile, the last one holds, for all platforms and on all nodes.
func TestAThousandEditsLeaveTheLastValue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := definition(t, map[string]string{"interval": "1h"}, "a", "b", "c")
		n := startOn(t, memory.New(), d, nil)
		nodes := []*node{n, n.join(d), n.join(d)}
		time.Sleep(time.Second)
		ctx := t.Context()
		for i := range 1000 {
			one := nodes[i%len(nodes)]
			if i%333 == 200 {
				one.coord.Sever()
			}
			values := map[string]string{"retries": fmt.Sprint(i)}
			err := one.sources.SetSource(ctx, one.Engine, "orders", values, by)
			if err == nil && i%10 == 0 {
				err = one.sources.Set(ctx, one.Engine, a, map[string]string{"lag": fmt.Sprint(i, "ms")}, by)
			}
			for errors.Is(err, slicer.ErrBusy) { // too many wait to be carried out: people try again
				time.Sleep(time.Second)
				err = one.sources.SetSource(ctx, one.Engine, "orders", values, by)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		for _, one := range nodes {
			for _, name := range []string{"a", "b", "c"} {
				if s := one.get(name).State; s.Used.Retries != 999 || name == "a" && s.Used.Lag != 990*time.Millisecond {
					t.Errorf("%s: %+v", name, s.Used)
				}
			}
		}
	})
}

// Slices are due by the clock that the nodes share, though those of their machines are ten minutes ahead of it, or behind.
func TestSlicesAreDueByTheClockThatNodesShare(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		inBubble(t, func(t *testing.T) {
			clock := new(stepped)
			clock.ahead.Store(int64(-ahead))
			begin := time.Now().Add(-ahead)
			n := startBy(t, clock, definition(t, map[string]string{"interval": "1m", "lag": "5s"}, "a"), nil)
			time.Sleep(time.Hour + 10*time.Second)
			calls := n.fetched("a")
			for _, c := range calls {
				if late := c.at.Add(-ahead).Sub(c.End.Add(5 * time.Second)); late < 0 || late > time.Second {
					t.Errorf("%+v ran %v after it was due", c, late)
				}
			}
			tiles(t, calls, begin, begin.Add(time.Hour))
		})
	}
}
