// Package crew has goroutines that work off a line of things to do.
package crew

import (
	"runtime"
	"sync"
)

// maxIdle is how many goroutines stay to wait for the next job when there is none: a
// goroutine that has grown its stack once need not do so again.
const maxIdle = 1024

// Crew does jobs, each at once: there is a goroutine for every one that takes its time.
// They take jobs from one line, and whoever takes one while others stand there calls one
// more goroutine to it. So jobs that are quickly done are done one after the other by few
// goroutines, without starting or waking one for each; Go's scheduler wakes its threads
// the same way. Its methods may be called from any goroutine.
type Crew[T any] struct {
	do     func(T)
	atOnce int           // goroutines that may be on their way at a time: one for each thread that can run
	wake   chan struct{} // a token for each idle goroutine that is called

	mu        sync.Mutex
	line      []T  // guarded by mu: jobs to be done, from next on
	next      int  // guarded by mu
	idle      int  // guarded by mu: goroutines that wait for a token
	coming    int  // guarded by mu: goroutines that were called and are not at the line yet
	dismissed bool // guarded by mu: nobody waits any more
}

// New returns a crew that does a job by calling do, which may end its goroutine. Who
// makes one owes it a Dismiss.
func New[T any](do func(T)) *Crew[T] {
	return &Crew[T]{do: do, atOnce: runtime.GOMAXPROCS(0), wake: make(chan struct{}, maxIdle)}
}

// Add has jobs done, begun in their order. It does not wait, and keeps no reference to
// the slice.
func (c *Crew[T]) Add(jobs ...T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line = append(c.line, jobs...)
	c.call()
}

// Dismiss sends home whoever is idle, now and later. Jobs that are added all the same are
// done.
func (c *Crew[T]) Dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismissed = true
	c.coming += c.idle
	for ; c.idle > 0; c.idle-- {
		c.wake <- struct{}{}
	}
}

// call has one more goroutine come if a job stands in line. It is called with mu held.
func (c *Crew[T]) call() {
	if c.next == len(c.line) || c.coming >= c.atOnce {
		return
	}
	c.coming++
	if c.idle == 0 {
		go c.work()
		return
	}
	c.idle--
	c.wake <- struct{}{} // never waits for mu: who is idle takes it without
}

// work does one job after the other, until there is none and enough others wait.
func (c *Crew[T]) work() {
	c.arrive()
	for job, ok := c.take(); ok; job, ok = c.take() {
		c.do(job)
	}
}

func (c *Crew[T]) arrive() {
	c.mu.Lock()
	c.coming--
	c.mu.Unlock()
}

// take returns the next job, and false when the goroutine is to go home.
func (c *Crew[T]) take() (job T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.next == len(c.line) {
		c.line, c.next = c.line[:0], 0
		if c.dismissed || c.idle == maxIdle {
			return job, false
		}
		c.idle++
		c.mu.Unlock()
		<-c.wake
		c.mu.Lock()
		c.coming--
	}
	var none T
	job, c.line[c.next] = c.line[c.next], none
	c.next++
	c.call()
	return job, true
}
