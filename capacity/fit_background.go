package capacity

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage/pebble"
)

// fitBackground determines the memory that a row takes until the store sorts it into a file, and
// the CPU time that sorting takes: as long as files are written, merged and removed while the load
// leaves a core for it.
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

// memoryRow returns the bytes of memory that a row takes in addition to its bytes in the log: the
// difference between the size that makes the store sort and the size of a full file of the log.
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
		if longest < pebble.DefaultMemTableSize/2 { // it is the last file, or from the time before the memtable had its full size
			continue
		}
		rows, _ := o.wrote()
		a = append(a, []float64{float64(rows) * float64(longest) / float64(sum)})
		b = append(b, float64(pebble.DefaultMemTableSize-longest))
	}
	return solve(a, b, 1)[0]
}

// atOnce returns the number of rows of a run, and the bytes of their payload, that are sorted at once.
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

// sorting returns how many times the store sorted new data into files, and how long it was busy
// with sorted files in all.
func (o *observed) sorting() (times int, took time.Duration) {
	const apart = 5 * time.Millisecond // with less, the files belong to one flush
	sorts := slices.Clone(o.sorts)
	slices.SortFunc(sorts, func(x, y window) int { return x.from.Compare(y.from) })
	var busy, flushed time.Time // ends of the busy time and of the last flush so far
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

// sortingTime returns the CPU time to sort the rows and payloads of a run once.
func (c *Curves) sortingTime(o *observed) time.Duration {
	rows, payload := c.atOnce(o)
	return time.Duration(rows*float64(c.Costs.Background) + payload*c.Costs.BackgroundByte)
}
