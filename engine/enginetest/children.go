package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

var childrenScenarios = []scenario{
	{"a task learns of the ends of its children, however they end", learnsOfChildren},
	{"a wait for children ends with a number of them, with one that fails, and with its time", waitsForSome},
	{"a transaction adds children if and only if it commits, and may end one", childrenByTx},
	{"children that cannot be added fail the attempt, and none is added", refusesChildren},
	{"two thousand children are joined", joinsMany},
	{"a tree that grows is cancelled, and nothing of it lives on", cancelsTrees},
	{"trees of tasks are joined", func(n *node) { growsTrees(n, nil) }},
	{"trees of tasks are joined, though the store fails now and then", func(n *node) {
		growsTrees(n, newWeather(8, func(call storagetest.Call, fault error) storagetest.Fault {
			if call == storagetest.Get {
				return storagetest.Fault{}
			}
			return storagetest.Fault{Before: fault}
		}))
	}},
	{"trees of tasks are joined, though the store does not say whether it failed", func(n *node) { growsTrees(n, newWeather(5, unsaid)) }},
}

// all waits for all children of a name, and adds some.
func all(name string, reqs ...engine.Request) error {
	return task.WaitForChildren([]task.ChildrenWait{{Name: name}}, time.Time{}, task.WithChildren(name, reqs...))
}

// counts returns how the children of a name have ended, as a result.
func counts(t *task.Task, name string) []byte {
	s := t.Children.Set(name)
	if s == nil {
		return []byte("none")
	}
	return fmt.Appendf(nil, "%v: %d of %d done, %d failed, %d cancelled", t.Woken().By, s.Done, s.Added, s.Failed, s.Cancelled)
}

// childOf returns the id of a child, and waits until it is in the store.
func (n *node) childOf(parent task.ID, name string, index uint32) task.ID {
	n.Helper()
	id := task.Parent{ID: parent, Name: name, Index: index}.Child()
	n.eventually("the child is there", func() bool {
		_, err := n.store.Get(n.ctx, id)
		return err == nil
	})
	return id
}

func learnsOfChildren(n *node) {
	set := types(10, nil, "parent", "child", "fails")
	p := set.Types["fails"]
	p.Retry.Max = 1
	set.Types["fails"] = p
	p = set.Types["child"]
	p.Retention.Done = 0
	set.Types["child"] = p
	var mended atomic.Bool
	n.start(set, map[string]handle{
		"parent": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By == task.NotWoken {
				child := engine.Request{Type: "child"}
				return nil, all("page", child, child, engine.Request{Type: "fails"}, engine.Request{Type: "child", At: time.Now().Add(time.Hour)})
			}
			return counts(t, "page"), nil
		},
		"child": done,
		"fails": func(context.Context, *task.Task) ([]byte, error) {
			if mended.Load() {
				return nil, nil
			}
			return nil, task.Permanent(errNo)
		},
	})
	parent := n.submit(engine.Request{Type: "parent"})[0]
	last := n.childOf(parent, "page", 3)
	if got := n.get(last); got.Parent == nil || *got.Parent != (task.Parent{ID: parent, Name: "page", Index: 3}) {
		n.Errorf("the parent of the child is %+v", got.Parent)
	}
	failed := n.childOf(parent, "page", 2)
	n.eventually("a child is in error", func() bool { return n.get(failed).State == task.Error })
	if _, err := n.opened().Fail(n.ctx, task.Ref{ID: failed}, ""); err != nil {
		n.Error(err)
	}
	n.eventually("three of four have ended", func() bool { return n.get(parent).Children.Set("page").Ended() == 3 })
	if got := n.get(parent); got.State != task.Waiting {
		n.Errorf("with a child that has not ended, the parent is %v", got.State)
	}
	mended.Store(true) // the child that has failed is done after all, which is not reported
	if _, err := n.opened().Resume(n.ctx, task.Ref{ID: failed}); err != nil {
		n.Error(err)
	}
	n.eventually("the child that had failed is done", func() bool { return n.get(failed).State == task.Done })
	n.noSignalsOnTheWay()
	if _, err := n.opened().Cancel(n.ctx, task.Ref{ID: last}, "no"); err != nil {
		n.Error(err)
	}
	n.wait(parent)
	if got, want := string(n.expect(parent, task.Done).Result), "children: 2 of 4 done, 1 failed, 1 cancelled"; got != want {
		n.Errorf("the parent has seen %q, want %q", got, want)
	}
	n.noSignalsOnTheWay()
}

func waitsForSome(n *node) {
	gate := make(chan struct{})
	n.start(types(20, nil, "parent", "child", "stays", "fails"), map[string]handle{
		"parent": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By != task.NotWoken {
				return counts(t, "c"), nil
			}
			wait, until := task.ChildrenWait{Name: "c"}, time.Time{}
			switch string(t.Payload) {
			case "two":
				wait.Count = 2
			case "failed":
				wait.OrFailed = true
			case "time":
				until = time.Now().Add(20 * time.Millisecond)
			}
			reqs := []engine.Request{{Type: "child"}, {Type: "child"}, {Type: "stays"}}
			if wait.OrFailed {
				reqs = []engine.Request{{Type: "stays"}, {Type: "stays", At: time.Now().Add(time.Hour)}}
			}
			return nil, task.WaitForChildren([]task.ChildrenWait{wait}, until, task.WithChildren("c", reqs...))
		},
		"child": done, "stays": until(gate),
	})
	ids := n.submit(repeat(3, func(i int) engine.Request {
		return engine.Request{Type: "parent", Payload: []byte([]string{"two", "failed", "time"}[i])}
	})...)
	if _, err := n.opened().Cancel(n.ctx, task.Ref{ID: n.childOf(ids[1], "c", 1)}, ""); err != nil {
		n.Error(err)
	}
	n.wait(ids...)
	for i, want := range []string{"children: 2 of 3 done, 0 failed, 0 cancelled", "children: 0 of 2 done, 0 failed, 1 cancelled", "timeout: "} {
		if got := string(n.expect(ids[i], task.Done).Result); !strings.HasPrefix(got, want) {
			n.Errorf("parent %d has seen %q, want %q", i, got, want)
		}
	}
	close(gate)
	n.noSignalsOnTheWay()
}

func childrenByTx(n *node) {
	n.start(types(10, untilDone, "parent", "child"), map[string]handle{
		"parent": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By != task.NotWoken {
				return counts(t, "c"), nil
			}
			child := engine.Request{Type: "child"}
			var fails error
			if t.Attempt == 1 {
				fails = errNo
			}
			return nil, n.store.Update(ctx, func(tx storage.Tx) error {
				return errors.Join(engine.WaitForChildrenTx(ctx, tx, nil, []task.ChildrenWait{{Name: "c"}}, time.Time{}, task.WithChildren("c", child, child)), fails)
			})
		},
		"child": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if t.Parent.Index == 0 {
				return nil, nil
			}
			return nil, n.store.Update(ctx, func(tx storage.Tx) error { return engine.FinishTx(ctx, tx, nil) })
		},
	})
	parent := n.submit(engine.Request{Type: "parent"})[0]
	n.wait(parent)
	if got, want := string(n.expect(parent, task.Done).Result), "children: 2 of 2 done, 0 failed, 0 cancelled"; got != want {
		n.Errorf("the parent has seen %q, want %q", got, want)
	}
	n.noSignalsOnTheWay()
}

func refusesChildren(n *node) {
	child := engine.Request{Type: "child"}
	ends := map[string]error{
		"has an id or a key":  all("c", engine.Request{Type: "child", Key: "k"}),
		"have an ordering":    all("c", child, engine.Request{Type: "child", OrderingKey: "o"}),
		"not a name":          all("", child),
		"are given twice":     task.WaitForChildren([]task.ChildrenWait{{Name: "c"}, {Name: "c"}}, time.Time{}, task.WithChildren("c", child)),
		"no name":             task.WaitForChildren(nil, time.Time{}, task.WithChildren("c", child)),
		"no name of children": task.WaitFor([]string{"a", task.AwaitsChildren}, time.Time{}),
		"has 2000000 bytes":   all("c", child, engine.Request{Type: "child", Payload: make([]byte, 2_000_000)}),
	}
	n.start(types(10, func(p *policy.Type) { p.Retry.Max = 1 }, "parent", "child"), map[string]handle{
		"parent": func(_ context.Context, t *task.Task) ([]byte, error) { return nil, ends[string(t.Payload)] },
		"child":  done,
	})
	for why := range ends {
		id := n.submit(engine.Request{Type: "parent", Payload: []byte(why)})[0]
		n.eventually("it is in error", func() bool { return n.get(id).State == task.Error })
		if got := n.get(id); !strings.Contains(got.LastError, why) || got.Children != nil {
			n.Errorf("the error is %q, want %q; its children are %+v", got.LastError, why, got.Children)
		}
		if _, err := n.store.Get(n.ctx, task.Parent{ID: id, Name: "c"}.Child()); !errors.Is(err, task.ErrNotFound) {
			n.Errorf("%s: a child was added: %v", why, err)
		}
	}
}

func joinsMany(n *node) {
	const many = 2000
	n.start(types(100, nil, "parent", "child"), map[string]handle{
		"parent": func(_ context.Context, t *task.Task) ([]byte, error) {
			if t.Woken().By != task.NotWoken {
				return counts(t, "c"), nil
			}
			return nil, all("c", repeat(many, func(int) engine.Request { return engine.Request{Type: "child"} })...)
		},
		"child": done,
	})
	parent := n.submit(engine.Request{Type: "parent"})[0]
	n.wait(parent)
	if got, want := string(n.expect(parent, task.Done).Result), fmt.Sprintf("children: %d of %[1]d done, 0 failed, 0 cancelled", many); got != want {
		n.Errorf("the parent has seen %q, want %q", got, want)
	}
	n.noSignalsOnTheWay()
}

// growsTrees has tasks add children, which add others, in two sets and two rounds, with attempts that fail now and then. Each is to
// see the ends of all of its children, and each child is to be done once.
func growsTrees(n *node, w *weather) {
	const roots, depth = 4, 3
	if w != nil {
		n.config.Store = storagetest.Faulty(n.store, w.decide)
	}
	branch := func(level int) (reqs []engine.Request) {
		for range 1 + rand.IntN(3) {
			reqs = append(reqs, engine.Request{Type: "tree", Payload: strconv.AppendInt(nil, int64(level-1), 10)})
		}
		return reqs
	}
	n.start(types(20, untilDone, "tree"), map[string]handle{"tree": func(_ context.Context, t *task.Task) ([]byte, error) {
		if rand.IntN(8) == 0 {
			return nil, errNo
		}
		level, _ := strconv.Atoi(string(t.Payload))
		round, _ := strconv.Atoi(string(t.Checkpoint()))
		if round > 0 {
			for _, s := range t.Children.Sets {
				if s.Ended() != s.Added || s.Done != s.Added {
					return nil, fmt.Errorf("woken by %v in round %d with %+v", t.Woken().By, round, s)
				}
			}
		}
		if level == 0 || round == 2 {
			return []byte("done"), nil
		}
		waits, checkpoint := []task.ChildrenWait{{Name: "a"}}, task.WithCheckpoint(strconv.AppendInt(nil, int64(round+1), 10))
		if round == 1 && level > 1 {
			return nil, task.WaitForChildren(waits, time.Time{}, checkpoint, task.WithChildren("a"))
		}
		return nil, task.WaitForChildren(waits, time.Time{}, checkpoint, task.WithChildren("a", branch(level)...), task.WithChildren("a", branch(level)...))
	}})
	ids := n.submit(repeat(roots, func(int) engine.Request { return engine.Request{Type: "tree", Payload: []byte(strconv.Itoa(depth))} })...)
	if w != nil {
		w.quiet.Store(false)
		n.eventually("some tasks are done", func() bool {
			counts, err := n.store.(storage.Inspector).Count(n.ctx, storage.Filter{Types: []string{"tree"}, States: []task.State{task.Done}})
			return err == nil && counts[storage.StateType{State: task.Done, Type: "tree"}] >= 20
		})
		w.clear()
	}
	n.wait(ids...)
	for _, id := range ids {
		n.expect(id, task.Done)
	}
	n.noSignalsOnTheWay()
	page, err := n.store.(storage.Inspector).List(n.ctx, storage.ListQuery{Filter: storage.Filter{Types: []string{"tree"}}, Limit: 10_000, Scan: 100_000})
	rows := page.Tasks
	if err != nil {
		n.Fatal(err)
	}
	for _, t := range rows {
		if t.State != task.Done {
			n.Errorf("%v is %v: %s", t.ID, t.State, t.LastError)
		}
	}
}
