package storagetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// endsCases are about ends of attempts.
var endsCases = []testCase{
	{"an attempt that ends in any way leaves the row that Apply makes", func(f *fixture) {
		for _, seed := range []uint64{1, 2, rand.Uint64()} {
			f.Logf("seed %d", seed)
			m := newModel(f, seed)
			for range 15 {
				if m.ends(25); f.Failed() {
					f.Fatalf("failed with seed %d", seed)
				}
			}
		}
	}},
}

// ends ends attempts of n tasks in one batch, and compares each row with the result of Apply. No change depends on another one, so a store
// that has a way of its own for such batches takes it.
func (m *model) ends(n int) {
	var b storage.Batch
	rows, rivals := make([]*task.Task, n), make(map[task.ID]bool)
	some := m.rand.IntN(3) == 0 // of the tasks are followed
	for i := range rows {
		rows[i] = m.randomRunning()
		if some && m.rand.IntN(4) == 0 {
			followed(1 + m.rand.IntN(3))(rows[i])
		}
		m.f.put(rows[i])
		rivals[rows[i].ID] = m.rival(rows[i])
		c := m.randomEnd(rows[i])
		remove := !c.To.Live() && c.To != task.Error && m.rand.IntN(2) == 0
		b.Swap, b.Remove = append(b.Swap, c), append(b.Remove, remove)
		var follow []*task.Task
		for k := range m.rand.IntN(3) {
			t := m.f.row(task.Submitted)
			t.ID = c.ID.Child(epoch, fmt.Sprint(k))
			follow = append(follow, t)
		}
		b.Follow = append(b.Follow, follow)
	}
	out := m.f.do(&b)
	var ended []*task.Task
	defer func() { m.f.carriersOf(out, ended) }()
	for i, want := range rows {
		made := b.Swap[i].Apply(want)
		if made != (out.Swapped[i] != nil) {
			m.f.Fatalf("%v by %v, wait %v, children %v: got %v, applies: %t", b.Swap[i].To, b.Swap[i].Outcome, b.Swap[i].Await, b.Swap[i].Adds, out.Swapped[i], made)
		}
		if made {
			m.sameButHead(&b.Swap[i], out.Swapped[i], handedOut(want), rivals[want.ID])
		}
		if made && !want.State.Live() && want.State != task.Error {
			ended = append(ended, want)
		}
		equal(m.f, "followed", len(out.FollowedBy(i)), map[bool]int{true: len(b.Follow[i])}[made])
		for _, t := range b.Follow[i] {
			equal(m.f, "a row that follows exists", m.f.exists(t.ID), made)
		}
		if made && b.Removes(i) {
			equal(m.f, "a row that is removed exists", m.f.exists(want.ID), false)
			m.f.put(m.f.row(task.Submitted, func(t *task.Task) { t.Key = want.Key }))
			continue
		}
		m.sameButHead(&b.Swap[i], m.f.get(want.ID), want, rivals[want.ID])
	}
}

// sameButHead compares rows after a change. The batch may have made the row the head of its ordering key, unless that has a rival.
func (m *model) sameButHead(c *task.Change, got, want *task.Task, hasRival bool) {
	m.f.Helper()
	want = want.Clone()
	if got.Turn == task.Head && want.Turn == task.Behind && !hasRival {
		want.Turn, want.Boost = task.Head, got.Boost
	}
	if d := difference(got, want); d != "" {
		m.f.Fatalf("%v by %v, count %d, wait %v, children %v: %s", c.To, c.Outcome, c.Count, c.Await, c.Adds, d)
	}
}

// randomRunning returns a new row of a task that runs. Half of them have children and signals.
func (m *model) randomRunning() *task.Task {
	t := m.randomTask()
	for t.State != task.Processing {
		t = m.randomTask()
	}
	t.ID = m.f.id()
	t.Key = ""
	if m.rand.IntN(2) == 0 {
		t.Key = "key of " + t.ID.String()
	}
	if t.Turn = task.Unordered; t.OrderingKey != "" {
		t.OrderingKey = m.ownKey(t.ID)
		t.Turn = pick(m, []task.Turn{task.Unordered, task.Behind, task.Head})
	}
	if t.Signals = nil; m.rand.IntN(2) == 0 {
		t.Signals = signals(pick(m, modelSizes))
		t.Signals.Seen = nil
		for n := range pick(m, []int{0, 1, 98, 99, 100}) {
			t.Signals.Seen = append(t.Signals.Seen, task.ID{byte(n), 1})
		}
		if m.rand.IntN(3) == 0 {
			t.Signals.Wake = task.Wake{By: pick(m, []task.WakeBy{task.ByTimeout, task.ByUser, task.ByChildren})}
		}
		if m.rand.IntN(3) == 0 {
			t.Signals.Kept = nil
		}
	}
	if t.Children = nil; m.rand.IntN(2) == 0 {
		t.Children = children(uint32(1 + m.rand.IntN(20)))
		t.Children.Sets = append(t.Children.Sets, task.ChildSet{Name: "other"})
	}
	t.ExpiresAt = pick(m, []time.Time{{}, at(1), at(100)})
	return t
}

// ownKey returns an ordering key that only the row with this id has. It is in the place of the row.
func (m *model) ownKey(id task.ID) string {
	d, ok := m.f.Store.(Placer)
	for n := 0; ; n++ {
		key := fmt.Sprint(id, n)
		if !ok || d.Place(m.f.ids.NextIn(epoch, task.ShardOf(key))) == d.Place(id) {
			return key
		}
	}
}

// rival puts a row behind half of the heads, with a seat that is before all that a change may give the head, and reports whether it did.
func (m *model) rival(t *task.Task) bool {
	if t.Turn != task.Head || t.ReadyAt.Before(epoch) || m.rand.IntN(2) == 0 {
		return false
	}
	m.f.put(m.f.row(task.Submitted, func(r *task.Task) {
		r.ID, r.OrderingKey, r.Turn, r.ReadyAt = t.ID.Child(epoch, "rival"), t.OrderingKey, task.Behind, at(-1000)
	}))
	return true
}
