package storagetest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var errRollback = errors.New("roll back")

var updateCases = []testCase{
	{"a transaction sees what it did", func(f *fixture) {
		old := f.row(task.Submitted, everything)
		old.Priority = 1
		f.put(old)
		f.update(func(tx storage.Tx) error {
			g := &fixture{T: f.T, Store: inTx{tx}, ids: f.ids}
			t := g.row(task.Submitted, everything)
			t.Key, t.OrderingKey = "another", "" // the way below is not for rows that are behind others
			g.put(t)
			g.same(g.get(t.ID), t)
			equal(g, "ready", g.ready(storage.ReadyQuery{Queue: t.Queue(), Limit: 9}), []task.Trigger{old.Trigger(), t.Trigger()})
			equal(g, "queues", g.queues(task.Queue{}, 9), []task.Queue{t.Queue()})
			for _, c := range longWay() {
				g.step(t, c)
			}
			equal(g, "due", g.due(storage.DueQuery{State: t.State, Before: at(1e3), Limit: 9}), []storage.Due{{Trigger: t.Trigger(), At: t.NextEventAt}})
			equal(g, "gone", g.remove(t.Ref(), old.Ref()), []bool{true, true})
			equal(g, "queues in the end", g.queues(task.Queue{}, 9), []task.Queue{})
			g.put(old)
			return nil
		})
		f.same(f.get(old.ID), old)
	}},
	{"a transaction knows which keys it took and gave back", func(f *fixture) {
		f.together()
		keyed := func(t *task.Task) { t.Key = "k" }
		a, b, c := f.row(task.Submitted, keyed), f.row(task.Submitted, keyed), f.row(task.Submitted, keyed)
		f.put(a)
		f.update(func(tx storage.Tx) error {
			got, err := tx.Insert(f.ctx(), b)
			if err != nil {
				return err
			}
			equal(f, "in the way of b", got, []storage.Inserted{{Existing: a.ID}})
			if _, err := tx.Delete(f.ctx(), a.Ref()); err != nil {
				return err
			}
			got, err = tx.Insert(f.ctx(), b, c)
			equal(f, "in the way of c", got, []storage.Inserted{{}, {Existing: b.ID}})
			return err
		})
		f.same(f.get(b.ID), b)
	}},
	{"a failed transaction never happened", func(f *fixture) {
		f.undone(func(do func(tx storage.Tx) error) {
			err := f.Update(f.ctx(), func(tx storage.Tx) error {
				tx.OnCommit(func() { f.Error("the hook of a failed transaction ran") })
				if err := do(tx); err != nil {
					f.Error(err)
				}
				return errRollback
			})
			if !errors.Is(err, errRollback) {
				f.Fatalf("got %v, want the error of the function", err)
			}
		})
	}},
	{"a transaction that panics never happened and the store goes on", func(f *fixture) {
		f.undone(func(do func(tx storage.Tx) error) {
			defer func() {
				if r := recover(); r != "the function's own" {
					f.Fatalf("recovered %v", r)
				}
			}()
			_ = f.Update(f.ctx(), func(tx storage.Tx) error {
				tx.OnCommit(func() { f.Error("the hook of a failed transaction ran") })
				if err := do(tx); err != nil {
					f.Error(err)
				}
				panic("the function's own")
			})
		})
	}},
	{"a verb that failed fails the transaction, whatever the function returns", func(f *fixture) {
		f.undone(func(do func(tx storage.Tx) error) {
			err := f.Update(f.ctx(), func(tx storage.Tx) error {
				if err := do(tx); err != nil {
					f.Error(err)
				}
				ended, cancel := context.WithCancel(f.ctx())
				cancel()
				if _, err := tx.Swap(ended); !errors.Is(err, context.Canceled) {
					f.Errorf("a verb with a context that has ended: %v", err)
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				f.Fatalf("got %v, want context.Canceled", err)
			}
		})
	}},
	{"not finding a row does not fail the transaction", func(f *fixture) {
		f.update(func(tx storage.Tx) error {
			if _, err := tx.Get(f.ctx(), task.ID{1}); !errors.Is(err, task.ErrNotFound) {
				f.Errorf("got %v, want task.ErrNotFound", err)
			}
			return nil
		})
	}},
	{"hooks run in order, after the commit and before Update returns", func(f *fixture) {
		t := f.row(task.Submitted)
		var ran []int
		f.update(func(tx storage.Tx) error {
			for i := range 3 {
				tx.OnCommit(func() {
					ran = append(ran, i)
					f.same(f.get(t.ID), t)
				})
			}
			_, err := tx.Insert(f.ctx(), t)
			if len(ran) > 0 {
				f.Error("a hook ran before the commit")
			}
			return err
		})
		equal(f, "hooks", ran, []int{0, 1, 2})
	}},
	{"hooks run after a transaction that changed nothing", func(f *fixture) {
		ran := false
		f.update(func(tx storage.Tx) error {
			tx.OnCommit(func() { ran = true })
			return nil
		})
		equal(f, "ran", ran, true)
	}},
	{"a transaction is not seen before it is committed", func(f *fixture) {
		old := f.row(task.Waiting, func(t *task.Task) { t.NextEventAt = at(1) })
		f.put(old)
		fresh := f.row(task.Submitted)
		// In some stores readers wait for the transaction, so it must not wait for them.
		looked := make(chan error, 1)
		look := func() error {
			got, err := f.Get(f.ctx(), fresh.ID)
			switch {
			case errors.Is(err, task.ErrNotFound):
				return nil
			case err != nil:
				return err
			case got.State != task.Processing:
				return errors.New("a row was seen as it was in the middle of the transaction")
			}
			seen, err := f.Get(f.ctx(), old.ID)
			if err == nil && seen.State != task.Cancelled {
				err = errors.New("half of the transaction was seen")
			}
			return err
		}
		f.update(func(tx storage.Tx) error {
			if _, err := tx.Insert(f.ctx(), fresh); err != nil {
				return err
			}
			go func() { looked <- look() }()
			_, err := tx.Swap(f.ctx(),
				task.Change{Ref: fresh.Ref(), To: task.Processing, At: at(1)},
				task.Change{Ref: old.Ref(), To: task.Cancelled, At: at(1)})
			return err
		})
		if err := <-looked; err != nil {
			f.Fatal(err)
		}
	}},
	{"transactions at once do not mix", func(f *fixture) {
		// Each transaction reads two rows and moves one unit between them. The sum over all
		// rows must not change.
		const workers, each = 8, 10
		counters := f.rows(2, task.Waiting, nil)
		f.put(counters...)
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					if err := f.bump(counters); err != nil {
						f.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for _, c := range counters {
			equal(f, "version", f.get(c.ID).Version, 1+workers*each)
		}
	}},
	{"a transaction is over when its function has returned", func(f *fixture) {
		var kept storage.Tx
		f.update(func(tx storage.Tx) error { kept = tx; return nil })
		t := f.row(task.Submitted)
		if _, err := kept.Insert(f.ctx(), t); err == nil {
			f.Error("an insert after the end succeeded")
		}
		if _, err := kept.Get(f.ctx(), t.ID); err == nil || errors.Is(err, task.ErrNotFound) {
			f.Errorf("a query after the end: %v", err)
		}
		if _, err := f.Get(f.ctx(), t.ID); !errors.Is(err, task.ErrNotFound) {
			f.Errorf("the row of the late insert: %v", err)
		}
	}},
}

// bump changes all rows in one transaction, which reads their versions.
func (f *fixture) bump(rows []*task.Task) error {
	return f.Update(f.ctx(), func(tx storage.Tx) error {
		var cs []task.Change
		for _, r := range rows {
			t, err := tx.Get(f.ctx(), r.ID)
			if err != nil {
				return err
			}
			cs = append(cs, task.Change{Ref: t.Ref(), To: task.Waiting, At: at(1)})
		}
		got, err := tx.Swap(f.ctx(), cs...)
		for _, t := range got {
			if t == nil {
				err = errors.Join(err, errors.New("a version read in the transaction was stale in it"))
			}
		}
		return err
	})
}

// undone calls attempt with a function that changes everything. attempt must fail, and nothing
// may have changed.
func (f *fixture) undone(attempt func(do func(tx storage.Tx) error)) {
	f.Helper()
	rows := f.rows(3, task.Submitted, func(i int, t *task.Task) {
		t.Key, t.Payload, t.NextEventAt = string(rune('a'+i)), pattern(3000*i), at(i)
	})
	f.put(rows...)
	fresh := f.row(task.Submitted, func(t *task.Task) { t.Key, t.Type = "fresh", "another" })
	for range 2 {
		attempt(func(tx storage.Tx) error {
			if _, err := tx.Insert(f.ctx(), fresh.Clone()); err != nil {
				return err
			}
			if _, err := tx.Swap(f.ctx(), task.Change{Ref: rows[0].Ref(), To: task.Processing, At: at(1)}); err != nil {
				return err
			}
			_, err := tx.Delete(f.ctx(), rows[1].Ref())
			return err
		})
		var want []task.Trigger
		for _, t := range rows {
			f.same(f.get(t.ID), t)
			want = append(want, t.Trigger())
		}
		slices.SortFunc(want, func(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) })
		equal(f, "ready", f.ready(storage.ReadyQuery{Queue: rows[0].Queue(), Limit: 9}), want)
		equal(f, "queues", f.queues(task.Queue{}, 9), []task.Queue{rows[0].Queue()})
		f.check()
	}
	f.put(fresh)
	f.step(rows[0], task.Change{To: task.Processing, At: at(1)})
	equal(f, "gone", f.remove(rows[1].Ref()), []bool{true})
}

// update runs a transaction that succeeds.
func (f *fixture) update(fn func(storage.Tx) error) {
	f.Helper()
	if err := f.Update(f.ctx(), fn); err != nil {
		f.Fatal(err)
	}
}

// inTx makes a transaction a [storage.Store], to use the helpers of fixture in it.
type inTx struct{ storage.Tx }

func (x inTx) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.Committed(storage.Do(ctx, x.Tx, b))
}
func (inTx) Update(context.Context, func(storage.Tx) error) error { return errors.ErrUnsupported }
func (inTx) Close() error                                         { return errors.ErrUnsupported }
