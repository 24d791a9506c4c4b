package table

import (
	"math"

	"github.com/taskengine/taskengine/policy"
)

// bucket is a rate limit by the generic cell rate algorithm (ITU-T I.371). Its state is one instant.
// The zero bucket is no limit.
//
// The other fields are for refunds of starts that did not happen. Such a start may have no effect on
// due any more, because the bucket was full again since. A refund would then admit more than the
// burst. Therefore the bucket has the time since which it was never full, and by how much: at every
// start after that time, due was ahead of the start by at least an interval and by at least spare.
type bucket struct {
	interval int64 // nanoseconds between two starts at the full rate
	slack    int64 // by how many nanoseconds a burst may be early
	due      int64 // the time of the next start at the full rate
	last     int64 // the time of the latest start
	since    int64 // the first start that may be refunded
	spare    int64 // the least distance of due ahead of a start after since
}

// maxSlack keeps sums of times within an int64. It is more than a century.
const maxSlack = math.MaxInt64 / 2

func newBucket(r policy.Rate) bucket {
	if r.IsZero() {
		return bucket{}
	}
	burst := r.Burst
	if burst == 0 {
		burst = r.Count
	}
	interval := max(1, int64(r.Per)/int64(r.Count))
	slack := min(int64(burst-1), maxSlack/interval) * interval
	return bucket{interval: interval, slack: slack}
}

// next returns the earliest time of the next start. It may be in the past.
func (b *bucket) next() int64 { return b.due - b.slack }

// spent sets the time of the next start at the full rate, which an earlier bucket of the same limit had.
// The rate of that may have been another one: b never waits longer than if its own burst was used up
// now. The latest start may have been as late as now.
func (b *bucket) spent(now, due int64) {
	if b.interval != 0 {
		b.due, b.last = min(due, now+b.slack+b.interval), now
	}
}

func (b *bucket) take(now int64) {
	if b.interval == 0 {
		return
	}
	switch ahead := b.due - now; {
	case ahead < b.interval:
		b.since, b.spare = now, math.MaxInt64
	case now > b.last:
		b.spare = min(b.spare, ahead)
	}
	b.last = now
	b.due = max(b.due, now) + b.interval
}

// refund takes back a start that was counted at the given time, if that does not admit more starts
// than the rate.
func (b *bucket) refund(at int64) {
	switch {
	case at == b.last:
		b.due -= b.interval
	case at >= b.since && b.spare >= b.interval:
		b.due -= b.interval
		b.spare -= b.interval
	}
}

// spentRate is the rate of a retired node. Its bucket is full again at due.
type spentRate struct {
	due int64
	key string // of the node
}

func (f spentRate) before(g spentRate) bool {
	if f.due != g.due {
		return f.due < g.due
	}
	return f.key < g.key
}

// keepSpent keeps the rate of a node that is retired, until its bucket is full again. The node itself
// would take several times as much memory.
func (t *Table) keepSpent(key string, due int64) {
	t.spentByKey[key] = due
	t.spentByTime.ReplaceOrInsert(spentRate{due, key})
}

// dropFull drops the rates of retired nodes with full buckets.
func (t *Table) dropFull(now int64) {
	for {
		f, ok := t.spentByTime.Min()
		if !ok || f.due > now {
			return
		}
		t.spentByTime.DeleteMin()
		delete(t.spentByKey, f.key)
	}
}
