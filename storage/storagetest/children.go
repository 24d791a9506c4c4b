package storagetest

import (
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var childrenCases = []testCase{
	{"children are added, reported and waited for as Apply says, whatever the version is", func(f *fixture) {
		for _, n := range []uint32{3, 20_000} {
			t := f.row(task.Processing)
			f.put(t)
			adds := []task.AddedChildren{{Name: "a", Count: n}, {Name: "b", Count: 1, Shards: []byte{9}}}
			wait := &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "a", Count: 2}}}
			f.step(t, task.Change{To: task.Waiting, At: at(2), Outcome: task.Completed, Adds: adds, Await: wait})
			f.report(t, "a", 3, task.ChildEnd{Index: n - 1, State: task.Done})
			f.report(t, "a", 4, task.ChildEnd{Index: n - 1, State: task.Failed})
			f.report(t, "b", 5, task.ChildEnd{State: task.Failed})
			f.report(t, "c", 5, task.ChildEnd{State: task.Failed})
			equal(f, "state", t.State, task.Waiting)
			f.report(t, "a", 6, task.ChildEnd{State: task.Cancelled})
			equal(f, "state", t.State, task.Submitted)
			f.step(t, task.Change{To: task.Processing, At: at(7), Owner: task.ID{1}})
			f.report(t, "a", 8, task.ChildEnd{Index: 1, State: task.Done})
			f.step(t, task.Change{To: task.Waiting, At: at(9), NextEventAt: at(10), Outcome: task.Completed, Await: &task.Await{
				Names: []string{"s", task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "a", OrFailed: false, Count: n}},
			}})
			if n == 3 {
				equal(f, "state", t.State, task.Submitted)
			} else {
				equal(f, "state", t.State, task.Waiting)
			}
			f.step(t, task.Change{To: task.Processing, At: at(10), Owner: task.ID{1}})
			f.step(t, task.Change{To: task.Done, At: at(11), Outcome: task.Completed, Result: []byte("r")})
			f.report(t, "a", 12, task.ChildEnd{Index: 2, State: task.Done})
			f.check()
		}
	}},
	{"a wait for children ends when its time has come, by a grab and by another change", func(f *fixture) {
		for _, to := range []task.State{task.Submitted, task.Processing, task.Cancelled, task.Error} {
			t := f.row(task.Processing)
			f.put(t)
			f.step(t, task.Change{
				To: task.Waiting, At: at(2), Outcome: task.Completed, NextEventAt: at(10), Adds: []task.AddedChildren{{Name: "a", Count: 3}},
				Await: &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "a", OrFailed: true}}},
			})
			f.step(t, task.Change{To: to, At: at(11), Owner: task.ID{1}})
			f.report(t, "a", 12, task.ChildEnd{State: task.Failed})
		}
	}},
	{"a task that is done keeps its children and learns of their ends, until it becomes a tombstone", func(f *fixture) {
		for _, n := range []uint32{10, 24_000} {
			t := f.row(task.Waiting, func(t *task.Task) { t.Key = "done" + t.ID.String() }, waitingForChildren, func(t *task.Task) { t.Children.Sets[0].Added = n })
			f.put(t)
			f.step(t, task.Change{To: task.Processing, At: at(2), Owner: task.ID{1}})
			f.step(t, task.Change{To: task.Done, At: at(3), Outcome: task.Completed, NextEventAt: at(1000), Result: []byte("r")})
			equal(f, "children", t.Children.Set("page").Added, n)
			f.report(t, "page", 4, task.ChildEnd{Index: 7, State: task.Done}, task.ChildEnd{Index: 8, State: task.Failed})
			f.report(t, "page", 5, task.ChildEnd{Index: 7, State: task.Done})
			f.step(t, task.Change{To: task.Done, At: at(6), Remember: 1000 * time.Second})
			f.report(t, "page", 7, task.ChildEnd{Index: 9, State: task.Done})
			f.check()
		}
		t := f.row(task.Processing, func(t *task.Task) { t.Key, t.Children = "forgets", children(10) })
		f.put(t)
		f.step(t, task.Change{To: task.Done, At: at(3), Outcome: task.Completed, Remember: 1000 * time.Second})
	}},
	{"a batch that ends a task keeps its children, and deletes those of a task that is not kept", func(f *fixture) {
		for _, remove := range []bool{false, true} {
			t := f.row(task.Processing, func(t *task.Task) { t.Children = children(24_000) })
			f.put(t)
			c := task.Change{Ref: t.Ref(), To: task.Done, At: at(2), Outcome: task.Completed, NextEventAt: at(1000)}
			out, err := f.Commit(f.ctx(), &storage.Batch{Swap: []task.Change{c}, Remove: []bool{remove}}).Wait()
			if err != nil || out.Swapped[0] == nil {
				f.Fatalf("%+v, %v", out, err)
			}
			if c.Apply(t); !remove {
				f.same(out.Swapped[0], handedOut(t))
				f.same(f.get(t.ID), t)
			}
			f.check()
		}
	}},
	{"open children are added and closed as Apply says, whatever the version is", func(f *fixture) {
		for _, shards := range [][]byte{nil, {1, 2, 3}} {
			of := func(from uint32) task.AddedChildren {
				add := task.AddedChildren{Name: "a", From: from, Count: 3}
				add.Shards = shards
				return add
			}
			t := f.row(task.Waiting, func(t *task.Task) {
				t.Signals = &task.Signals{Awaits: []string{task.AwaitsChildren}}
				t.Children = task.Expecting([]string{"a"}, []task.AddedChildren{of(0)}, []task.ChildrenWait{{Name: "a", Count: task.OpenChildren}})
			})
			f.put(t)
			f.extend(t, 2, task.MoreChildren{AddedChildren: of(3)})
			f.extend(t, 3, task.MoreChildren{AddedChildren: of(3)})
			f.extend(t, 3, task.MoreChildren{AddedChildren: task.AddedChildren{Name: "b"}})
			for i := range uint32(6) {
				f.report(t, "a", 4, task.ChildEnd{Index: i, State: task.Done})
			}
			equal(f, "state", t.State, task.Waiting)
			f.extend(t, 5, task.MoreChildren{AddedChildren: of(6), Close: true, Wait: task.ChildrenWait{Count: 8, OrFailed: true}})
			f.extend(t, 5, task.MoreChildren{AddedChildren: of(9)})
			equal(f, "state", t.State, task.Waiting)
			f.report(t, "a", 6, task.ChildEnd{Index: 8, State: task.Failed})
			equal(f, "state", t.State, task.Submitted)
			f.extend(t, 7, task.MoreChildren{AddedChildren: of(9)})
			f.check()
		}
		t := f.row(task.Waiting, func(t *task.Task) {
			t.Signals = &task.Signals{Awaits: []string{task.AwaitsChildren}}
			t.Children = task.Expecting([]string{"a"}, nil, []task.ChildrenWait{{Name: "a", Count: task.OpenChildren}})
		})
		f.put(t)
		f.extend(t, 2, task.MoreChildren{AddedChildren: task.AddedChildren{Name: "a"}, Close: true})
		equal(f, "state", t.State, task.Submitted)
	}},
	{"a wait for children that was over by its time leaves nothing for the next wait", func(f *fixture) {
		t := f.row(task.Processing)
		f.put(t)
		wait := func(now int, name string, adds ...task.AddedChildren) task.Change {
			return task.Change{
				To: task.Waiting, By: t.Owner, At: at(now), NextEventAt: at(now + 5), Outcome: task.Completed, Count: task.Reset, Adds: adds,
				Await: &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: name, Count: 1, OrFailed: true}}},
			}
		}
		f.step(t, wait(2, "a", task.AddedChildren{Name: "a", Count: 2}, task.AddedChildren{Name: "b", Count: 2}))
		f.step(t, task.Change{To: task.Processing, At: at(7), Due: true, Owner: task.ID{1}})
		f.step(t, wait(8, "b"))
		f.report(t, "a", 9, task.ChildEnd{Index: 1, State: task.Failed})
		equal(f, "state", t.State, task.Waiting)
		f.report(t, "b", 10, task.ChildEnd{Index: 1, State: task.Done})
		equal(f, "state", t.State, task.Submitted)
	}},
	{"a task that has failed or was cancelled learns of its children", func(f *fixture) {
		for _, to := range []task.State{task.Failed, task.Cancelled} {
			t := f.row(task.Processing, func(t *task.Task) { t.Children, t.Parent = children(10), &task.Parent{ID: task.ID{8}, Name: "p"} })
			f.put(t)
			f.step(t, task.Change{To: to, At: at(2), Outcome: task.Errored, NextEventAt: at(1000)})
			f.report(t, "page", 3, task.ChildEnd{Index: 1, State: task.Done}, task.ChildEnd{Index: 0, State: task.Done})
			f.step(t, task.Change{To: task.Submitted, At: at(4), Count: task.Reset})
			f.report(t, "page", 5, task.ChildEnd{Index: 2, State: task.Done})
		}
	}},
	{"children that end at the same time are all counted, while the attempt ends", func(f *fixture) {
		for _, by := range []task.ID{{}, {9}} {
			const n = 50
			t := f.row(task.Processing, func(t *task.Task) {
				t.Children = &task.Children{Sets: []task.ChildSet{{Name: "a", Added: n}}}
			})
			f.put(t)
			var wg sync.WaitGroup
			for i := range uint32(n) {
				wg.Go(func() {
					ends := &task.ChildEnds{Name: "a", Ends: []task.ChildEnd{{Index: i, State: task.Done}}}
					rows, err := f.Swap(f.ctx(), task.Change{Ref: task.Ref{ID: t.ID}, At: at(4), Ends: ends})
					if err != nil || rows[0] == nil {
						f.Errorf("child %d: %v, %v", i, rows, err)
					}
				})
			}
			wg.Go(func() {
				wait := &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "a"}}}
				rows, err := f.Swap(f.ctx(), task.Change{Ref: t.Ref(), By: by, To: task.Waiting, At: at(4), Outcome: task.Completed, Await: wait})
				if err != nil || rows[0] == nil {
					f.Errorf("the end of the attempt: %v, %v", rows, err)
				}
			})
			wg.Wait()
			now := f.get(t.ID)
			if now.State != task.Submitted || now.Children.Set("a").Done != n || now.Woken().By != task.ByChildren {
				f.Errorf("it is %v and has %+v", now.State, now.Children)
			}
		}
	}},
	{"children of a task that has ended are all counted, and the task is always there for transactions", func(f *fixture) {
		const n, each = 4, 12
		t := f.row(task.Processing, func(t *task.Task) {
			t.Children = &task.Children{Sets: []task.ChildSet{{Name: "a", Added: n * each}}}
		})
		f.put(t)
		f.step(t, task.Change{To: task.Done, At: at(2), Outcome: task.Completed, NextEventAt: at(1000)})
		var wg sync.WaitGroup
		for i := range uint32(n) {
			wg.Go(func() {
				for j := range uint32(each) {
					ends := &task.ChildEnds{Name: "a", Ends: []task.ChildEnd{{Index: i*each + j, State: task.Done}}}
					rows, err := f.Swap(f.ctx(), task.Change{Ref: task.Ref{ID: t.ID}, At: at(4), Ends: ends})
					if err != nil || rows[0] == nil {
						f.Errorf("child %d: %v, %v", i*each+j, rows, err)
					}
					if err := f.Update(f.ctx(), func(tx storage.Tx) error { _, err := tx.Get(f.ctx(), t.ID); return err }); err != nil {
						f.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if now := f.get(t.ID); now.State != task.Done || now.Children.Set("a").Done != n*each {
			f.Errorf("it is %v and has %+v", now.State, now.Children)
		}
	}},
	{"the end of a child in a batch makes the parent the head of its ordering key", func(f *fixture) {
		key := f.queue().key
		t := f.row(task.Waiting, func(t *task.Task) {
			t.OrderingKey, t.Turn, t.ReadyAt = key, task.Behind, task.LastTime
			t.Signals = &task.Signals{Awaits: []string{task.AwaitsChildren}}
			t.Children = &task.Children{Sets: []task.ChildSet{{Name: "a", Added: 1, Await: 1}}}
		})
		f.put(t)
		c := task.Change{Ref: task.Ref{ID: t.ID}, At: at(4), OrderingKey: key, Ends: &task.ChildEnds{Name: "a", Ends: []task.ChildEnd{{State: task.Done}}}}
		out, err := f.Commit(f.ctx(), &storage.Batch{Swap: []task.Change{c}}).Wait()
		if err != nil || out.Swapped[0] == nil {
			f.Fatalf("%+v, %v", out, err)
		}
		if now := f.get(t.ID); now.State != task.Submitted || now.Turn != task.Head {
			f.Errorf("it is %v and %v", now.State, now.Turn)
		}
	}},
}

// report reports ends of children to t, in the store and in t, and compares.
func (f *fixture) report(t *task.Task, name string, now int, ends ...task.ChildEnd) {
	f.Helper()
	c := task.Change{Ref: task.Ref{ID: t.ID}, At: at(now), OrderingKey: t.OrderingKey, Ends: &task.ChildEnds{Name: name, Ends: ends}}
	got := f.swap(c)
	if applied := c.Apply(t); (got != nil) != applied {
		f.Fatalf("the end of a child of %s: got %v, applies: %t", name, got, applied)
	} else if applied {
		f.same(got, handedOut(t))
	}
	f.same(f.get(t.ID), t)
}

// extend adds more children to t, in the store and in t, and compares.
func (f *fixture) extend(t *task.Task, now int, more task.MoreChildren) {
	f.Helper()
	c := task.Change{Ref: task.Ref{ID: t.ID}, At: at(now), OrderingKey: t.OrderingKey, More: &more}
	got := f.swap(c)
	if applied := c.Apply(t); (got != nil) != applied {
		f.Fatalf("more children of %s: got %v, applies: %t", more.Name, got, applied)
	} else if applied {
		f.same(got, handedOut(t))
	}
	f.same(f.get(t.ID), t)
}
