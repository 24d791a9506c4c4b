package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/coord"
)

var _ coord.Clock = (*Coord)(nil)

// driftOne is the reciprocal of how fast the clocks of a process and of the database may drift apart.
// NTP makes a clock run faster or slower by at most one part in 2000.
const driftOne = 2000

// beatStatement yields numbers and text, which work in all of pgx's modes and with every DateStyle. The
// numbers are microseconds since 1970.
const beatStatement = `
SELECT set_config('lock_timeout', $2::text, true), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	{schema}.{function}($1::text::jsonb)::text,
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// clockReading has the known bounds of the database's clock. It is immutable.
type clockReading struct {
	at   time.Time     // a moment of this process, with a monotonic reading
	low  time.Time     // the least that the database's clock can have said then
	wide time.Duration // by how much it can have said more
}

// readingOf returns the bounds that follow from two readings of the database's clock, made between the moments
// begin and end of this process, and from prev, the earlier bounds. prev is nil if there are none. If the
// new readings and prev contradict each other, a clock was set or the database is another server, and
// prev does not count. Otherwise both hold. So the bounds of a quick heartbeat remain, wider by the
// possible drift of the clocks since, and a slow heartbeat hardly matters.
func readingOf(prev *clockReading, begin, end, first, second time.Time) *clockReading {
	took := end.Sub(begin)
	took += took / driftOne
	low, high := later(first, second), earlier(first, second).Add(took)
	if high.Before(low) { // the clock was set between the readings
		low, high = second, second.Add(took)
	}
	if prev != nil {
		passed := end.Sub(prev.at)
		drift := passed / driftOne
		least := prev.low.Add(passed - drift)
		most := least.Add(prev.wide + 2*drift)
		if !least.After(high) && !most.Before(low) {
			low, high = later(low, least), earlier(high, most)
		}
	}
	return &clockReading{at: end, low: low, wide: high.Sub(low)}
}

// ClockAt implements [coord.Clock]. The clock is that of the database, which every heartbeat reads.
func (c *Coord) ClockAt(t time.Time) (shared time.Time, within time.Duration, ok bool) {
	r := c.clock.Load()
	if r == nil {
		return shared, 0, false
	}
	passed := t.Sub(r.at)
	return r.low.Add(passed + r.wide/2), r.wide/2 + passed.Abs()/driftOne, true
}

// ReadClock waits until the database's clock was read once. From then on ClockAt reports true, and now returns what
// that clock says now. So a Coord that has no members has a clock, too. If the database cannot be reached, ReadClock
// waits for it. It returns the cause of ctx's end, or [coord.ErrClosed].
func (c *Coord) ReadClock(ctx context.Context) (now func() time.Time, err error) {
	c.mu.Lock()
	err = c.start()
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-c.clockRead:
	case <-c.closed:
		return nil, coord.ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("read the clock of the database: %w", context.Cause(ctx))
	}
	return func() time.Time {
		shared, _, _ := c.ClockAt(time.Now())
		return shared
	}, nil
}

// callTimed calls a function for heartbeats, and reads the database's clock before and after that. It is called by
// beatLoop.
func (c *Coord) callTimed(function string, q beatRequest) (a beatAnswer, err error) {
	text, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.lease/3)
	defer cancel()
	var first, second int64
	var answer string
	begin := time.Now()
	err = c.pool.QueryRow(ctx, c.sql(strings.Replace(beatStatement, "{function}", function, 1)), string(text), c.lockPatience()).Scan(nil, &first, &answer, &second)
	if err != nil {
		return a, c.explain(err)
	}
	before := c.clock.Load()
	c.clock.Store(readingOf(before, begin, time.Now(), time.UnixMicro(first), time.UnixMicro(second)))
	if before == nil {
		close(c.clockRead)
	}
	return a, json.Unmarshal([]byte(answer), &a)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
