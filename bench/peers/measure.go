package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// Names of the scenarios, in the order of the tables.
const (
	insertOne  = "peers/insert-one"
	insertMany = "peers/insert-many"
	drain      = "peers/drain"
	lifeOne    = "peers/life-one"
	lifeMany   = "peers/life-many"
	latency    = "peers/latency"
)

// purposes are the questions that the scenarios answer.
var purposes = map[string]string{
	insertOne:  "How many jobs per second are inserted one at a time, by many at once, while nobody works?",
	insertMany: "How many jobs per second are inserted in the best way to insert many, while nobody works?",
	drain:      "How many jobs per second are worked off that were there before the workers began?",
	lifeOne:    "How many whole lives of jobs per second, inserted one at a time by many at once while others are worked?",
	lifeMany:   "How many whole lives of jobs per second, inserted many at a time while others are worked?",
	latency:    "How long from the time at which a job was to be inserted to its acknowledgement and to its start, at a steady rate below the limit?",
}

// plan says how long things take.
type plan struct {
	insert   time.Duration // of inserting while nobody works
	drain    time.Duration // that a drain should take
	life     time.Duration // of inserting while others work
	latency  time.Duration
	warm     time.Duration // of inserting while others work, before something is measured
	rate     int           // jobs per second of the latency measurement
	patience time.Duration // how long after the last insert all work may take
}

// most is how many jobs of a measurement there are at most: memory is set aside for
// them before it begins.
const most = 2_000_000

// inserts measures inserts while nobody works.
func inserts(ctx context.Context, s subject, p peer, pl plan) (map[string]result.Run, error) {
	out := make(map[string]result.Run)
	out[insertOne] = onlyInsert(ctx, p, s.singles, 1, pl.insert)
	if s.batch > 1 {
		out[insertMany] = onlyInsert(ctx, p, s.loaders, s.batch, pl.insert)
	}
	return out, ctx.Err()
}

func onlyInsert(ctx context.Context, p peer, goroutines, many int, d time.Duration) result.Run {
	w := newWatch(most)
	began := time.Now()
	insertFor(ctx, p, w, goroutines, many, d)
	elapsed := time.Since(began)
	n := w.acknowledged.Load()
	return result.Run{
		Began: began, Elapsed: elapsed, Submitted: n, Rate: float64(n) / elapsed.Seconds(),
		Latency: map[string]*result.Histogram{},
		Check:   result.Check{OK: w.errors == 0, Notes: w.messages, Checked: []string{"no insert failed; the other measurements check that none is lost"}},
	}
}

// drained inserts n jobs while nobody works, and measures how they are worked off.
func drained(ctx context.Context, s subject, p peer, pl plan, n int) (map[string]result.Run, error) {
	w := newWatch(n)
	insertFor(ctx, p, w, s.loaders, max(1, s.batch), pl.patience)
	began := time.Now()
	if err := p.work(ctx, w.handle); err != nil {
		return nil, fmt.Errorf("start to work: %w", err)
	}
	idle, err := settle(ctx, p, w, pl.patience)
	// From the first call of a handler: how long workers take to start is not the question.
	return map[string]result.Run{drain: w.run(began, time.Since(w.began)-w.firstCall(), idle)}, err
}

// enough returns how many jobs are drained in about the time that the plan wants, by
// draining more and more of them.
func enough(ctx context.Context, s subject, pl plan, fresh func(func(peer) error) error) (int, error) {
	for n := 2000; ; n *= 8 {
		var run result.Run
		err := fresh(func(p peer) error {
			runs, err := drained(ctx, s, p, pl, n)
			run = runs[drain]
			return err
		})
		switch {
		case err != nil:
			return 0, err
		case run.Finished == 0:
			return 0, fmt.Errorf("no job of %d was worked in %v: %v", n, pl.patience, run.Check.Notes)
		case run.Elapsed >= pl.drain/8 || n >= most/8:
			return min(most, max(1000, int(run.Rate*pl.drain.Seconds()))), nil
		}
	}
}

// insertFor inserts for a while, or until the numbers are used up: n goroutines, each
// many jobs at a time.
func insertFor(ctx context.Context, p peer, w *watch, n, many int, d time.Duration) {
	timed, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for w.room(timed, many) {
				from, to := w.next(many)
				if from == to {
					return
				}
				payloads := make([][]byte, 0, to-from)
				for i := from; i < to; i++ {
					payloads = append(payloads, payload(i))
				}
				w.ack(from, to, p.insert(ctx, payloads...))
			}
		})
	}
	wg.Wait()
}

// life lets jobs be inserted while others are worked, with a fixed number of them in
// flight: inserted, and their handler not called yet.
func life(ctx context.Context, s subject, p peer, w *watch, many int, d, patience time.Duration) (result.Run, error) {
	goroutines, inFlight := s.singles, s.singles
	if many > 1 {
		goroutines, inFlight = 2*s.loaders, 2*s.loaders*many
	}
	w.free = make(chan struct{}, inFlight+many*goroutines)
	for range inFlight {
		w.free <- struct{}{}
	}
	began := time.Now()
	insertFor(ctx, p, w, goroutines, many, d)
	w.jobs = w.jobs[:min(len(w.jobs), int(w.given.Load()))]
	idle, err := settle(ctx, p, w, patience)
	return w.run(began, time.Since(began), idle), err
}

// relay hands jobs to the watch whose turn it is.
type relay struct {
	mu sync.RWMutex
	to *watch // guarded by mu
}

func (r *relay) set(w *watch) *watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = w
	return w
}

func (r *relay) handle(payload []byte) {
	r.mu.RLock()
	w := r.to
	r.mu.RUnlock()
	w.handle(payload)
}

// lives measures whole lives, one at a time and many at a time, after a warm-up.
func lives(ctx context.Context, s subject, p peer, pl plan) (map[string]result.Run, error) {
	var r relay
	if err := warmUp(ctx, s, p, pl, &r); err != nil {
		return nil, err
	}
	out := make(map[string]result.Run)
	one, err := life(ctx, s, p, r.set(newWatch(most)), 1, pl.life, pl.patience)
	if err != nil {
		return nil, err
	}
	out[lifeOne] = one
	if s.batch > 1 {
		if out[lifeMany], err = life(ctx, s, p, r.set(newWatch(most)), min(s.batch, lifeBatch), pl.life, pl.patience); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lifeBatch is how many jobs are inserted at once at most while others are worked:
// more would measure a queue that is filled and drained in turns.
const lifeBatch = 256

func warmUp(ctx context.Context, s subject, p peer, pl plan, r *relay) error {
	w := r.set(newWatch(most))
	if err := p.work(ctx, r.handle); err != nil {
		return fmt.Errorf("start to work: %w", err)
	}
	run, err := life(ctx, s, p, w, 1, pl.warm, pl.patience)
	if err == nil && !run.Check.OK {
		err = fmt.Errorf("warm-up: %v", run.Check.Notes)
	}
	return err
}

// openLoop inserts at a steady rate, each job at its time and in a goroutine of its own
// whatever becomes of the others, so that no delay hides another.
func openLoop(ctx context.Context, s subject, p peer, pl plan) (map[string]result.Run, error) {
	var r relay
	if err := warmUp(ctx, s, p, pl, &r); err != nil {
		return nil, err
	}
	w := r.set(newWatch(int(pl.latency.Seconds() * float64(pl.rate))))
	interval := time.Second / time.Duration(pl.rate)
	began := time.Now()
	offset := began.Sub(w.began)
	var wg sync.WaitGroup
	for i := range w.jobs {
		due := time.Duration(i) * interval
		for left := due - time.Since(began); left > 0; left = due - time.Since(began) {
			pause(left)
		}
		w.jobs[i].due = int64(offset+due) + 1
		wg.Go(func() { w.ack(i, i+1, p.insert(ctx, payload(i))) })
		if ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	idle, err := settle(ctx, p, w, pl.patience)
	run := w.run(began, time.Since(began), idle)
	run.Offered, run.Latency = float64(pl.rate), w.latency()
	return map[string]result.Run{latency: run}, err
}

// settle waits until all jobs whose insert was acknowledged have been run and the queue
// knows, or until patience is over, which is no error.
func settle(ctx context.Context, p peer, w *watch, patience time.Duration) (idle bool, err error) {
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		if w.called.Load() >= w.acknowledged.Load() {
			if idle, err = p.idle(ctx); idle || err != nil {
				return idle, err
			}
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		time.Sleep(time.Millisecond)
	}
	return false, nil
}
