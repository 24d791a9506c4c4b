package dispatch

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// The reasons of answers that the test gives.
var (
	errBegin   = errors.New("it must not begin")
	errLost    = errors.New("its session is lost")
	errGone    = errors.New("its session does not have it")
	errUnsent  = errors.New("it was not sent")
	errRefused = errors.New("it was refused")
	errOverdue = errors.New("it did not end in time")
)

func (n *naive) push(t *rapid.T) {
	c, err := newCall[*peer](context.Background(), &task.Task{ID: task.ID{byte(len(n.calls) >> 8), byte(len(n.calls))}, Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	c.size = rapid.SampledFrom([]int{100, 100, wire.FrameBytes/2 + 1, 2 * wire.FrameBytes}).Draw(t, "size")
	m := &modelled{Call: c, queue: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "queue")}
	if rapid.IntRange(0, 9).Draw(t, "refuses") == 0 {
		m.mustBegin = errBegin
	}
	if rapid.Bool().Draw(t, "reports") {
		c.Reporter = struct{ task.Reporter }{}
	}
	n.calls = append(n.calls, m)
	if got, want := n.core.Push(&n.queues[m.queue], c), len(n.roomy(m.queue)) > 0; got != want {
		t.Fatalf("a session with room was found: %v, want %v", got, want)
	}
	freest := func(p *peer) bool {
		return p.awake() && !slices.ContainsFunc(n.roomy(m.queue), func(o *peer) bool { return o.room(n) > p.room(n) })
	}
	if roomy := n.roomy(m.queue); len(roomy) > 0 && !slices.ContainsFunc(roomy, freest) {
		t.Fatal("the session with the most room sleeps")
	}
}

func (n *naive) add(t *rapid.T) {
	if len(n.core.Sessions()) >= 4 {
		return
	}
	p := &peer{queue: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "queue"), once: rapid.IntRange(0, 3).Draw(t, "once") == 0}
	p.Session = n.core.NewSession(p, &n.queues[p.queue], p.once, 0)
	n.peers = append(n.peers, p)
	n.core.Add(p.Session)
	n.connectTo(t, p)
}

// connect gives a session a connection, in place of the one that it may have. It has received some of its runs.
func (n *naive) connect(t *rapid.T) {
	if p := n.peer(t, func(p *peer) bool { return !p.finished }); p != nil {
		n.connectTo(t, p)
	}
}

func (n *naive) connectTo(t *rapid.T, p *peer) {
	has, want := []uint64{n.lastRun + 7}, []uint64(nil)
	p.cancels = nil
	for _, c := range p.running(n) {
		if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
			c.end(t, errGone)
			continue
		}
		has, want = append(has, c.Run.RunId, c.Run.RunId), append(want, c.Run.RunId)
		if c.cancelled {
			p.cancels = append(p.cancels, c.Run.RunId)
		}
	}
	if p.drained {
		p.drain, p.drained = true, false
	}
	most := rapid.IntRange(0, 3).Draw(t, "most")
	p.slots = rapid.IntRange(1, 3).Draw(t, "slots")
	p.Connect(&wire.Hello{Slots: uint32(p.slots)}, most, calls.Rights{})
	if most > 0 {
		p.slots = min(p.slots, most)
	}
	p.open, p.credits, p.stored, p.active = true, 0, nil, true
	if got := p.Resume(has, errGone); !slices.Equal(got, want) {
		t.Fatalf("it resumes %v, want %v", got, want)
	}
}

func (n *naive) disconnect(t *rapid.T) {
	if p := n.peer(t, func(p *peer) bool { return p.open }); p != nil {
		p.open = false
		p.Disconnect()
	}
}

// writes fills a frame for a session, as its writer does.
func (n *naive) writes(t *rapid.T) {
	p := n.peer(t, func(p *peer) bool { return p.open && !p.finished })
	if p == nil {
		return
	}
	select {
	case <-p.wake.C():
	default:
	}
	sent := n.taken(t, p)
	frame := &wire.ToHandler{Runs: []*wire.Run{{}, {}}, Drain: &wire.Drain{}}
	filled := n.core.Fill(p.Session, frame, func(c *Call[*peer]) error { return n.of(c).mustBegin })
	for i, run := range frame.GetRuns() {
		if i >= len(sent) || run != sent[i].Run || run.GetRunId() <= n.lastRun {
			t.Fatalf("it was sent %v, want %v", frame.GetRuns(), sent)
		}
		n.lastRun = run.GetRunId()
	}
	for _, run := range frame.Runs[len(frame.Runs):cap(frame.Runs)] {
		if run != nil {
			t.Fatalf("the frame keeps %v", run)
		}
	}
	var cancels []uint64
	for _, c := range frame.GetCancels() {
		cancels = append(cancels, c.GetRunId())
	}
	var stored []string
	for _, s := range frame.GetStored() {
		stored = append(stored, showStored(s.GetRunId(), s.GetNumber(), s.GetError()))
	}
	slices.Sort(cancels)
	slices.Sort(p.cancels)
	ping := p.ping && frame.GetPing() > p.lastPing
	if len(frame.GetRuns()) != len(sent) || !slices.Equal(cancels, p.cancels) || !slices.Equal(stored, p.stored) || (frame.GetDrain() != nil) != p.drain || p.ping != ping {
		t.Fatalf("it was sent %v, want %d runs, cancels %v, stored %v, ping %v and drain %v", frame, len(sent), p.cancels, p.stored, p.ping, p.drain)
	}
	p.lastPing = max(p.lastPing, frame.GetPing())
	want := Nothing
	switch {
	case len(sent)+len(cancels)+len(stored) > 0 || p.drain || p.ping:
		want = Something
	case p.drained && len(p.running(n)) == 0:
		want = Finished
	}
	p.drained = p.drained || p.drain
	p.cancels, p.stored, p.drain, p.ping, p.active, p.finished = nil, nil, false, false, want == Something, want == Finished
	if filled != want {
		t.Fatalf("filled is %v, want %v", filled, want)
	}
	if want == Something && rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
		n.unsent(t, p, frame.GetRuns())
	}
}

// unsent has the frame with these runs fail.
func (n *naive) unsent(t *rapid.T, p *peer, runs []*wire.Run) {
	for _, c := range p.running(n) {
		if slices.Contains(runs, c.Run) {
			c.end(t, errUnsent)
		}
	}
	n.core.Undelivered(p.Session, runs, errUnsent)
	p.open = false
	p.Disconnect()
}

// reads gives the core a frame of a session.
func (n *naive) reads(t *rapid.T) {
	p := n.peer(t, func(p *peer) bool { return p.open })
	if p == nil {
		return
	}
	frame := &wire.FromHandler{Credits: rapid.Uint32Range(0, 3).Draw(t, "credits")}
	p.credits += int(frame.GetCredits())
	running := p.running(n)
	n.report(t, p, frame, running)
	reporting := n.reporting()
	var want []*Call[*peer]
	for range rapid.IntRange(0, 2).Draw(t, "finishes") {
		f := &wire.Finish{RunId: n.lastRun + 9, Outcome: &wire.Finish_Result{}}
		c := pick(t, running)
		if c != nil {
			f.RunId = c.Run.RunId
		}
		frame.Finishes = append(frame.Finishes, f)
		if c == nil || c.ended {
			want = append(want, nil)
			continue
		}
		c.end(t, nil)
		want = append(want, c.Call)
	}
	ended, forward := n.core.Receive(p.Session, frame, time.Unix(1, 0), nil)
	slices.SortFunc(forward, func(a, b *Call[*peer]) int { return bytes.Compare(a.Run.TaskId, b.Run.TaskId) })
	if !slices.Equal(ended, want) || !slices.Equal(forward, reporting) {
		t.Fatalf("the frame ends %v and has reports of %v, want %v and %v", ended, forward, want, reporting)
	}
	for i, c := range ended {
		if c != nil {
			c.deliver(calls.AnswerOf(frame.GetFinishes()[i]))
		}
	}
}

// report adds reports to a frame of p.
func (n *naive) report(t *rapid.T, p *peer, frame *wire.FromHandler, running []*modelled) {
	for range rapid.IntRange(0, 2).Draw(t, "reports") {
		n.reported++
		c := pick(t, running)
		if rapid.Bool().Draw(t, "unknown") || c == nil {
			frame.Checkpoints = append(frame.Checkpoints, &wire.Checkpoint{RunId: n.lastRun + 5, Number: n.reported})
			p.stored = append(p.stored, showStored(n.lastRun+5, n.reported, errRunOver))
			continue
		}
		if rapid.Bool().Draw(t, "progress") {
			frame.Progress = append(frame.Progress, &wire.Progress{RunId: c.Run.RunId, Done: n.reported})
			if c.Reporter != nil {
				c.progress = n.reported
			}
			continue
		}
		frame.Checkpoints = append(frame.Checkpoints, &wire.Checkpoint{RunId: c.Run.RunId, Number: n.reported})
		if c.Reporter == nil {
			p.stored = append(p.stored, showStored(c.Run.RunId, n.reported, ""))
		} else {
			c.checkpoint, c.from = n.reported, p
		}
	}
}

// reporting returns the calls that have reports which nobody forwards yet.
func (n *naive) reporting() (all []*Call[*peer]) {
	for _, c := range n.calls {
		if (c.progress != 0 || c.checkpoint != 0) && !c.forwarding {
			c.forwarding = true
			all = append(all, c.Call)
		}
	}
	return all
}

// forwards takes the reports of a call, and may say that the checkpoint is stored only after other events.
func (n *naive) forwards(t *rapid.T) {
	c := n.call(t, func(c *modelled) bool { return c.forwarding })
	if c == nil {
		return
	}
	next, more := n.core.NextReports(c.Call)
	if want := c.progress != 0 || c.checkpoint != 0; more != want {
		t.Fatalf("there are reports: %v, want %v", more, want)
	}
	if got := uint64(0); !more {
		c.forwarding = false
		return
	} else if next.Progress != nil {
		if got = next.Progress.Done; got != c.progress {
			t.Fatalf("the progress is %d, want %d", got, c.progress)
		}
	}
	if (next.Progress != nil) != (c.progress != 0) || (next.Checkpoint != nil) != (c.checkpoint != 0) {
		t.Fatalf("the reports are %+v, want progress %d and checkpoint %d", next, c.progress, c.checkpoint)
	}
	if c.checkpoint != 0 {
		why := rapid.SampledFrom([]string{"", "the disk is full"}).Draw(t, "why")
		n.core.Stored(c.Call, next, why)
		if c.from.open && !c.from.removed {
			c.from.stored = append(c.from.stored, showStored(c.Run.RunId, c.checkpoint, why))
		}
	}
	c.progress, c.checkpoint, c.from = 0, 0, nil
}

func (n *naive) cancels(t *rapid.T) {
	c := n.call(t, func(c *modelled) bool { return !c.cancelled })
	if c == nil {
		return
	}
	c.cancelled = true
	waited := c.queue >= 0
	if got := n.core.Cancel(c.Call, &wire.Cancel{}); got != waited {
		t.Fatalf("it waited: %v, want %v", got, waited)
	}
	if waited {
		c.queue, c.left = -1, true
	} else if c.on != nil {
		c.on.cancels = append(c.on.cancels, c.Run.RunId)
	}
}

func (n *naive) abandons(t *rapid.T) {
	if c := n.call(t, func(c *modelled) bool { return c.on != nil && c.cancelled }); c != nil {
		c.end(t, errOverdue)
		c.End(errOverdue)
	}
}

func (n *naive) drains(t *rapid.T) {
	p := n.peer(t, func(p *peer) bool { return true })
	switch {
	case p == nil:
	case rapid.Bool().Draw(t, "leaves"):
		p.drained = p.drained || !p.drain
		p.Leave()
	default:
		p.drain = p.drain || !p.drained
		p.Drain()
	}
}

func (n *naive) retires(t *rapid.T) {
	if p := n.peer(t, func(p *peer) bool { return true }); p != nil {
		p.retired = true
		p.Retire()
	}
}

func (n *naive) pings(t *rapid.T) {
	if p := n.peer(t, func(p *peer) bool { return p.open && !p.finished }); p != nil {
		p.ping = true
		p.Ping()
	}
}

// loses removes a session.
func (n *naive) loses(t *rapid.T) {
	p := n.peer(t, func(p *peer) bool { return true })
	if p == nil {
		return
	}
	for _, c := range p.running(n) {
		c.end(t, errLost)
	}
	p.removed, p.open = true, false
	n.core.Remove(p.Session, func(*Call[*peer]) error { return errLost })
}

// refuses refuses a call that waits.
func (n *naive) refuses(t *rapid.T) {
	if c := n.call(t, func(c *modelled) bool { return c.queue >= 0 }); c != nil {
		q := &n.queues[c.queue]
		c.end(t, errRefused)
		q.Refuse(func(o *Call[*peer]) error {
			if o == c.Call {
				return errRefused
			}
			return nil
		})
	}
}

func TestACoreDoesWhatANaiveOneDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := new(naive)
		n.add(t)
		often := []func(*rapid.T){n.push, n.writes, n.writes, n.writes, n.reads, n.reads, n.forwards, n.cancels}
		seldom := []func(*rapid.T){n.add, n.add, n.add, n.connect, n.disconnect, n.abandons, n.drains, n.retires, n.pings, n.loses, n.refuses}
		for range rapid.IntRange(100, 400).Draw(t, "steps") {
			steps := often
			if rapid.IntRange(0, 3).Draw(t, "seldom") == 0 {
				steps = seldom
			}
			rapid.SampledFrom(steps).Draw(t, "step")(t)
			n.check(t)
		}
		for _, p := range n.peers {
			if !p.removed {
				for _, c := range p.running(n) {
					c.end(t, errLost)
				}
				p.removed = true
				n.core.Remove(p.Session, func(*Call[*peer]) error { return errLost })
			}
		}
		for i := range n.queues {
			for _, c := range n.waiting(i) {
				c.end(t, errRefused)
			}
			n.queues[i].Refuse(func(*Call[*peer]) error { return errRefused })
		}
		n.checkAnswers(t)
	})
}

func TestACallThatWaitsAlwaysHasASessionAwake(t *testing.T) {
	for name, lose := range map[string]func(*Core[*peer], *Session[*peer]){
		"takes its share": func(c *Core[*peer], s *Session[*peer]) { fillOnce(c, s) },
		"connects again":  func(_ *Core[*peer], s *Session[*peer]) { s.Connect(&wire.Hello{Slots: 2}, 0, calls.Rights{}) },
		"disconnects":     func(_ *Core[*peer], s *Session[*peer]) { s.Disconnect() },
		"is retired":      func(_ *Core[*peer], s *Session[*peer]) { s.Retire() },
		"drains":          func(_ *Core[*peer], s *Session[*peer]) { s.Drain() },
		"leaves":          func(_ *Core[*peer], s *Session[*peer]) { s.Leave() },
		"is removed":      func(c *Core[*peer], s *Session[*peer]) { c.Remove(s, nil) },
	} {
		var c Core[*peer]
		var q Queue[*peer]
		woken, other := c.NewSession(nil, &q, false, 0), c.NewSession(nil, &q, false, 0)
		for i, s := range []*Session[*peer]{other, woken} {
			c.Add(s)
			s.Connect(&wire.Hello{Slots: uint32(1 + i)}, 0, calls.Rights{})
			s.AddCredits(2)
			fillOnce(&c, s)
		}
		for n := range byte(3) {
			call, err := newCall[*peer](t.Context(), &task.Task{ID: task.ID{n}})
			if err != nil {
				t.Fatal(err)
			}
			c.Push(&q, call)
		}
		if len(woken.wake.C()) != 1 || len(other.wake.C()) != 0 {
			t.Errorf("%s: the session with the most room is not the one that was woken", name)
		}
		lose(&c, woken)
		if len(other.wake.C()) != 1 {
			t.Errorf("a session that was woken for a call %s, and the other one that has room sleeps", name)
		}
	}
}

func fillOnce(c *Core[*peer], s *Session[*peer]) {
	c.Fill(s, new(wire.ToHandler), func(*Call[*peer]) error { return nil })
}
