package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// A node that hangs is taken for dead: its tasks run elsewhere. When it continues, its saves
// of these tasks come too late.
func TestTheTasksOfADeadNodeRunElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := one("work", nil)
		once := policy.DefaultType()
		once.Delivery = policy.AtMostOnce
		set.Types["once"] = once
		release := make(chan struct{})
		a := g.join("a", set, func(context.Context, *task.Task) ([]byte, error) {
			<-release // ignores its context
			return []byte("late"), nil
		}, "work", "once")
		again, once1 := a.submit(engine.Request{Type: "work"}), a.submit(engine.Request{Type: "once"})
		b := g.join("b", set, func(context.Context, *task.Task) ([]byte, error) { return []byte("again"), nil }, "work", "once")
		time.Sleep(10 * time.Second)
		b.expect(again, task.Processing) // a slow handler does not make its node dead
		b.because(again, engine.CodeRunning)
		died := time.Now()
		if err := a.coord.Close(); err != nil { // for good
			t.Fatal(err)
		}
		got := b.end(again)
		if took := time.Since(died); took > 2*engine.DefaultLease {
			t.Errorf("it took %v", took)
		}
		if string(got.Result) != "again" || got.Crashes != 0 || len(got.History) != 1 || got.History[0].Outcome != task.Crashed {
			t.Errorf("got %+v", got)
		}
		b.expect(b.end(once1).ID, task.Error)
		close(release)
		time.Sleep(time.Minute)
		if got = b.expect(again, task.Done); string(got.Result) != "again" {
			t.Errorf("the late result was applied: %+v", got)
		}
		if s := a.Stats(); s.Stale != 2 {
			t.Errorf("the node that was dead: %+v", s)
		}
	})
}

// countingOrphans is a store that counts the calls of Orphans by a cluster of two nodes, and
// takes time to answer them.
type countingOrphans struct {
	*memory.Store
	asked atomic.Int64
	takes time.Duration
	page  int // rows that a call reads; 0 for as many as the caller asks for
}

func (s *countingOrphans) Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) ([]*task.Task, task.ID, error) {
	if len(alive) > 1 { // if one of the two nodes is missing, that node looks for its own rows
		s.asked.Add(1)
	}
	time.Sleep(s.takes)
	if s.page > 0 {
		scan = s.page
	}
	return s.Store.Orphans(ctx, alive, after, scan)
}

// Looking for the tasks of dead nodes means to read all tasks.
func TestTasksOfDeadNodesAreLookedForSeldomWhileNoneDies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		s := &countingOrphans{Store: g.store}
		g.wrap = func(*memory.Store) storage.Store { return s }
		a := g.join("a", one("work", nil), takes(0), "work")
		g.join("b", one("work", nil), takes(0), "work")
		time.Sleep(time.Hour)
		if n := s.asked.Load(); n < 60 || n > 100 {
			t.Errorf("they were looked for %d times in an hour", n)
		}
		late := a.submit(engine.Request{Type: "work", At: time.Now().Add(time.Hour)})
		grab := task.Change{Ref: a.get(late).Ref(), To: task.Submitted, At: time.Now()}
		for _, grab.To = range []task.State{task.Submitted, task.Processing} { // by a node that was believed to be dead
			grab.Owner = task.ID{1}
			rows, err := g.store.Swap(t.Context(), grab)
			if err != nil || rows[0] == nil {
				t.Fatal(rows, err)
			}
			grab.Ref = rows[0].Ref()
		}
		begin := time.Now()
		a.end(late)
		if took := time.Since(begin); took > 70*time.Second {
			t.Errorf("a task that came to light later ran after %v", took)
		}
	})
}

// The healer may be anywhere among a million tasks when a node dies.
func TestTasksOfADeadNodeRunElsewhereSoonThoughItTakesLongToFindThem(t *testing.T) {
	for phase := range 16 {
		inBubble(t, func(t *testing.T) {
			g := newGroup(t)
			s := &countingOrphans{Store: g.store, takes: 350 * time.Millisecond, page: 1}
			g.wrap = func(*memory.Store) storage.Store { return s }
			release := make(chan struct{})
			a := g.join("a", one("work", nil), func(context.Context, *task.Task) ([]byte, error) {
				<-release
				return nil, nil
			}, "work")
			var id task.ID
			for i := range 10 {
				r := engine.Request{Type: "work", At: time.Now().Add(time.Hour)}
				if i == 5 {
					r.At = time.Time{}
				}
				if got := a.submit(r); i == 5 {
					id = got
				}
			}
			b := g.join("b", one("work", nil), takes(0), "work")
			time.Sleep(15*time.Second + time.Duration(phase)*500*time.Millisecond)
			died := time.Now()
			if err := a.coord.Close(); err != nil { // for good
				t.Fatal(err)
			}
			b.end(id)
			if took := time.Since(died); took > engine.DefaultLease { // the other nodes see it after another lease
				t.Errorf("it took %v", took)
			}
			close(release)
		})
	}
}

func TestACheckpointOutlivesANodeThatDied(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		release := make(chan struct{})
		a := g.join("a", one("copy", nil), func(ctx context.Context, _ *task.Task) ([]byte, error) {
			err := task.SaveCheckpoint(ctx, []byte("page 7"))
			<-release
			return nil, err
		}, "copy")
		id := a.submit(engine.Request{Type: "copy"})
		time.Sleep(10 * time.Second)
		if err := a.coord.Close(); err != nil { // for good
			t.Fatal(err)
		}
		b := g.join("b", one("copy", nil), func(_ context.Context, tk *task.Task) ([]byte, error) { return tk.Checkpoint(), nil }, "copy")
		if got := b.end(id); string(got.Result) != "page 7" {
			t.Errorf("on another node it returned %q", got.Result)
		}
		close(release)
	})
}
