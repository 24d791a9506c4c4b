package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/machine"
)

// lateBy is the least delay of a submit that counts as late.
const lateBy = int64(time.Millisecond)

// most is the maximum number of concurrent submits of an open load. When the engine is that far
// behind, more submits would only measure the memory that they take. The intended times of tasks do
// not change.
const most = 20_000

// openLoop submits tasks at their times, independently of each other.
func (rep *repetition) openLoop(ctx context.Context, sched *schedule) error {
	return rep.paced(ctx, func() (submit, bool) {
		a, ok := sched.next()
		if !ok {
			return submit{}, false
		}
		return rep.register(rep.begin+int64(a.at), a.draw), true
	})
}

// paced submits tasks at their times, each batch in a goroutine of its own.
func (rep *repetition) paced(ctx context.Context, next func() (submit, bool)) error {
	runtime.LockOSThread() // so that pauses are exact
	defer runtime.UnlockOSThread()
	machine.Sharpen()
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, most)
	batch := rep.s.Load.Batch
	for {
		group := make([]submit, 0, batch)
		for len(group) < batch {
			one, ok := next()
			if !ok {
				break
			}
			group = append(group, one)
		}
		if len(group) == 0 {
			return nil
		}
		if err := rep.pauseUntil(ctx, group[len(group)-1].rec.intended); err != nil {
			return err
		}
		free <- struct{}{}
		wg.Go(func() {
			rep.submit(ctx, group)
			<-free
		})
	}
}

// pauseUntil sleeps until a time, as in records.
func (rep *repetition) pauseUntil(ctx context.Context, at int64) error {
	const nap = 50 * time.Millisecond // maximum delay in noticing that ctx has ended
	due := rep.records.time(at)
	for left := time.Until(due); left > 0; left = time.Until(due) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		machine.Pause(min(left, nap))
	}
	return context.Cause(ctx)
}

// submit is a task to submit, with its record.
type submit struct {
	rec  *record
	draw draw
}

// register makes the record of a task.
func (rep *repetition) register(intended int64, d draw) submit {
	i, rec := rep.records.add()
	rec.id = rep.records.newID(i, rep.records.time(intended))
	rec.intended, rec.flow, rec.key = intended, d.flow, d.key
	if f := &rep.s.Tasks[d.flow]; f.Delayed() {
		// Rows have times in microseconds.
		rec.due = (rep.begin + int64(f.After) + int64(d.part*float64(f.Within))) / 1000 * 1000
	}
	return submit{rec, d}
}

// submit submits tasks in one call. Tasks that are not acknowledged may be submitted again.
func (rep *repetition) submit(ctx context.Context, group []submit) {
	var few [1]engine.Request
	reqs := few[:0]
	for _, g := range group {
		var due time.Time
		if g.rec.due > 0 {
			due = rep.records.time(g.rec.due)
		}
		reqs = append(reqs, rep.ask.request(g.rec.id, g.draw, due))
	}
	now := rep.records.since(time.Now())
	for _, g := range group {
		g.rec.called = now
	}
	_, err := rep.engine.Submit(ctx, reqs...)
	now = rep.records.since(time.Now())
	if err != nil {
		rep.note(&rep.errNotes, "task %v: it was not accepted: %v", group[0].rec.id, err)
		return
	}
	for _, g := range group {
		g.rec.acked = now
	}
	rep.returned.Add(int64(len(group)))
}

// closedLoop submits a task whenever one has ended, until the time is over or all tasks are submitted.
func (rep *repetition) closedLoop(ctx context.Context) error {
	l := rep.s.Load
	var mu sync.Mutex // guards deal and left
	deal, left := newDealer(rep.s), l.Tasks
	end := rep.measured + int64(rep.s.Duration)
	take := func() (group []submit) {
		mu.Lock()
		defer mu.Unlock()
		now := rep.records.since(time.Now())
		if l.Tasks == 0 && now >= end || ctx.Err() != nil {
			return nil
		}
		for len(group) < l.Batch && (l.Tasks == 0 || left > 0) {
			group = append(group, rep.register(now, deal.next()))
			left--
		}
		return group
	}
	going, stop := context.WithCancel(ctx)
	defer stop()
	go rep.stopWhenStuck(going, stop)
	var wg sync.WaitGroup
	for range max(1, l.InFlight/l.Batch) {
		wg.Go(func() {
			for rep.acquire(going, l.Batch) {
				group := take()
				if len(group) == 0 {
					rep.release(l.Batch)
					return
				}
				rep.submit(ctx, group)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("submit tasks: %w", err)
	}
	return nil
}

// acquire waits until n more tasks may be in flight.
func (rep *repetition) acquire(ctx context.Context, n int) bool {
	for i := range n {
		select {
		case rep.tokens <- struct{}{}:
		case <-ctx.Done():
			rep.release(i)
			return false
		}
	}
	return true
}

// release ends the flight of n tasks.
func (rep *repetition) release(n int) {
	for range n {
		select {
		case <-rep.tokens:
		default: // a task has ended twice, which the verifier reports
		}
	}
}

// stopWhenStuck ends a closed loop when no task ends any more: lost tasks would stay in flight
// forever.
func (rep *repetition) stopWhenStuck(ctx context.Context, stop func()) {
	const look = 50 * time.Millisecond
	seen, since := int64(-1), time.Now()
	for sleep(ctx, look) == nil {
		if now := rep.ended.Load(); now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > rep.o.patience() {
			stop()
		}
	}
}
