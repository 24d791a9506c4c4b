package table

import (
	"math"

	"github.com/taskengine/taskengine/engine/policy"
)

// bucket is a rate limit, kept as the generic cell rate algorithm (ITU-T I.371) does:
// one instant says it all. The zero bucket is without limit.
//
// What is given back is another matter: a start that did not happen may have had no effect
// on due, because the bucket was full again meanwhile. To give it back then would admit
// more than the burst. So the bucket knows since when it was never full, and by how much:
// within that time due was ahead of every later start by a whole interval and spare.
type bucket struct {
	interval int64 // nanoseconds between two starts
	slack    int64 // how far ahead of time a burst may run
	due      int64 // when the next start is due in theory
	last     int64 // the latest start
	since    int64 // the first start of those that may be given back
	spare    int64 // by how much due was ahead of every later start than that, at least
}

// maxSlack keeps the sums of times within an int64. It is more than a century.
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

// next returns when something may start; that is now or earlier if it may.
func (b *bucket) next() int64 { return b.due - b.slack }

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

// refund gives back a start of the time at, as far as that admits no more than the rate does.
func (b *bucket) refund(at int64) {
	switch {
	case at == b.last:
		b.due -= b.interval
	case at >= b.since && b.spare >= b.interval:
		b.due -= b.interval
		b.spare -= b.interval
	}
}

// fading is a rate that no limit in use has, and that is full again at due.
type fading struct {
	due int64
	key string // of the limit, in Table.nodes
}

func (f fading) before(g fading) bool {
	if f.due != g.due {
		return f.due < g.due
	}
	return f.key < g.key
}

// fade keeps the rate of a limit that is forgotten until it is full again: a limit for each value
// takes several times as much memory.
func (t *Table) fade(key string, due int64) {
	t.spent[key] = due
	t.fading.ReplaceOrInsert(fading{due, key})
}

// forgetFull forgets the rates that are full again.
func (t *Table) forgetFull(now int64) {
	for {
		f, ok := t.fading.Min()
		if !ok || f.due > now {
			return
		}
		t.fading.DeleteMin()
		delete(t.spent, f.key)
	}
}

// full reports whether a new bucket would behave the same.
func (b *bucket) full(now int64) bool { return b.due <= now }
