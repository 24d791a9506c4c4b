package engine_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// steppedClock is a clock. Once it is armed, a reading waits until it is released.
type steppedClock struct {
	ahead   atomic.Int64
	armed   atomic.Bool
	read    chan struct{} // receives when an armed reading has begun
	release chan struct{} // releases it
}

// ClockAt implements [coord.Clock].
func (c *steppedClock) ClockAt(t time.Time) (time.Time, time.Duration, bool) {
	now := t.Add(time.Duration(c.ahead.Load()))
	if c.armed.CompareAndSwap(true, false) {
		c.read <- struct{}{}
		<-c.release
	}
	return now, 0, true
}

// The engine reads the clock while it is set back and a task is added by it.
func TestATaskIsNotEarlyThatIsAddedWhileTheSharedClockIsSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := &steppedClock{read: make(chan struct{}), release: make(chan struct{})}
		c.ahead.Store(int64(time.Hour))
		n := startWith(t, one("work", nil), handle("work", takes(0)), func(config *engine.Config) { config.Coordinator.Clock = c })
		time.Sleep(time.Minute)
		c.armed.Store(true)
		<-c.read // as it was before
		c.ahead.Store(0)
		added := make(chan task.ID)
		go func() { added <- n.submit(engine.Request{Type: "work", At: time.Now().Add(20 * time.Minute)}) }()
		for n.InboxLen() == 0 { // others wait for a mutex, so synctest.Wait would not return
			runtime.Gosched()
		}
		close(c.release)
		id := <-added
		time.Sleep(19 * time.Minute)
		if got := n.get(id); got.State != task.Waiting {
			t.Errorf("a minute before its time it is %v", got.State)
		}
		if got := n.end(id); got.State != task.Done {
			t.Errorf("it is %v", got.State)
		}
	})
}
