package handler

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// frames is a stream with these frames.
type frames struct {
	stream
	all []*wire.ToHandler
}

func (f *frames) Recv() (*wire.ToHandler, error) {
	if len(f.all) == 0 {
		return nil, io.EOF
	}
	next := f.all[0]
	f.all = f.all[1:]
	return next, nil
}

// leased is a session of a worker with a clock of its own.
type leased struct {
	*session
	clock atomic.Int64 // nanoseconds; handlers read it from goroutines of their own
	begun int          // calls of handlers
}

const leaseLength = 4 * time.Second

// newLeased returns the session of a worker with a lease that begins now, and handlers that count their calls.
func newLeased(t *testing.T) *leased {
	l := &leased{}
	l.clock.Store(int64(time.Hour))
	h := Handlers{
		"one": Func(func(context.Context, *task.Task) ([]byte, error) { l.begun++; return nil, nil }),
		"many": Batch(10, time.Second, func(_ context.Context, tasks []*task.Task) ([]Outcome, error) {
			l.begun += len(tasks)
			return nil, nil
		}),
	}
	l.session = newSession(h, 8)
	l.kept = newKept()
	l.lease.now = l.now
	t.Cleanup(l.close)
	l.resume(&wire.Welcome{Slots: 8, Lease: leaseLength.Microseconds()}, l.now())
	return l
}

func (l *leased) now() time.Duration { return time.Duration(l.clock.Load()) }

func (l *leased) advance(d time.Duration) { l.clock.Add(int64(d)) }

// gets has the session process frames.
func (l *leased) gets(t *testing.T, all ...*wire.ToHandler) {
	t.Helper()
	if err := l.receive(&frames{all: all}); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// refused returns how many runs were handed back.
func (l *leased) refused(t *testing.T) (n int) {
	t.Helper()
	for _, f := range l.out {
		if r := f.GetRefused(); r != nil {
			n++
			if !strings.Contains(r.GetMessage(), "may not have heard this worker") {
				t.Errorf("it says %q", r.GetMessage())
			}
		}
	}
	return n
}

func runOf(typ string, id uint64) *wire.ToHandler {
	return &wire.ToHandler{Runs: []*wire.Run{{RunId: id, Type: typ}}}
}

// What a worker finds in its connection when it goes on after it stood still is not begun, whatever pings lie before it.
func TestAWorkerThatWasNotHeardBeginsNothing(t *testing.T) {
	for _, typ := range []string{"one", "many"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLeased(t)
			l.gets(t, &wire.ToHandler{Ping: 1}, runOf(typ, 1), &wire.ToHandler{Ping: 2, Heard: 1})
			time.Sleep(time.Second)
			synctest.Wait()
			if l.begun != 1 {
				t.Fatalf("%s: in time %d runs began", typ, l.begun)
			}
			l.advance(leaseLength + 1)
			l.gets(t, &wire.ToHandler{Ping: 3}, runOf(typ, 2), &wire.ToHandler{Ping: 4}, runOf(typ, 3))
			time.Sleep(time.Second)
			synctest.Wait()
			if l.begun != 1 || l.refused(t) != 2 {
				t.Errorf("%s: late %d runs began, and %d were handed back", typ, l.begun-1, l.refused(t))
			}
			l.gets(t, &wire.ToHandler{Ping: 5, Heard: 4}, runOf(typ, 4))
			time.Sleep(time.Second)
			synctest.Wait()
			if l.begun != 2 {
				t.Errorf("%s: a worker that is heard again begins nothing", typ)
			}
		})
	}
}

// A ping of which the answer has not arrived proves nothing: the way to the node may be the broken one.
func TestAWorkerThatHearsAndIsNotHeardBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeased(t)
		for n := uint64(1); n <= 5; n++ {
			l.advance(time.Second)
			l.gets(t, &wire.ToHandler{Ping: n})
		}
		l.gets(t, runOf("one", 1))
		synctest.Wait()
		if l.begun != 0 || l.refused(t) != 1 {
			t.Errorf("%d runs began", l.begun)
		}
	})
}

// A run that has arrived and waits when the worker stands still does not begin either.
func TestARunThatWaitedWhileItsWorkerStoodStillDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeased(t)
		l.gets(t, runOf("many", 1), runOf("many", 2))
		l.advance(leaseLength + 1)
		time.Sleep(time.Second) // of the batch
		synctest.Wait()
		if l.begun != 0 || l.refused(t) != 2 {
			t.Errorf("%d runs began, and %d were handed back", l.begun, l.refused(t))
		}
	})
}

func TestAConnectionBeginsALeaseWithItsOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeased(t)
		offered := l.now()
		l.advance(leaseLength + 1)
		l.resume(&wire.Welcome{Slots: 8, Resumed: true, Lease: leaseLength.Microseconds()}, offered)
		l.gets(t, runOf("one", 1))
		synctest.Wait()
		if l.begun != 0 {
			t.Error("a run began after the lease of its connection")
		}
		l.resume(&wire.Welcome{Slots: 8, Resumed: true, Lease: leaseLength.Microseconds()}, l.now())
		l.gets(t, runOf("one", 2))
		synctest.Wait()
		if l.begun != 1 {
			t.Error("no run began in a new connection")
		}
	})
}
