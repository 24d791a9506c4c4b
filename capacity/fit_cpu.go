package capacity

import "time"

// waking is the number of times that a process woke up, and how many of these were after a long rest.
type waking struct{ all, cold float64 }

// wakes returns how often the process of each run woke up according to the model. The cost of a
// wake-up is fitted with these numbers and changes them in turn. To make this converge, wakes
// returns the mean of the new and the previous numbers.
func (c *Curves) wakes(all []observed, before []waking) ([]waking, error) {
	ws := make([]waking, len(all))
	for i, o := range all {
		if o.rate == 0 {
			continue
		}
		f, err := c.model(&o, 1)
		if err != nil {
			return nil, err
		}
		often, cold := f.wakes()
		ws[i] = waking{often * o.elapsed.Seconds(), cold * o.elapsed.Seconds()}
		if before != nil {
			ws[i] = waking{(ws[i].all + before[i].all) / 2, (ws[i].cold + before[i].cold) / 2}
		}
	}
	return ws, nil
}

// fitCPU determines the remaining CPU time of the process: per commit, task, wake-up and byte.
func (c *Curves) fitCPU(all []observed, wakes []waking) {
	var a [][]float64
	var b []float64
	k := &c.Costs
	for i, o := range all {
		if o.callers == 1 {
			continue
		}
		var known time.Duration
		bytes := 0
		for _, m := range o.commits {
			bytes += m.bytes
			known += k.Commit + time.Duration(m.inserts)*k.Insert + time.Duration(m.swaps)*k.Swap + time.Duration(float64(m.bytes)*k.InsertByte)
			known += k.Tell + time.Duration(m.inserts+m.swaps)*k.TellRow
		}
		times, _ := o.sorting()
		known += time.Duration(times) * c.sortingTime(&o)
		known += time.Duration(o.figures.tasks) * (usual.Submit + k.Start + k.End)
		alone := 0.0
		if o.rate > 0 {
			alone = float64(o.figures.tasks)
		}
		w := 1 / float64(o.cpu)
		a = append(a, []float64{w * float64(len(o.commits)), w * float64(o.figures.tasks), w * wakes[i].all, w * float64(bytes), w * alone, w * wakes[i].cold})
		b = append(b, w*max(0, float64(o.cpu-known)))
	}
	x := solve(a, b, 6)
	k.SyncCPU, k.Wake, k.ColdWake, k.AckByte = time.Duration(x[0]), time.Duration(x[2]), time.Duration(x[5]), x[3]
	k.Ack = time.Duration(x[1] + x[4]) // callers that come one by one cost more than many at once
}
