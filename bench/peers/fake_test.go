package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// fake is a queue in memory, with faults.
type fake struct {
	loseEvery, doubleEvery int           // which jobs are lost after their insert, or run twice; 0 is none
	stuck                  bool          // it never says that it is idle
	refuse                 error         // of inserts
	slow                   time.Duration // each job takes so much longer

	mu       sync.Mutex
	jobs     [][]byte // guarded by mu: not handled yet
	inserted int      // guarded by mu
	running  int      // guarded by mu
	most     int      // guarded by mu: that were inserted and not handled at any time
	batches  []int    // guarded by mu: how many jobs each insert had

	woken   chan struct{} // holds one token
	stop    context.CancelFunc
	working sync.WaitGroup
}

func newFake() *fake { return &fake{woken: make(chan struct{}, 1), stop: func() {}} }

func (f *fake) insert(_ context.Context, payloads ...[]byte) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, len(payloads))
	for _, p := range payloads {
		f.inserted++
		if f.loseEvery > 0 && f.inserted%f.loseEvery == 0 {
			continue
		}
		f.jobs = append(f.jobs, p)
		if f.doubleEvery > 0 && f.inserted%f.doubleEvery == 0 {
			f.jobs = append(f.jobs, p)
		}
	}
	f.most = max(f.most, len(f.jobs)+f.running)
	select {
	case f.woken <- struct{}{}:
	default:
	}
	return nil
}

func (f *fake) work(ctx context.Context, handle func([]byte)) error {
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	f.working.Go(func() {
		for {
			f.mu.Lock()
			jobs := f.jobs
			f.jobs, f.running = nil, len(jobs)
			f.mu.Unlock()
			for _, j := range jobs {
				f.mu.Lock()
				f.running-- // before handle, which lets the next one be inserted
				f.mu.Unlock()
				if f.slow > 0 {
					select {
					case <-time.After(f.slow):
					case <-ctx.Done():
						return
					}
				}
				handle(j)
			}
			if len(jobs) > 0 {
				continue
			}
			select {
			case <-f.woken:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func (f *fake) version(context.Context) (queue, store string, err error) {
	return "v1.2.3", "memory 4", nil
}

func (f *fake) idle(context.Context) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stuck && len(f.jobs)+f.running == 0, nil
}

func (f *fake) close() error {
	f.stop()
	f.working.Wait()
	return nil
}

var errFake = errors.New("no room")

// shortPlan is quick, and patient enough for a busy machine where nothing is wrong.
var shortPlan = plan{
	insert: 20 * time.Millisecond, drain: 20 * time.Millisecond, life: 30 * time.Millisecond,
	latency: 100 * time.Millisecond, warm: 5 * time.Millisecond, rate: 1000, trial: 50 * time.Millisecond, patience: 20 * time.Second,
}

// impatientPlan is for queues of which something is never heard again.
var impatientPlan = func() plan {
	p := shortPlan
	p.patience = 50 * time.Millisecond
	return p
}()
