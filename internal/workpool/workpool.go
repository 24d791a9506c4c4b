// Package workpool runs jobs on goroutines that are reused.
package workpool

import (
	"runtime"
	"sync"
)

// maxIdle is how many goroutines stay idle at most. A goroutine that has grown its stack
// need not grow it again.
const maxIdle = 1024

// Pool runs jobs concurrently, without a limit on their number. Jobs wait in one queue.
// A goroutine that takes a job wakes or starts one more goroutine if the queue is not
// empty. So short jobs run one after the other on few goroutines, without a start or a
// wake-up for each; the scheduler of Go wakes its threads in the same way. The methods
// are safe for concurrent use.
type Pool[T any] struct {
	do     func(T)
	atOnce int           // limit of coming: one for each thread that can run
	wake   chan struct{} // one token for each idle goroutine that is woken

	mu     sync.Mutex
	line   []T  // guarded by mu: queued jobs, from next on
	next   int  // guarded by mu
	idle   int  // guarded by mu: goroutines that wait for a token
	coming int  // guarded by mu: goroutines that were woken or started and have not looked at line yet
	closed bool // guarded by mu: no goroutine stays idle
}

// New returns a pool that runs a job by calling do, which may end its goroutine. The caller
// must call Close.
func New[T any](do func(T)) *Pool[T] {
	return &Pool[T]{do: do, atOnce: runtime.GOMAXPROCS(0), wake: make(chan struct{}, maxIdle)}
}

// Add queues jobs, which start in their order. It does not wait, and keeps no reference
// to the slice.
func (p *Pool[T]) Add(jobs ...T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, jobs...)
	p.call()
}

// Close ends the idle goroutines, and others when they become idle. It does not wait. A
// job that is added later runs all the same.
func (p *Pool[T]) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.coming += p.idle
	for ; p.idle > 0; p.idle-- {
		p.wake <- struct{}{}
	}
}

// call wakes or starts one more goroutine if a job is queued. It is called with mu held.
func (p *Pool[T]) call() {
	if p.next == len(p.line) || p.coming >= p.atOnce {
		return
	}
	p.coming++
	if p.idle == 0 {
		go p.work()
		return
	}
	p.idle--
	p.wake <- struct{}{} // never blocks: an idle goroutine takes it without mu
}

// work runs jobs until the queue is empty and enough other goroutines are idle.
func (p *Pool[T]) work() {
	p.arrive()
	for job, ok := p.take(); ok; job, ok = p.take() {
		p.do(job)
	}
}

func (p *Pool[T]) arrive() {
	p.mu.Lock()
	p.coming--
	p.mu.Unlock()
}

// take returns the next job, and false when the goroutine must end.
func (p *Pool[T]) take() (job T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next == len(p.line) {
		p.line, p.next = p.line[:0], 0
		if p.closed || p.idle == maxIdle {
			return job, false
		}
		p.idle++
		p.mu.Unlock()
		<-p.wake
		p.mu.Lock()
		p.coming--
	}
	var none T
	job, p.line[p.next] = p.line[p.next], none
	p.next++
	p.call()
	return job, true
}
