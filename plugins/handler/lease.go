package handler

import (
	"fmt"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// lease bounds the time to begin runs that a worker has: it ends some time after a moment when the node has certainly
// heard the worker. Later the node may have given the runs to others, and data in the connection may be of any age: the
// process or the machine may have stood still. The mutex of the session guards it.
type lease struct {
	now    func() time.Duration     // a clock that goes on while the machine is suspended
	length time.Duration            // 0 is no bound
	from   time.Duration            // when the node last heard the worker, or before
	pings  map[uint64]time.Duration // when the pings came that have no answer known to have arrived
}

func newLease() lease { return lease{now: sinceBoot, pings: make(map[uint64]time.Duration)} }

// renew begins the lease of a connection. offered is when its offer was sent.
func (l *lease) renew(w *wire.Welcome, offered time.Duration) {
	l.length, l.from = time.Duration(min(w.GetLease(), maxMicros))*time.Microsecond, offered
	clear(l.pings)
}

// hear takes the acknowledgement of pings in a frame.
func (l *lease) hear(frame *wire.ToHandler) {
	if l.length == 0 {
		return
	}
	if at, ok := l.pings[frame.GetHeard()]; ok {
		l.from = max(l.from, at)
		for n := range l.pings {
			if n <= frame.GetHeard() {
				delete(l.pings, n)
			}
		}
	}
	if n := frame.GetPing(); n != 0 {
		l.pings[n] = l.now() // the answer is sent later
	}
}

// over returns why no run may begin, or nil. The attempt of such a run is handed back.
func (l *lease) over() error {
	if l.length == 0 {
		return nil
	}
	if unheard := l.now() - l.from; unheard > l.length {
		return fmt.Errorf("%w: the node may not have heard this worker for %v, and may have given the task to another", task.ErrUnavailable, unheard.Round(time.Millisecond))
	}
	return nil
}
