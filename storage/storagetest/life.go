package storagetest

import (
	"context"
	"errors"
	"sync"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

var lifeCases = []testCase{
	{"a closed store refuses every call and can be closed again", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		for range 2 {
			if err := f.Close(); err != nil {
				f.Fatal(err)
			}
		}
		for name, call := range calls(f.Store, t) {
			if err := call(f.ctx()); !errors.Is(err, storage.ErrClosed) {
				f.Errorf("%s: got %v, want storage.ErrClosed", name, err)
			}
		}
		f.Store = nothing{} // there is nothing left to be checked
	}},
	{"a context that has ended fails every call and nothing is done", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		ended, cancel := context.WithCancel(f.ctx())
		cancel()
		for name, call := range calls(f.Store, t) {
			if err := call(ended); !errors.Is(err, context.Canceled) {
				f.Errorf("%s: got %v, want context.Canceled", name, err)
			}
		}
		f.same(f.get(t.ID), t)
	}},
	{"closing waits for the calls under way", func(f *fixture) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					err := f.live(f.row(task.Submitted))
					if errors.Is(err, storage.ErrClosed) {
						return
					}
					if err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
		f.put(f.row(task.Submitted))
		if err := f.Close(); err != nil {
			f.Error(err)
		}
		wg.Wait()
		f.Store = nothing{}
	}},
}

// nothing stands for a store that a case has used up.
type nothing struct{ storage.Store }

// calls returns every call of a store, as it would be made for the row t.
func calls(s storage.Store, t *task.Task) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error { _, err := s.Get(ctx, t.ID); return err },
		"Insert": func(ctx context.Context) error {
			_, err := s.Insert(ctx, &task.Task{ID: task.ID{1}, State: task.Waiting})
			return err
		},
		"Swap": func(ctx context.Context) error {
			_, err := s.Swap(ctx, task.Change{Ref: t.Ref(), To: task.Processing})
			return err
		},
		"Delete": func(ctx context.Context) error { _, err := s.Delete(ctx, t.Ref()); return err },
		"Due": func(ctx context.Context) error {
			_, err := s.Due(ctx, storage.DueQuery{State: task.Waiting, Limit: 1})
			return err
		},
		"Ready":  func(ctx context.Context) error { _, err := s.Ready(ctx, storage.ReadyQuery{Limit: 1}); return err },
		"Leaves": func(ctx context.Context) error { _, err := s.Leaves(ctx, task.Leaf{}, 1); return err },
		"Update": func(ctx context.Context) error {
			return s.Update(ctx, func(tx storage.Tx) error { _, err := tx.Delete(ctx, t.Ref()); return err })
		},
	}
	if i, ok := s.(storage.Inspector); ok {
		all["List"] = func(ctx context.Context) error {
			_, _, err := i.List(ctx, storage.Filter{}, task.ID{}, 1, 1)
			return err
		}
		all["Count"] = func(ctx context.Context) error { _, err := i.Count(ctx, storage.Filter{}); return err }
	}
	if r, ok := s.(storage.Relaxer); ok {
		all["Relax"] = func(ctx context.Context) error {
			return r.Relax(ctx, func(tx storage.Tx) error { _, err := tx.Delete(ctx, t.Ref()); return err })
		}
	}
	return all
}

var relaxCases = []testCase{
	{"a relaxed change is seen at once and its hooks have run", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		ran := false
		f.relax(func(tx storage.Tx) error {
			tx.OnCommit(func() { ran = true })
			_, err := tx.Swap(f.ctx(), task.Change{Ref: t.Ref(), To: task.Processing, At: at(1)})
			return err
		})
		equal(f, "ran", ran, true)
		equal(f, "state", f.get(t.ID).State, task.Processing)
	}},
	{"a failed relaxed change never happened", func(f *fixture) {
		f.undone(func(do func(tx storage.Tx) error) {
			err := f.Store.(storage.Relaxer).Relax(f.ctx(), func(tx storage.Tx) error {
				tx.OnCommit(func() { f.Error("the hook of a failed transaction ran") })
				return errors.Join(do(tx), errRollback)
			})
			if !errors.Is(err, errRollback) {
				f.Fatalf("got %v, want the error of the function", err)
			}
		})
	}},
}

func (f *fixture) relax(fn func(storage.Tx) error) {
	f.Helper()
	if err := f.Store.(storage.Relaxer).Relax(f.ctx(), fn); err != nil {
		f.Fatal(err)
	}
}

var inspectCases = []testCase{
	{"a list has the rows that match, newest first, without payload and result", func(f *fixture) {
		ts := f.mixture()
		for _, filter := range filters() {
			var want []*task.Task
			for i := len(ts) - 1; i >= 0; i-- {
				if filter.Match(ts[i].State, ts[i].Type) {
					c := ts[i].Clone()
					c.Payload, c.Result = nil, nil
					want = append(want, c)
				}
			}
			got, next := f.list(filter, task.ID{}, 1000, 1000)
			equal(f, "ids", idsOf(got), idsOf(want))
			equal(f, "next", next, task.ID{})
			for i := range got {
				f.same(got[i], want[i])
			}
		}
	}},
	{"pages of a list join without gaps and repeats", func(f *fixture) {
		f.mixture()
		for _, filter := range filters() {
			want, _ := f.list(filter, task.ID{}, 1000, 1000)
			for _, page := range [][2]int{{1, 1000}, {4, 1000}, {1000, 1}, {1000, 5}, {3, 4}} {
				var got []*task.Task
				for before, more := (task.ID{}), true; more; {
					ts, next := f.list(filter, before, page[0], page[1])
					if len(ts) > page[0] {
						f.Fatalf("%d rows, at most %d were asked for", len(ts), page[0])
					}
					got = append(got, ts...)
					before, more = next, !next.IsZero()
				}
				equal(f, "ids", idsOf(got), idsOf(want))
			}
		}
	}},
	{"a list stops reading at its budget", func(f *fixture) {
		f.put(f.row(task.Failed))
		f.put(f.rows(20, task.Submitted, nil)...)
		got, next := f.list(storage.Filter{States: []task.State{task.Failed}}, task.ID{}, 10, 5)
		if len(got) != 0 || next.IsZero() {
			f.Fatalf("got %d rows, next %v", len(got), next)
		}
	}},
	{"a count tells states and types apart", func(f *fixture) {
		ts := f.mixture()
		for _, filter := range filters() {
			want := make(map[storage.StateType]int64)
			for _, t := range ts {
				if filter.Match(t.State, t.Type) {
					want[storage.StateType{State: t.State, Type: t.Type}]++
				}
			}
			got, err := f.Store.(storage.Inspector).Count(f.ctx(), filter)
			if err != nil {
				f.Fatal(err)
			}
			equal(f, "count", got, want)
		}
	}},
}

// mixture inserts rows of all states and several types, and returns them by age.
func (f *fixture) mixture() []*task.Task {
	types := []string{"mail", "payout", "\x00", "mai"}
	ts := f.rows(30, task.Waiting, func(i int, t *task.Task) {
		t.State, t.Type = task.States()[i%7], types[i%4]
		t.History, t.Result = history(i%5, 200), pattern(i*40)
	})
	f.put(ts...)
	return ts
}

func filters() []storage.Filter {
	return []storage.Filter{
		{},
		{States: []task.State{task.Done}},
		{States: []task.State{task.Done, task.Waiting}, Types: []string{"mail"}},
		{Types: []string{"payout", "\x00"}},
		{Types: []string{"nobody's"}},
	}
}

func (f *fixture) list(filter storage.Filter, before task.ID, limit, scan int) ([]*task.Task, task.ID) {
	f.Helper()
	ts, next, err := f.Store.(storage.Inspector).List(f.ctx(), filter, before, limit, scan)
	if err != nil {
		f.Fatal(err)
	}
	return ts, next
}
