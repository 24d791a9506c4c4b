package lease

import (
	"testing"
	"time"
)

func TestAProofCountsWhenTheMemberHasAllChangesBeforeIt(t *testing.T) {
	begin := time.Now()
	proof := func(n int) Proof { return Proof{Until: begin.Add(time.Duration(n) * time.Second)} }
	var l List
	by := func(what string, n int) {
		t.Helper()
		if l.By() != proof(n) {
			t.Errorf("%s: the proof is %v, want %v", what, l.By(), proof(n))
		}
	}
	l.Renew(proof(1))
	l.Change()
	l.Renew(proof(1))
	if l.By() != (Proof{}) {
		t.Errorf("before it has a list the proof is %v", l.By())
	}
	l.Pass(proof(1))
	by("while it gets the list for the first time", 1)
	l.Renew(proof(2))
	by("while it gets the list for the first time, after a renewal", 1)
	l.Passed(proof(1), proof(2))
	by("when it has the list, and nothing has changed since", 2)
	l.Renew(proof(3))
	by("after another renewal", 3)
	l.Change()
	l.Renew(proof(4))
	by("after a renewal with a change", 3)
	l.Pass(proof(4))
	by("while it gets that", 3)
	l.Change()
	l.Renew(proof(5))
	l.Passed(proof(4), proof(5))
	by("when it has that, and there is another change", 4)
	l.Pass(proof(5))
	l.Passed(proof(5), proof(5))
	by("when it has all", 5)
}

func TestAProofDoesNotHoldWhileTheMachineIsSuspended(t *testing.T) {
	now := time.Now()
	p := Proof{Until: now.Add(time.Second), Suspended: time.Hour}
	for suspended, want := range map[time.Duration]bool{time.Hour: true, time.Hour + 900*time.Millisecond: true, time.Hour + time.Second: false} {
		if p.Holds(now, suspended) != want {
			t.Errorf("suspended for %v in all: it holds: %v", suspended, !want)
		}
	}
	if (Proof{}).Holds(now, 0) {
		t.Error("the zero proof holds")
	}
}
