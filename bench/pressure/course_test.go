//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
	"github.com/taskengine/taskengine/bench/result"
)

// intervalOf returns the figures of a process that ended with a second of a course.
func intervalOf(c *course, second int, started, open int64, took time.Duration) *adapter.Interval {
	i := &adapter.Interval{T: c.began.Add(time.Duration(second) * time.Second), Inserted: started, Started: started, Open: open, Start: result.NewHistogram()}
	for range started {
		i.Start.Record(took)
	}
	return i
}

func TestFiguresOfSecondsAreThoseOfTheirPhases(t *testing.T) {
	c := &course{began: time.Unix(1000, 0)}
	for s := 1; s <= 8; s++ {
		took := time.Millisecond
		if s > 4 {
			took = time.Second
		}
		c.interval(intervalOf(c, s, 10, int64(s), took))
		c.interval(intervalOf(c, s, 10, -1, took)) // of another process, which counts no jobs
	}
	c.in(c.began.Add(5500*time.Millisecond), func(s *second) { s.Dead, s.Offered = 77, 40 })
	calm, held := c.phase("clean", 0, 4*time.Second), c.phase("idle-in-tx", 4*time.Second, 8*time.Second)
	if calm.Started != 80 || calm.Rate != 20 || calm.Last != 20 || calm.Backlog != 4 || calm.Dead != 0 || calm.Start.Quantile(0.99) > 2*time.Millisecond {
		t.Errorf("the first phase is %+v, p99 %v", calm, calm.Start.Quantile(0.99))
	}
	if held.Started != 80 || held.Offered != 40 || held.Backlog != 8 || held.Dead != 77 || held.Start.Quantile(0.5) < 900*time.Millisecond {
		t.Errorf("the second phase is %+v, p50 %v", held, held.Start.Quantile(0.5))
	}
	all := c.all()
	if len(all) != 8 || all[0].At != time.Second || all[4].StartP50 < 900*time.Millisecond || all[0].StartP99 > 2*time.Millisecond {
		t.Errorf("the seconds are %+v", all)
	}
}

func TestJobsThatTheStoreDoesNotHaveAreLost(t *testing.T) {
	c := &course{began: time.Unix(1000, 0)}
	c.interval(intervalOf(c, 1, 10, 0, time.Millisecond))
	if check, _ := c.check(); check.OK {
		t.Error("a course without counts at its end is checked")
	}
	for _, one := range []struct {
		end         adapter.End
		ok          bool
		lost, again int64
	}{
		{adapter.End{Ended: 10}, true, 0, 0},
		{adapter.End{Ended: 9}, false, 1, 1},
		{adapter.End{Ended: 8, Open: 2}, false, 0, 2},
		{adapter.End{Ended: 11}, true, 0, 0}, // an insert that returned an error was made
		{adapter.End{Error: "no"}, false, 0, 0},
	} {
		c.end(&one.end)
		if check, again := c.check(); check.OK != one.ok || check.Lost != one.lost || again != one.again {
			t.Errorf("%+v: the check is %+v, %d again", one.end, check, again)
		}
	}
}
