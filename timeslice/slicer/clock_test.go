package slicer_test

import (
	"context"
	"errors"
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
// started again in between, or was down for a while, and if the platform was paused meanwhile, even for longer than the clock was ahead by.
func TestSlicesThatWereFetchedTooEarlyAreFetchedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		paused      time.Duration // for how long the platform is, before the clock is right
		isRestarted bool
		down        time.Duration // for how long the node is, of which the clock is ahead half
	}{
		"running": {}, "restarted": {isRestarted: true}, "down": {isRestarted: true, down: 50 * time.Minute},
		"paused": {paused: 30 * time.Minute}, "paused for longer": {paused: 70 * time.Minute}, "paused and down": {paused: 10 * time.Minute, isRestarted: true, down: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
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
				if c.paused > 0 {
					if err := n.sources.Pause(t.Context(), n.Engine, a, slicer.By{}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.paused)
				}
				if c.isRestarted {
					stop()
					n.close()
				}
				time.Sleep(c.down / 2)
				clock.ahead.Store(0)
				time.Sleep(c.down / 2)
				if c.isRestarted {
					n.open(d)
					stop = watch()
				}
				if c.paused > 0 {
					time.Sleep(5 * time.Second)
					if err := n.sources.Resume(t.Context(), n.Engine, a, slicer.By{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(3*time.Hour - time.Since(begin) + time.Second)
				stop()
				inTime := make(map[time.Time]bool)
				for _, c := range n.fetched("a") {
					if !c.at.Before(c.End) {
						inTime[c.Start.UTC()] = true
					}
				}
				for at := begin; at.Before(begin.Add(3 * time.Hour)); at = at.Add(time.Minute) {
					if !inTime[at.UTC()] {
						t.Errorf("the slice of %v was not fetched after its end", at)
					}
				}
				if s := n.get("a").State; s.Epoch != 1 {
					t.Errorf("the cursor was moved %d times", s.Epoch)
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
