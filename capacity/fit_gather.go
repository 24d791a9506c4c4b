package capacity

import (
	"slices"
	"time"
)

// fitGather determines the time from the call of Submit until a writer that was idle asks the store
// for a transaction. It is the median of the runs where most calls find an idle writer.
func (c *Curves) fitGather(all []observed) {
	var took []time.Duration
	for _, o := range all {
		if o.calm() {
			took = append(took, o.gathered()...)
		}
	}
	c.Costs.Gather = max(0, quantile(took, 0.5)-usual.Submit)
}

// gathered returns the times from the calls of Submit until the writer asked for the transaction
// that inserted the task: the first transaction after the call that inserts.
func (o *observed) gathered() (took []time.Duration) {
	var inserts []commit
	for _, m := range o.commits {
		if m.inserts > 0 {
			inserts = append(inserts, m)
		}
	}
	slices.SortFunc(inserts, func(x, y commit) int { return x.began.Compare(y.began) })
	skipped := len(o.arrivals) - len(o.pacing)
	for i, late := range o.pacing {
		called := o.began.Add(o.arrivals[skipped+i].At + late)
		next, _ := slices.BinarySearchFunc(inserts, called, func(m commit, at time.Time) int { return m.began.Compare(at) })
		if next < len(inserts) {
			took = append(took, inserts[next].called.Sub(called))
		}
	}
	return took
}
