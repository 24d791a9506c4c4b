//go:build !race

package election

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

const ms = time.Millisecond

// world simulates nodes with one candidate each, and a bus between them.
type world struct {
	t      testing.TB
	rand   *rand.Rand
	now    time.Duration
	queue  events
	events int
	nodes  []*node
	rules  Rules
	story  []string // the events, as text

	minDelay, maxDelay time.Duration
	loss, doubled      float64 // probabilities, for each receiver

	atMostOne bool // no two may lead, ever
	leaders   int
	most      int // leaders at once so far
}

// maxDelay returns how long a message may be under way, if none is lost, so that no two candidates lead at once: a
// question and its answer arrive before the time to settle is over.
func (r Rules) maxDelay() time.Duration { return (r.settle() - r.gap()) / 2 }

// node is a process. When its candidacy is over, it begins another one.
type node struct {
	w       *world
	name    int
	rules   Rules
	m       *Machine // nil: the process does not run
	ids     uint64   // of candidates so far
	clock   time.Duration
	island  int // it reaches the nodes of the same island
	isCut   bool
	isMuted bool // nothing that it sends arrives
	paused  bool
	later   []func() // the calls to make when it is resumed
	ticks   time.Duration
	why     []error // of its candidacies that are over
}

type event struct {
	at time.Duration
	n  int
	do func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// newWorld returns a world of n processes that do not run yet.
func newWorld(t testing.TB, seed uint64, n int, r Rules) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), rules: r, minDelay: 1 * ms, maxDelay: 20 * ms}
	for i := range n {
		w.nodes = append(w.nodes, &node{w: w, name: i, rules: r})
	}
	return w
}

func (w *world) at(when time.Duration, do func()) {
	w.events++
	heap.Push(&w.queue, event{max(when, w.now), w.events, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// run lets time pass.
func (w *world) run(d time.Duration) {
	for end := w.now + d; ; {
		if len(w.queue) == 0 || w.queue[0].at > end {
			w.now = end
			return
		}
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%8v ", w.now.Round(ms))+fmt.Sprintf(format, args...))
}

// random returns a time from a range.
func (w *world) random(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rand.Int64N(int64(to-from)+1))
}

// start starts processes at once.
func (w *world) start(nodes ...int) {
	for _, i := range nodes {
		w.nodes[i].stand()
	}
}

// stand begins a candidacy.
func (n *node) stand() {
	w := n.w
	w.tell("node %d stands", n.name)
	n.ids++
	var id task.ID
	binary.BigEndian.PutUint64(id[:], uint64(1<<50+int64((w.now+n.clock)/time.Microsecond)))
	id[8], id[9] = byte(n.name), byte(n.ids)
	n.m = New(w.now, id, n.rules, rand.New(rand.NewPCG(w.rand.Uint64(), 2)))
	m := n.m
	w.after(w.random(0, 3*ms), func() { n.connect(m) })
	n.schedule()
}

// connect lets a candidate know that messages arrive, if they do.
func (n *node) connect(m *Machine) {
	if !n.isCut {
		n.on(m, func() []Message { return m.Connected(n.w.now) })
	}
}

// on passes an event to a candidate, unless it is gone.
func (n *node) on(m *Machine, event func() []Message) {
	switch {
	case n.m != m:
	case n.paused:
		n.later = append(n.later, func() { n.on(m, event) })
	default:
		n.handle(event)
	}
}

func (n *node) handle(event func() []Message) {
	w, m, was := n.w, n.m, n.m.State()
	out := event()
	if is := m.State(); is != was {
		n.became(was, is)
	}
	for _, msg := range out {
		n.send(msg)
	}
	if m.State() == Over {
		n.m = nil
		if m.Why() != nil {
			n.why = append(n.why, m.Why())
			restart := n.ids
			w.after(w.random(0, 50*ms), func() {
				if n.m == nil && n.ids == restart {
					n.stand()
				}
			})
		} else {
			n.ids++ // no restart that is under way counts
		}
		return
	}
	n.schedule()
}

func (n *node) became(was, is State) {
	w := n.w
	w.tell("node %d was %d, is %d: %v", n.name, was, is, n.m.Why())
	if is == Leading {
		w.leaders++
	} else if was == Leading {
		w.leaders--
	}
	w.most = max(w.most, w.leaders)
	if w.atMostOne && w.leaders > 1 {
		w.fail("%d candidates lead", w.leaders)
	}
}

// schedule calls Tick when it is due.
func (n *node) schedule() {
	m, at := n.m, n.m.Next()
	if n.ticks == at && at > n.w.now {
		return // it is scheduled
	}
	n.ticks = at
	n.w.at(at, func() {
		if n.m == m && m.Next() <= n.w.now {
			n.on(m, func() []Message { return m.Tick(n.w.now) })
		}
	})
}

// send passes a message to all that can be reached when it is sent and when it arrives.
func (n *node) send(msg Message) {
	w := n.w
	if n.isCut || n.isMuted {
		return
	}
	for _, to := range w.nodes {
		if to.isCut || to.island != n.island {
			continue
		}
		copies := 1
		if w.doubled > 0 && w.rand.Float64() < w.doubled {
			copies++
		}
		for range copies {
			if w.loss == 0 || w.rand.Float64() >= w.loss {
				w.after(w.random(w.minDelay, w.maxDelay), func() { to.receive(msg) })
			}
		}
	}
}

func (n *node) receive(msg Message) {
	if m := n.m; m != nil && !n.isCut {
		n.on(m, func() []Message { return m.Received(n.w.now, msg) })
	}
}

// stop ends the candidacy of a process as its end does. Its last messages are sent.
func (n *node) stop() {
	if n.m != nil && !n.paused {
		n.handle(func() []Message { return n.m.Stop(n.w.now) })
	}
}

// kill ends a process without a word.
func (n *node) kill() {
	n.w.tell("node %d is killed", n.name)
	if n.m != nil && n.m.State() == Leading {
		n.w.leaders--
	}
	n.m, n.paused, n.later = nil, false, nil
	n.ids++
}

// cut cuts the process off the bus. It learns when it is connected again.
func (n *node) cut(yes bool) {
	n.w.tell("node %d is cut off: %v", n.name, yes)
	n.isCut = yes
	if m := n.m; m != nil && !yes {
		n.connect(m)
	}
}

// pause stops a process for some time.
func (n *node) pause(d time.Duration) {
	if n.paused || n.m == nil {
		return
	}
	n.paused = true
	id := n.ids
	n.w.after(d, func() {
		if n.ids != id {
			return // it was killed
		}
		n.paused = false
		happened := n.later
		n.later = nil
		n.w.rand.Shuffle(len(happened), func(i, j int) { happened[i], happened[j] = happened[j], happened[i] })
		for _, do := range happened {
			do()
		}
		if m := n.m; m != nil && m.Next() <= n.w.now {
			n.on(m, func() []Message { return m.Tick(n.w.now) })
		}
	})
}

// leading returns the nodes that lead.
func (w *world) leading() (all []int) {
	for _, n := range w.nodes {
		if n.m != nil && n.m.State() == Leading {
			all = append(all, n.name)
		}
	}
	return all
}

// lowest returns the node of an island with the lowest id, or -1.
func (w *world) lowest(island int) int {
	low := -1
	for _, n := range w.nodes {
		if n.m != nil && n.island == island && (low < 0 || n.m.self.Compare(w.nodes[low].m.self) < 0) {
			low = n.name
		}
	}
	return low
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format+" at %v\n%s", append(args, w.now, strings.Join(w.story, "\n"))...)
}

// want fails unless exactly these nodes lead.
func (w *world) want(nodes ...int) {
	w.t.Helper()
	if got := w.leading(); !slices.Equal(got, nodes) {
		w.fail("nodes %v lead, want %v", got, nodes)
	}
}

// within is how long it takes until a candidate leads, at most, when the leader is gone without a word.
func (w *world) within() time.Duration { return w.rules.Lease + w.rules.settle() + 2*w.maxDelay }
