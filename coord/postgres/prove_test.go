package postgres

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/internal/lease"
)

func TestALeaseIsOverAfterTheMachineHasSlept(t *testing.T) {
	now := time.Now()
	s := session{open: true, proof: lease.Proof{Until: now.Add(4 * time.Second), Suspended: time.Hour}}
	for _, c := range []struct {
		after, slept time.Duration
		holds        bool
	}{
		{0, 0, true},
		{3 * time.Second, 0, true},
		{4 * time.Second, 0, false},
		{time.Second, 2 * time.Second, true},
		{time.Second, 3 * time.Second, false}, // the monotonic clock stood still in that time
	} {
		if got := s.holds(now.Add(c.after), time.Hour+c.slept); got != c.holds {
			t.Errorf("after %v, and %v of sleep, it holds: %t", c.after, c.slept, got)
		}
	}
	if s.open = false; s.holds(now, time.Hour) {
		t.Error("a session that was not opened holds")
	}
}

func TestWhatTheMachineHasSleptDoesNotChangeWhileItIsAwake(t *testing.T) {
	least, _ := lease.Suspended()
	_, most := lease.Suspended()
	if least > most {
		t.Errorf("it has slept for at least %v, and then for at most %v", least, most)
	}
}
