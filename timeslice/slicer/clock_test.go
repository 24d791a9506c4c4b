package slicer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// stepped is a clock that is ahead.
type stepped struct{ ahead atomic.Int64 }

// ClockAt implements [coord.Clock].
func (c *stepped) ClockAt(t time.Time) (time.Time, time.Duration, bool) {
	return t.Add(time.Duration(c.ahead.Load())), 0, true
}

// While the clock is ahead slices are fetched too early. When it is right again they are fetched once more, also if the node was
// started again in between.
func TestSlicesThatWereFetchedTooEarlyAreFetchedAgain(t *testing.T) {
	for _, isRestarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%v", isRestarted), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				begin, clock := time.Now(), new(stepped)
				d := definition(t, map[string]string{"interval": "1m", "max_open": "500"}, "a")
				n := startBy(t, clock, d, nil)
				watch := func() (stop func()) {
					ctx, cancel := context.WithCancel(context.Background())
					var watching sync.WaitGroup
					watching.Go(func() { n.sources.Watch(ctx, n.Engine) })
					return func() { cancel(); watching.Wait() }
				}
				stop := watch()
				time.Sleep(10*time.Minute + time.Second)
				clock.ahead.Store(int64(time.Hour))
				time.Sleep(2 * time.Minute)
				if isRestarted {
					stop()
					n.close()
				}
				clock.ahead.Store(0)
				if isRestarted {
					n.open(d)
					stop = watch()
				}
				time.Sleep(2*time.Hour - time.Since(begin) + time.Second)
				stop()
				inTime := make(map[time.Time]bool)
				for _, c := range n.fetched("a") {
					if !c.at.Before(c.End) {
						inTime[c.Start.UTC()] = true
					}
				}
				for at := begin; at.Before(begin.Add(2 * time.Hour)); at = at.Add(time.Minute) {
					if !inTime[at.UTC()] {
						t.Errorf("the slice of %v was not fetched after its end", at)
					}
				}
			})
		})
	}
}

// A slice that waits for its next attempt while the clock is set back does not wait until that is as late as it was.
func TestARetryDoesNotWaitForAClockThatWasAhead(t *testing.T) {
	for _, length := range []time.Duration{time.Minute, time.Hour} { // the longest slice that the platform answers
		inBubble(t, func(t *testing.T) {
			clock, begin := new(stepped), time.Now()
			var isDown atomic.Bool
			isDown.Store(true)
			values := map[string]string{"interval": "2m", "retries": "1000", "retry_interval": "5s", "max_open": "1"}
			n := startBy(t, clock, definition(t, values, "a"), func(w timeslice.Work, _ *task.Task) error {
				switch {
				case w.End.Sub(w.Start) > length:
					return slicer.Split()
				case isDown.Load():
					return errors.New("the platform is down")
				}
				return nil
			})
			ctx, cancel := context.WithCancel(context.Background())
			var watching sync.WaitGroup
			watching.Go(func() { n.sources.Watch(ctx, n.Engine) })
			defer watching.Wait()
			defer cancel()
			time.Sleep(time.Minute)
			clock.ahead.Store(int64(1000 * time.Hour))
			time.Sleep(10 * time.Minute)
			clock.ahead.Store(0)
			isDown.Store(false)
			time.Sleep(10 * time.Minute)
			if s := n.get("a"); s.State.Low().Before(begin.Add(18 * time.Minute)) {
				t.Errorf("%v: %+v", length, s.State)
			}
		})
	}
}
