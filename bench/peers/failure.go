package main

import "sync"

// workFailure keeps the first error of the workers of a peer. A goroutine that waits until a queue is
// idle checks it, since jobs without workers remain forever. Errors caused by closing the peer do not
// count. The zero value is ready to use, and all methods may be called concurrently.
type workFailure struct {
	mu      sync.Mutex
	closing bool  // guarded by mu
	first   error // guarded by mu
}

// note keeps the error of a worker, unless there is one already or the peer is closing.
func (f *workFailure) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closing && f.first == nil {
		f.first = err
	}
}

// close makes note ignore errors from now on. It is called before anything that the workers use is
// closed.
func (f *workFailure) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
}

// err returns the first error; nil is none.
func (f *workFailure) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}
