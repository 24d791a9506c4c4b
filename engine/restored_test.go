package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// countingCommits is a store that counts commits and reads of single rows.
type countingCommits struct {
	*memory.Store
	asked atomic.Int64
}

func (s *countingCommits) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	s.asked.Add(1)
	return s.Store.Commit(ctx, b)
}

func (s *countingCommits) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	s.asked.Add(1)
	return s.Store.Get(ctx, id)
}

// rows returns all rows in the order in which they were inserted.
func (g *group) rows() []*task.Task {
	g.t.Helper()
	ctx := context.Background()
	page, err := g.store.List(ctx, storage.ListQuery{Limit: 1e6, Scan: 1e6})
	all := page.Tasks
	if err != nil {
		g.t.Fatal(err)
	}
	for i, t := range all {
		if all[i], err = g.store.Get(ctx, t.ID); err != nil {
			g.t.Fatal(err)
		}
	}
	slices.SortFunc(all, func(a, b *task.Task) int { return int(a.Seq) - int(b.Seq) })
	return all
}

// goBack replaces all rows by the rows of an earlier time, as a restored backup does.
func (g *group) goBack(to []*task.Task) {
	g.t.Helper()
	ctx := context.Background()
	now := g.rows()
	err := g.store.Update(ctx, func(tx storage.Tx) error {
		for _, t := range now {
			if _, err := tx.Delete(ctx, t.Ref()); err != nil {
				return err
			}
		}
		for _, t := range to {
			if _, err := tx.Insert(ctx, t.Clone()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

// restored is a life of a cluster with a store that goes back in time.
type restored struct {
	g      *group
	random *rand.Rand // guarded by mu

	mu     sync.Mutex
	calls  int                   // guarded by mu
	live   map[int]*restoredCall // guarded by mu: handlers that run
	begun  map[task.ID]int       // guarded by mu: since the store has gone back
	late   []time.Duration       // guarded by mu: how long attempts that the store has lost ran after that
	went   time.Time             // guarded by mu: when the store has gone back
	isCalm bool                  // guarded by mu: handlers return at once
}

type restoredCall struct {
	ref    task.Ref
	number int
	isLost bool // the store has lost its beginning
}

// work is a handler that behaves at random. Its result names the call.
func (r *restored) work(ctx context.Context, t *task.Task) ([]byte, error) {
	r.mu.Lock()
	r.calls++
	c := &restoredCall{ref: t.Ref(), number: r.calls}
	r.live[c.number] = c
	if !r.went.IsZero() {
		r.begun[t.ID]++
	}
	roll, isCalm, wait := r.random.IntN(12), r.isCalm, r.below(15*time.Second)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.live, c.number)
		if c.isLost {
			r.late = append(r.late, time.Since(r.went))
		}
	}()
	result := fmt.Appendf(nil, "call %d", c.number)
	if isCalm {
		return result, nil
	}
	if roll < 8 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			if roll == 0 {
				return result, nil
			}
			return nil, context.Cause(ctx)
		}
	}
	switch roll {
	case 1, 8:
		return nil, errNo
	case 2, 9:
		return nil, task.Snooze(wait)
	case 3:
		return nil, task.Again(time.Now().Add(wait))
	case 10:
		return nil, task.Permanent(errNo)
	}
	return result, nil
}

// below returns a random duration. It is called with mu held.
func (r *restored) below(d time.Duration) time.Duration {
	return time.Duration(r.random.Int64N(int64(d)))
}

// pass lets operators and clients add and change tasks for some time.
func (r *restored) pass(d time.Duration, nodes ...*member) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		r.mu.Lock()
		n := nodes[r.random.IntN(len(nodes))]
		var reqs []engine.Request
		for range r.random.IntN(4) {
			req := engine.Request{Type: restoredTypes[r.random.IntN(len(restoredTypes))]}
			switch r.random.IntN(5) {
			case 0:
				req.At = time.Now().Add(r.below(30 * time.Second))
			case 1, 2:
				req.OrderingKey = fmt.Sprint("key ", r.random.IntN(6))
			case 3:
				req.Key = fmt.Sprint("unique ", r.random.IntN(20))
			}
			reqs = append(reqs, req)
		}
		all := r.g.rows()
		var some []*task.Task
		for range min(2, len(all)) {
			if t := all[r.random.IntN(len(all))]; t.Type != "once" {
				some = append(some, t)
			}
		}
		at, cancels := time.Now().Add(r.below(20*time.Second)), r.random.IntN(2) == 0
		r.mu.Unlock()
		for _, req := range reqs {
			n.submit(req)
		}
		for _, t := range some { // a task that has ended cannot be changed
			if cancels {
				_, _ = n.Cancel(context.Background(), t.Ref(), "by chance")
			} else {
				_, _ = n.Reschedule(context.Background(), t.Ref(), at)
			}
		}
	}
}

var restoredTypes = []string{"work", "once", "few"}

func restoredLife(t *testing.T, seed uint64) {
	g := newGroup(t)
	counts := &countingCommits{Store: g.store}
	g.wrap = func(*memory.Store) storage.Store { return counts }
	r := &restored{g: g, random: rand.New(rand.NewPCG(seed, 1)), live: make(map[int]*restoredCall), begun: make(map[task.ID]int)}
	set := policy.Set{Slots: 8, Types: make(map[string]policy.Type), Limits: map[string]policy.Limit{"few": {Name: "few", Max: 2}}}
	for _, typ := range restoredTypes {
		p := policy.DefaultType()
		p.Retry.Max, p.Retry.Backoff.Initial, p.Retry.Backoff.Max = policy.Forever, time.Second, 20*time.Second
		p.Ordering.OnExhausted = policy.Continue
		switch typ {
		case "once":
			p.Delivery = policy.AtMostOnce
		case "few":
			p.Limits = []string{"few"}
		}
		set.Types[typ] = p
	}
	a, b := g.join("a", set, r.work, restoredTypes...), g.join("b", set, r.work, restoredTypes...)
	draw := func(d time.Duration) time.Duration {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.below(d)
	}
	r.pass(5*time.Second+draw(20*time.Second), a, b)
	kept := g.rows()
	r.pass(draw(40*time.Second), a, b)
	was, lost, running := r.restore(kept, a.Incarnation(), b.Incarnation())
	for _, m := range []*member{a, b} {
		if draw(2) == 0 { // its coordinator has gone back, too
			m.coord.Sever()
		}
	}
	r.pass(10*time.Second, a, b)
	r.mu.Lock()
	r.isCalm = true
	r.mu.Unlock()
	time.Sleep(3 * time.Minute)
	before := counts.asked.Load()
	time.Sleep(time.Minute)
	if n := counts.asked.Load() - before; n > 10 {
		t.Errorf("nodes without a task ask for rows or changes %d times in a minute", n)
	}
	for _, row := range g.rows() {
		old := was[row.ID]
		if row.State.Live() {
			t.Errorf("%v of type %s is %v at version %d, and was restored as %+v", row.ID, row.Type, row.State, row.Version, old)
		}
		if lost[string(row.Result)] {
			t.Errorf("%v of type %s has the result of an attempt that the store has lost: %s", row.ID, row.Type, row.Result)
		}
		if old != nil && old.State == task.Processing && old.Type == "once" && !running[old.Ref()] && r.begun[row.ID] > 0 {
			t.Errorf("%v may run at most once, was restored as running, and was begun again", row.ID)
		}
	}
	for _, after := range r.late {
		if after > 5*time.Second {
			t.Errorf("an attempt that the store has lost ran for another %v", after)
		}
	}
	if used := a.Stats().Running + b.Stats().Running; used > 0 {
		t.Errorf("%d slots are taken", used)
	}
}

// restore sets the store back to some rows. It returns them, the results of the attempts that the store has lost, and
// the versions of the attempts that go on.
func (r *restored) restore(kept []*task.Task, owners ...task.ID) (was map[task.ID]*task.Task, lost map[string]bool, running map[task.Ref]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.g.goBack(kept)
	r.went = time.Now()
	was, lost, running = make(map[task.ID]*task.Task), make(map[string]bool), make(map[task.Ref]bool)
	for _, t := range kept {
		was[t.ID] = t
	}
	for _, c := range r.live {
		row := was[c.ref.ID]
		c.isLost = row == nil || row.Ref() != c.ref || row.State != task.Processing || !slices.Contains(owners, row.Owner)
		if c.isLost {
			lost[fmt.Sprint("call ", c.number)] = true
		} else {
			running[c.ref] = true
		}
	}
	return was, lost, running
}

// A node knows a time of the task that the store has lost with the end of the attempt, and the task has that version
// again, as one that is in doubt.
func TestATimeThatTheStoreHasLostDoesNotResumeATaskInDoubt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := one("once", func(p *policy.Type) {
			p.Delivery = policy.AtMostOnce
			p.Retry.Max, p.Retry.Backoff.Initial = 5, time.Minute
		})
		set.Slots, set.Types["hold"] = 1, policy.DefaultType()
		var calls atomic.Int32
		work := func(_ context.Context, row *task.Task) ([]byte, error) {
			if row.Type == "hold" {
				time.Sleep(30 * time.Second)
				return nil, nil
			}
			calls.Add(1)
			time.Sleep(2 * time.Second)
			return nil, errNo
		}
		a := g.join("a", set, work, "once", "hold")
		id := a.submit(engine.Request{Type: "once"})
		time.Sleep(time.Second)
		a.expect(id, task.Processing)
		kept := g.rows()
		time.Sleep(5 * time.Second)
		known := a.expect(id, task.Waiting)
		g.goBack(kept)
		a.coord.Sever()
		time.Sleep(40 * time.Second)
		if now := a.expect(id, task.Error); now.Version != known.Version {
			t.Fatalf("the test is void: the task has another version than the node knows, %d and %d", now.Version, known.Version)
		}
		a.submit(engine.Request{Type: "hold"}) // a due task is submitted if no slot is free
		time.Sleep(time.Minute)
		if a.expect(id, task.Error); calls.Load() != 1 {
			t.Errorf("it ran %d times", calls.Load())
		}
	})
}

func TestATimeThatTheStoreHasLostStartsNoTaskEarly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join("a", one("work", nil), takes(0), "work")
		time.Sleep(5 * time.Second)
		id := a.submit(engine.Request{Type: "work", At: time.Now().Add(20 * time.Second)})
		kept := g.rows()
		later := func(d time.Duration) *task.Task {
			t.Helper()
			now, err := a.Reschedule(t.Context(), task.Ref{ID: id}, time.Now().Add(d))
			if err != nil {
				t.Fatal(err)
			}
			return now
		}
		lost := later(5 * time.Second)
		g.goBack(kept)
		if now := later(10 * time.Minute); now.Version != lost.Version {
			t.Fatalf("the test is void: the versions differ, %d and %d", now.Version, lost.Version)
		}
		time.Sleep(time.Minute)
		a.expect(id, task.Waiting)
		time.Sleep(10 * time.Minute)
		a.expect(id, task.Done)
	})
}

// Another node has begun the task at the version at which this one had begun it before the store lost that.
func TestTheEndOfAnAttemptThatTheStoreHasLostChangesNoOther(t *testing.T) {
	for name, end := range map[string]func() error{"done": func() error { return nil }, "failed": func() error { return errNo }} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := newGroup(t)
				ends := make(chan struct{})
				work := func(ctx context.Context, _ *task.Task) ([]byte, error) {
					<-ends
					if err := task.SaveCheckpoint(ctx, []byte("lost")); err == nil {
						t.Error("its checkpoint is kept")
					}
					return []byte("lost"), end()
				}
				a := g.join("a", one("work", nil), work, "work")
				id := a.submit(engine.Request{Type: "work"})
				time.Sleep(5 * time.Second)
				was := a.expect(id, task.Processing)
				row := *was
				row.Owner = task.ID{5}
				g.replace(was, &row)
				close(ends) // before the node has looked at the row
				time.Sleep(100 * time.Millisecond)
				if now := a.expect(id, task.Processing); now.Owner != row.Owner || now.Version != row.Version || now.Checkpoint() != nil {
					t.Errorf("it is %+v", now)
				}
			})
		})
	}
}

// ruled is a store that counts how often the rules of types are stored.
type ruled struct {
	*memory.Store
	storage.Ruled
	times atomic.Int32
}

func (r *ruled) SetRules(context.Context, ...storage.TypeRules) error {
	r.times.Add(1)
	return nil
}

// A database that is restored may lack the rules by which SQL adds tasks.
func TestANodeThatHasLostItsLeaseStoresTheRulesOfItsTypesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		s := &ruled{Store: g.store}
		g.wrap = func(*memory.Store) storage.Store { return s }
		a := g.join("a", one("work", nil), takes(0), "work")
		time.Sleep(10 * time.Minute)
		if n := s.times.Load(); n != 1 {
			t.Errorf("they were stored %d times, want 1", n)
		}
		a.coord.Sever()
		time.Sleep(10 * time.Minute)
		if n := s.times.Load(); n != 2 {
			t.Errorf("they were stored %d times after the loss, want 2", n)
		}
	})
}
