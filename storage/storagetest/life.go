package storagetest

import (
	"context"
	"errors"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
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
		f.Store = nothing{} // there is no store left to check
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

// nothing replaces a store that a case has closed.
type nothing struct{ storage.Store }

// calls returns every call of a store, with arguments for the row t.
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
		"Queues": func(ctx context.Context) error { _, err := s.Queues(ctx, task.Queue{}, 1); return err },
		"Update": func(ctx context.Context) error {
			return s.Update(ctx, func(tx storage.Tx) error { _, err := tx.Delete(ctx, t.Ref()); return err })
		},
	}
	if i, ok := s.(storage.Inspector); ok {
		all["List"] = func(ctx context.Context) error {
			_, err := i.List(ctx, storage.ListQuery{Limit: 1, Scan: 1})
			return err
		}
		all["Count"] = func(ctx context.Context) error { _, err := i.Count(ctx, storage.Filter{}); return err }
	}
	if r, ok := s.(storage.NoSyncer); ok {
		all["Relax"] = func(ctx context.Context) error {
			return r.UpdateNoSync(ctx, func(tx storage.Tx) error { _, err := tx.Delete(ctx, t.Ref()); return err })
		}
	}
	if g, ok := s.(storage.Settings); ok {
		all["Setting"] = func(ctx context.Context) error { _, err := g.Setting(ctx, "name"); return err }
		all["SetSetting"] = func(ctx context.Context) error { return g.SetSetting(ctx, "name", []byte("value")) }
	}
	return all
}

var noSyncCases = []testCase{
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
			err := f.Store.(storage.NoSyncer).UpdateNoSync(f.ctx(), func(tx storage.Tx) error {
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
	if err := f.Store.(storage.NoSyncer).UpdateNoSync(f.ctx(), fn); err != nil {
		f.Fatal(err)
	}
}
