package storagetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// afterCases are about tasks that run after others.
var afterCases = []testCase{
	{"a task gets followers as Apply says, whatever its version is, until it has ended", func(f *fixture) {
		for _, from := range []task.State{task.Waiting, task.Submitted, task.Processing, task.Error} {
			t := f.row(from, func(t *task.Task) { t.Children = children(3) })
			f.put(t)
			for _, ids := range [][]task.ID{{{1}}, {{2}, {1}}, {{1}}, make([]task.ID, task.MaxFollowers)} {
				for i := range ids {
					if ids[i].IsZero() {
						ids[i] = task.ID{3, byte(i >> 8), byte(i)}
					}
				}
				f.extend(t, 2, task.MoreChildren{Followers: ids})
			}
			equal(f, "followers", t.Children.Set(task.FollowersSet).Tasks(), []task.ID{{1}, {2}})
			equal(f, "version", t.Version, uint64(1))
			f.step(t, task.Change{To: task.Cancelled, At: at(3), Outcome: task.Overruled, NextEventAt: at(1000)})
			f.extend(t, 4, task.MoreChildren{Followers: []task.ID{{4}}})
		}
	}},
	{"a task runs after the last of others, or is cancelled with the first that is not done, as Apply says", func(f *fixture) {
		for _, anyEnd := range []bool{false, true} {
			for _, second := range []task.State{task.Done, task.Failed, task.Cancelled} {
				t := f.row(task.Waiting, func(t *task.Task) {
					t.Signals, t.Children = &task.Signals{Awaits: []string{task.AfterSet}}, task.ExpectingTasks([]task.ID{{1}, {2}, {3}}, anyEnd)
				})
				f.put(t)
				f.report(t, task.AfterSet, 2, task.ChildEnd{Index: 1, State: task.Done})
				f.report(t, task.AfterSet, 3, task.ChildEnd{Index: 1, State: task.Failed})
				equal(f, "state", t.State, task.Waiting)
				f.report(t, task.AfterSet, 4, task.ChildEnd{Index: 0, State: second})
				f.report(t, task.AfterSet, 5, task.ChildEnd{Index: 2, State: task.Done})
				want := task.Submitted
				if !anyEnd && second != task.Done {
					want = task.Cancelled
				}
				equal(f, "state", t.State, want)
				equal(f, "woken by", t.Woken(), task.Wake{})
			}
		}
	}},
	{"a transaction ends a task that is followed, and answers with its followers", func(f *fixture) {
		for _, to := range []task.State{task.Done, task.Failed, task.Cancelled} {
			for _, by := range []task.ID{{}, {9}} {
				t, other := f.row(task.Processing, followed(2)), f.row(task.Processing)
				f.put(t, other)
				c := task.Change{Ref: t.Ref(), By: by, To: to, At: at(4), Outcome: task.Errored, NextEventAt: at(1000)}
				if to == task.Done {
					c.Outcome, c.Result = task.Completed, []byte("r")
				}
				same := c
				same.Ref = other.Ref()
				var rows []*task.Task
				if err := f.Update(f.ctx(), func(tx storage.Tx) (err error) {
					rows, err = tx.Swap(f.ctx(), same, c)
					return err
				}); err != nil || rows[0] == nil || rows[1] == nil {
					f.Fatalf("%v: %v, %v", to, rows, err)
				}
				c.Apply(t)
				f.same(rows[1], handedOut(t))
				f.same(f.get(t.ID), t)
				equal(f, "carriers", len(rows[1].EndCarriers()), 2)
			}
		}
	}},
	{"an end has a carrier for a follower if and only if that was added before", func(f *fixture) {
		for i := range 40 {
			t := f.row(task.Processing, func(t *task.Task) { t.OrderingKey = "" })
			f.put(t)
			c := task.Change{Ref: t.Ref(), By: t.Owner, To: task.Done, At: at(4), Outcome: task.Completed, NextEventAt: at(1000)}
			if i%2 == 1 {
				c.To, c.Outcome, c.Error = task.Failed, task.Errored, "no"
			}
			follower := task.ID{1, 15: byte(i)}
			var rows []*task.Task
			var failed error
			var both sync.WaitGroup
			both.Go(func() {
				more := &task.MoreChildren{Followers: []task.ID{follower}}
				failed = f.Update(f.ctx(), func(tx storage.Tx) (err error) {
					rows, err = tx.Swap(f.ctx(), task.Change{Ref: task.Ref{ID: t.ID}, At: at(4), More: more})
					return err
				})
			})
			out := f.do(&storage.Batch{Swap: []task.Change{c}, Remove: []bool{i%4 > 1}})
			both.Wait()
			if failed != nil || out.Swapped[0] == nil {
				f.Fatalf("%v, %v", out.Swapped[0], failed)
			}
			equal(f, "it has a carrier", len(out.Carriers) == 1, rows[0] != nil)
			f.carriers(out.Carriers)
		}
	}},
}

// followed gives a row followers.
func followed(n int) func(*task.Task) {
	return func(t *task.Task) {
		s := task.ChildSet{Name: task.FollowersSet}
		for i := range n {
			id := task.ID{6, byte(i), 15: t.ID[14]}
			s.Shards, s.Added = append(s.Shards, id[:]...), s.Added+1
		}
		if t.Children == nil {
			t.Children = new(task.Children)
		}
		t.Children.Sets = append(t.Children.Sets, s)
	}
}

// carriers checks that carriers are stored as they were returned.
func (f *fixture) carriers(rows []*task.Task) {
	f.Helper()
	for _, t := range rows {
		f.same(f.get(t.ID), t)
	}
}

// carriersOf checks that a batch has inserted the carriers of the ends of rows, and no others.
func (f *fixture) carriersOf(out storage.Outcome, ended []*task.Task) {
	f.Helper()
	say := func(t *task.Task) string { return fmt.Sprint(t.ID, t.Headers, t.OrderingKey, t.State) }
	var got, want []string
	for _, t := range out.Carriers {
		got = append(got, say(t))
	}
	for _, t := range ended {
		for _, row := range t.EndCarriers() {
			want = append(want, say(row))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	equal(f, "carriers", got, want)
	f.carriers(out.Carriers)
}
