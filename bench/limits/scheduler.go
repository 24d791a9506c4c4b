package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

func schedulerProbes() []probe {
	return []probe{
		{
			limits:  []Limit{{"channel/hop", Nanoseconds, "to a goroutine that the sender waits for, mean"}},
			share:   1,
			measure: measureHop,
		},
		{
			limits:  []Limit{{"channel/cross", Nanoseconds, "to a goroutine while the sender goes on computing, median"}},
			share:   1,
			measure: func(ctx context.Context, t *trial) error { return measureCross(ctx, t, compute) },
		},
		{
			limits:  []Limit{{"channel/wake", Nanoseconds, "the same after all have slept for 1 ms, median"}},
			share:   2,
			measure: func(ctx context.Context, t *trial) error { return measureCross(ctx, t, sleep) },
		},
		{
			limits:  []Limit{{"mutex/handover", Nanoseconds, "from the unlock of a mutex to one that slept for it, median"}},
			share:   2,
			measure: measureHandover,
		},
	}
}

// measureHop measures handing a value to another goroutine and back. The scheduler lets the receiver
// continue on the processor of the sender, which waits.
func measureHop(ctx context.Context, t *trial) error {
	const burst = 100 // round trips between two looks at the clock
	ping, pong := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range ping {
			pong <- struct{}{}
		}
	})
	defer wg.Wait()
	defer close(ping)
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		hops := 0
		began := time.Now()
		for first := true; first || time.Now().Before(end) && ctx.Err() == nil; first = false {
			for range burst {
				ping <- struct{}{}
				<-pong
			}
			hops += 2 * burst
		}
		return []float64{float64(time.Since(began)) / float64(hops)}, nil
	})
}

// measureCross sends to a goroutine after a pause, and computes until that goroutine has started on
// another processor. If there is no other processor, or if it is busy, the scheduler must preempt the
// sender first, which takes some milliseconds.
func measureCross(ctx context.Context, t *trial, rest func()) error {
	balls := make(chan struct{})
	var caught atomic.Int64 // time of receiving, since epoch
	epoch := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		for range balls {
			caught.Store(int64(time.Since(epoch)))
		}
	})
	defer wg.Wait()
	defer close(balls)
	return t.quantiles(ctx, func() (time.Duration, error) {
		rest()
		caught.Store(0)
		began := time.Since(epoch)
		balls <- struct{}{}
		for caught.Load() == 0 {
		}
		return time.Duration(caught.Load()) - began, nil
	})
}

// compute computes long enough for a goroutine on another processor to block.
func compute() {
	const long = 20 * time.Microsecond
	for began := time.Now(); time.Since(began) < long; {
	}
}

// sleep waits until the processors are idle.
func sleep() { time.Sleep(time.Millisecond) }

// measureHandover unlocks a mutex that another goroutine sleeps on.
func measureHandover(ctx context.Context, t *trial) error {
	// A goroutine spins for some microseconds before it sleeps.
	const asleep = 100 * time.Microsecond
	var mu sync.Mutex
	rounds := make(chan struct{})
	locked := make(chan time.Time)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range rounds {
			mu.Lock()
			now := time.Now()
			mu.Unlock()
			locked <- now
		}
	})
	defer wg.Wait()
	defer close(rounds)
	return t.quantiles(ctx, func() (time.Duration, error) {
		mu.Lock()
		rounds <- struct{}{}
		time.Sleep(asleep)
		began := time.Now()
		mu.Unlock()
		return (<-locked).Sub(began), nil
	})
}
