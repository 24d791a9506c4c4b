package enginetest

import (
	"errors"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// openWith is a request for a parent of children with the name "c", to which more are added.
func openWith(r engine.Request, children ...engine.Request) engine.Request {
	r = withChildren(r, children...)
	r.Children.Open = true
	return r
}

// more are n children of the type child from a number on.
func more(parent task.ID, from uint32, n int) engine.MoreChildren {
	m := engine.MoreChildren{Parent: parent, Name: "c", From: from}
	for range n {
		m.Requests = append(m.Requests, engine.Request{Type: "child"})
	}
	return m
}

// last says of children that they are the last.
func last(m engine.MoreChildren) engine.MoreChildren {
	m.Close = true
	return m
}

// add adds children and expects how many there are then, and whether more can be added.
func (n *node) add(m engine.MoreChildren, added uint32, isOpen bool) {
	n.Helper()
	if got, err := n.opened().AddChildren(n.ctx, m); err != nil || got != (engine.ChildrenAdded{Added: added, IsOpen: isOpen}) {
		n.Errorf("%d children from number %d on: %+v, %v", len(m.Requests), m.From, got, err)
	}
}

func addsMoreChildren(n *node) {
	n.start(types(10, nil, "parent", "child"), map[string]handle{"parent": callback, "child": done})
	child := engine.Request{Type: "child"}
	r := openWith(engine.Request{Key: "k"}, child, child)
	id := n.submit(r)[0]
	if again, err := n.Submit(n.ctx, r); err != nil || again[0].Created || again[0].ID != id {
		n.Errorf("the same request again: %+v, %v", again, err)
	}
	n.add(more(id, 0, 0), 2, true)
	n.add(more(id, 2, 3), 5, true)
	n.add(more(id, 2, 3), 5, true)
	n.add(more(id, 1, 2), 5, true)
	n.add(more(id, 4, 2), 6, true)
	n.eventually("all children have ended", func() bool { return n.get(id).Children.Set("c").Ended() == 6 })
	if got := n.get(id); got.State != task.Waiting {
		n.Errorf("while more can be added, the parent is %v", got.State)
	}
	if _, reasons, err := n.Why(n.ctx, id); err != nil || len(reasons) == 0 || !strings.Contains(reasons[0].Text, "not complete: 6 were added") {
		n.Errorf("why it does not run: %+v, %v", reasons, err)
	}
	n.add(last(more(id, 5, 2)), 7, false)
	n.expectResult(id, "children: 7 of 7 done, 0 failed, 0 cancelled")
	n.add(last(more(id, 5, 2)), 7, false)
	n.add(more(id, 0, 7), 7, false)
	if n.countOf("child") != 7 {
		n.Errorf("there are %d children", n.countOf("child"))
	}
	ended := n.submit(openWith(engine.Request{}, child, child), openWith(engine.Request{}))
	n.eventually("both children have ended", func() bool { return n.get(ended[0]).Children.Set("c").Ended() == 2 })
	n.add(last(more(ended[0], 2, 0)), 2, false)
	n.expectResult(ended[0], "children: 2 of 2 done, 0 failed, 0 cancelled")
	n.add(last(more(ended[1], 0, 0)), 0, false)
	n.expectResult(ended[1], "children: 0 of 0 done, 0 failed, 0 cancelled")
	ordered := engine.Request{Type: "child", OrderingKey: "o"}
	bound := n.submit(openWith(engine.Request{}, ordered))[0]
	n.add(engine.MoreChildren{Parent: bound, Name: "c", From: 1, Requests: []engine.Request{ordered, ordered}}, 3, true)
	n.add(last(more(bound, 3, 0)), 3, false)
	n.expectResult(bound, "children: 3 of 3 done, 0 failed, 0 cancelled")
	some := n.submit(openWith(engine.Request{}, engine.Request{Type: "child", At: time.Now().Add(time.Hour)}, child))[0]
	one := last(more(some, 2, 0))
	one.Wait = task.ChildrenWait{Count: 1}
	n.add(one, 2, false)
	n.expectResult(some, "children: 1 of 2 done, 0 failed, 0 cancelled")
}

func refusesMoreChildren(n *node) {
	set := types(10, nil, "parent", "child", "few")
	p := set.Types["few"]
	p.MaxBacklog = policy.Backlog{Max: 2, WhenFull: policy.Reject}
	set.Types["few"] = p
	n.start(set, map[string]handle{"parent": callback, "child": done, "few": done})
	child := engine.Request{Type: "child"}
	id := n.submit(openWith(engine.Request{}, child))[0]
	late := engine.Request{Type: "few", At: time.Now().Add(time.Hour)}
	counted := last(more(id, 1, 1))
	counted.Wait.Count = 3
	early := more(id, 1, 1)
	early.Wait.OrFailed = true
	none, keyed := more(id, 1, 1), more(id, 1, 2)
	none.Name, keyed.Requests[1].Key = "d", "k"
	for why, c := range map[string]struct {
		add  engine.MoreChildren
		want error
	}{
		"the number 1, not 2":                 {more(id, 2, 1), engine.ErrNotAllowed},
		"1 children \"c\" already, and 0":     {last(more(id, 0, 0)), engine.ErrNotAllowed},
		"waits for 3 children":                {counted, engine.ErrInvalid},
		"when the children are closed":        {early, engine.ErrInvalid},
		"take no more":                        {none, engine.ErrChildrenClosed},
		"child 2 of \"c\" has an id or a key": {keyed, engine.ErrInvalid},
		"of 1048576 allowed":                  {more(id, task.MaxChildren, 1), engine.ErrTooManyChildren},
		"some of the children":                {engine.MoreChildren{Parent: id, Name: "c", From: 1, Requests: []engine.Request{{Type: "child", OrderingKey: "o"}}}, engine.ErrInvalid},
		"max_backlog allows 2":                {engine.MoreChildren{Parent: id, Name: "c", From: 1, Requests: []engine.Request{child, late, late, late}}, engine.ErrBacklog},
		"is not a name of":                    {engine.MoreChildren{Parent: id}, engine.ErrInvalid},
		"not found":                           {more(task.ID{1, 2, 3, 4}, 0, 1), task.ErrNotFound},
	} {
		if got, err := n.AddChildren(n.ctx, c.add); !errors.Is(err, c.want) || !strings.Contains(err.Error(), why) {
			n.Errorf("it returns %+v, %v, want %q", got, err, why)
		}
	}
	if n.countOf("few") != 0 || n.countOf("child") != 1 {
		n.Errorf("there are %d tasks of the type few, and %d children", n.countOf("few"), n.countOf("child"))
	}
	wide, waits := openWith(engine.Request{}), openWith(engine.Request{})
	wide.Children.Sets = append(wide.Children.Sets, task.ChildRequests{Name: "d"})
	waits.Children.Waits = []task.ChildrenWait{{Name: "c"}}
	for _, r := range []engine.Request{wide, waits} {
		if _, err := n.Submit(n.ctx, r); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "are open") {
			n.Errorf("it is submitted: %v", err)
		}
	}
	timed := openWith(engine.Request{}, child)
	timed.Children.Until = time.Now().Add(20 * time.Millisecond)
	over := n.submit(timed)[0]
	n.expect(over, task.Done)
	held := n.submit(openWith(engine.Request{}, engine.Request{Type: "child", At: time.Now().Add(time.Hour)}))[0]
	if tree, err := n.CancelTree(n.ctx, held, engine.TreeCancel{}); err != nil || tree.Cancelled != 2 {
		n.Errorf("the tree of a task with open children: %+v, %v", tree, err)
	}
	for _, id := range []task.ID{over, held} {
		if _, err := n.AddChildren(n.ctx, last(more(id, 1, 1))); !errors.Is(err, engine.ErrNotAllowed) || !errors.Is(err, engine.ErrTaskEnded) {
			n.Errorf("more are added: %v", err)
		}
		n.add(last(more(id, 1, 0)), 1, false)
	}
}

// addsMoreInWeather repeats each call until it has an answer, while the store forgets to say what it has done.
func addsMoreInWeather(n *node) {
	w := newWeather(5, unsaid)
	n.config.Store = storagetest.Faulty(n.store, w.decide)
	n.start(types(10, nil, "parent", "child"), map[string]handle{"parent": callback, "child": done})
	child := engine.Request{Type: "child"}
	for i := range 10 {
		r := openWith(engine.Request{ID: task.ID{1, 2, 4, byte(i + 1)}}, child)
		n.eventually("it is submitted", func() bool {
			_, err := n.Submit(n.ctx, r)
			return err == nil
		})
		for from := uint32(1); from < 9; from += 2 {
			m := more(r.ID, from, 2)
			m.Close = from == 7
			n.eventually("children are added", func() bool {
				got, err := n.AddChildren(n.ctx, m)
				return err == nil && got == (engine.ChildrenAdded{Added: from + 2, IsOpen: !m.Close})
			})
		}
		defer n.expectResult(r.ID, "children: 9 of 9 done, 0 failed, 0 cancelled")
	}
	w.clear()
}
