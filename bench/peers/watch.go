package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// watch records what happened to every job of one measurement. Jobs are numbered from zero.
type watch struct {
	began time.Time
	jobs  []note
	given atomic.Int64 // numbers handed out

	acknowledged atomic.Int64  // inserts
	called       atomic.Int64  // jobs whose handler was called
	again        atomic.Int64  // calls beyond the first of a job
	first        atomic.Int64  // when the first handler was called, as note.started
	free         chan struct{} // receives a token when a job is handled for the first time; may be nil

	mu       sync.Mutex
	errors   int64    // guarded by mu: of inserts and payloads
	messages []string // guarded by mu: the first few
}

// note is about one job. Times are nanoseconds since the watch began, plus one; zero is
// not yet.
type note struct {
	due     int64        // when it was to be inserted
	acked   atomic.Int64 // when its insert was acknowledged
	started atomic.Int64 // when its handler was called
}

// newWatch returns a watch over at most n jobs.
func newWatch(n int) *watch { return &watch{began: time.Now(), jobs: make([]note, n)} }

func (w *watch) now() int64 { return int64(time.Since(w.began)) + 1 }

// room waits until n more jobs may be in flight. It returns false if ctx ends before.
func (w *watch) room(ctx context.Context, n int) bool {
	if w.free != nil {
		for range n {
			select {
			case <-w.free:
			case <-ctx.Done():
				return false
			}
		}
	}
	return ctx.Err() == nil
}

// next returns up to n numbers of jobs that are due now, none when they are used up.
func (w *watch) next(n int) (from, to int) {
	to = int(w.given.Add(int64(n)))
	from, to = min(to-n, len(w.jobs)), min(to, len(w.jobs))
	now := w.now()
	for i := from; i < to; i++ {
		w.jobs[i].due = now
	}
	return from, to
}

// ack notes that the insert of some jobs was acknowledged, or failed.
func (w *watch) ack(from, to int, err error) {
	if err != nil {
		w.fail(err)
		return
	}
	now := w.now()
	for i := from; i < to; i++ {
		w.jobs[i].acked.Store(now)
	}
	w.acknowledged.Add(int64(to - from))
}

func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors++
	if len(w.messages) < 3 {
		w.messages = append(w.messages, err.Error())
	}
}

// handle is the handler of all jobs: it only records the call.
func (w *watch) handle(payload []byte) {
	now := w.now()
	n, err := number(payload)
	if err != nil || n >= len(w.jobs) {
		w.fail(fmt.Errorf("job %d of %d: %w", n, len(w.jobs), err))
		return
	}
	if !w.jobs[n].started.CompareAndSwap(0, now) {
		w.again.Add(1)
		return
	}
	w.first.CompareAndSwap(0, now)
	w.called.Add(1)
	if w.free != nil {
		w.free <- struct{}{}
	}
}

// firstCall returns how long after the beginning the first handler was called.
func (w *watch) firstCall() time.Duration { return time.Duration(w.first.Load()) }

// latency returns histograms over all jobs that were handled.
func (w *watch) latency() map[string]*result.Histogram {
	ack, start := result.NewHistogram(), result.NewHistogram()
	for i := range w.jobs {
		j := &w.jobs[i]
		if at := j.acked.Load(); at > 0 {
			ack.Record(time.Duration(at - j.due))
		}
		if at := j.started.Load(); at > 0 {
			start.Record(time.Duration(at - j.due))
		}
	}
	return map[string]*result.Histogram{result.InsertAck: ack, result.InsertToStart: start}
}

// check returns the check of a run. idle is whether the queue has reported that it is empty.
func (w *watch) check(idle bool) result.Check {
	c := result.Check{Checked: []string{
		"the handler of every job whose insert was acknowledged was called",
		"the queue holds no job afterwards: all were acknowledged to it",
		"no insert failed",
	}}
	for i := range w.jobs {
		if w.jobs[i].acked.Load() > 0 && w.jobs[i].started.Load() == 0 {
			c.Lost++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Lost > 0 {
		c.Notes = append(c.Notes, result.Counted(c.Lost, "job")+" had not been run when the time for it was over")
	}
	if again := w.again.Load(); again > 0 {
		c.Notes = append(c.Notes, "jobs that had been run were handled again, as at-least-once permits: "+result.Counted(again, "call"))
	}
	if !idle {
		c.Notes = append(c.Notes, "the queue still held jobs when the time for it was over")
	}
	c.Notes = append(c.Notes, w.messages...)
	c.OK = c.Lost == 0 && w.errors == 0 && idle
	return c
}

// run returns the result of the run. elapsed is the time since the first job.
func (w *watch) run(began time.Time, elapsed time.Duration, idle bool) result.Run {
	finished := w.called.Load()
	return result.Run{
		Began: began, Elapsed: elapsed,
		Submitted: w.acknowledged.Load(), Finished: finished, Attempts: finished + w.again.Load(),
		Rate:    float64(finished) / elapsed.Seconds(),
		Latency: map[string]*result.Histogram{},
		Check:   w.check(idle),
	}
}
