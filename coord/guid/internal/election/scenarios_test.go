//go:build !race

package election

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

var usual = Rules{Lease: 12 * time.Second}

func mustHear() Rules { return Rules{Lease: usual.Lease, MustHear: true} }

// nodes returns a world in which processes have begun one after the other, so that the first has the lowest id, and the
// first leads.
func nodes(t *testing.T, n int, r Rules) *world {
	w := newWorld(t, 1, n, r)
	for i := range n {
		w.start(i)
		w.run(10 * ms)
	}
	w.run(w.within())
	w.want(0)
	return w
}

// E1
func TestACandidateThatIsAloneLeadsWhenTheTimeToSettleIsOver(t *testing.T) {
	for _, r := range []Rules{usual, mustHear()} {
		w := newWorld(t, 1, 1, r)
		w.start(0)
		w.run(r.settle() - ms)
		w.want()
		w.run(2*w.maxDelay + 10*ms)
		w.want(0)
	}
}

// E1
func TestACandidateThatHearsNothingLeadsUnlessItMustHearItself(t *testing.T) {
	w := newWorld(t, 1, 1, usual)
	w.nodes[0].isCut = true
	w.start(0)
	w.run(w.rules.settle() + w.rules.gap())
	w.want(0)

	w = newWorld(t, 1, 1, mustHear())
	w.nodes[0].isCut = true
	w.start(0)
	for range 1000 {
		w.run(time.Second)
		w.want()
	}
	w.nodes[0].cut(false)
	w.run(w.rules.settle() + w.maxDelay)
	w.want(0)
}

// E2
func TestFiveThatBeginAtOnceAgreeOnTheOneWithTheLowestID(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed, 5, usual)
		w.atMostOne = true
		w.start(3, 1, 0, 4, 2)
		w.run(w.rules.settle() + w.maxDelay + 10*ms)
		w.want(w.lowest(0))
		w.run(time.Minute)
		w.want(w.lowest(0))
	}
}

// E3, G2
func TestTheNextOneLeadsWhenALeaderIsKilledAndNeverTheDeadOne(t *testing.T) {
	for _, r := range []Rules{usual, mustHear()} {
		w := nodes(t, 5, r)
		w.atMostOne = true
		for dead := range 4 {
			w.nodes[dead].kill()
			w.run(w.rules.Lease - w.rules.announce()*11/10 + w.rules.settle())
			w.want()
			w.run(w.rules.announce()*11/10 + 2*w.maxDelay)
			w.want(dead + 1)
			w.run(time.Minute)
			w.want(dead + 1)
		}
	}
}

// E4, G3
func TestTheNextOneLeadsSoonWhenALeaderResigns(t *testing.T) {
	w := nodes(t, 3, usual)
	for leader := range 2 {
		id := w.nodes[leader].m.self
		seq := w.nodes[leader].m.seq
		w.nodes[leader].stop()
		w.run(w.maxDelay)
		for _, n := range w.nodes { // its announcement comes after its last message
			n.receive(Message{Kind: Here, From: id, Seq: seq, Lease: w.rules.Lease})
		}
		w.run(w.rules.settle())
		w.want(leader + 1)
	}
}

// E5, G4
func TestAnOlderOneThatJoinsLeadsAfterTheOtherHasGivenUp(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed, 2, usual)
		w.atMostOne = true
		w.maxDelay = w.rules.maxDelay()
		w.start(0)
		w.run(time.Minute)
		w.want(0)
		w.nodes[1].clock = -time.Hour // its clock is slow, so it seems to be older
		w.start(1)
		w.run(w.maxDelay + 3*ms)
		w.want()
		if why := w.nodes[0].why; len(why) != 1 || !errors.Is(why[0], ErrOlder) {
			t.Errorf("the one that led gave up because of %v", why)
		}
		w.run(w.rules.settle())
		w.want(1)
		w.run(time.Minute)
		w.want(1)
	}
}

// E6
func TestAYoungerOneThatJoinsChangesNothing(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, seed, 5, usual)
		w.atMostOne = true
		w.maxDelay = w.rules.maxDelay() - ms
		for i := range 5 {
			w.start(i)
			w.run(w.random(time.Second, 5*time.Second))
		}
		w.run(time.Minute)
		w.want(0)
		if len(w.nodes[0].why) > 0 {
			t.Errorf("the leader gave up: %v", w.nodes[0].why)
		}
	}
}

// E7
func TestTwoAnnouncementsMayBeLostInSuccession(t *testing.T) {
	for _, r := range []Rules{usual, mustHear()} {
		w := nodes(t, 2, r)
		leader := w.nodes[0]
		for range 10 {
			leader.isMuted = true
			for lost := leader.m.seq + 2; leader.m.seq < lost; {
				w.run(ms)
			}
			leader.isMuted = false
			for heard := leader.m.seq + 1; leader.m.seq < heard; {
				w.run(ms)
				w.want(0)
			}
			w.run(w.maxDelay)
		}
		leader.isMuted = true
		w.run(w.within())
		if r.MustHear {
			w.want(1)
			if why := leader.why; len(why) != 1 || !errors.Is(why[0], ErrIsolated) {
				t.Errorf("the one that led gave up because of %v", why)
			}
		} else {
			w.want(0, 1) // without a way to know of each other
		}
	}
}

// E9
func TestALateAnnouncementOfADeadOneRevivesItForALeaseAtMost(t *testing.T) {
	w := nodes(t, 2, usual)
	dead := w.nodes[0].m
	old := Message{Kind: Here, From: dead.self, Lease: w.rules.Lease}
	w.nodes[0].kill()
	w.run(w.within())
	w.want(1)
	for end := w.now + w.rules.Lease; w.now < end; {
		for old.Seq = 1; old.Seq <= dead.seq; old.Seq++ {
			w.nodes[1].receive(old)
			w.nodes[1].receive(old)
		}
		w.run(time.Second)
		w.want(1)
	}
	old.Seq = dead.seq + 1 // its newest one, which was under way
	w.nodes[1].receive(old)
	w.want()
	w.run(w.within())
	w.want(1)
}

// E10, G5
func TestOneLeadsOnEachSideOfAPartitionAndOneAfterwards(t *testing.T) {
	for _, r := range []Rules{usual, mustHear()} {
		w := nodes(t, 5, r)
		for _, i := range []int{2, 3, 4} {
			w.nodes[i].island = 1
		}
		w.run(w.within())
		w.want(0, 2)
		w.run(time.Minute)
		w.want(0, 2)
		for _, n := range w.nodes {
			n.island = 0
		}
		w.run(w.within())
		w.want(0)
		w.run(time.Minute)
		w.want(0)
		if why := w.nodes[2].why; len(why) != 1 || !errors.Is(why[0], ErrOlder) {
			t.Errorf("the other leader gave up because of %v", why)
		}
	}
}

// E11: a machine has no other clock than the one that never goes back. That of its process is in the ids of later
// candidates only.
func TestWallClocksThatAreSetDoNotDisturbALeader(t *testing.T) {
	w := nodes(t, 3, usual)
	w.atMostOne = true
	for i := range 100 {
		w.nodes[i%3].clock += []time.Duration{time.Hour, -time.Hour, -time.Hour}[i%3]
		w.run(time.Second)
		w.want(0)
	}
	if n := len(w.nodes[0].why); n > 0 {
		t.Errorf("the leader gave up %d times", n)
	}
}

// E12
func TestWhatIsKnownOfOthersIsBounded(t *testing.T) {
	m := New(0, task.ID{0xff}, usual, rand.New(rand.NewPCG(1, 1)))
	m.Connected(0)
	at := func(i int) time.Duration { return time.Duration(i) * time.Millisecond }
	for i := range 10_000 { // a process that is started again and again, and killed, or stopped
		msg := Message{Kind: Hello, From: task.ID{1, byte(i >> 8), byte(i)}, Seq: 1, Lease: usual.Lease}
		m.Received(at(i), msg)
		if i%3 == 0 {
			msg.Kind, msg.Seq = Bye, 2
			m.Received(at(i), msg)
		}
		if n := len(m.others); n > maxKnown {
			t.Fatalf("%d others are known after %d restarts", n, i)
		}
		if m.State() != Waiting {
			t.Fatalf("it leads beside %d others", len(m.others))
		}
	}
	end := at(10_000) + usual.Lease
	for now := at(10_000); m.State() != Leading; now = m.Next() {
		if m.Tick(now); now > end+usual.settle()+usual.gap() {
			t.Fatalf("it does not lead at %v though all others are gone at %v", now, end)
		}
	}
	for now := m.Next(); now < end+3*usual.Lease; now = m.Next() {
		m.Tick(now)
	}
	if n := len(m.others); n > 0 {
		t.Errorf("%d others are never forgotten", n)
	}
	if len(m.sent) > 20 {
		t.Errorf("%d messages of its own are remembered", len(m.sent))
	}
}

// E14
func TestACopyOfARunningCandidateIsNoticedAndBothGoOn(t *testing.T) {
	w := nodes(t, 2, usual)
	original := w.nodes[0].m
	copied := *original
	copied.sent, copied.others = slices.Clone(original.sent), slices.Clone(original.others)
	copied.rand = rand.New(rand.NewPCG(99, 99))
	duplicate := &node{w: w, name: 2, rules: usual, m: &copied}
	w.nodes = append(w.nodes, duplicate)
	w.leaders++
	duplicate.schedule()
	w.run(w.within())
	w.want(w.lowest(0))
	if why := append(w.nodes[0].why, duplicate.why...); len(why) != 1 || !errors.Is(why[0], ErrDuplicate) {
		t.Errorf("candidates gave up because of %v", why)
	}
	if w.nodes[0].m.self == duplicate.m.self {
		t.Error("two have the same id")
	}
}

func TestALeaderThatWasPausedForALeaseGivesUp(t *testing.T) {
	for _, r := range []Rules{usual, mustHear()} {
		w := nodes(t, 3, r)
		w.nodes[0].pause(w.rules.Lease - w.rules.announce()*11/10) // less than that
		w.run(time.Minute)
		w.want(0)
		w.nodes[0].pause(2 * w.rules.Lease)
		w.run(2*w.rules.Lease - ms)
		w.want(0, 1) // it has not had the time to notice
		w.run(2 * ms)
		w.want(1)
		w.run(time.Minute)
		w.want(1)
	}
}

func TestTimeInWhichACandidateWasPausedDoesNotCount(t *testing.T) {
	w := newWorld(t, 1, 2, usual)
	w.start(1)
	w.run(w.rules.settle() - 100*ms)
	w.nodes[1].pause(time.Minute)
	w.run(ms)
	w.start(0)
	w.nodes[0].clock = time.Hour // it is the younger one
	w.run(time.Minute - 2*ms)
	w.want(0)
	w.run(w.rules.settle() - 10*ms)
	if got := w.leading(); slices.Contains(got, 1) {
		t.Error("it leads as soon as it goes on, before it can have heard the others")
	}
	w.run(20 * ms)
	w.want(1) // the older one, after the other has given up
}

func TestACandidateThatIsConnectedAgainAsksAndIsAnsweredAtOnce(t *testing.T) {
	w := nodes(t, 3, mustHear())
	w.atMostOne = true
	for _, n := range w.nodes {
		n.cut(true)
	}
	w.run(time.Minute)
	w.want()
	for _, n := range w.nodes {
		n.cut(false)
	}
	w.run(w.rules.settle() + w.maxDelay + w.rules.gap())
	w.want(w.lowest(0))
}
