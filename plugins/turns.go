package plugins

import (
	"context"
	"sync"
	"time"
)

// turnTime bounds how long a program that is being started keeps others waiting. A program that takes longer is slow for
// another reason than the load of the machine.
const turnTime = 2 * time.Second

// Turns bound how many programs of several hosts are started at a time. Programs need much processor time while they
// start, and many at once would all exceed their StartTimeout. A nil Turns is no bound.
type Turns struct {
	free chan struct{} // has a token for each program that is being started
	most time.Duration // the longest duration of a turn
}

// NewTurns returns Turns for n programs at a time, at least 1.
func NewTurns(n int) *Turns {
	return &Turns{free: make(chan struct{}, max(1, n)), most: turnTime}
}

// acquire waits for a turn and returns a function that ends it, which may be called more than once. The turn also ends
// by itself after t.most.
func (t *Turns) acquire(ctx context.Context) (end func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	free := sync.OnceFunc(func() { <-t.free })
	timer := time.AfterFunc(t.most, free)
	return func() { timer.Stop(); free() }, nil
}
