package dispatch

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// naive is a model of a Core: slices and maps, which it searches from end to end.
type naive struct {
	core     Core[*peer]
	queues   [2]Queue[*peer]
	peers    []*peer
	calls    []*modelled
	lastRun  uint64 // the newest that was ever sent
	reported uint64 // number of the newest progress or checkpoint
}

// peer is the model of a session.
type peer struct {
	*Session[*peer]
	queue    int
	once     bool
	slots    int
	credits  int
	taken    int
	retired  bool
	open     bool // it has a connection
	drain    bool // a drain is to be sent
	drained  bool // no more calls are sent
	removed  bool
	active   bool // its writer will fill a frame without being woken
	finished bool // its writer has ended
	cancels  []uint64
	stored   []string // as showStored returns them
	ping     bool
	lastPing uint64
}

// modelled is the model of a call.
type modelled struct {
	*Call[*peer]
	queue      int   // that it waits in; -1 if in none
	on         *peer // that runs it
	cancelled  bool
	left       bool  // it was cancelled while it waited
	ended      bool  // it has an answer, which may wait for reports
	want       error // the answer
	answers    int   // that have arrived
	mustBegin  error // what begin returns
	forwarding bool
	progress   uint64 // newest that was not forwarded; 0 for none
	checkpoint uint64 // likewise
	from       *peer  // of the checkpoint
}

func (p *peer) running(n *naive) (all []*modelled) {
	for _, c := range n.calls {
		if c.on == p {
			all = append(all, c)
		}
	}
	return all
}

func (p *peer) serves() bool {
	return p.open && !p.retired && !p.removed && !p.drain && !p.drained && !(p.once && p.taken > 0)
}

func (p *peer) room(n *naive) int {
	if !p.serves() {
		return 0
	}
	return max(0, min(p.credits, p.slots-len(p.running(n))))
}

// waiting returns the calls of a queue, oldest first.
func (n *naive) waiting(queue int) (all []*modelled) {
	for _, c := range n.calls {
		if c.queue == queue {
			all = append(all, c)
		}
	}
	return all
}

func (n *naive) roomy(queue int) (all []*peer) {
	for _, p := range n.peers {
		if p.queue == queue && p.room(n) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// end notes that a call has an answer.
func (c *modelled) end(t *rapid.T, want error) {
	if c.ended {
		t.Fatalf("%v is answered a second time", c.ID())
	}
	c.queue, c.on, c.ended, c.want = -1, nil, true, want
}

// pick draws one of some items, the zero value if there is none.
func pick[T any](t *rapid.T, items []T) (item T) {
	if len(items) > 0 {
		item = items[rapid.IntRange(0, len(items)-1).Draw(t, "which")]
	}
	return item
}

func (n *naive) peer(t *rapid.T, fits func(*peer) bool) *peer {
	var all []*peer
	for _, p := range n.peers {
		if !p.removed && fits(p) {
			all = append(all, p)
		}
	}
	return pick(t, all)
}

func (n *naive) call(t *rapid.T, fits func(*modelled) bool) *modelled {
	var all []*modelled
	for _, c := range n.calls {
		if fits(c) {
			all = append(all, c)
		}
	}
	return pick(t, all)
}

// taken returns the calls that p takes next, and moves them in the model.
func (n *naive) taken(t *rapid.T, p *peer) (sent []*modelled) {
	roomy, size := n.roomy(p.queue), 0
	share := wire.FrameMessages
	if len(roomy) > 1 {
		share = (len(n.waiting(p.queue)) + len(roomy) - 1) / len(roomy)
	}
	for _, c := range n.waiting(p.queue) {
		if size += c.size; len(sent) == share || p.drain || p.room(n) == 0 || size > wire.FrameBytes && len(sent) > 0 {
			break
		}
		if c.mustBegin != nil {
			c.end(t, errBegin)
			continue
		}
		c.queue, c.on = -1, p
		p.credits--
		p.taken++
		sent = append(sent, c)
	}
	return sent
}

func (n *naive) of(c *Call[*peer]) *modelled {
	return n.calls[slices.IndexFunc(n.calls, func(m *modelled) bool { return m.Call == c })]
}

func showStored(run, number uint64, why string) string { return fmt.Sprint(run, number, why) }

// check compares the core with the model.
func (n *naive) check(t *rapid.T) {
	for i := range n.queues {
		waiting, roomy := n.waiting(i), n.roomy(i)
		if got := n.queues[i].Len(); got != len(waiting) {
			t.Fatalf("%d calls wait, want %d", got, len(waiting))
		}
		if got := n.core.HasRoom(&n.queues[i]); got != (len(roomy) > 0) {
			t.Fatalf("there is room: %v, want %v", got, len(roomy) > 0)
		}
		if len(waiting) > 0 && len(roomy) > 0 && !slices.ContainsFunc(roomy, (*peer).awake) {
			t.Fatalf("%d calls wait, %d sessions have room and all of them sleep", len(waiting), len(roomy))
		}
	}
	for _, p := range n.peers {
		running := p.running(n)
		if p.removed {
			if len(running) > 0 || p.Connected() {
				t.Fatalf("a removed session runs %d calls, and is connected: %v", len(running), p.Connected())
			}
			continue
		}
		if p.Running() != len(running) || p.Taken() != p.taken || p.Serves() != p.serves() || p.Slots() != p.slots || p.Drained() != p.drained || len(p.Session.stored) != len(p.stored) || p.room(n) != p.Session.room() {
			t.Fatalf("the session is %+v, want %+v", p.Session, p)
		}
		for _, c := range running {
			if p.Call(c.Run.RunId) != c.Call || c.Session() != p.Session {
				t.Fatalf("run %d is not known", c.Run.RunId)
			}
		}
		if len(running) == 1 && p.Only() != running[0].Call || len(running) != 1 && p.Only() != nil {
			t.Fatalf("of %d calls %v is the only one", len(running), p.Only())
		}
		if pending := len(p.cancels)+len(p.stored) > 0 || p.ping || p.drain || p.drained && len(running) == 0; pending && p.open && !p.finished && !p.awake() {
			t.Fatalf("there is something to send and the writer sleeps: %+v", p)
		}
	}
	n.checkAnswers(t)
}

// awake reports whether the writer of p will fill a frame.
func (p *peer) awake() bool { return p.active || len(p.wake.C()) > 0 }

// checkAnswers checks that each call has as many answers as it should have, with the right error.
func (n *naive) checkAnswers(t *rapid.T) {
	for _, c := range n.calls {
		select {
		case a := <-c.Done:
			if c.answers++; !errors.Is(a.Err, c.want) {
				t.Fatalf("%v ended with %v, want %v", c.ID(), a.Err, c.want)
			}
			if early := errors.Is(c.want, errBegin) || errors.Is(c.want, errGone) || errors.Is(c.want, errUnsent) || errors.Is(c.want, errRefused); early != errors.Is(a.Err, task.ErrUnavailable) {
				t.Fatalf("%v did not begin: %v, and ended with %v", c.ID(), early, a.Err)
			}
		default:
		}
		want := 0
		if c.ended && !c.forwarding {
			want = 1
		}
		if c.answers != want {
			t.Fatalf("%v has %d answers, want %d", c.ID(), c.answers, want)
		}
	}
}
