package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var batchCases = []testCase{
	{"a batch inserts, swaps and deletes", func(f *fixture) {
		kept, gone := f.row(task.Processing), f.row(task.Processing, func(t *task.Task) { t.Key = "k" })
		f.put(kept, gone)
		fresh := f.rows(3, task.Submitted, nil)
		end := func(t *task.Task) task.Change {
			return task.Change{Ref: t.Ref(), To: task.Done, At: at(1), NextEventAt: at(60), Outcome: task.Completed, Result: []byte("r")}
		}
		out := f.do(&storage.Batch{Insert: fresh, Swap: []task.Change{end(kept), end(gone)}, Remove: []bool{false, true}})
		for i, in := range out.Inserted {
			equal(f, "created", in.Created(), true)
			f.same(f.get(fresh[i].ID), fresh[i])
		}
		for i, t := range []*task.Task{kept, gone} {
			c := end(t)
			c.Apply(t)
			f.same(out.Swapped[i], handedOut(t))
		}
		f.same(f.get(kept.ID), kept)
		equal(f, "deleted", f.remove(gone.Ref()), []bool{false})
		f.put(f.row(task.Submitted, func(t *task.Task) { t.Key = "k" }))
	}},
	{"ids that are taken do not keep the others of a batch from being inserted", func(f *fixture) {
		done, live := f.row(task.Processing), f.row(task.Submitted)
		f.put(done, live)
		f.step(done, task.Change{To: task.Done, At: at(1), Outcome: task.Completed})
		for range 3 {
			fresh := f.row(task.Processing)
			out := f.do(&storage.Batch{Insert: []*task.Task{done.Clone(), fresh, live.Clone()}})
			equal(f, "in the way", out.Inserted, []storage.Inserted{{Existing: done.ID}, {}, {Existing: live.ID}})
		}
		f.same(f.get(done.ID), done)
		f.same(f.get(live.ID), live)
	}},
	{"an empty batch is done", func(f *fixture) {
		out := f.do(&storage.Batch{})
		equal(f, "outcomes", len(out.Inserted)+len(out.Swapped), 0)
	}},
	{"of many concurrent inserts of an id exactly one is made", func(f *fixture) {
		for round := range 20 {
			t := f.row(task.Processing)
			created, wg := make(chan bool, 4), sync.WaitGroup{}
			for range cap(created) {
				wg.Go(func() {
					in := t.Clone()
					out, err := f.commit(&storage.Batch{Insert: []*task.Task{in}})
					if err != nil {
						f.Error(err)
						return
					}
					if created <- out.Inserted[0].Created(); out.Inserted[0].Created() {
						// It moves on from its state after the insert as soon as possible.
						end := task.Change{Ref: t.Ref(), To: task.Done, At: at(1), Outcome: task.Completed}
						if _, err := f.commit(&storage.Batch{Swap: []task.Change{end}}); err != nil {
							f.Error(err)
						}
					}
				})
			}
			wg.Wait()
			close(created)
			n := 0
			for c := range created {
				if c {
					n++
				}
			}
			equal(f, fmt.Sprintf("created in round %d", round), n, 1)
		}
	}},
	{"any sequence of batches has the outcomes that package memory says", func(f *fixture) {
		for _, seed := range []uint64{1, 2, rand.Uint64()} {
			f.Logf("seed %d", seed)
			m := newModel(f, seed)
			for i := range 150 {
				m.batch()
				m.compare()
				if f.Failed() {
					f.Fatalf("failed with seed %d in step %d", seed, i)
				}
			}
			m.run(0)
		}
	}},
}

// commit applies a batch, again while others are in its way.
func (f *fixture) commit(b *storage.Batch) (storage.Outcome, error) {
	for {
		if out, err := f.Commit(f.ctx(), b).Wait(); !errors.Is(err, storage.ErrBusy) {
			return out, err
		}
	}
}

// do applies a batch.
func (f *fixture) do(b *storage.Batch) storage.Outcome {
	f.Helper()
	out, err := f.commit(b)
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// batch applies a random batch to both stores. Most of its changes are of the kinds that every task goes
// through.
func (m *model) batch() {
	var b storage.Batch
	for range m.rand.IntN(4) {
		b.Insert = append(b.Insert, m.randomTask())
	}
	for range m.rand.IntN(5) {
		c := m.randomChange()
		if m.rand.IntN(3) > 0 {
			c.Count, c.Error, c.ReadyAt, c.Outcome = task.Keep, "", time.Time{}, task.Completed
			c.Payload, c.Checkpoint = nil, nil
			c.To = pick(m, []task.State{task.Processing, task.Done, task.Done})
		}
		if t, err := m.want.Get(m.f.ctx(), c.ID); err == nil && m.rand.IntN(5) > 0 {
			c.Version = t.Version
			if n := m.rand.IntN(4); t.State == task.Processing && n == 0 {
				c = m.randomRerun(t)
			} else if t.State == task.Processing && n < 3 {
				c = m.randomEnd(t)
			}
		}
		b.Swap, b.Remove = append(b.Swap, c), append(b.Remove, m.rand.IntN(3) == 0)
		b.Follow = append(b.Follow, m.randomFollow(c.ID))
	}
	if m.rand.IntN(2) == 0 {
		b.Follow = nil
	}
	if _, isShared := m.f.Store.(storage.Shared); !isShared {
		b.Heads = m.randomHeads(len(b.Swap))
	}
	other := storage.Batch{Swap: b.Swap, Remove: b.Remove, Heads: b.Heads}
	for _, rows := range b.Follow {
		other.Follow = append(other.Follow, cloned(rows))
	}
	for _, t := range b.Insert {
		other.Insert = append(other.Insert, t.Clone())
	}
	got := m.f.do(&b)
	var want storage.Outcome
	if err := m.want.Update(m.f.ctx(), func(tx storage.Tx) (err error) {
		want, err = storage.Do(m.f.ctx(), tx, &other)
		return err
	}); err != nil {
		m.f.Fatal(err)
	}
	equal(m.f, "inserted", append([]storage.Inserted{}, got.Inserted...), append([]storage.Inserted{}, want.Inserted...))
	for i, t := range b.Insert {
		if got.Inserted[i].Created() {
			m.seqs[t.ID] = [2]uint64{t.Seq, other.Insert[i].Seq}
		}
	}
	equal(m.f, "grabbed heads", len(got.Grabbed), len(want.Grabbed))
	for i := range want.Swapped { // a row that has gone may follow another one again
		m.same(got.Swapped[i], want.Swapped[i])
	}
	for i := range want.Swapped {
		equal(m.f, "followed", append([]storage.Inserted{}, got.FollowedBy(i)...), append([]storage.Inserted{}, want.FollowedBy(i)...))
		for j, in := range got.FollowedBy(i) {
			if in.Created() {
				t := b.Follow[i][j]
				m.seqs[t.ID] = [2]uint64{t.Seq, other.Follow[i][j].Seq}
			}
		}
	}
	for i := range want.Grabbed {
		m.same(got.Grabbed[i], want.Grabbed[i])
	}
}

// randomRerun returns a change that has a task which runs run again.
func (m *model) randomRerun(t *task.Task) task.Change {
	c := again(m.rand.IntN(100))
	c.Ref, c.By, c.OrderingKey = t.Ref(), t.Owner, t.OrderingKey
	if m.rand.IntN(4) == 0 { // the owner is another one
		c.By[1]++
	}
	c.Result, c.NextEventAt = pattern(pick(m, modelSizes)), m.randomTime()
	if m.rand.IntN(2) == 0 {
		c.Payload, c.Group = new(pattern(pick(m, modelSizes))), new(pick(m, []string{"", "a"}))
	}
	if m.rand.IntN(2) == 0 {
		c.Checkpoint = new(pattern(pick(m, modelSizes)))
	}
	return c
}

// randomEnd returns a change that ends the attempt of a task that runs in any way.
func (m *model) randomEnd(t *task.Task) task.Change {
	c := m.randomRerun(t)
	c.Count, c.ReadyAt, c.Error = task.Count(m.rand.IntN(3)), m.randomTime(), strings.Repeat("é", m.rand.IntN(3)*m.rand.IntN(task.MaxErrorText))
	switch m.rand.IntN(3) {
	case 0:
		c.To, c.Outcome = pick(m, []task.State{task.Waiting, task.Submitted, task.Done, task.Error, task.Failed, task.Cancelled}), task.Outcome(m.rand.IntN(8))
		c.Leaves = m.rand.IntN(2) == 0
		return c
	case 1:
		c.To = pick(m, []task.State{task.Waiting, task.Waiting, task.Done})
	default:
		c.Await = m.randomWait()
	}
	for _, name := range []string{"page", "new", "näme", "other"} {
		if m.rand.IntN(4) > 0 {
			continue
		}
		a := task.AddedChildren{Name: name, Count: uint32(m.rand.IntN(4))}
		if s := t.Children.Set(name); s != nil && m.rand.IntN(8) > 0 {
			a.From = s.Added
		}
		if m.rand.IntN(3) == 0 {
			a.Shards = make([]byte, max(a.Count, uint32(m.rand.IntN(2))))
		}
		c.Adds = append(c.Adds, a)
	}
	return c
}

// randomWait returns a wait for some signals and children.
func (m *model) randomWait() *task.Await {
	a := &task.Await{Patience: time.Duration(m.rand.IntN(3)) * 1500 * time.Millisecond}
	for _, name := range []string{"k", "paid", "", "other", "w"} {
		if m.rand.IntN(3) == 0 {
			a.Names = append(a.Names, name)
		}
	}
	if len(a.Names) > 0 && m.rand.IntN(2) == 0 {
		return a
	}
	a.Names = append(a.Names, task.AwaitsChildren)
	for _, name := range []string{"page", "new", "näme", "page"} {
		if m.rand.IntN(3) == 0 {
			a.Children = append(a.Children, task.ChildrenWait{Name: name, Count: uint32(m.rand.IntN(5)), OrFailed: m.rand.IntN(2) == 0})
		}
	}
	return a
}

// randomHeads returns grabs of the heads that follow some of the changes of a batch.
func (m *model) randomHeads(changes int) (heads []storage.HeadGrab) {
	for i := range changes {
		if m.rand.IntN(2) == 0 {
			like := m.randomTask()
			heads = append(heads, storage.HeadGrab{After: i, Queue: like.Queue(), Priority: like.Priority, Grab: grabOfHead(m.rand.IntN(100))})
		}
	}
	return heads
}

// randomFollow returns rows that may follow a change of a row: without keys, in its place.
func (m *model) randomFollow(parent task.ID) (rows []*task.Task) {
	for range m.rand.IntN(3) {
		t := m.randomTask()
		t.Key = ""
		t.ID = parent.Child(epoch, fmt.Sprint(m.rand.IntN(3)))
		if t.OrderingKey != "" {
			t.OrderingKey = pick(m, m.keysOf(t.ID))
		}
		if !slices.Contains(m.ids, t.ID) {
			m.ids = append(m.ids, t.ID)
		}
		rows = append(rows, t)
	}
	return rows
}

func cloned(rows []*task.Task) []*task.Task {
	out := make([]*task.Task, len(rows))
	for i, t := range rows {
		out[i] = t.Clone()
	}
	return out
}
