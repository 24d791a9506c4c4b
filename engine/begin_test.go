package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestAGrabThatIsAnsweredAfterTheNodeWasTakenForDeadIsNotRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		var s *lossyShared
		g.wrap = func(m *memory.Store) storage.Store {
			s = &lossyShared{Store: m, lossy: lossy{Store: m}}
			return s
		}
		var a *member
		var wrong atomic.Int64
		a = g.join("a", one("x", func(p *policy.Type) { p.Delivery = policy.AtMostOnce }), func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Owner != a.Incarnation() {
				wrong.Add(1)
			}
			return []byte("r"), nil
		}, "x")
		begin := time.Now()
		id := a.submit(engine.Request{Type: "x", At: begin.Add(time.Second)})
		s.answer(nil, func(_, swapped int) time.Duration { // only the grab, 2 s
			if swapped > 0 && time.Since(begin) < 1100*time.Millisecond {
				return 2 * time.Second
			}
			return 0
		})
		time.Sleep(1500 * time.Millisecond)
		a.expect(id, task.Processing)
		a.coord.Sever() // the member joins again after a second
		got := a.end(id)
		if got.State != task.Done || string(got.Result) != "r" || len(g.ran(id)) != 1 || wrong.Load() != 0 {
			t.Errorf("got %+v after runs on %v, %d of them under an incarnation that was dead", got, g.ran(id), wrong.Load())
		}
	})
}

// doubtful is a membership that may fail to prove that a member is alive.
type doubtful struct {
	coord.Membership
	proves atomic.Bool
}

func (d *doubtful) Proves(task.ID) bool { return d.proves.Load() }

// startDoubtful opens an engine that is a member of a cluster by d.
func startDoubtful(t *testing.T, d *doubtful, h task.Handler) *node {
	g := newGroup(t)
	coordinator := g.first.Peer()
	d.Membership = coordinator
	n := &node{t: t, store: g.store, config: engine.Config{
		Store: g.store, Policies: one("x", func(p *policy.Type) { p.Delivery = policy.AtMostOnce }), Handlers: map[string]task.Handler{"x": h},
		Name: "a", Coordinator: coord.Coordinator{Membership: d, Elector: coordinator, Bus: coordinator},
	}}
	n.open()
	t.Cleanup(func() {
		n.close()
		if err := coordinator.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestAHandlerIsNotCalledWhileItsNodeCannotProveThatItIsAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var d doubtful
		var j journal
		n := startDoubtful(t, &d, task.HandlerFunc(j.work(0)))
		id := n.submit(engine.Request{Type: "x"})
		time.Sleep(9500 * time.Millisecond) // between two tries, which are a second apart
		if n.expect(id, task.Waiting); len(j.payloads()) != 0 {
			t.Errorf("it ran %d times", len(j.payloads()))
		}
		d.proves.Store(true)
		if got := n.end(id); got.State != task.Done || got.Attempt != 1 || len(j.payloads()) != 1 {
			t.Errorf("it is %v at attempt %d after %d runs", got.State, got.Attempt, len(j.payloads()))
		}
	})
}

func TestAPoolDoesNotBeginWhileItsNodeCannotProveThatItIsAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var d doubtful
		d.proves.Store(true)
		var j journal
		n := startDoubtful(t, &d, &testPool{name: "py", has: task.Capacity{Slots: 1}, wait: time.Second, fn: j.work(0)})
		id := n.submit(engine.Request{Type: "x"})
		time.Sleep(500 * time.Millisecond)
		n.expect(id, task.Processing)
		d.proves.Store(false)
		time.Sleep(10 * time.Second)
		if len(j.payloads()) != 0 {
			t.Errorf("it ran %d times", len(j.payloads()))
		}
		d.proves.Store(true)
		if got := n.end(id); got.State != task.Done || got.Attempt != 1 || len(j.payloads()) != 1 {
			t.Errorf("it is %v at attempt %d after %d runs", got.State, got.Attempt, len(j.payloads()))
		}
	})
}

// stalling is a store that can slow down its writes.
type stalling struct {
	storage.Store
	notes, updates atomic.Int64 // how long each takes, in nanoseconds
}

func (s *stalling) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	time.Sleep(time.Duration(s.notes.Load()))
	return s.Store.Note(ctx, ns...)
}

func (s *stalling) Update(ctx context.Context, fn func(storage.Tx) error) error {
	time.Sleep(time.Duration(s.updates.Load()))
	return s.Store.Update(ctx, fn)
}

// Commit implements [storage.Store].
func (s *stalling) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitLaterIn(ctx, s.Update, b)
}

func TestAResultThatIsReturnedInTimeCountsHoweverLongTheStoreTakes(t *testing.T) {
	for _, all := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := &stalling{Store: memory.New()}
			n := &node{t: t, store: s}
			n.config = engine.Config{Store: s, Policies: one("x", func(p *policy.Type) {
				p.Delivery, p.Timeout.Run, p.Timeout.Grace = policy.AtMostOnce, 5*time.Second, time.Second
			}), Handlers: handle("x", func(ctx context.Context, _ *task.Task) ([]byte, error) {
				time.Sleep(1500 * time.Millisecond)
				s.notes.Store(int64(30 * time.Second))
				if all {
					s.updates.Store(int64(30 * time.Second))
				}
				task.ReportProgress(ctx, 7, 7, "all")
				return []byte("r"), nil
			})}
			n.open()
			defer n.close()
			id := n.submit(engine.Request{Type: "x"})
			time.Sleep(10 * time.Minute)
			if got := n.expect(id, task.Done); string(got.Result) != "r" || got.Progress().Done != 7 {
				t.Errorf("result %q, progress %+v", got.Result, got.Progress())
			}
			s.notes.Store(0)
			s.updates.Store(0)
		})
	}
}
