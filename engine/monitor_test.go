package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// tallied is a store in memory that counts calls of Fold. The test sets how many notes it has
// to fold.
type tallied struct {
	*memory.Store

	mu    sync.Mutex
	notes int64       // guarded by mu
	folds []time.Time // guarded by mu
	fails error       // guarded by mu: error of the next fold
}

func (s *tallied) Fold(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folds = append(s.folds, time.Now())
	err := s.fails
	s.fails = nil
	return s.notes, err
}

// foldedIn returns how often Fold is called within d.
func (s *tallied) foldedIn(d time.Duration) int {
	time.Sleep(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, at := range s.folds {
		if time.Since(at) < d {
			n++
		}
	}
	return n
}

func (s *tallied) set(notes int64, fails error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes, s.fails = notes, fails
}

// logs holds what some nodes logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// warnings returns the warnings since the last call, without their times.
func (l *logs) warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, line := range strings.Split(l.text.String(), "\n") {
		if strings.Contains(line, "level=WARN") {
			out = append(out, regexp.MustCompile(`^time=\S+ level=WARN `).ReplaceAllString(line, ""))
		}
	}
	l.text.Reset()
	return out
}

// joinTallied starts a node of a cluster on a store.
func joinTallied(t *testing.T, s storage.Store, l *logs, coord *local.Node, types ...string) *node {
	t.Helper()
	handlers := make(map[string]task.Handler)
	for _, typ := range types {
		handlers[typ] = task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errNo) })
	}
	n := &node{t: t, store: s, config: engine.Config{
		Store: s, Policies: policy.Set{Slots: 10}, Handlers: handlers, Coordinator: coord.Coordinator(), Log: slog.New(slog.NewTextHandler(l, nil)),
	}}
	n.open()
	t.Cleanup(func() {
		n.close()
		if err := coord.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestAStoreFoldsWhileThereAreNotesAndSeldomElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, first := &tallied{Store: memory.New()}, local.New()
		var l logs
		joinTallied(t, s, &l, first.Peer())
		joinTallied(t, s, &l, first.Peer())
		time.Sleep(5 * time.Minute)
		if n := s.foldedIn(time.Hour); n < 115 || n > 120 {
			t.Errorf("with nothing to fold, Fold was called %d times in an hour", n)
		}
		s.set(1000, nil)
		if n := s.foldedIn(time.Hour); n < 710 || n > 720 {
			t.Errorf("with notes to fold, Fold was called %d times in an hour", n)
		}
		s.set(0, errNo)
		if n := s.foldedIn(time.Hour); n < 115 || n > 130 {
			t.Errorf("after a fold failed, Fold was called %d times in an hour", n)
		}
	})
}

func TestOneNodeTellsOnceThatNobodyHandlesAType(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, first := &tallied{Store: memory.New()}, local.New()
		var l logs
		a := joinTallied(t, s, &l, first.Peer(), "mail")
		b := joinTallied(t, s, &l, first.Peer(), "mail", "rare")
		submit := func() task.ID { return a.submit(engine.Request{Type: "rare"}) }
		tells := func(when string, want ...string) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			if got := l.warnings(); !slices.Equal(got, want) {
				t.Errorf("%s they said %q, want %q", when, got, want)
			}
		}
		const unhandled = `msg="tasks wait that no node handles; start one that does, or cancel them" type=rare tasks=`
		tells("when all is handled")
		b.close()
		id := submit()
		submit()
		tells("when no node handles it any more", unhandled+"2")
		c := joinTallied(t, s, &l, first.Peer(), "rare")
		c.end(id)
		time.Sleep(time.Minute)
		l.warnings() // that they failed
		c.close()
		tells("while there is no task")
		submit()
		tells("when no node handles it again", unhandled+"1")
	})
}

func TestOneNodeTellsThatTasksHaveBecomeErrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, first := &tallied{Store: memory.New()}, local.New()
		var l logs
		a := joinTallied(t, s, &l, first.Peer(), "mail", "payout")
		joinTallied(t, s, &l, first.Peer(), "mail", "payout")
		fail := func(types ...string) (ids []task.ID) {
			for _, typ := range types {
				ids = append(ids, a.submit(engine.Request{Type: typ}))
			}
			return ids
		}
		tells := func(when string, want ...string) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			if got := l.warnings(); !slices.Equal(got, want) {
				t.Errorf("%s they said %q, want %q", when, got, want)
			}
		}
		const errors = `msg="tasks have become errors and wait for a person; see why, then resume or fail them" types=`
		tells("at first")
		ids := fail("mail", "payout", "mail")
		tells("when some have failed", errors+`"[mail: 2 (2 more) payout: 1 (1 more)]"`)
		fail("payout")
		tells("when another one has", errors+`"[payout: 2 (1 more)]"`)
		if _, err := a.Fail(t.Context(), task.Ref{ID: ids[0]}, ""); err != nil {
			t.Fatal(err)
		}
		tells("when one was acknowledged")
		fail("mail")
		tells("when there are as many as before", errors+`"[mail: 2 (1 more)]"`)
	})
}

// uncounted is a store without an index of kinds of errors.
type uncounted struct{ *memory.Store }

func (uncounted) CountKinds(context.Context, []string, int) ([]storage.KindCount, bool, error) {
	return nil, false, errors.ErrUnsupported
}

// Of a store that does not count its tasks, the monitor counts the kinds of their errors.
func TestErrorsAreReportedByTheirKinds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var l logs
		e := joinTallied(t, memory.New(), &l, local.New(), "mail")
		time.Sleep(time.Second) // the first look of the monitor is over
		for range 1_500 {
			e.submit(engine.Request{Type: "mail"})
		}
		time.Sleep(time.Minute)
		if got, want := l.warnings(), []string{`msg="tasks have become errors and wait for a person; see why, then resume or fail them" types="[mail: 1500 (1500 more)]"`}; !slices.Equal(got, want) {
			t.Errorf("it said %q, want %q", got, want)
		}
		if d, ok := e.Depths(); !ok || d.ErrorsCut || len(d.Types) != 1 || d.Types[0].Error != 1500 || d.Types[0].Kinds != 1 {
			t.Errorf("the depths are %+v, %v", d, ok)
		}
	})
}

// Of a store without such an index, the monitor reads the tasks in error.
func TestErrorsOfAStoreThatDoesNotCountAreReported(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var l logs
		e := joinTallied(t, uncounted{memory.New()}, &l, local.New(), "mail")
		time.Sleep(time.Second) // the monitor never looks while tasks are added
		tells := func(when string, want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := l.warnings(); !slices.Equal(got, want) {
				t.Errorf("%s it said %q, want %q", when, got, want)
			}
		}
		const errors = `msg="tasks have become errors and wait for a person; see why, then resume or fail them" types=`
		tells("at first")
		e.submit(engine.Request{Type: "mail"})
		tells("when one has failed", errors+`"[mail: 1 (1 more)]"`)
		e.submit(engine.Request{Type: "mail"})
		tells("when another one has", errors+`"[mail: 2 (1 more)]"`)
		for range 1_500 {
			e.submit(engine.Request{Type: "mail"})
		}
		tells("when more have than are counted", errors+`"[mail: 1000 or more]"`)
	})
}

// Of a store that does not count its tasks, the monitor reads the queues.
func TestANodeThatIsAloneTellsWhatIsNotHandled(t *testing.T) {
	const none = `msg="tasks wait that no node handles; start one that does, or cancel them" type=mail tasks=`
	for name, c := range map[string]struct {
		store storage.Store
		many  string // its text for 150 tasks
	}{"by its counts": {&tallied{Store: memory.New()}, "150"}, "by reading": {memory.New(), `"100 or more"`}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var l logs
				n := &node{t: t, store: c.store}
				set := one("mail", nil)
				export := policy.DefaultType()
				export.Nodes = policy.Nodes{"zone": {"eu"}, "gpu": {"a100", "h100"}}
				set.Types["export"] = export
				n.config = engine.Config{
					Store: n.store, Policies: set, Handlers: handle("export", takes(0)), Name: "a", Labels: map[string]string{"zone": "us"},
					Log: slog.New(slog.NewTextHandler(&l, nil)),
				}
				n.open()
				t.Cleanup(n.close)
				time.Sleep(time.Hour)
				if got := l.warnings(); len(got) > 0 || len(n.Unhandled()) > 0 {
					t.Errorf("without tasks it said %q and found %+v", got, n.Unhandled())
				}
				for range 150 {
					n.submit(engine.Request{Type: "mail"})
				}
				n.submit(engine.Request{Type: "export"})
				time.Sleep(time.Hour)
				want := []string{
					`msg="tasks wait that no live node may run; start a node that matches, or change the nodes of their type" type=export tasks=1` +
						` why="no live node matches nodes: gpu=a100|h100, zone=eu; nodes that are alive: a (zone=us)"`,
					none + c.many,
				}
				got := l.warnings()
				slices.Sort(got) // the types are looked at in any order
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("it said %q, want %q", got, want)
				}
				if found := n.Unhandled(); len(found) != 2 || found[0] != (engine.UnhandledType{Type: "export", Tasks: 1}) {
					t.Errorf("it found %+v", found)
				}
			})
		})
	}
}
