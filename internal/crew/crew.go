package engine

import (
	"runtime"
	"sync"
)

// maxIdle is how many goroutines stay to wait for the next attempt when there is none: a
// goroutine that has grown its stack once need not do so again.
const maxIdle = 256

// pool calls handlers, each attempt at once: there is a goroutine for every one that
// does not return. They take attempts from one line, and whoever takes one while others
// stand there calls one more goroutine to it. So handlers that return quickly are called
// one after the other by few goroutines, without waking one for each; Go's scheduler
// wakes its threads the same way.
type pool struct {
	handle func(*attempt)
	atOnce int           // goroutines that may be on their way at a time: one for each thread that can run
	wake   chan struct{} // a token for each idle goroutine that is called

	mu        sync.Mutex
	line      []*attempt // guarded by mu: attempts to be made, from next on
	next      int        // guarded by mu
	idle      int        // guarded by mu: goroutines that wait for a token
	coming    int        // guarded by mu: goroutines that were called and are not at the line yet
	dismissed bool       // guarded by mu: nobody waits any more
}

func newPool(handle func(*attempt)) *pool {
	return &pool{handle: handle, atOnce: runtime.GOMAXPROCS(0), wake: make(chan struct{}, maxIdle)}
}

// add has the handlers of attempts called.
func (p *pool) add(as ...*attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, as...)
	p.call()
}

// dismiss sends home whoever is idle, now and later.
func (p *pool) dismiss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dismissed = true
	p.coming += p.idle
	for ; p.idle > 0; p.idle-- {
		p.wake <- struct{}{}
	}
}

// call has one more goroutine come if somebody stands in line. It is called with mu
// held.
func (p *pool) call() {
	if p.next == len(p.line) || p.coming >= p.atOnce {
		return
	}
	p.coming++
	if p.idle == 0 {
		go p.work()
		return
	}
	p.idle--
	p.wake <- struct{}{} // never waits for mu: who is idle takes it without
}

// work makes one attempt after the other, until there is none and enough others wait.
func (p *pool) work() {
	p.arrive()
	for a := p.take(); a != nil; a = p.take() {
		p.handle(a)
	}
}

func (p *pool) arrive() {
	p.mu.Lock()
	p.coming--
	p.mu.Unlock()
}

// take returns the next attempt, and nil when the goroutine is to go home.
func (p *pool) take() *attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.next == len(p.line) {
		p.line, p.next = p.line[:0], 0
		if p.dismissed || p.idle == maxIdle {
			return nil
		}
		p.idle++
		p.mu.Unlock()
		<-p.wake
		p.mu.Lock()
		p.coming--
	}
	a := p.line[p.next]
	p.line[p.next] = nil
	p.next++
	p.call()
	return a
}
