package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/machine"
)

// arrivals returns the times at which n jobs are inserted, with this rate on average and independently
// of each other. The same seed gives the same times.
func arrivals(seed uint64, n, rate int) []time.Duration {
	chance := rand.New(rand.NewPCG(seed, 1))
	out := make([]time.Duration, n)
	at := 0.0
	for i := range out {
		at += chance.ExpFloat64() / float64(rate)
		out[i] = time.Duration(at * float64(time.Second))
	}
	return out
}

// arrive inserts every job at its time in a goroutine of its own, so that no delay hides another. It
// returns the number of jobs that were inserted more than a millisecond late because no core was free.
func arrive(ctx context.Context, p peer, w *watch, times []time.Duration) (late int64) {
	began := time.Now()
	offset := began.Sub(w.began)
	var wg sync.WaitGroup
	for i, due := range times {
		for left := due - time.Since(began); left > 0; left = due - time.Since(began) {
			machine.Pause(left)
		}
		if time.Since(began)-due > time.Millisecond {
			late++
		}
		w.jobs[i].due = int64(offset+due) + 1
		wg.Go(func() { w.ack(i, i+1, p.insert(ctx, payload(i))) })
		if ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	return late
}
