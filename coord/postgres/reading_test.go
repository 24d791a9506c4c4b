package postgres

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clocks are the clock of a process and that of a database, which drift apart and are set.
type clocks struct {
	local  time.Time
	shared time.Time
}

func (c *clocks) pass(d time.Duration, drift float64) {
	c.local = c.local.Add(d)
	c.shared = c.shared.Add(d + time.Duration(drift*float64(d)/driftOne))
}

// beat is a heartbeat. Its request and its answer take some time, and so does the work in between.
func (c *clocks) beat(prev *clockReading, request, work, answer time.Duration, drift float64) *clockReading {
	begin := c.local
	c.pass(request, drift)
	first := c.shared
	c.pass(work, drift)
	second := c.shared
	c.pass(answer, drift)
	return readingOf(prev, begin, c.local, first, second)
}

// off returns by how much a reading is wrong now, and by how much it says that it may be.
func (c *clocks) off(r *clockReading) (wrong, within time.Duration) {
	co := new(Coord)
	co.clock.Store(r)
	shared, within, _ := co.ClockAt(c.local)
	return shared.Sub(c.shared).Abs(), within
}

func TestAReadingOfTheClockIsNeverMoreWrongThanItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1e9, 0)
		c := &clocks{start, start.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "offset")))}
		spans := rapid.Int64Range(0, int64(time.Second))
		span := func(what string) time.Duration { return time.Duration(spans.Draw(t, what)) }
		var r *clockReading
		for range rapid.IntRange(1, 50).Draw(t, "beats") {
			drift := rapid.Float64Range(-0.99, 0.99).Draw(t, "drift")
			request, work, answer := span("request"), span("work"), span("answer")
			r = c.beat(r, request, work, answer, drift)
			const rounding = time.Microsecond
			wrong, within := c.off(r)
			if wrong > within+rounding {
				t.Fatalf("it is %v wrong, and says within %v", wrong, within)
			}
			took := request + work + answer
			if most := (took + took/driftOne) / 2; within > most+rounding {
				t.Fatalf("it is within %v, and this heartbeat alone says within %v", within, most)
			}
			c.pass(10*span("pause"), drift)
			if wrong, within = c.off(r); wrong > within+rounding {
				t.Fatalf("before the next heartbeat it is %v wrong, and says within %v", wrong, within)
			}
		}
	})
}

func TestASlowHeartbeatDoesNotSpoilWhatAQuickOneHasShown(t *testing.T) {
	c := &clocks{time.Unix(1e9, 0), time.Unix(2e9, 0)}
	r := c.beat(nil, time.Millisecond, 0, time.Millisecond, 0)
	c.pass(time.Second, 0)
	r = c.beat(r, 0, 0, time.Second, 0)
	if wrong, within := c.off(r); wrong > 2*time.Millisecond || within > 3*time.Millisecond {
		t.Errorf("it is %v wrong, and says within %v", wrong, within)
	}
}

func TestAClockThatIsSetIsReadAnew(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 10 * time.Millisecond} {
		c := &clocks{time.Unix(1e9, 0), time.Unix(1e9, 0)}
		r := c.beat(nil, time.Millisecond, 0, time.Millisecond, 0)
		c.shared = c.shared.Add(by)
		r = c.beat(r, time.Millisecond, 0, time.Millisecond, 0)
		if wrong, _ := c.off(r); wrong > time.Millisecond {
			t.Errorf("set by %v, it is %v wrong", by, wrong)
		}

		// It is set between the two readings of one heartbeat.
		begin, first := c.local, c.shared
		c.shared = c.shared.Add(by)
		c.pass(time.Millisecond, 0)
		second := c.shared
		c.pass(time.Millisecond, 0)
		r = readingOf(r, begin, c.local, first, second)
		if wrong, within := c.off(r); wrong > within {
			t.Errorf("set by %v during a heartbeat, it is %v wrong, and says within %v", by, wrong, within)
		}
	}
}
