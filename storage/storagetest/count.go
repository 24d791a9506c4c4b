package storagetest

import (
	"context"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var liveCounterCases = []testCase{
	{"counts are the same before and after a fold", func(f *fixture) {
		m := newModel(f, 2)
		for range 10 {
			for range 30 {
				m.step()
			}
			for _, states := range [][]task.State{nil, {task.Done, task.Failed}, {task.Submitted}} {
				m.compareInspector(storage.Filter{States: states})
				f.fold()
				m.compareInspector(storage.Filter{States: states})
			}
		}
	}},
	{"what is counted while rows change and are folded is of one moment", func(f *fixture) {
		const writers, each, rounds = 3, 4, 60
		var all []*task.Task
		for range writers {
			rows := f.rows(each, task.Submitted, nil)
			f.put(rows...)
			all = append(all, rows...)
		}
		done := make(chan struct{})
		var changing, looking sync.WaitGroup
		for i := range writers {
			changing.Go(func() { f.toAndFro(all[i*each:(i+1)*each], rounds) })
		}
		looking.Go(func() {
			for over := false; !over; {
				select {
				case <-done:
					over = true
				default:
				}
				f.fold()
				total := int64(0)
				counts, err := f.Store.(storage.Inspector).Count(f.ctx(), storage.Filter{})
				for _, n := range counts {
					total += n
				}
				if err != nil || total != writers*each {
					f.Errorf("%d rows are counted, %v, of %d: %v", total, err, writers*each, counts)
					return
				}
			}
		})
		changing.Wait()
		close(done)
		looking.Wait()
		equal(f, "count", f.count(storage.Filter{}), map[storage.StateType]int64{{State: task.Submitted, Type: "mail"}: writers * each})
	}},
	{"a fold that is cancelled changes no count", func(f *fixture) {
		row := f.row(task.Submitted)
		f.put(row)
		f.toAndFro([]*task.Task{row}, 200)
		ended, cancel := context.WithCancel(f.ctx())
		cancel()
		if _, err := f.Store.(storage.LiveCounter).Fold(ended); err == nil {
			f.Error("a fold whose context had ended succeeded")
		}
		equal(f, "count", f.count(storage.Filter{}), map[storage.StateType]int64{{State: task.Submitted, Type: "mail"}: 1})
	}},
}

// fold folds the counts, and fails the test if it cannot.
func (f *fixture) fold() {
	f.Helper()
	if _, err := f.Store.(storage.LiveCounter).Fold(f.ctx()); err != nil {
		f.Error(err)
	}
}

// toAndFro changes submitted rows to processing and back, several times.
func (f *fixture) toAndFro(rows []*task.Task, times int) {
	for range times {
		for _, to := range []task.State{task.Processing, task.Submitted} {
			cs := make([]task.Change, len(rows))
			for i, t := range rows {
				cs[i] = task.Change{Ref: t.Ref(), To: to, At: epoch, Owner: task.ID{9}}
			}
			got, err := f.Swap(f.ctx(), cs...)
			if err != nil {
				f.Error(err)
				return
			}
			copy(rows, got)
		}
	}
}
