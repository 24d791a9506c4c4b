package bench

import (
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/task"
)

// allFlows selects the tasks of all flows.
const allFlows = -1

// figures returns the figures of all flows together, and of each flow that is apart.
func (r *runner) figures(rep *repetition, m *meter, cost result.Cost, check result.Check) map[int]result.Run {
	runs := make(map[int]result.Run)
	wanted := []int{allFlows}
	for i, f := range r.s.Tasks {
		if f.Apart {
			wanted = append(wanted, i)
		}
	}
	for _, flow := range wanted {
		run := rep.measure(flow, m)
		run.Check, run.Others = check, m.others
		if flow == allFlows { // the cost of a single flow is unknown
			run.Cost = cost
		}
		if r.s.Load.Shape == Idle {
			run.Elapsed = r.s.Duration
		}
		runs[flow] = run
	}
	return runs
}

// firstStart returns how long after a time the first task was started.
func (rep *repetition) firstStart(after int64) time.Duration {
	first := int64(0)
	for _, rec := range rep.records.all {
		for _, at := range []int64{rec.started, rec.begun} {
			if at > after && (first == 0 || at < first) {
				first = at
			}
		}
	}
	if first == 0 {
		return 0
	}
	return time.Duration(first - after)
}

// measure returns the figures of the tasks of a flow, or of all tasks.
func (rep *repetition) measure(flow int, m *meter) result.Run {
	run := result.Run{Began: rep.records.time(rep.measured), Latency: make(map[string]*result.Histogram), Offered: rep.offered(flow)}
	first, last, late := int64(0), int64(0), int64(0) // of the load: its first submit, and its last outcome
	for _, rec := range rep.records.all {
		if !rep.counts(rec, flow) {
			continue
		}
		run.Attempts += int64(rec.calls.Load())
		if rec.acked > 0 {
			run.Submitted++
		}
		if first == 0 || rec.intended < first {
			first = rec.intended // a late first submit must not make the load look faster
		}
		if rec.called-rec.intended > lateBy {
			late++
		}
		last = max(last, rec.saved)
		switch rec.state {
		case task.Done:
			run.Finished++
		case task.Error, task.Failed, task.Cancelled:
			run.Failed++
		}
		rep.latencies(run.Latency, rec)
	}
	if first > 0 && last > first {
		run.Elapsed = time.Duration(last - first)
		run.Rate = float64(run.Finished+run.Failed) / run.Elapsed.Seconds()
	}
	if rep.s.Load.Open() {
		run.Late = late
	}
	run.Points = rep.points(flow, m, last)
	return run
}

// offered returns the intended rate of the load after the warm-up, in tasks per second; 0 is a
// closed loop.
func (rep *repetition) offered(flow int) float64 {
	if rep.s.Load.Shape == Replay {
		return traceRate(rep.trace, rep.s.WarmUp, flow)
	}
	rate := rep.s.offered(rep.rate)
	if flow == allFlows {
		return rate
	}
	sum := 0.0
	for _, f := range rep.s.Tasks {
		sum += f.Share
	}
	return rate * rep.s.Tasks[flow].Share / sum
}

// traceRate returns the rate of a trace from a time on, in tasks per second. A trace shorter than a
// second counts as one second.
func traceRate(trace []arrival, from time.Duration, flow int) float64 {
	first, last, n := time.Duration(-1), time.Duration(0), 0
	for _, a := range trace {
		if a.at < from {
			continue
		}
		if first < 0 {
			first = a.at
		}
		last = a.at
		if flow == allFlows || int(a.flow) == flow {
			n++
		}
	}
	return float64(n) / max(time.Second, last-first).Seconds()
}

// counts reports whether a task belongs to the flow and not to the warm-up.
func (rep *repetition) counts(rec *record, flow int) bool {
	return rec.called > 0 && rec.intended >= rep.measured && (flow == allFlows || int(rec.flow) == flow)
}

// latencies adds the latencies of one task.
func (rep *repetition) latencies(to map[string]*result.Histogram, rec *record) {
	add := func(name string, from, until int64) {
		if from == 0 || until == 0 {
			return
		}
		h := to[name]
		if h == nil {
			h = result.NewHistogram()
			to[name] = h
		}
		h.Record(time.Duration(until - from))
	}
	add(result.InsertAck, rec.intended, rec.acked)
	if rec.durable > 0 {
		add(result.TriggerToGrab, max(rec.durable, rec.due), rec.started)
	}
	if rec.returned > 0 {
		add(result.FinishAck, rec.returned, rec.saved)
	}
	if rec.due > 0 {
		add(result.Lateness, rec.due, rec.started)
		return // the other latencies would depend on when the task was due
	}
	add(result.InsertToStart, rec.intended, rec.started)
	add(result.EndToEnd, rec.intended, rec.saved)
}

// pointEvery is the length of the intervals of the points over time.
const pointEvery = time.Second

// points returns the figures over time. The last interval ends with the last outcome. It is up to
// half as long again as the others, so that no interval is too short to be meaningful.
func (rep *repetition) points(flow int, m *meter, last int64) []result.Point {
	total := last - rep.measured
	n := max(1, int((total+int64(pointEvery)/2)/int64(pointEvery)))
	if total <= 0 || n > 24*3600 {
		return nil
	}
	points := make([]result.Point, n)
	starts := make([]*result.Histogram, n)
	at := func(ns int64) int { return min(max(0, int((ns-rep.measured)/int64(pointEvery))), n-1) }
	for i := range points {
		points[i].At = time.Duration(i+1) * pointEvery
	}
	points[n-1].At = time.Duration(total)
	for _, rec := range rep.records.all {
		if !rep.counts(rec, flow) {
			continue
		}
		points[at(rec.called)].Submitted++
		if rec.saved > 0 {
			points[at(rec.saved)].Finished++
		}
		if rec.started > 0 && rec.due == 0 {
			i := at(rec.started)
			if starts[i] == nil {
				starts[i] = result.NewHistogram()
			}
			starts[i].Record(time.Duration(rec.started - rec.intended))
		}
	}
	for i, h := range starts {
		if h != nil {
			points[i].StartP50, points[i].StartP99 = h.Quantile(0.5), h.Quantile(0.99)
		}
	}
	rep.sampled(points, m, at)
	return points
}

// sampled adds the samples of the meter to the points.
func (rep *repetition) sampled(points []result.Point, m *meter, at func(int64) int) {
	before, cpu := m.began, time.Duration(0)
	for _, s := range m.samples {
		took := s.at.Sub(before)
		p := &points[at(rep.records.since(before.Add(took/2)))]
		if took < pointEvery/10 || took < pointEvery/2 && p.Resident > 0 {
			continue // the last sample, taken at the end
		}
		p.CPU, p.Resident = float64(s.cpu-cpu)/float64(took), s.resident
		before, cpu = s.at, s.cpu
	}
}
