package capacity

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage/pebble"
)

// fitBackground finds how much memory a row takes until it is sorted, and how long it computes
// to sort it: as long as sorted files are written, merged and removed while a load leaves a core
// for it.
func (c *Curves) fitBackground(all []observed) {
	k := &c.Costs
	k.BackgroundEvery = pebble.DefaultMemTableSize
	k.BackgroundRow = memoryRow(all)
	var a [][]float64
	var b []float64
	for _, o := range all {
		rows, payload := c.atOnce(&o)
		if o.rate == 0 || rows == 0 {
			continue
		}
		if times, took := o.sorting(); times > 0 {
			w := float64(times) / float64(took)
			a = append(a, []float64{w * rows, w * payload})
			b = append(b, 1)
		}
	}
	x := solve(a, b, 2)
	k.Background, k.BackgroundByte = time.Duration(x[0]), x[1]
}

// memoryRow returns how many bytes of memory a row takes besides those of the log: what a file
// of the log that is full has less than is sorted at once.
func memoryRow(all []observed) float64 {
	var a [][]float64
	var b []float64
	for _, o := range all {
		sum, longest := 0, 0
		logs := make(map[int]int)
		for _, s := range o.syncs {
			sum += s.bytes
			logs[s.log] += s.bytes
			longest = max(longest, logs[s.log])
		}
		if longest < pebble.DefaultMemTableSize/2 { // it is the last one, or from before that much was kept at once
			continue
		}
		rows, _ := o.wrote()
		a = append(a, []float64{float64(rows) * float64(longest) / float64(sum)})
		b = append(b, float64(pebble.DefaultMemTableSize-longest))
	}
	return solve(a, b, 1)[0]
}

// atOnce returns how many rows of a run, and bytes of their payload, are sorted at once.
func (c *Curves) atOnce(o *observed) (rows, payload float64) {
	logged := 0
	for _, s := range o.syncs {
		logged += s.bytes
	}
	if logged == 0 {
		return 0, 0
	}
	r, p := o.wrote()
	share := c.Costs.BackgroundEvery / (float64(logged) + float64(r)*c.Costs.BackgroundRow)
	return share * float64(r), share * float64(p)
}

// sorting returns how many times what the store was told was sorted, and how long the store was
// busy with sorted files in all.
func (o *observed) sorting() (times int, took time.Duration) {
	const apart = 5 * time.Millisecond // else files are written one after the other
	sorts := slices.Clone(o.sorts)
	slices.SortFunc(sorts, func(x, y window) int { return x.from.Compare(y.from) })
	var busy, flushed time.Time // until when
	for _, w := range sorts {
		if w.flush {
			if times == 0 || w.from.Sub(flushed) >= apart {
				times++
			}
			flushed = w.to
		}
		if w.to.After(busy) {
			took += w.to.Sub(later(w.from, busy))
			busy = w.to
		}
	}
	return times, took
}

// sortingTime returns how long it computes to sort once what a run writes.
func (c *Curves) sortingTime(o *observed) time.Duration {
	rows, payload := c.atOnce(o)
	return time.Duration(rows*float64(c.Costs.Background) + payload*c.Costs.BackgroundByte)
}
