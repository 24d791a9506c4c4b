package capacity

import (
	"math"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/storage/pebble"
)

// The time per byte is determined by comparing syncs of at most small bytes with syncs of at least
// large bytes.
const (
	small = 16 << 10
	large = 32 << 10
)

// synced is one use of the disk.
type synced struct {
	idle  time.Duration // see sim.Idleness
	took  time.Duration // from the request, or from the end of the use before
	bytes int           // of the log, or of payload if the log was not seen
	ahead bool          // the log is filled ahead
	grown bool          // the log was filled just before this sync
	sorts bool          // the store sorts files during the sync
	usual bool          // ahead is as in most of the run; else the sync catches up after a slow one
	woken []time.Duration
}

// fitSync determines how long syncs take, by the idleness of the disk and by bytes. It uses open
// loops only: callers in a closed loop wait for each other, and the machine sleeps in between.
func (c *Curves) fitSync(all []observed) {
	var series [][]synced
	for _, o := range all {
		if o.rate > 0 {
			slices.SortFunc(o.commits, func(x, y commit) int { return x.asked().Compare(y.asked()) })
			slices.SortFunc(o.syncs, func(x, y span) int { return x.began.Compare(y.began) })
			series = append(series, usually(o.uses()))
		}
	}
	k := &c.Costs
	k.SyncKiB = perKiB(series)
	for _, uses := range series {
		for i := range uses {
			uses[i].took = max(0, uses[i].took-time.Duration(uses[i].bytes)*k.SyncKiB>>10)
		}
	}
	ahead := func(s *synced) bool { return s.ahead && s.usual && !s.grown && !s.sorts }
	other := func(s *synced) bool { return !s.ahead && s.usual && !s.sorts }
	k.Sync = byUse(series, ahead)
	k.Sorting = took(series, func(s *synced) bool { return s.ahead && s.sorts })
	k.Log = sim.Log{
		Row: logRow(all), Sync: byUse(series, other),
		Grown:   took(series, func(s *synced) bool { return s.grown && !s.sorts }),
		Sorting: took(series, func(s *synced) bool { return !s.ahead && s.sorts }),
	}
	if len(k.Log.Grown) > 0 {
		k.Log.Step, k.Log.Below = pebble.LogFillStep, pebble.LogFillBelow
	}
	k.Woken = byIdle(idlenesses(), func(yield func(idle, took time.Duration)) {
		for _, uses := range series {
			for _, s := range uses {
				for _, late := range s.woken {
					yield(s.idle, late)
				}
			}
		}
	})
	for _, uses := range series {
		addRanks(k.Sync, uses, ahead)
		addRanks(k.Log.Sync, uses, other)
	}
}

// usually marks the uses of a run that are as most of the run. A moment that differs catches up
// after a slow sync, and is not typical of loads that are always so.
func usually(uses []synced) []synced {
	ahead := 0
	for _, s := range uses {
		if s.ahead {
			ahead++
		}
	}
	for i := range uses {
		uses[i].usual = uses[i].ahead == (2*ahead >= len(uses))
	}
	return uses
}

// perKiB returns the time per KiB of the log that a sync takes: the difference between the medians
// of large and small syncs within one run.
func perKiB(series [][]synced) time.Duration {
	var all []float64
	for _, uses := range series {
		var took [2][]time.Duration
		var bytes [2]int
		for _, s := range uses {
			switch {
			case s.grown || s.sorts:
			case s.bytes <= small:
				took[0], bytes[0] = append(took[0], s.took), bytes[0]+s.bytes
			case s.bytes >= large:
				took[1], bytes[1] = append(took[1], s.took), bytes[1]+s.bytes
			}
		}
		if few, many := len(took[0]), len(took[1]); min(few, many) >= enough/2 {
			more := quantile(took[1], 0.5) - quantile(took[0], 0.5)
			all = append(all, float64(more)*(1<<10)/float64(bytes[1]/many-bytes[0]/few))
		}
	}
	if len(all) == 0 {
		return 0
	}
	return max(0, time.Duration(middle(all)))
}

// took returns the distribution of the durations of the wanted uses.
func took(series [][]synced, wanted func(*synced) bool) sim.Quantiles {
	var ds []time.Duration
	for _, uses := range series {
		for i := range uses {
			if wanted(&uses[i]) {
				ds = append(ds, uses[i].took)
			}
		}
	}
	return distribution(ds)
}

// logRow returns the bytes of the log that a row takes without its payload.
func logRow(all []observed) float64 {
	var rows []float64
	for _, o := range all {
		logged := 0
		for _, s := range o.syncs {
			logged += s.bytes
		}
		n, payload := o.wrote()
		if logged > 0 && n > 0 {
			rows = append(rows, max(0, float64(logged-payload)/float64(n)))
		}
	}
	if len(rows) == 0 {
		return 0
	}
	return middle(rows)
}

// addRanks determines the ranks of the wanted uses of a run in their distributions, and adds them to
// the range of idleness with most of the uses.
func addRanks(by sim.ByIdleness, uses []synced, wanted func(*synced) bool) {
	var out []uint16
	var idle []time.Duration
	for i := range uses {
		s := &uses[i]
		takes := by.After(s.idle)
		if !wanted(s) || len(takes) < 2 {
			continue
		}
		at, _ := slices.BinarySearch(takes, s.took)
		at = min(at, len(takes)-1)
		if at > 0 && s.took-takes[at-1] < takes[at]-s.took {
			at-- // the lower one is nearer
		}
		out = append(out, uint16(math.Round(sim.MaxRank*float64(at)/float64(len(takes)-1))))
		idle = append(idle, s.idle)
	}
	if len(out) < enough {
		return
	}
	in, middle := 0, quantile(idle, 0.5)
	for i := range by {
		if by[i].After <= middle {
			in = i
		}
	}
	by[in].Ranks = append(by[in].Ranks, out...)
}

// asked returns when a commit asked for its sync.
func (c *commit) asked() time.Time { return c.began.Add(c.hold) }

// uses returns the uses of the disk.
func (o *observed) uses() []synced {
	if len(o.syncs) > 0 {
		return o.logged()
	}
	return o.alone()
}

// logged returns the syncs of the log as uses of the disk. A sync serves the commits that asked for it
// before its last write began. woken has the time from the end of the sync until each of them went on.
func (o *observed) logged() (uses []synced) {
	next := 0
	var idle sim.Idleness
	var carried sim.Carried
	sorts := slices.Clone(o.sorts)
	slices.SortFunc(sorts, func(x, y window) int { return x.to.Compare(y.to) })
	for i, s := range o.syncs {
		for len(sorts) > 0 && sorts[0].to.Before(s.began) {
			sorts = sorts[1:]
		}
		use := synced{
			bytes: s.bytes, ahead: carried.Ahead(pebble.LogFillBelow), grown: s.filled > 0,
			sorts: slices.ContainsFunc(sorts, func(w window) bool { return w.from.Before(s.ended) }),
		}
		carried.Note(float64(s.bytes))
		first := next
		for ; next < len(o.commits) && !o.commits[next].asked().After(s.wrote); next++ {
			m := &o.commits[next]
			use.woken = append(use.woken, max(0, m.asked().Add(m.durable).Sub(s.ended)))
		}
		if i == 0 || next == first {
			continue
		}
		asked, free := o.commits[first].asked(), o.syncs[i-1].ended
		began := later(asked, free)
		use.idle, use.took = idle.Note(began.Sub(free)), s.ended.Sub(began)
		uses = append(uses, use)
	}
	return uses
}

// shared is the maximum time between two commits that became durable by the same sync.
const shared = 50 * time.Microsecond

// alone returns the uses of the disk as seen by the commits, for a store without observed syncs.
func (o *observed) alone() (uses []synced) {
	var free time.Time // when all earlier commits were durable
	var idle sim.Idleness
	for i := range o.commits {
		m := &o.commits[i]
		began, end := later(m.asked(), free), m.asked().Add(m.durable)
		took, rest := end.Sub(began), began.Sub(free)
		free = later(free, end)
		if i > 0 && (rest > 0 || took >= shared) {
			uses = append(uses, synced{idle: idle.Note(rest), took: took, bytes: m.bytes, ahead: true})
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

// enough is the number of samples of a distribution with a 99th percentile.
const enough = 200

// idlenesses returns the lower bounds of the ranges of idleness of a disk.
func idlenesses() []time.Duration {
	const us = time.Microsecond
	return []time.Duration{0, 20 * us, 60 * us, 200 * us, 600 * us, 2000 * us, 6000 * us, 20_000 * us}
}

// byUse is byIdle of the wanted uses.
func byUse(series [][]synced, wanted func(*synced) bool) sim.ByIdleness {
	return byIdle(idlenesses(), func(yield func(idle, took time.Duration)) {
		for _, uses := range series {
			for i := range uses {
				if s := &uses[i]; wanted(s) {
					yield(s.idle, s.took)
				}
			}
		}
	})
}

// byIdle returns the distributions of samples by range of idleness, each with enough samples.
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
