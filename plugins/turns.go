package plugins

import (
	"context"
	"sync"
	"time"
)

// turnTime is how long a program that starts may keep others waiting for their turn: one that
// has not started by then is slow for another reason than the machine's load.
const turnTime = 2 * time.Second

// Turns bound how many programs of several hosts start at a time: programs that start use
// all the processor that they get, and many at once would all be late. A nil Turns is no bound.
type Turns struct {
	free chan struct{} // has a token for each program that starts
	most time.Duration // how long a turn lasts at most
}

// NewTurns returns turns for n programs at a time, at least 1.
func NewTurns(n int) *Turns {
	return &Turns{free: make(chan struct{}, max(1, n)), most: turnTime}
}

// take waits for a turn, and returns what ends it; that may be called more than once. The
// turn ends by itself after a while.
func (t *Turns) take(ctx context.Context) (end func(), err error) {
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
