package storagetest

import (
	"errors"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var existingCases = []testCase{
	{"the row that keeps another one from being added is found without adding that", func(f *fixture) {
		f.together()
		order := f.queue().key
		keyed := func(order, key string) func(*task.Task) {
			return func(t *task.Task) { t.Type, t.OrderingKey, t.Key = "mail", order, key }
		}
		plain, free, ordered := f.row(task.Submitted), f.row(task.Done, keyed("", "k")), f.row(task.Waiting, keyed(order, "k"))
		f.put(plain, free, ordered)
		gone := f.row(task.Submitted, keyed("", "gone"))
		f.put(gone)
		f.remove(gone.Ref())
		asked := []*task.Task{
			plain.Clone(), f.row(task.Submitted), f.row(task.Submitted, keyed("", "k")), f.row(task.Submitted, keyed(order, "k")),
			f.row(task.Submitted, keyed("", "other")), gone.Clone(), f.row(task.Submitted, keyed("", "gone")),
			f.row(task.Submitted, func(t *task.Task) { t.Type, t.Key = "other", "k" }), f.row(task.Submitted, keyed("", "other")),
			f.row(task.Submitted, func(t *task.Task) { t.ID, t.Type, t.Key = plain.ID, "mail", "k" }), // the ID counts
		}
		none := task.ID{}
		want := []task.ID{plain.ID, none, free.ID, ordered.ID, none, none, none, none, none, plain.ID}
		got, err := f.Existing(f.ctx(), asked...)
		if err != nil {
			f.Fatal(err)
		}
		equal(f, "rows in the way", got, want)
		f.update(func(tx storage.Tx) error {
			got, err := tx.Existing(f.ctx(), asked...)
			equal(f, "rows in the way of a transaction", got, want)
			return err
		})
		if got, err := f.Existing(f.ctx()); len(got) > 0 || err != nil {
			f.Errorf("of no rows: %v, %v", got, err)
		}
		for _, t := range asked[1:5] {
			if _, err := f.Get(f.ctx(), t.ID); !errors.Is(err, task.ErrNotFound) {
				f.Errorf("a row that was asked for was added: %v", err)
			}
		}
	}},
	{"a transaction finds the rows that it has added and not those that it has deleted", func(f *fixture) {
		f.together()
		keyed := func(key string) func(*task.Task) { return func(t *task.Task) { t.Key = key } }
		old := f.row(task.Submitted, keyed("old"))
		f.put(old)
		f.update(func(tx storage.Tx) error {
			added := f.row(task.Submitted, keyed("new"))
			if _, err := tx.Insert(f.ctx(), added); err != nil {
				return err
			}
			if _, err := tx.Delete(f.ctx(), old.Ref()); err != nil {
				return err
			}
			got, err := tx.Existing(f.ctx(), f.row(task.Submitted, keyed("new")), f.row(task.Submitted, keyed("old")), added.Clone(), old.Clone())
			equal(f, "rows in the way", got, []task.ID{added.ID, {}, added.ID, {}})
			return err
		})
	}},
}
