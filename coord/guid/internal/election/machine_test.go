//go:build !race

package election

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// alone is a candidate. The test passes its messages on, or not.
type alone struct {
	*testing.T
	*Machine
	sent []Message
}

const second = time.Second

func newAlone(t *testing.T, r Rules) *alone {
	return &alone{T: t, Machine: New(0, task.ID{5}, r, rand.New(rand.NewPCG(1, 1)))}
}

func (a *alone) tick(now time.Duration) {
	for a.Next() <= now {
		at := a.Next()
		if a.sent = append(a.sent, a.Machine.Tick(at)...); a.State() == Over {
			return
		}
	}
	a.sent = append(a.sent, a.Machine.Tick(now)...)
}

func (a *alone) receive(now time.Duration, m Message) {
	a.tick(now)
	a.sent = append(a.sent, a.Machine.Received(now, m)...)
}

func (a *alone) connect(now time.Duration) {
	a.tick(now)
	a.sent = append(a.sent, a.Machine.Connected(now)...)
}

func (a *alone) last() Message { return a.sent[len(a.sent)-1] }

func (a *alone) is(want State) {
	a.Helper()
	if got := a.State(); got != want {
		a.Errorf("it is %d (%v), want %d", got, a.Why(), want)
	}
}

// from returns an announcement of an older candidate.
func from(seq uint64, k Kind) Message {
	return Message{Kind: k, From: task.ID{1}, Seq: seq, Lease: usual.Lease}
}

func TestAKnownCandidateThatAsksIsAnsweredSoon(t *testing.T) {
	a := newAlone(t, usual)
	a.connect(0)
	a.receive(second, from(1, Here))
	a.tick(2 * second)
	n := len(a.sent)
	a.receive(2*second, from(2, Here))
	a.tick(2*second + usual.gap())
	if len(a.sent) > n {
		t.Error("it answers one that does not ask")
	}
	a.receive(3*second, from(3, Hello))
	a.tick(3*second + usual.gap())
	if len(a.sent) != n+1 {
		t.Errorf("it answers with %d messages", len(a.sent)-n)
	}
	for range 10 {
		a.receive(3*second+usual.gap(), from(a.seq+100, Hello))
	}
	if len(a.sent) > n+2 {
		t.Error("it sends one answer for each question")
	}
}

func TestTheLeaseOfALeaderCountsFromWhenItSentWhatItHears(t *testing.T) {
	a := newAlone(t, mustHear())
	a.connect(0)
	a.receive(second, a.last())
	a.tick(3 * second)
	a.is(Leading)
	newest := a.last()
	sent := a.lastSent
	a.receive(sent+8*second, newest) // it was under way for long; the later ones are lost
	a.tick(sent + usual.Lease - 1)
	a.is(Leading)
	a.tick(sent + usual.Lease)
	a.is(Over)
}

func TestWhatWasSentBeforeAnotherOneWasGoneProvesNothing(t *testing.T) {
	a := newAlone(t, mustHear())
	a.connect(0)
	a.receive(second, from(1, Here))
	a.tick(12 * second)
	before := a.last()
	a.tick(13 * second) // the other one is gone
	a.receive(13*second, before)
	a.tick(40 * second)
	a.is(Waiting)
	asked := a.last()
	if asked.Kind != Hello {
		t.Errorf("one that may lead sends %q, which asks no one", asked.Kind)
	}
	a.receive(40*second, asked)
	a.tick(a.lastSent + usual.settle())
	a.is(Leading)
}

func TestTheTimeToSettleBeginsWithTheFirstConnection(t *testing.T) {
	a := newAlone(t, usual)
	a.connect(usual.settle())
	a.is(Waiting)
	a.tick(2*usual.settle() - 1)
	a.is(Waiting)
	a.tick(2 * usual.settle())
	a.is(Leading)

	a = newAlone(t, usual)
	a.connect(0)
	a.connect(usual.settle() / 2) // a connection that comes and goes must not put it off for ever
	a.tick(usual.settle())
	a.is(Leading)
}
