package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/storage/pebble"
)

// points is the number of quantiles that are kept of a measured distribution. So many are needed
// because one sync in thousands delays so many tasks that it determines their 99th percentile.
const points = 10_001

// distribution returns the quantiles of measured durations. Each is the mean of the durations
// around it: otherwise the longest of thousands would stand for all rare ones. The first and the
// last are means of half as many, so that the mean of the distribution remains the same.
func distribution(ds []time.Duration) sim.Quantiles {
	if len(ds) == 0 {
		return nil
	}
	ds = slices.Clone(ds)
	slices.Sort(ds)
	n := len(ds)
	q := make(sim.Quantiles, min(points, n))
	last := max(1, 2*(len(q)-1))
	for i := range q {
		from := min(n-1, max(0, 2*i-1)*n/last)
		around := ds[from:max(from+1, min(last, 2*i+1)*n/last)]
		if len(q) == n {
			around = ds[i : i+1]
		}
		var sum time.Duration
		for _, d := range around {
			sum += max(0, d)
		}
		q[i] = sum / time.Duration(len(around))
	}
	return q
}

// usual has costs that are too small to be separated by measuring: beside the commits, a task takes
// next to no time.
var usual = sim.Costs{Submit: 2 * time.Microsecond, Tell: 2 * time.Microsecond, TellRow: 200, Start: time.Microsecond, End: time.Microsecond}

// fit determines the curves from all observed runs.
func (c *Curves) fit(all []observed) error {
	k := &c.Costs
	k.Serial = c.Store == "bolt"
	c.fitHold(all)
	c.fitSync(all)
	c.fitGather(all)
	c.fitPacing(all)
	c.fitBytes(all)
	k.Submit, k.Tell, k.TellRow, k.Start, k.End = usual.Submit, usual.Tell, usual.TellRow, usual.Start, usual.End
	c.fitBackground(all)
	var wakes []waking
	for range 4 {
		var err error
		if wakes, err = c.wakes(all, wakes); err != nil {
			return err
		}
		c.fitCPU(all, wakes)
	}
	for _, o := range all {
		if o.rate == 0 {
			continue
		}
		f, err := c.model(&o, 1)
		if err != nil {
			return err
		}
		c.Fit = append(c.Fit, Fit{Run: o.name, Foreign: o.foreign, Measured: o.figures.sum(), Model: f.Figures})
	}
	return nil
}

// sum returns the figures that are predicted.
func (f *figures) sum() Figures {
	s := f.elapsed.Seconds()
	return Figures{
		P50: quantile(f.starts, 0.5), P99: quantile(f.starts, 0.99), Rate: float64(f.tasks) / s, CPU: f.cpu.Seconds() / s,
		Running: f.running, Commits: float64(len(f.commits)) / s, Bytes: float64(f.written) / s,
	}
}

// fitHold determines the CPU time of a transaction: per commit, row and byte. It uses the medians of
// commits that are alike; the time beyond is a stall.
func (c *Curves) fitHold(all []observed) {
	var a [][]float64
	var b []float64
	type kind struct{ inserts, swaps, size int }
	for _, o := range all {
		alike := map[kind][]commit{}
		for _, m := range o.commits {
			k := kind{bits(m.inserts), bits(m.swaps), o.calibration.size}
			alike[k] = append(alike[k], m)
		}
		for _, ms := range alike {
			if len(ms) < 10 {
				continue
			}
			slices.SortFunc(ms, func(x, y commit) int { return cmp.Compare(x.hold, y.hold) })
			m := ms[len(ms)/2]
			w := math.Sqrt(float64(len(ms))) / float64(m.hold)
			a = append(a, []float64{w, w * float64(m.inserts), w * float64(m.swaps), w * float64(m.bytes)})
			b = append(b, w*float64(m.hold))
		}
	}
	x := solve(a, b, 4)
	k := &c.Costs
	k.Commit, k.Insert, k.Swap, k.InsertByte = time.Duration(x[0]), time.Duration(x[1]), time.Duration(x[2]), x[3]
	var excess []time.Duration
	for _, o := range all {
		if !o.calm() {
			continue
		}
		for _, m := range o.commits {
			expected := k.Commit + time.Duration(m.inserts)*k.Insert + time.Duration(m.swaps)*k.Swap + time.Duration(float64(m.bytes)*k.InsertByte)
			excess = append(excess, max(0, m.hold-expected))
		}
	}
	k.Stall = distribution(excess)
}

// calm reports whether the machine was idle for most of the time, so that tasks did not delay each
// other. Such delays are for the model to predict.
func (o *observed) calm() bool {
	const most = 1000
	return o.rate > 0 && o.rate <= most
}

// bits returns the same value for numbers of about the same size.
func bits(n int) int {
	b := 0
	for ; n > 0; n >>= 1 {
		b++
	}
	return b
}

// fitPacing determines how late trials submit tasks and end handlers.
func (c *Curves) fitPacing(all []observed) {
	pacing := func(of bool) sim.ByIdleness {
		const us = time.Microsecond
		return byIdle([]time.Duration{0, 100 * us, 500 * us, 2000 * us, 5000 * us}, func(yield func(idle, took time.Duration)) {
			for _, o := range all {
				if o.calm() && (o.size >= large) == of {
					o.paced(yield)
				}
			}
		})
	}
	c.Pacing, c.PacingLarge = pacing(false), pacing(true)
	var late []time.Duration
	for _, o := range all {
		if o.calm() {
			late = append(late, o.late...)
		}
	}
	c.Late = distribution(late)
}

// paced yields for each task the time since the task before, and how late it was submitted.
func (o *observed) paced(yield func(idle, took time.Duration)) {
	skipped := len(o.arrivals) - len(o.pacing)
	var previous time.Duration
	for i, p := range o.pacing {
		at := o.arrivals[skipped+i].At
		if at >= previous { // else the task before has delayed it
			yield(at-previous, p)
		}
		previous = at + p
	}
}

// fitBytes determines the written bytes: per commit, row and byte of payload, without the bytes that
// fill logs ahead.
func (c *Curves) fitBytes(all []observed) {
	var a, kept [][]float64
	var b, sizes []float64
	for _, o := range all {
		if o.written == 0 {
			continue
		}
		rows, payload := o.wrote()
		filled := 0
		for _, s := range o.syncs {
			filled += s.filled
		}
		w := 1 / float64(o.written)
		a = append(a, []float64{w * float64(len(o.commits)), w * float64(rows), w * float64(payload)})
		b = append(b, w*float64(o.written-int64(filled)))
	}
	k := &c.Costs
	k.Inline = pebble.InlinePayload // bolt has the same codec
	if len(a) > 0 {
		x := solve(a, b, 3)
		k.CommitBytes, k.InsertBytes, k.SwapBytes, k.Amplify = x[0], x[1], x[1], x[2]
	}
	for _, o := range all {
		const many = 10_000 // with fewer, the minimum size of files dominates
		if n := len(o.arrivals); n >= many && o.folder > 0 {
			w := 1 / float64(o.folder)
			kept = append(kept, []float64{w * float64(n), w * float64(n*o.calibration.size)})
			sizes = append(sizes, 1)
		}
	}
	if len(kept) > 0 {
		x := solve(kept, sizes, 2)
		c.KeptRow, c.KeptPayload = x[0], x[1]
	}
}

// wrote returns the number of rows and the bytes of payload that were written.
func (o *observed) wrote() (rows, payload int) {
	for _, m := range o.commits {
		rows, payload = rows+m.inserts+m.swaps, payload+m.bytes
		if size := o.calibration.size; size <= pebble.InlinePayload {
			payload += m.swaps * size
		}
	}
	return rows, payload
}

// model simulates a run of the calibration.
func (c *Curves) model(o *observed, seed uint64) (modelled, error) {
	r, err := c.simulate(simulated{policies: freely(), arrivals: o.arrivals, skip: o.skip(), cores: c.Machine.Cores, seed: seed, paced: true})
	if err != nil {
		return modelled{}, fmt.Errorf("model %s: %w", o.name, err)
	}
	return r, nil
}

// solve returns the non-negative x that minimizes the distance of a·x from b, by coordinate
// descent.
func solve(a [][]float64, b []float64, n int) []float64 {
	x := make([]float64, n)
	scale := make([]float64, n)
	for _, row := range a {
		for j, v := range row {
			scale[j] += v * v
		}
	}
	rest := slices.Clone(b)
	const rounds = 20_000
	for range rounds {
		for j := range x {
			if scale[j] == 0 {
				continue
			}
			down := 0.0
			for i, row := range a {
				down += row[j] * rest[i]
			}
			next := max(0, x[j]+down/scale[j])
			for i, row := range a {
				rest[i] -= row[j] * (next - x[j])
			}
			x[j] = next
		}
	}
	return x
}
