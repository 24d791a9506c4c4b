package enginetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

var verbScenarios = []scenario{
	{"a verb does its work at the right version and in the states that allow it", everyVerbInEveryState},
	{"resuming a task that waits runs it now", func(n *node) {
		n.start(types(10, nil, "mail"), map[string]handle{"mail": done})
		ids := n.submit(repeat(50, func(int) engine.Request { return engine.Request{Type: "mail", At: time.Now().Add(time.Hour)} })...)
		for _, id := range ids {
			if _, err := n.Resume(n.ctx, task.Ref{ID: id, Version: 1}); err != nil {
				n.Error(err)
			}
		}
		n.ranOnce(ids...)
	}},
	{"rescheduling a task to the past runs it now", func(n *node) {
		n.start(types(10, nil, "mail"), map[string]handle{"mail": done})
		ids := n.submit(repeat(50, func(int) engine.Request { return engine.Request{Type: "mail", At: time.Now().Add(time.Hour)} })...)
		for _, id := range ids {
			if _, err := n.Reschedule(n.ctx, task.Ref{ID: id, Version: 1}, time.Now().Add(-time.Hour)); err != nil {
				n.Error(err)
			}
		}
		n.ranOnce(ids...)
	}},
	{"a paused type starts nothing until it goes on, however often", pauses},
	{"what a dead node left of a paused type is decided about, and starts once the type goes on", pausedOrphans},
}

// verb is one way in which a person changes a task.
type verb struct {
	name    string
	allowed []task.State
	leads   task.State
	do      func(n *node, ref task.Ref) (*task.Task, error)
}

// distant is a time after the end of every test.
func distant() time.Time { return time.Now().Add(24 * time.Hour) }

func verbs() []verb {
	return []verb{
		{
			"cancel",
			[]task.State{task.Waiting, task.Submitted, task.Processing, task.Error},
			task.Cancelled,
			func(n *node, ref task.Ref) (*task.Task, error) { return n.Cancel(n.ctx, ref, "not wanted") },
		},
		{
			"fail",
			[]task.State{task.Waiting, task.Submitted, task.Processing, task.Error},
			task.Failed,
			func(n *node, ref task.Ref) (*task.Task, error) { return n.Fail(n.ctx, ref, "seen") },
		},
		{
			"resume",
			[]task.State{task.Waiting, task.Error, task.Failed, task.Cancelled},
			task.Submitted,
			func(n *node, ref task.Ref) (*task.Task, error) { return n.Resume(n.ctx, ref) },
		},
		{
			"reschedule",
			[]task.State{task.Waiting, task.Submitted, task.Error},
			task.Waiting,
			func(n *node, ref task.Ref) (*task.Task, error) { return n.Reschedule(n.ctx, ref, distant()) },
		},
	}
}

// makeOne returns a task in this state. Types: "blocked" waits for its gate, "paused" is.
func makeOne(n *node, s task.State) *task.Task {
	n.Helper()
	var id task.ID
	var err error
	switch s {
	case task.Waiting:
		id = n.submit(engine.Request{Type: "paused", At: distant()})[0]
	case task.Submitted:
		id = n.submit(engine.Request{Type: "paused"})[0]
	case task.Processing:
		id = n.submit(engine.Request{Type: "blocked"})[0]
		n.eventually("it runs", func() bool { return n.ledger.runs(id) == 1 })
	case task.Done:
		id = n.submit(engine.Request{Type: "mail"})[0]
		n.wait(id)
	default:
		id = n.submit(engine.Request{Type: "wrong"})[0]
		n.wait(id)
		if s == task.Failed {
			_, err = n.Fail(n.ctx, task.Ref{ID: id}, "seen")
		} else if s == task.Cancelled {
			_, err = n.Cancel(n.ctx, task.Ref{ID: id}, "not wanted")
		}
	}
	if err != nil {
		n.Fatal(err)
	}
	t := n.get(id)
	if t.State != s {
		n.Fatalf("task is %v, want %v", t.State, s)
	}
	return t
}

func everyVerbInEveryState(n *node) {
	set := types(50, nil, "mail", "blocked", "paused", "wrong")
	n.start(set, map[string]handle{
		"mail": done, "paused": done, "blocked": until(nil),
		"wrong": func(context.Context, *task.Task) ([]byte, error) { return nil, task.Permanent(errNo) },
	})
	if err := n.Pause(n.ctx, "paused"); err != nil {
		n.Fatal(err)
	}
	for _, v := range verbs() {
		for _, s := range task.States() {
			t := makeOne(n, s)
			if _, err := v.do(n, task.Ref{ID: t.ID, Version: t.Version + 1}); !errors.Is(err, engine.ErrStale) {
				n.Errorf("%s at a wrong version of a task that is %v: %v", v.name, s, err)
			}
			if got := n.get(t.ID); got.Version != t.Version {
				n.Errorf("%s at a wrong version changed a task that is %v", v.name, s)
			}
			after, err := v.do(n, t.Ref())
			switch {
			case !slices.Contains(v.allowed, s):
				if !errors.Is(err, engine.ErrNotAllowed) || n.get(t.ID).Version != t.Version {
					n.Errorf("%s of a task that is %v: %v", v.name, s, err)
				}
			case err != nil:
				n.Errorf("%s of a task that is %v: %v", v.name, s, err)
			case after.State != v.leads || after.Version != t.Version+1:
				n.Errorf("%s of a task that is %v made it %v at version %d, from %d", v.name, s, after.State, after.Version, t.Version)
			}
			if got := n.get(t.ID); got.State.Live() {
				if _, err := n.Cancel(n.ctx, task.Ref{ID: t.ID}, "end of the test"); err != nil {
					n.Errorf("cancel a task that is %v: %v", got.State, err)
				}
			}
		}
	}
	if err := n.Unpause(n.ctx, "paused"); err != nil { // lets go of the hints of tasks that were cancelled
		n.Fatal(err)
	}
	for typ := range set.Types {
		if err := n.WaitType(n.ctx, typ); err != nil {
			n.Error(err)
		}
	}
}

func pauses(n *node) {
	n.start(types(20, nil, "held", "other"), map[string]handle{"held": done, "other": done})
	var held []task.ID
	for range 25 {
		held = append(held, n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "held"} })...)...)
		if err := n.Pause(n.ctx, "held"); err != nil {
			n.Fatal(err)
		}
		n.eventually("what ran when it was paused has ended", func() bool {
			types := n.Types()
			i := slices.IndexFunc(types, func(t engine.TypeStatus) bool { return t.Name == "held" })
			return types[i].Running == 0
		})
		held = append(held, n.submit(engine.Request{Type: "held"})...)
		before := n.ledger.total()
		n.ranOnce(n.submit(engine.Request{Type: "other"})...)
		if n.ledger.total() != before+1 {
			n.Error("a task was started though its type is paused")
		}
		if err := n.Unpause(n.ctx, "held"); err != nil {
			n.Fatal(err)
		}
	}
	n.ranOnce(held...)
}

// pausedOrphans opens an engine that finds two processing tasks of types that it has not started.
func pausedOrphans(n *node) {
	set := types(20, func(p *policy.Type) { p.Paused = true }, "least", "most")
	most := set.Types["most"]
	most.Delivery = policy.AtMostOnce
	set.Types["most"] = most
	n.start(set, map[string]handle{"least": done, "most": done})
	fresh := n.submit(engine.Request{Type: "least"})[0]
	n.close()
	orphan := func(id task.ID, typ string) task.ID {
		row := &task.Task{ID: id, Type: typ, Priority: task.DefaultPriority}
		now := time.Now()
		row.Create(task.Submitted, now, time.Time{})
		task.Change{Ref: row.Ref(), To: task.Processing, At: now, NextEventAt: now, Owner: task.ID{99}}.Apply(row)
		if _, err := n.store.Insert(n.ctx, row); err != nil {
			n.Fatal(err)
		}
		return id
	}
	again, never := orphan(task.ID{1}, "least"), orphan(task.ID{2}, "most")
	n.open()
	n.eventually("they are decided about", func() bool {
		return n.get(again).State == task.Submitted && n.get(never).State == task.Error
	})
	if _, err := n.Resume(n.ctx, task.Ref{ID: never}); err != nil { // as a person does after examining it
		n.Fatal(err)
	}
	if t := n.get(fresh); t.State != task.Submitted || n.ledger.total() != 0 {
		n.Errorf("though its type is paused a task is %v, and %d were started", t.State, n.ledger.total())
	}
	for typ := range set.Types {
		if err := n.Unpause(n.ctx, typ); err != nil {
			n.Fatal(err)
		}
	}
	n.ranOnce(fresh, never)
	if t := n.expect(again, task.Done); n.ledger.runs(again) != 1 || t.Attempt != 2 || t.History[0].Outcome != task.Crashed {
		n.Errorf("after %d runs it is at attempt %d, with the history %+v", n.ledger.runs(again), t.Attempt, t.History)
	}
}
