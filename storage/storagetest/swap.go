package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var swapCases = []testCase{
	{"a change makes of a row what Apply does", func(f *fixture) {
		// One row makes many steps; each is compared with Apply.
		want := f.row(task.Submitted, everything)
		want.Version, want.Attempt, want.Crashes, want.Owner = 1, 0, 0, task.ID{}
		f.put(want)
		for _, c := range longWay() {
			f.step(want, c)
		}
	}},
	{"every transition of the table is made and no other", func(f *fixture) {
		for _, from := range task.States() {
			for _, to := range task.States() {
				t := f.row(from, func(t *task.Task) { t.NextEventAt = at(5) })
				f.put(t)
				f.step(t, task.Change{To: to, At: at(1), NextEventAt: at(60), Owner: task.ID{1}, Result: []byte("r"), Error: "why"})
			}
		}
	}},
	{"a change may give a row another group, whatever it becomes", func(f *fixture) {
		f.put(f.row(task.Submitted, func(t *task.Task) { t.Type, t.Group = "group", "new" }))
		for _, from := range task.States() {
			for _, to := range task.States() {
				group := "new"
				t := f.row(from, func(t *task.Task) { t.Type, t.Group = "group", "old" })
				f.put(t)
				f.step(t, task.Change{To: to, At: at(1), Owner: task.ID{1}, Result: []byte("r"), Group: &group})
				if t.State != task.Submitted || t.Group != group {
					f.step(t, task.Change{To: task.Submitted, At: at(2), Group: &group})
				}
				ready, err := f.Ready(f.ctx(), storage.ReadyQuery{Queue: task.Queue{Type: "group", Group: t.Group}, Limit: 1000})
				if err != nil {
					f.Fatal(err)
				}
				found := slices.ContainsFunc(ready, func(tr task.Trigger) bool { return tr.Ref == t.Ref() && tr.Group == t.Group })
				if found != (t.State == task.Submitted) {
					f.Errorf("%v to %v: the row is %v, and among the ready ones of its group: %t", from, to, t.State, found)
				}
			}
		}
	}},
	{"a change may give a row that was never grabbed the place of another request", func(f *fixture) {
		for _, size := range []int{0, 5, 3000} {
			for _, from := range task.States() {
				for _, to := range task.States() {
					for _, begun := range []bool{false, true} {
						f.replace(size, from, to, begun)
					}
				}
			}
		}
	}},
	{"a stale version changes nothing", func(f *fixture) {
		t := f.row(task.Submitted, func(t *task.Task) { t.Version = 7 })
		f.put(t)
		for _, v := range []uint64{0, 6, 8} {
			stale := task.Change{Ref: task.Ref{ID: t.ID, Version: v}, To: task.Processing, At: at(1)}
			if got := f.swap(stale); got != nil {
				f.Fatalf("a change of version %d applied to version 7", v)
			}
			f.same(f.get(t.ID), t)
		}
	}},
	{"a change that ends an attempt ends that of its node alone", func(f *fixture) {
		for _, from := range task.States() {
			for _, by := range []task.ID{{}, {1}, {2}} {
				for _, c := range []task.Change{
					{To: task.Done, Outcome: task.Completed, Result: []byte("r")},
					{To: task.Done, Outcome: task.Completed, Result: []byte("r"), Error: "why"},
					{To: task.Waiting, Outcome: task.Errored, NextEventAt: at(9)},
				} {
					t := f.row(from, func(t *task.Task) { t.NextEventAt = at(5) })
					if from == task.Processing {
						t.Owner = task.ID{1}
					}
					f.put(t)
					c.At, c.By = at(1), by
					f.step(t, c)
				}
				t := f.row(task.Processing, func(t *task.Task) { t.Owner = task.ID{1} })
				f.put(t)
				end := task.Change{Ref: t.Ref(), By: by, To: task.Done, At: at(1), Outcome: task.Completed}
				out := f.do(&storage.Batch{Swap: []task.Change{end}, Remove: []bool{true}})
				if ends := by != (task.ID{2}); (out.Swapped[0] != nil) != ends {
					f.Errorf("a change of %v that removes a row of %v was made: %v", by, t.Owner, !ends)
				}
			}
		}
	}},
	{"a change of a row that is due changes no other", func(f *fixture) {
		for _, from := range task.States() {
			for _, to := range task.States() {
				for _, next := range []time.Time{{}, at(4), at(5), at(6)} {
					t := f.row(from, func(t *task.Task) { t.NextEventAt = next })
					f.put(t)
					f.step(t, task.Change{Due: true, To: to, At: at(5), Owner: task.ID{1}})
				}
			}
		}
	}},
	{"a change of a row that does not exist is nil", func(f *fixture) {
		if got := f.swap(task.Change{Ref: task.Ref{ID: task.ID{1}, Version: 1}, To: task.Processing}); got != nil {
			f.Fatalf("got %v", got)
		}
	}},
	{"stale changes do not stop the others of the call", func(f *fixture) {
		ts := f.rows(3, task.Submitted, nil)
		f.put(ts...)
		got, err := f.Swap(f.ctx(),
			task.Change{Ref: ts[0].Ref(), To: task.Done, At: at(1)},
			task.Change{Ref: ts[1].Ref(), To: task.Processing, At: at(1)},
			task.Change{Ref: task.Ref{ID: task.ID{1}, Version: 1}, To: task.Processing, At: at(1)},
			task.Change{Ref: ts[2].Ref(), To: task.Cancelled, At: at(1)})
		if err != nil {
			f.Fatal(err)
		}
		applied := []bool{got[0] != nil, got[1] != nil, got[2] != nil, got[3] != nil}
		equal(f, "applied", applied, []bool{false, true, false, true})
	}},
	{"several changes of one row apply in order", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		ref := func(v uint64) task.Ref { return task.Ref{ID: t.ID, Version: v} }
		cs := []task.Change{
			{Ref: ref(1), To: task.Processing, At: at(1), Owner: task.ID{1}},
			{Ref: ref(1), To: task.Cancelled, At: at(2)},
			{Ref: ref(2), To: task.Waiting, At: at(3), NextEventAt: at(9), Outcome: task.Errored, Error: "one"},
			{Ref: ref(3), To: task.Submitted, At: at(4)},
		}
		got, err := f.Swap(f.ctx(), cs...)
		if err != nil {
			f.Fatal(err)
		}
		for i, c := range cs {
			if (got[i] != nil) != c.Apply(t) {
				f.Fatalf("change %d: got %v", i, got[i])
			}
			if got[i] != nil {
				f.same(got[i], handedOut(t))
			}
		}
		f.same(f.get(t.ID), t)
	}},
	{"the payload is handed out with a grab only and the result never", func(f *fixture) {
		for _, size := range []int{5, 3000} {
			t := f.row(task.Submitted, func(t *task.Task) { t.Payload = pattern(size) })
			f.put(t)
			f.step(t, task.Change{To: task.Waiting, At: at(1)})
			f.step(t, task.Change{To: task.Processing, At: at(2)})
			f.step(t, task.Change{To: task.Done, At: at(3), Result: pattern(size)})
		}
	}},
	{"a grab counts the attempt and notes the owner and its node", func(f *fixture) {
		t := f.row(task.Submitted, func(t *task.Task) { t.Attempt = 3 })
		f.put(t)
		got := f.swap(task.Change{Ref: t.Ref(), To: task.Processing, At: at(1), Owner: task.ID{4}, Node: "n4"})
		if got.Attempt != 4 || got.Owner != (task.ID{4}) || got.Node != "n4" || !got.StartedAt.Equal(at(1)) || got.Version != 2 {
			f.Fatalf("got %+v", got)
		}
		got = f.swap(task.Change{Ref: got.Ref(), To: task.Submitted, At: at(2), Outcome: task.HandedBack, Count: task.Refund})
		if got.Attempt != 3 || !got.Owner.IsZero() || got.Node != "n4" || len(got.History) != 0 { // it has not begun
			f.Fatalf("got %+v", got)
		}
	}},
	{"the numbers of attempts and crashes stop before they overflow", func(f *fixture) {
		t := f.row(task.Submitted, func(t *task.Task) { t.Attempt, t.Crashes = task.MaxCount-1, task.MaxCount-1 })
		f.put(t)
		for range 2 {
			t = f.swap(task.Change{Ref: t.Ref(), To: task.Processing, At: at(1), Owner: task.ID{4}})
			equal(f, "attempt", t.Attempt, task.MaxCount)
			t = f.swap(task.Change{Ref: t.Ref(), To: task.Submitted, At: at(2), Outcome: task.Crashed})
			got := f.get(t.ID)
			equal(f, "stored attempt", got.Attempt, task.MaxCount)
			equal(f, "stored crashes", got.Crashes, task.MaxCount)
		}
	}},
	{"results of any size are kept", func(f *fixture) {
		for _, size := range []int{0, 1, 300, 1000, 1 << 20} {
			t := f.row(task.Processing)
			f.put(t)
			f.step(t, task.Change{To: task.Done, At: at(1), Result: pattern(size)})
			equal(f, "result", string(f.get(t.ID).Result), string(pattern(size)))
		}
	}},
	{"a task that runs again keeps the result of its last run", func(f *fixture) {
		for _, size := range []int{5, 3000} {
			t := f.row(task.Processing)
			f.put(t)
			again := task.Change{To: task.Waiting, Outcome: task.Completed, Count: task.Reset}
			again.At, again.NextEventAt, again.Result = at(1), at(2), pattern(size)
			f.step(t, again)
			equal(f, "result while it waits", string(f.get(t.ID).Result), string(pattern(size)))
			f.step(t, task.Change{To: task.Processing, At: at(2), Owner: task.ID{1}})
			f.step(t, task.Change{To: task.Waiting, At: at(3), Outcome: task.Errored, Error: "no"})
			f.step(t, task.Change{To: task.Processing, At: at(4), Owner: task.ID{1}})
			equal(f, "result while it runs", string(f.get(t.ID).Result), string(pattern(size)))
			again.At, again.Result = at(5), []byte("next")
			f.step(t, again)
			equal(f, "next result", string(f.get(t.ID).Result), "next")
			f.step(t, task.Change{To: task.Processing, At: at(6), Owner: task.ID{1}})
			f.step(t, task.Change{To: task.Done, At: at(7), Result: pattern(size)})
			equal(f, "last result", string(f.get(t.ID).Result), string(pattern(size)))
			f.check()
		}
	}},
	{"a result may be replaced by one of another size", func(f *fixture) {
		for _, size := range []int{0, 10, 5000} {
			t := f.row(task.Processing, func(t *task.Task) { t.Result = pattern(4000) })
			f.put(t)
			f.step(t, task.Change{To: task.Done, At: at(1), Result: pattern(size)})
		}
	}},
	{"a history grows from nothing to its limit", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		for i := range task.MaxHistory + 3 {
			f.step(t, task.Change{To: task.Processing, At: at(2 * i), Owner: task.ID{1}})
			f.step(t, task.Change{To: task.Submitted, At: at(2*i + 1), Outcome: task.Errored, Error: strings.Repeat("e", i*40)})
		}
		equal(f, "attempts remembered", len(f.get(t.ID).History), task.MaxHistory)
	}},
	{"the node of each attempt stays with the task when it has ended", func(f *fixture) {
		for _, key := range []string{"", "order"} {
			t := f.row(task.Submitted, func(t *task.Task) { t.OrderingKey = key })
			f.put(t)
			if t = f.get(t.ID); t.Turn == task.Behind {
				f.Fatalf("the only task of its ordering key is %v", t.Turn)
			}
			for i, node := range []string{"a", "a", "", "b", "a"} {
				f.step(t, task.Change{To: task.Processing, At: at(2 * i), Owner: task.ID{1}, Node: node})
				equal(f, "node that runs it", f.get(t.ID).Node, node)
				f.step(t, task.Change{To: task.Submitted, At: at(2*i + 1), Outcome: task.Errored, Error: "no"})
			}
			f.step(t, task.Change{To: task.Processing, At: at(20), Owner: task.ID{1}, Node: "c"})
			f.step(t, task.Change{To: task.Done, At: at(21)})
			got := f.get(t.ID)
			var nodes []string
			for _, a := range got.History {
				nodes = append(nodes, a.Node)
			}
			equal(f, "nodes of a task that has ended", fmt.Sprintf("%q %q", nodes, got.Node), `["a" "a" "" "b" "a"] "c"`)
		}
	}},
	{"of many swaps of one version exactly one is made", func(f *fixture) {
		t := f.row(task.Submitted)
		f.put(t)
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				got, err := f.Swap(f.ctx(), task.Change{Ref: t.Ref(), To: task.Processing, At: at(i), Owner: task.ID{byte(i)}})
				switch {
				case err != nil:
					f.Error(err)
				case got[0] != nil:
					won.Add(1)
				}
			})
		}
		wg.Wait()
		equal(f, "winners", won.Load(), 1)
		equal(f, "version", f.get(t.ID).Version, 2)
	}},
	{"changes by many at once are all made", func(f *fixture) {
		const workers, each = 8, 12
		var wg sync.WaitGroup
		ts := f.rows(workers*each, task.Submitted, nil)
		for w := range workers {
			wg.Go(func() {
				for _, t := range ts[w*each : (w+1)*each] {
					if err := f.live(t); err != nil {
						f.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for _, t := range ts {
			if got := f.get(t.ID); got.State != task.Done || got.Version != 3 {
				f.Fatalf("got %+v", got)
			}
		}
	}},
	{"a task that has waited too long is not grabbed", func(f *fixture) {
		for _, c := range []struct {
			state          task.State
			until, expires time.Time
			want           bool
		}{
			{task.Submitted, at(5), time.Time{}, false},
			{task.Submitted, at(4), time.Time{}, false},
			{task.Submitted, time.Time{}, at(5), false},
			{task.Submitted, at(5).Add(time.Microsecond), time.Time{}, true},
			{task.Submitted, time.Time{}, time.Time{}, true},
			{task.Waiting, at(5), time.Time{}, true},
		} {
			t := f.row(task.Submitted, func(t *task.Task) {
				t.ExpiresAt = c.expires
				t.Create(c.state, at(0), c.until)
			})
			f.put(t)
			got := f.swap(task.Change{Ref: t.Ref(), To: task.Processing, At: at(5), Owner: task.ID{1}})
			if (got != nil) != c.want {
				f.Errorf("%v until %v: grabbed %t", c.state, t.NextEventAt, got != nil)
			}
			if !c.want {
				f.same(f.get(t.ID), t)
			}
		}
	}},
}

// replace makes a change that replaces a row, and compares the row and its entries by queues and times with the result of
// Apply.
func (f *fixture) replace(size int, from, to task.State, begun bool) {
	t := f.row(from, func(t *task.Task) {
		t.Type, t.Group, t.NextEventAt, t.Headers = "replace", "old", at(9), map[string]string{"old": "1"}
		if t.StartedAt = (time.Time{}); begun {
			t.StartedAt = at(0)
		}
	})
	f.put(t)
	group := "new"
	f.step(t, task.Change{To: to, At: at(1), NextEventAt: at(5), ReadyAt: at(4), Group: &group, Payload: new(pattern(size)), Replace: &task.Replace{
		Priority: 2, ExpiresAt: at(8), Headers: map[string]string{"new": "2", "other": ""},
	}})
	if replaced := t.Group == group; replaced != (t.CanBeReplaced() && (to == task.Waiting || to == task.Submitted)) {
		f.Errorf("%v to %v, begun %t: replaced is %t", from, to, begun, replaced)
	}
	ready, err := f.Ready(f.ctx(), storage.ReadyQuery{Queue: t.Queue(), Limit: 1000})
	if err != nil {
		f.Fatal(err)
	}
	if found := slices.ContainsFunc(ready, func(tr task.Trigger) bool { return tr == t.Trigger() }); found != (t.State == task.Submitted) {
		f.Errorf("%v to %v: the row is %v, and among the ready ones: %t", from, to, t.State, found)
	}
	f.remove(t.Ref())
}

// longWay is a life with most kinds of changes of a task; a Ref is the Ref of the row.
func longWay() []task.Change {
	long := strings.Repeat("x", task.MaxErrorText+10)
	return []task.Change{
		{To: task.Processing, At: at(1), NextEventAt: at(30), Owner: task.ID{1}},
		{To: task.Waiting, At: at(2), NextEventAt: at(40), Outcome: task.Errored, Error: "timeout"},
		{To: task.Waiting, At: at(3), NextEventAt: at(40)},
		{To: task.Waiting, At: at(3), NextEventAt: at(50).Add(time.Microsecond)},
		{To: task.Submitted, At: at(4), ReadyAt: at(4)},
		{To: task.Processing, At: at(5).Add(1500 * time.Nanosecond), Owner: task.ID{2}},
		{To: task.Submitted, At: at(6), Outcome: task.Crashed, Error: long},
		{To: task.Processing, At: at(7), NextEventAt: at(90), Owner: task.ID{3}},
		{To: task.Error, At: at(8)},
		{To: task.Failed, At: at(9), Error: "seen"},
		{To: task.Submitted, At: at(10), Count: task.Reset},
		{To: task.Cancelled, At: at(11)},
		{To: task.Submitted, At: at(12), NextEventAt: at(13).Add(time.Microsecond)},
		{To: task.Processing, At: at(13), Owner: task.ID{4}},
		{To: task.Submitted, At: at(14), Count: task.Refund, Outcome: task.HandedBack},
		{To: task.Processing, At: at(15), Owner: task.ID{5}},
		{To: task.Done, At: at(16), NextEventAt: at(99), Result: pattern(2000)},
	}
}

// step makes one change of the row and of t, and compares the answer and the row of the store with
// the result of Apply on t.
func (f *fixture) step(t *task.Task, c task.Change) {
	f.Helper()
	c.Ref = t.Ref()
	from := t.State
	got := f.swap(c)
	applied := c.Apply(t)
	if (got != nil) != applied {
		f.Fatalf("%v to %v: got %v, applies: %t", from, c.To, got, applied)
	}
	if applied {
		f.same(got, handedOut(t))
	}
	f.same(f.get(t.ID), t)
}

// handedOut returns t as Swap returns it.
func handedOut(t *task.Task) *task.Task {
	c := t.Clone()
	c.Result = nil
	if c.State != task.Processing {
		c.Payload, c.Notes = nil, task.NewNotes(c.Progress(), nil)
	}
	return c
}

// live makes the changes of a life, each on its own.
func (f *fixture) live(t *task.Task) error {
	if _, err := f.Insert(f.ctx(), t); err != nil {
		return err
	}
	for _, c := range []task.Change{
		{To: task.Processing, At: at(1), Owner: task.ID{1}}, {To: task.Done, At: at(2), Result: []byte("r")},
	} {
		c.Ref = task.Ref{ID: t.ID, Version: 1}
		if c.To == task.Done {
			c.Version = 2
		}
		got, err := f.Swap(f.ctx(), c)
		if err != nil {
			return err
		}
		if got[0] == nil {
			return errors.New("a change was stale although no other had been made")
		}
	}
	return nil
}
