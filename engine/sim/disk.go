package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// disk makes commits durable. One sync is under way at a time; it serves everything that
// was asked for before it began.
type disk struct {
	*clock
	rng     *rand.Rand
	costs   *Costs
	pending []waiting
	bytes   float64 // of the log, in the pending changes
	syncing bool
	ended   int64 // when the last sync did
	idle    Idleness
	carried Carried
	length  float64 // of the log
	ready   float64 // how far it is made longer ahead
	ahead   ranks   // of syncs of a log that is made longer ahead
	other   ranks   // and of others
	sorting int     // how many sorts of files are under way
	cores   *cores
	syncs   int64
	busy    time.Duration
	written float64
}

// waiting is called when a commit is durable, with how much later who waits for it hears
// of that.
type waiting func(woken time.Duration)

// sync calls done when a commit is durable: written bytes in all, and so many of them
// to the log.
func (d *disk) sync(written, logged float64, done waiting) {
	d.pending = append(d.pending, done)
	d.bytes += logged
	d.written += written
	if !d.syncing {
		d.begin()
	}
}

func (d *disk) begin() {
	served := d.pending
	idle := d.idle.Note(time.Duration(d.now - d.ended))
	took := d.take(idle)
	if d.costs.SyncCPU > 0 {
		d.cores.do(min(d.costs.SyncCPU, took), func() {})
	}
	d.pending, d.bytes, d.syncing = nil, 0, true
	d.syncs++
	d.after(took, func() {
		d.busy += took
		d.syncing, d.ended = false, d.now
		for _, done := range served {
			done(d.costs.Woken.After(idle).At(d.rng.Float64()))
		}
		if len(d.pending) > 0 && !d.syncing {
			d.begin()
		}
	})
}

// take returns how long the sync takes that now begins.
func (d *disk) take(idle time.Duration) time.Duration {
	c := d.costs
	const kib = 1 << 10
	more := time.Duration(d.bytes / kib * float64(c.SyncKiB))
	ahead, grows := d.grow()
	if grows {
		return c.Log.Grown.At(d.rng.Float64()) + more
	}
	by, sorting, ranks := c.Sync, c.Sorting, &d.ahead
	if !ahead && len(c.Log.Sync) > 0 {
		by, sorting, ranks = c.Log.Sync, c.Log.Sorting, &d.other
	}
	if d.sorting > 0 && len(sorting) > 0 {
		return sorting.At(d.rng.Float64()) + more
	}
	return by.After(idle).At(ranks.draw(d.rng, by, idle)) + more
}

// grow makes the log long enough for the pending changes, and returns whether that is
// done ahead, and whether it is done now.
func (d *disk) grow() (ahead, now bool) {
	log := &d.costs.Log
	if log.Step == 0 {
		return true, false
	}
	ahead = d.carried.Ahead(log.Below)
	d.carried.Note(d.bytes)
	d.length += d.bytes
	if now = ahead && d.length > d.ready; now {
		until := log.Step * math.Ceil(d.length/log.Step)
		d.written += until - d.ready
		d.ready = until
	}
	d.ready = max(d.ready, d.length)
	return ahead, now
}

// ranks are drawn from the measured ones, in blocks of successive ranks.
type ranks struct {
	from       []uint16
	next, left int
}

// draw returns the place of the next one in its distribution.
func (r *ranks) draw(rng *rand.Rand, by ByIdleness, idle time.Duration) float64 {
	if r.left == 0 {
		r.left = block
		if r.from = by.ranks(idle); len(r.from) > 0 {
			r.next = rng.IntN(len(r.from))
		}
	}
	r.left--
	if len(r.from) == 0 {
		return rng.Float64()
	}
	rank := r.from[r.next]
	r.next = (r.next + 1) % len(r.from)
	return float64(rank) / MaxRank
}
