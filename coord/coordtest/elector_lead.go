package coordtest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/taskengine/taskengine/coord"
)

// candidacy is one call of Lead. More of its leaderships may end by themselves than the test severs only if a lease lapses.
type candidacy struct {
	severed atomic.Int32 // how many leaderships the test has ended, or is about to end
}

// lead calls Lead with the context ctx.
func (c *candidacy) lead(
	ctx context.Context, e *env[coord.Elector], node coord.Elector, role string, fn func(context.Context) error,
) error {
	begun := int32(0)
	return node.Lead(ctx, role, func(term context.Context) error {
		begun++
		this := begun
		defer e.watch(func() bool {
			lost := this - 1
			if term.Err() != nil && ctx.Err() == nil {
				lost = this
			}
			return lost > c.severed.Load()
		})()
		if e.isLapsed() {
			<-term.Done() // no test waits for another leadership
			return term.Err()
		}
		return fn(term)
	})
}

// reign is one call of a leader's fn.
type reign struct {
	ctx context.Context
	end chan error // the error that fn shall return
}

// leading is one call of Lead. Its fn returns an error from end, or the context's
// error when that ends.
type leading struct {
	candidacy
	reigns chan reign
	result chan error // the result of Lead
	cancel context.CancelFunc
}

func lead(e *env[coord.Elector], node coord.Elector, role string) *leading {
	return leadTo(e, node, role, make(chan reign))
}

func leadTo(e *env[coord.Elector], node coord.Elector, role string, reigns chan reign) *leading {
	l := &leading{reigns: reigns, result: make(chan error, 1)}
	ctx, cancel := context.WithCancel(e.Context())
	l.cancel = cancel
	e.start(func(context.Context) {
		defer cancel()
		l.result <- l.lead(ctx, e, node, role, func(ctx context.Context) error {
			r := reign{ctx: ctx, end: make(chan error, 1)}
			select {
			case l.reigns <- r:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-r.end:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return l
}

func (l *leading) begins(e *env[coord.Elector]) reign {
	e.Helper()
	return receive(e, "the leadership", l.reigns)
}

// severs severs the node while it leads.
func (l *leading) severs(e *env[coord.Elector], node coord.Elector) {
	l.severed.Add(1)
	e.Sever(e.T, node)
}

func (l *leading) returns(e *env[coord.Elector], want error) {
	e.Helper()
	if got := receive(e, "Lead to return", l.result); !errors.Is(got, want) {
		e.check()
		e.Errorf("Lead returned %v, want %v", got, want)
	}
}
