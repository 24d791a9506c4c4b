package postgres

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

func TestAnAnnouncementDuringAHeartbeatIsInTheNextOne(t *testing.T) {
	self := coord.Member{Incarnation: task.ID{1}, Name: "a"}
	m := &member{self: self, changed: wakeup.New(), lost: make(chan error, 1), gone: make(chan struct{})}
	c := &Coord{lease: time.Hour, members: map[task.ID]*member{self.Incarnation: m}, beatSoon: wakeup.New(), ordersSoon: wakeup.New(), closed: make(chan struct{})}
	start := time.Now()
	q := c.nextBeat(start)
	self.Draining = true
	c.Announce(self)
	c.applyBeat(q, beatAnswer{Alive: true}, start, 0)
	t.Cleanup(func() { c.session.end.Stop() })
	if q = c.nextBeat(time.Now()); len(q.Joining) != 1 || !q.Joining[0].Draining {
		t.Fatalf("the next heartbeat says %+v", q.Joining)
	}
	c.applyBeat(q, beatAnswer{Alive: true}, time.Now(), 0)
	if q = c.nextBeat(time.Now()); len(q.Joining) != 0 || len(q.Members) != 1 {
		t.Errorf("the heartbeat after it says %+v, %v", q.Joining, q.Members)
	}
}
