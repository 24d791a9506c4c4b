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
	insertOne:  "How many jobs per second are inserted one at a time, by many at once, while no worker runs?",
	insertMany: "How many jobs per second are inserted in the best way to insert many, while no worker runs?",
	drain:      "How many jobs per second are worked off that were there before the workers began?",
	lifeOne:    "How many whole lives of jobs per second, inserted one at a time by many at once while others are worked?",
	lifeMany:   "How many whole lives of jobs per second, inserted many at a time while others are worked?",
	latency:    "How long from the time at which a job was to be inserted to its acknowledgement and to its start, at a steady rate below the limit?",
}

// plan has the lengths of the measurements.
type plan struct {
	insert   time.Duration // of inserting while no worker runs
	drain    time.Duration // intended length of a drain
	life     time.Duration // of inserting while workers run
	latency  time.Duration
	warm     time.Duration // of inserting while workers run, before the measurement
	rate     int           // jobs per second of the latency measurement, on average
	trial    time.Duration // of a drain, and of jobs that arrive, to choose settings by
	patience time.Duration // maximum time of all work after the last insert
}

// most is the maximum number of jobs of a measurement: their memory is allocated before it begins.
const most = 2_000_000

// measurement is what is done with one instance.
type measurement struct {
	of      func(t *tuned) variant // in which settings
	measure func(ctx context.Context, t *tuned, p peer, pl plan, round int) (map[string]result.Run, error)
}

// measurements returns all of them, in the order in which they are done.
func measurements() []measurement {
	drains := func(t *tuned) variant { return t.drains }
	starts := func(t *tuned) variant { return t.starts }
	return []measurement{{drains, inserts}, {drains, drained}, {drains, lives}, {starts, openLoop}}
}

// inserts measures inserts while no worker runs.
func inserts(ctx context.Context, t *tuned, p peer, pl plan, _ int) (map[string]result.Run, error) {
	out := make(map[string]result.Run)
	out[insertOne] = onlyInsert(ctx, p, t.singles, 1, pl.insert)
	if t.batch > 1 {
		out[insertMany] = onlyInsert(ctx, p, t.loaders, t.batch, pl.insert)
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

// drained inserts jobs while no worker runs, and then measures how they are drained.
func drained(ctx context.Context, t *tuned, p peer, pl plan, _ int) (map[string]result.Run, error) {
	w := newWatch(t.jobs)
	run, err := drainOf(ctx, t.subject, p, pl, w, w.handle)
	return map[string]result.Run{drain: run}, err
}

// drainOf drains all jobs of a watch, whose handle is the handler.
func drainOf(ctx context.Context, s subject, p peer, pl plan, w *watch, handle func([]byte)) (result.Run, error) {
	insertFor(ctx, p, w, s.loaders, max(1, s.batch), pl.patience)
	note := calm(ctx)
	began := time.Now()
	if err := p.work(ctx, handle); err != nil {
		return result.Run{}, fmt.Errorf("start to work: %w", err)
	}
	idle, err := awaitIdle(ctx, p, w, pl.patience)
	// From the first call of a handler: the start of the workers is not measured.
	run := w.run(began, time.Since(w.began)-w.firstCall(), idle)
	run.Notes = noted(note)
	return run, err
}

// insertFor inserts for a time, or until the numbers are used up, with n goroutines that each insert
// several jobs at a time.
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

// life inserts jobs while workers run, with a fixed number of jobs in flight: inserted, and their
// handler not called yet.
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
	idle, err := awaitIdle(ctx, p, w, patience)
	return w.run(began, time.Since(began), idle), err
}

// relay passes jobs to the current watch.
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
func lives(ctx context.Context, t *tuned, p peer, pl plan, _ int) (map[string]result.Run, error) {
	s := t.subject
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

// lifeBatch is the maximum number of jobs that are inserted at once while workers run: with more, the
// queue would be filled and drained in turns.
const lifeBatch = 256

// warmUp starts the workers, and inserts and handles jobs for a time.
func warmUp(ctx context.Context, s subject, p peer, pl plan, r *relay) error {
	w := r.set(newWatch(most))
	if err := p.work(ctx, r.handle); err != nil {
		return fmt.Errorf("start to work: %w", err)
	}
	return warm(ctx, s, p, pl, w)
}

// warm inserts and handles jobs for a time, so that connections are open and one-time work is done.
func warm(ctx context.Context, s subject, p peer, pl plan, w *watch) error {
	run, err := life(ctx, s, p, w, 1, pl.warm, pl.patience)
	if err == nil && !run.Check.OK {
		err = fmt.Errorf("warm-up: %v", run.Check.Notes)
	}
	return err
}

// openLoop measures jobs that arrive at a steady rate on average. The times are the same for every
// subject of a round and differ between rounds.
func openLoop(ctx context.Context, t *tuned, p peer, pl plan, round int) (map[string]result.Run, error) {
	var r relay
	if err := warmUp(ctx, t.subject, p, pl, &r); err != nil {
		return nil, err
	}
	n := int(pl.latency.Seconds() * float64(pl.rate))
	run, err := arrived(ctx, p, pl, &r, arrivals(uint64(round)+1, n, pl.rate))
	return map[string]result.Run{latency: run}, err
}

// arrived inserts jobs at their times while workers run.
func arrived(ctx context.Context, p peer, pl plan, r *relay, times []time.Duration) (result.Run, error) {
	note := calm(ctx)
	w := r.set(newWatch(len(times)))
	began := time.Now()
	late := arrive(ctx, p, w, times)
	idle, err := awaitIdle(ctx, p, w, pl.patience)
	run := w.run(began, time.Since(began), idle)
	run.Offered, run.Latency, run.Late, run.Notes = float64(pl.rate), w.latency(), late, noted(note)
	return run, err
}

// noted returns the notes of a run.
func noted(note string) []string {
	if note == "" {
		return nil
	}
	return []string{note}
}

// awaitIdle waits until all acknowledged jobs were handled and the queue is idle, or until patience is
// over, which is no error.
func awaitIdle(ctx context.Context, p peer, w *watch, patience time.Duration) (idle bool, err error) {
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
