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

// lateBy is how late a submit has to be called for it to be told.
const lateBy = int64(time.Millisecond)

// most is how many submits of an open load may be under way at once. When the engine is
// that far behind, more of them would measure nothing but the memory they take; the
// times that tasks were wanted at do not move.
const most = 20_000

// openLoop submits tasks at their times, whatever becomes of the others.
func (ses *session) openLoop(ctx context.Context, sched *schedule) error {
	return ses.paced(ctx, func() (submit, bool) {
		a, ok := sched.next()
		if !ok {
			return submit{}, false
		}
		return ses.register(ses.begin+int64(a.at), a.draw), true
	})
}

// paced submits tasks at their times, each group of them in a goroutine of its own.
func (ses *session) paced(ctx context.Context, next func() (submit, bool)) error {
	runtime.LockOSThread() // its pauses are exact
	defer runtime.UnlockOSThread()
	machine.Sharpen()
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, most)
	batch := ses.s.Load.Batch
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
		if err := ses.pauseUntil(ctx, group[len(group)-1].rec.intended); err != nil {
			return err
		}
		free <- struct{}{}
		wg.Go(func() {
			ses.submit(ctx, group)
			<-free
		})
	}
}

// pauseUntil sleeps until a time of the records.
func (ses *session) pauseUntil(ctx context.Context, at int64) error {
	const nap = 50 * time.Millisecond // how long it may take to notice that ctx has ended
	due := ses.records.time(at)
	for left := time.Until(due); left > 0; left = time.Until(due) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		machine.Pause(min(left, nap))
	}
	return context.Cause(ctx)
}

// submit is a task that is about to be submitted.
type submit struct {
	rec  *record
	draw draw
}

// register makes the record of a task.
func (ses *session) register(intended int64, d draw) submit {
	i, rec := ses.records.add()
	rec.id = ses.records.newID(i, ses.records.time(intended))
	rec.intended, rec.flow, rec.key = intended, d.flow, d.key
	if f := &ses.s.Tasks[d.flow]; f.Delayed() {
		// Rows keep microseconds.
		rec.due = (ses.begin + int64(f.After) + int64(d.part*float64(f.Within))) / 1000 * 1000
	}
	return submit{rec, d}
}

// submit submits tasks together. Those that are not acknowledged may be submitted again.
func (ses *session) submit(ctx context.Context, group []submit) {
	var few [1]engine.Request
	reqs := few[:0]
	for _, g := range group {
		var due time.Time
		if g.rec.due > 0 {
			due = ses.records.time(g.rec.due)
		}
		reqs = append(reqs, ses.ask.request(g.rec.id, g.draw, due))
	}
	now := ses.records.since(time.Now())
	for _, g := range group {
		g.rec.called = now
	}
	_, err := ses.engine.Submit(ctx, reqs...)
	now = ses.records.since(time.Now())
	if err != nil {
		ses.note(&ses.errNotes, "task %v: it was not accepted: %v", group[0].rec.id, err)
		return
	}
	for _, g := range group {
		g.rec.acked = now
	}
	ses.returned.Add(int64(len(group)))
}

// closedLoop submits a task for each that has ended, until the time is over or all are
// submitted.
func (ses *session) closedLoop(ctx context.Context) error {
	l := ses.s.Load
	var mu sync.Mutex // guards deal and left
	deal, left := newDealer(ses.s), l.Tasks
	end := ses.measured + int64(ses.s.Duration)
	take := func() (group []submit) {
		mu.Lock()
		defer mu.Unlock()
		now := ses.records.since(time.Now())
		if l.Tasks == 0 && now >= end || ctx.Err() != nil {
			return nil
		}
		for len(group) < l.Batch && (l.Tasks == 0 || left > 0) {
			group = append(group, ses.register(now, deal.next()))
			left--
		}
		return group
	}
	going, stop := context.WithCancel(ctx)
	defer stop()
	go ses.stopWhenStuck(going, stop)
	var wg sync.WaitGroup
	for range max(1, l.InFlight/l.Batch) {
		wg.Go(func() {
			for ses.acquire(going, l.Batch) {
				group := take()
				if len(group) == 0 {
					ses.release(l.Batch)
					return
				}
				ses.submit(ctx, group)
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
func (ses *session) acquire(ctx context.Context, n int) bool {
	for i := range n {
		select {
		case ses.tokens <- struct{}{}:
		case <-ctx.Done():
			ses.release(i)
			return false
		}
	}
	return true
}

// release takes n tasks out of flight.
func (ses *session) release(n int) {
	for range n {
		select {
		case <-ses.tokens:
		default: // a task that ended twice; the verifier tells
		}
	}
}

// stopWhenStuck ends a closed load when no task ends any more: those that are lost
// would stay in flight for ever.
func (ses *session) stopWhenStuck(ctx context.Context, stop func()) {
	const look = 50 * time.Millisecond
	seen, since := int64(-1), time.Now()
	for sleep(ctx, look) == nil {
		if now := ses.ended.Load(); now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > ses.o.patience() {
			stop()
		}
	}
}
