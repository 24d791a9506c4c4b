package capacity

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
)

// Commits of at most small bytes take as long on the disk as those without; what more
// takes is seen in those of at least large.
const (
	small = 16 << 10
	large = 32 << 10
)

// synced is one use of the disk.
type synced struct {
	idle  time.Duration // see sim.Idleness
	took  time.Duration // from when it was asked for, or the one before had ended
	bytes int           // of payload
}

// fitSync finds how long syncs take, by how long the disk was idle, and by bytes. Loads
// that come as they come are what tells: callers that wait for each other leave the
// machine asleep in between.
func (c *Curves) fitSync(all []observed) {
	var few, many []synced
	var told []time.Duration
	var series [][]synced
	for _, o := range all {
		if o.rate == 0 {
			continue
		}
		slices.SortFunc(o.commits, func(x, y commit) int { return x.asked().Compare(y.asked()) })
		slices.SortFunc(o.syncs, func(x, y span) int { return x.began.Compare(y.began) })
		uses, late := o.uses()
		told = append(told, late...)
		series = append(series, uses)
		for _, s := range uses {
			switch {
			case s.bytes <= small:
				few = append(few, s)
			case s.bytes >= large:
				many = append(many, s)
			}
		}
	}
	k := &c.Costs
	k.Told = distribution(told)
	bounds := []time.Duration{
		0, 20 * time.Microsecond, 60 * time.Microsecond, 200 * time.Microsecond, 600 * time.Microsecond,
		2 * time.Millisecond, 6 * time.Millisecond, 20 * time.Millisecond,
	}
	k.Sync = byIdle(bounds, func(yield func(idle, took time.Duration)) {
		for _, s := range few {
			yield(s.idle, s.took)
		}
	})
	k.SyncRanks = nil
	for _, uses := range series {
		k.SyncRanks = append(k.SyncRanks, ranks(k.Sync, uses)...)
	}
	var more []time.Duration
	for _, s := range many {
		const kib = 1 << 10
		more = append(more, (s.took-k.Sync.After(s.idle).At(0.5))*kib/time.Duration(s.bytes))
	}
	k.SyncKiB = distribution(more)
}

// ranks returns the place in its distribution of each of the first uses.
func ranks(by sim.ByIdleness, uses []synced) []uint16 {
	const most = 2000 // of one run
	var out []uint16
	for _, s := range uses {
		if takes := by.After(s.idle); s.bytes <= small && len(takes) > 1 && len(out) < most {
			at, _ := slices.BinarySearch(takes, s.took)
			out = append(out, uint16(sim.MaxRank*min(at, len(takes)-1)/(len(takes)-1)))
		}
	}
	return out
}

// asked returns when a commit had said everything.
func (c *commit) asked() time.Time { return c.began.Add(c.hold) }

// uses returns the uses of the disk, and how long after each the commits that waited for it
// went on, if that is known.
func (o *observed) uses() (uses []synced, late []time.Duration) {
	if len(o.syncs) > 0 {
		return o.logged()
	}
	return o.alone(), nil
}

// logged returns the uses of the disk that the syncs of the log were, each for the commits
// that were asked for before it and after the sync before, and how long after its sync
// the commit went on.
func (o *observed) logged() (uses []synced, late []time.Duration) {
	next := 0
	var idle sim.Idleness
	for i, s := range o.syncs {
		first, bytes := next, 0
		for ; next < len(o.commits) && !o.commits[next].asked().After(s.began); next++ {
			m := &o.commits[next]
			bytes += m.bytes
			late = append(late, m.asked().Add(m.durable).Sub(s.ended))
		}
		if i == 0 || next == first {
			continue
		}
		asked, free := o.commits[first].asked(), o.syncs[i-1].ended
		began := later(asked, free)
		uses = append(uses, synced{idle.Note(began.Sub(free)), s.ended.Sub(began), bytes})
	}
	return uses, late
}

// shared is how long after another a commit is durable at most that needed no sync of its
// own.
const shared = 50 * time.Microsecond

// alone returns the uses of the disk as the commits saw them, for a store whose syncs
// are not noted.
func (o *observed) alone() (uses []synced) {
	var free time.Time // when everything asked for before was durable
	var idle sim.Idleness
	for i := range o.commits {
		m := &o.commits[i]
		began, end := later(m.asked(), free), m.asked().Add(m.durable)
		took, rest := end.Sub(began), began.Sub(free)
		free = later(free, end)
		if i > 0 && (rest > 0 || took >= shared) {
			uses = append(uses, synced{idle.Note(rest), took, m.bytes})
		}
	}
	return uses
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// enough is how many samples make a distribution with a 99th percentile.
const enough = 200

// byIdle sorts samples into ranges of idleness, each with enough of them.
func byIdle(bounds []time.Duration, samples func(yield func(idle, took time.Duration))) []sim.Idle {
	sorted := make([][]time.Duration, len(bounds))
	samples(func(idle, took time.Duration) {
		i, found := slices.BinarySearch(bounds, idle)
		if !found {
			i--
		}
		sorted[max(0, i)] = append(sorted[max(0, i)], took)
	})
	var out sim.ByIdleness
	var carried []time.Duration
	from := time.Duration(0)
	for i, ds := range sorted {
		if len(carried) == 0 {
			from = bounds[i]
		}
		if carried = append(carried, ds...); len(carried) >= enough {
			out = append(out, sim.Idle{After: from, Takes: distribution(carried)})
			carried = nil
		}
	}
	if len(out) == 0 && len(carried) > 0 {
		return sim.ByIdleness{{Takes: distribution(carried)}}
	}
	return out
}
