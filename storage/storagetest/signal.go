package storagetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var signalCases = []testCase{
	{"a signal makes of a row what Apply does, whatever its version", func(f *fixture) {
		for _, size := range []int{5, 3000} {
			for _, keep := range []bool{true, false} {
				t := f.row(task.Processing)
				f.put(t)
				f.send(t, 1, "early", keep, size)
				f.send(t, 2, "other", keep, size)
				f.step(t, task.Change{To: task.Waiting, At: at(2), Outcome: task.Errored, NextEventAt: at(3)})
				f.send(t, 3, "early", keep, size)
				f.step(t, task.Change{To: task.Submitted, At: at(3)})
				f.send(t, 4, "early", keep, size)
				f.send(t, 4, "early", keep, size)
				f.step(t, task.Change{To: task.Processing, At: at(4), Owner: task.ID{1}})
				for i := range 4 {
					f.step(t, task.Change{To: task.Waiting, At: at(5 + i), Outcome: task.Completed, Await: &task.Await{Names: []string{"early", "late"}}})
					f.send(t, byte(10+i), "late", keep, size)
					f.step(t, task.Change{To: task.Processing, At: at(5 + i), Owner: task.ID{1}})
				}
				f.step(t, task.Change{To: task.Done, At: at(20), Outcome: task.Completed})
				f.send(t, 30, "late", keep, size)
				f.check()
			}
		}
	}},
	{"a signal of a task that does not exist is not delivered", func(f *fixture) {
		c := task.Change{Ref: task.Ref{ID: f.id()}, At: at(1), Signal: &task.Delivery{Signal: task.Signal{Name: "s"}, Keep: true}}
		if got := f.swap(c); got != nil {
			f.Errorf("it was delivered to %v", got)
		}
	}},
	{"a row that has kept a signal is grabbed and ended at the same version", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		before := t.Ref()
		f.send(t, 1, "s", true, 10)
		equal(f, "version", t.Ref(), before)
		f.step(t, task.Change{To: task.Processing, At: at(4), Owner: task.ID{1}})
		before = t.Ref()
		f.send(t, 2, "s", true, 3000)
		equal(f, "version", t.Ref(), before)
		f.step(t, task.Change{To: task.Done, At: at(5), Outcome: task.Completed, Result: []byte("r")})
	}},
	{"a wait ends when its time has come, by a grab and by another change", func(f *fixture) {
		for _, to := range []task.State{task.Submitted, task.Processing} {
			for _, now := range []int{9, 10} {
				t := f.row(task.Processing)
				f.put(t)
				f.step(t, task.Change{To: task.Waiting, At: at(2), Outcome: task.Completed, NextEventAt: at(10), Await: &task.Await{Names: []string{"s"}, Patience: time.Second}})
				f.step(t, task.Change{To: to, At: at(now), Owner: task.ID{1}})
				if want := map[int]task.WakeBy{9: task.ByUser, 10: task.ByTimeout}[now]; f.get(t.ID).Woken().By != want {
					f.Errorf("%v at %d: it was woken by %v, want %v", to, now, f.get(t.ID).Woken().By, want)
				}
			}
		}
	}},
	{"of signals, a timeout and a cancel at the same time, one ends a wait", func(f *fixture) {
		for round := range 20 {
			t := f.row(task.Processing)
			f.put(t)
			f.step(t, task.Change{To: task.Waiting, At: at(2), Outcome: task.Completed, NextEventAt: at(3), Await: &task.Await{Names: []string{"s"}}})
			changes := []task.Change{
				{Ref: t.Ref(), To: task.Cancelled, At: at(4)},
				{Ref: t.Ref(), To: task.Submitted, At: at(4), Due: true},
				{Ref: t.Ref(), To: task.Processing, At: at(4), Due: true, Owner: task.ID{1}},
			}
			for i := range 3 {
				changes = append(changes, task.Change{Ref: task.Ref{ID: t.ID}, At: at(4), Signal: &task.Delivery{Signal: task.Signal{ID: task.ID{byte(i)}, Name: "s"}}})
			}
			var made atomic.Int32
			var wg sync.WaitGroup
			for _, c := range changes {
				wg.Go(func() {
					if rows, err := f.Swap(f.ctx(), c); err != nil {
						f.Error(err)
					} else if rows[0] != nil {
						made.Add(1)
					}
				})
			}
			if wg.Wait(); made.Load() != 1 {
				f.Fatalf("round %d: %d changes ended the wait", round, made.Load())
			}
		}
	}},
	{"signals that come at the same time are all kept, while the attempt ends", func(f *fixture) {
		for _, by := range []task.ID{{}, {9}} {
			t := f.row(task.Processing)
			f.put(t)
			var wg sync.WaitGroup
			const n = 50
			for i := range n {
				wg.Go(func() {
					s := task.Signal{ID: task.ID{byte(i)}, Name: "s", Data: fmt.Append(nil, i)}
					rows, err := f.Swap(f.ctx(), task.Change{Ref: task.Ref{ID: t.ID}, At: at(4), Signal: &task.Delivery{Signal: s, Keep: true}})
					if err != nil || rows[0] == nil {
						f.Errorf("signal %d: %v, %v", i, rows, err)
					}
				})
			}
			wg.Go(func() {
				c := task.Change{Ref: t.Ref(), By: by, To: task.Waiting, At: at(4), Outcome: task.Completed, Await: &task.Await{Names: []string{"s"}}}
				if rows, err := f.Swap(f.ctx(), c); err != nil || rows[0] == nil {
					f.Errorf("the end of the attempt: %v, %v", rows, err)
				}
			})
			wg.Wait()
			now := f.get(t.ID)
			if now.Signals == nil || now.State != task.Submitted || len(now.Signals.Kept) != n-1 || now.Woken().By != task.BySignal {
				f.Errorf("it is %v and has %+v", now.State, now.Signals)
			}
		}
	}},
	{"a signal in a batch makes the row the head of its ordering key", func(f *fixture) {
		key := f.queue().key
		t := f.row(task.Waiting, func(t *task.Task) {
			t.OrderingKey, t.Turn, t.ReadyAt = key, task.Behind, task.LastTime
			t.Signals = &task.Signals{Awaits: []string{"s"}}
		})
		f.put(t)
		c := task.Change{Ref: task.Ref{ID: t.ID}, At: at(4), OrderingKey: key, Signal: &task.Delivery{Signal: task.Signal{ID: task.ID{1}, Name: "s"}}}
		out, err := f.Commit(f.ctx(), &storage.Batch{Swap: []task.Change{c}}).Wait()
		if err != nil || out.Swapped[0] == nil {
			f.Fatalf("%+v, %v", out, err)
		}
		if now := f.get(t.ID); now.State != task.Submitted || now.Turn != task.Head {
			f.Errorf("it is %v and %v", now.State, now.Turn)
		}
	}},
}

// send delivers a signal to t, in the store and in t, and compares.
func (f *fixture) send(t *task.Task, id byte, name string, keep bool, size int) {
	f.Helper()
	d := &task.Delivery{Signal: task.Signal{ID: task.ID{id}, Name: name, Data: pattern(size)}, Keep: keep}
	c := task.Change{Ref: task.Ref{ID: t.ID}, At: at(int(id)), OrderingKey: t.OrderingKey, Signal: d}
	got := f.swap(c)
	if applied := c.Apply(t); (got != nil) != applied {
		f.Fatalf("signal %d: got %v, applies: %t", id, got, applied)
	} else if applied {
		f.same(got, handedOut(t))
	}
	f.same(f.get(t.ID), t)
}
