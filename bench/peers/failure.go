package main

import "sync"

// workFailure keeps the first error of a peer's workers. Who waits until a queue is idle
// asks for it, since jobs that nobody works on stay for ever. Errors that come of closing
// the peer are none. The zero value is ready; all methods may be called at once.
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

// close says that errors of workers are expected from now on. It is called before anything
// is closed that they use.
func (f *workFailure) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
}

// err returns the error that was kept; nil is none.
func (f *workFailure) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first
}
