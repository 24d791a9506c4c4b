package slicer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

func TestASliceThatIsSplitIsDoneWhenItsHalvesAre(t *testing.T) {
	for _, order := range []string{"parallel", "in_order"} {
		t.Run(order, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				begin, most := time.Now(), 20*time.Minute
				n := start(t, definition(t, map[string]string{"interval": "1h", "overlap": "1m", "order": order}, "a"), func(w timeslice.Work, _ *task.Task) error {
					if w.End.Sub(w.Start) > most {
						return slicer.Split()
					}
					return nil
				})
				time.Sleep(2*time.Hour + 30*time.Minute)
				calls := slices.DeleteFunc(n.fetched("a"), func(c call) bool { return c.End.Sub(c.Start) > most })
				for _, c := range calls { // the first part of a slice has its overlap
					overlap := time.Duration(0)
					if c.Start.Equal(begin) || c.Start.Equal(begin.Add(time.Hour)) {
						overlap = time.Minute
					}
					if !c.From.Equal(c.Start.Add(-overlap)) {
						t.Errorf("%+v has another overlap", c)
					}
				}
				if order == "in_order" && !slices.IsSortedFunc(calls, func(a, b call) int { return a.Start.Compare(b.Start) }) {
					t.Error("the halves were not fetched in their order")
				}
				tiles(t, calls, begin, begin.Add(2*time.Hour))
				if s := n.get("a"); len(s.State.Open) > 0 || !s.State.Low().Equal(begin.Add(2*time.Hour)) {
					t.Errorf("%+v", s.State)
				}
			})
		})
	}
}

// A handler that always splits ends in parts of a least length, which are errors that say so, and not in a task for each millisecond.
func TestASliceIsSplitIntoPartsOfALeastLength(t *testing.T) {
	for _, c := range []struct {
		set   map[string]string
		least time.Duration // of the parts
		parts int           // of the first slice, with the ones that were divided
	}{
		{map[string]string{"interval": "8s"}, time.Second, 15},
		{map[string]string{"interval": "1s"}, 125 * time.Millisecond, 15}, // a tenth of the interval, or more
		{map[string]string{"interval": "8s", "least_part": "3s"}, 4 * time.Second, 3},
		{map[string]string{"interval": "8s", "least_part": "8s"}, 8 * time.Second, 1},
		{map[string]string{"interval": "8s", "least_part": "3s", "overlap": "4s"}, 3 * time.Second, 7},
		{map[string]string{"interval": "8s", "least_part": "3s", "order": "in_order"}, 4 * time.Second, 3},
	} {
		t.Run(fmt.Sprint(c.set), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				begin := time.Now()
				c.set["max_open"], c.set["breaker"] = "1", "1"
				n := start(t, definition(t, c.set, "a"), func(timeslice.Work, *task.Task) error { return slicer.Split() })
				time.Sleep(12 * time.Second)
				calls := n.fetched("a")
				shortest := calls[0]
				for _, one := range calls {
					if one.End.Sub(one.From) < shortest.End.Sub(shortest.From) {
						shortest = one
					}
				}
				isOrdered := c.set["order"] == "in_order" // an attempt ends at the first part that cannot be divided
				if got := shortest.End.Sub(shortest.From); got != c.least || len(calls) != c.parts && !isOrdered {
					t.Errorf("%d parts, of which the shortest has %v: %+v", len(calls), got, calls)
				}
				s := n.get("a")
				if len(s.State.Open) != 1 || s.State.Open[0].Failed.IsZero() || !s.State.Low().Equal(begin) {
					t.Fatalf("%+v", s.State)
				}
				failed, err := n.Get(n.t.Context(), shortest.id)
				if err != nil || failed.State != task.Error || !strings.Contains(failed.LastError, "shorter than least_part, which is") {
					t.Errorf("the part is %+v, %v", failed, err)
				}
			})
		})
	}
}

// A slice has failed if a part of it has, however small it is. It is retried by the parts that have failed only.
func TestASliceOfWhichAPartFailsIsRetriedByThisPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var isDown atomic.Bool
		isDown.Store(true)
		begin := time.Now()
		bad := begin.Add(50 * time.Minute)
		n := start(t, definition(t, map[string]string{"interval": "1h", "retries": "0", "breaker": "1", "probe": "5m", "max_open": "1"}, "a"), func(w timeslice.Work, _ *task.Task) error {
			switch {
			case w.End.Sub(w.Start) > 15*time.Minute:
				return slicer.Split()
			case isDown.Load() && !w.Start.After(bad) && w.End.After(bad):
				return errors.New("the platform cannot answer that")
			}
			return nil
		})
		time.Sleep(time.Hour + 2*time.Minute) // the end of a slice may go unnoticed for a minute
		if s := n.get("a"); len(s.State.Open) != 1 || s.State.Open[0].Failed.IsZero() || s.State.Stopped == nil || !s.State.Low().Equal(begin) {
			t.Errorf("%+v", s.State)
		}
		n.fetched("a")
		time.Sleep(10 * time.Minute)
		probes := n.fetched("a")
		for _, c := range probes {
			if !c.Start.Equal(begin.Add(45 * time.Minute)) {
				t.Errorf("the part from %v to %v is fetched again", c.Start, c.End)
			}
		}
		if len(probes) != 1 {
			t.Errorf("%d probes", len(probes))
		}
		isDown.Store(false)
		time.Sleep(time.Hour)
		if s := n.get("a"); s.State.Stopped != nil || !s.State.Low().Equal(begin.Add(2*time.Hour)) {
			t.Errorf("%+v", s.State)
		}
	})
}

// A person who resumes a slice that waits for its parts does not end it.
func TestASliceThatIsResumedStillWaitsForItsParts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin := time.Now()
		var isDown atomic.Bool
		isDown.Store(true)
		n := start(t, definition(t, map[string]string{"interval": "1h", "retries": "1000"}, "a"), func(w timeslice.Work, _ *task.Task) error {
			switch {
			case w.End.Sub(w.Start) > 30*time.Minute:
				return slicer.Split()
			case isDown.Load():
				return errors.New("the platform is down")
			}
			return nil
		})
		time.Sleep(time.Hour + time.Minute)
		for range 2 {
			open := n.get("a").State.Open
			if len(open) != 1 {
				t.Fatalf("%+v", open)
			}
			if _, err := n.Resume(t.Context(), task.Ref{ID: open[0].ID(a.Cursor())}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		isDown.Store(false)
		n.fetched("a")
		time.Sleep(30 * time.Minute)
		tiles(t, slices.DeleteFunc(n.fetched("a"), func(c call) bool { return c.End.Sub(c.Start) > 30*time.Minute }), begin, begin.Add(time.Hour))
		if s := n.get("a"); len(s.State.Open) > 0 {
			t.Errorf("%+v", s.State)
		}
	})
}

// A platform that has too much for one attempt in the overlap alone is fetched all the same, by parts of the overlap.
func TestASliceIsSplitThoughTheOverlapAloneHasTooMuch(t *testing.T) {
	for _, order := range []string{"parallel", "in_order"} {
		inBubble(t, func(t *testing.T) {
			begin, most := time.Now(), 20*time.Second
			n := start(t, definition(t, map[string]string{"interval": "2m", "overlap": "1m", "order": order, "breaker": "0"}, "a"), func(w timeslice.Work, _ *task.Task) error {
				if w.End.Sub(w.From) > most {
					return slicer.Split()
				}
				return nil
			})
			time.Sleep(4*time.Minute + 30*time.Second)
			calls := n.fetched("a")
			if len(calls) > 2*31 {
				t.Errorf("%s: %d attempts", order, len(calls))
			}
			calls = slices.DeleteFunc(calls, func(c call) bool { return c.End.Sub(c.From) > most || c.at.Before(begin.Add(3*time.Minute)) })
			for i := range calls { // the parts of the second slice
				calls[i].Start = calls[i].From
			}
			tiles(t, calls, begin.Add(time.Minute), begin.Add(4*time.Minute))
			if s := n.get("a"); len(s.State.Open) > 0 || !s.State.Low().Equal(begin.Add(4*time.Minute)) {
				t.Errorf("%s: %+v", order, s.State)
			}
		})
	}
}
