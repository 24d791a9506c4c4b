//go:build !race

package schedule

import (
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// shared returns a schedule of nodes with stores of their own, and one of them that has seen it.
func shared(t *testing.T) (*Shared, State, *Peer) {
	t.Helper()
	begin := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	p := &Peer{Owner: Owner{task.ID{1}, "a"}, Now: begin, Patience: 8 * time.Second, Handles: func(*Template) bool { return true }, IsAlive: func(task.ID) bool { return true }}
	n := Named{"hourly", Definition{Every: time.Hour, Overlap: Allow, Task: Template{Type: "report"}}}
	s := State{Copy: new(Copy)}
	if !s.Copy.Begin(p.ID, begin) || s.Copy.Begin(p.ID, begin) {
		t.Fatal("a node begins once with an ID")
	}
	now, isNew := Join(n, s, nil, begin, begin)
	if !isNew {
		t.Fatal("the schedule is not new")
	}
	now.Seq++
	return now, now.Stored(s.Copy, nil, begin), p
}

// claim lets the node decide about the fires that are due an hour later.
func claim(t *testing.T, now *Shared, p *Peer) (*Shared, *Claim) {
	t.Helper()
	p.Now = p.Now.Add(time.Hour)
	next, c, err := now.Claim(task.ID{9}, p)
	if err != nil || c == nil || len(c.Fires) != 1 {
		t.Fatal(c, err)
	}
	next.Seq++
	return next, c
}

func TestAClaimIsCommittedOnceByTheStoreOfItsNode(t *testing.T) {
	now, stored, p := shared(t)
	claimed, c := claim(t, now, p)
	after := *stored.Copy // of the same store, after a crash
	after.Begin(task.ID{2}, p.Now)
	if owed := claimed.Owed(&after); owed == nil || owed.Seq != c.Seq {
		t.Errorf("after a crash the node owes %v", owed)
	}
	other := Copy{}
	other.Begin(task.ID{3}, p.Now)
	if owed := claimed.Owed(&other); owed != nil {
		t.Errorf("another node owes %v", owed)
	}
	committed := claimed.Stored(&after, c, p.Now)
	if owed := claimed.Owed(committed.Copy); owed != nil {
		t.Errorf("committed fires are owed: %v", owed)
	}
	settled, isChanged := claimed.Settle(committed.Copy, Owner{task.ID{2}, "a"}, nil)
	if !isChanged || len(settled.Claims) != 0 || settled.Holder.ID != (task.ID{2}) {
		t.Errorf("after the commit the schedule is %+v", settled)
	}
	if owed := settled.Owed(&after); owed != nil { // an older state of the disk
		t.Errorf("an older disk owes committed fires: %v", owed)
	}
}

func TestACoordinatorThatGoesBackDoesNotMakeATimeFireAgain(t *testing.T) {
	now, stored, p := shared(t)
	claimed, c := claim(t, now, p)
	known := claimed.Stored(stored.Copy, c, p.Now)
	for name, kept := range map[string]*Shared{"older": now, "nothing": nil, "older, and changed since": {Named: now.Named, Seq: claimed.Seq + 5, State: now.State}} {
		joined, isNew := Join(now.Named, known, kept, p.Now, p.Now)
		if !isNew || joined.State.Decided != claimed.State.Decided || joined.Seq < claimed.Seq {
			t.Errorf("%s: the schedule is %+v, %v", name, joined, isNew)
		}
	}
	if joined, isNew := Join(now.Named, known, claimed, p.Now, p.Now); isNew || joined != claimed {
		t.Errorf("an unchanged state is joined to %+v, %v", joined, isNew)
	}
}

func TestAnotherNodeWaitsForTheOneThatFires(t *testing.T) {
	now, stored, p := shared(t)
	claimed, _ := claim(t, now, p)
	due := p.Now.Add(time.Hour)
	turn := func(s *Shared, c *Copy, p *Peer) time.Time {
		at, err := s.Turn(c, p)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := turn(claimed, claimed.Stored(stored.Copy, nil, p.Now).Copy, p); !at.Equal(due) {
		t.Errorf("the node that fires decides at %v, not at %v", at, due)
	}
	other, c := *p, Copy{}
	other.Owner = Owner{task.ID{3}, "b"}
	c.Begin(other.ID, p.Now)
	seen := claimed.Stored(&c, nil, p.Now).Copy
	if at, want := turn(claimed, seen, &other), due.Add(p.Patience); !at.Equal(want) {
		t.Errorf("another node decides at %v, not at %v", at, want)
	}
	other.IsAlive = func(task.ID) bool { return false }
	if at := turn(claimed, seen, &other); !at.Equal(due) {
		t.Errorf("another node decides at %v for one that is dead, not at %v", at, due)
	}
	if at, want := turn(claimed, claimed.Stored(&c, nil, due).Copy, &other), due.Add(p.Patience); !at.Equal(want) {
		t.Errorf("a node that has just seen the schedule decides at %v, not at %v", at, want)
	}
	other.Handles = func(*Template) bool { return false }
	if at, want := turn(claimed, seen, &other), due.Add(2*p.Patience); !at.Equal(want) {
		t.Errorf("a node without a handler decides at %v, not at %v", at, want)
	}
}
