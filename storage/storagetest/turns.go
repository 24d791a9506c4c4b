package storagetest

import (
	"math/rand/v2"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

var turnCases = []testCase{
	{"a row that follows a change which leaves its task processing is the head of its key", func(f *fixture) {
		one, other := f.queue(), f.queue()
		first, next := one.row(task.Submitted, 1), other.row(task.Submitted, 2)
		f.do(&storage.Batch{Insert: []*task.Task{first}})
		grab := grabOf(first)
		out := f.do(&storage.Batch{Swap: []task.Change{grab}, Remove: []bool{false}, Follow: [][]*task.Task{{next}}})
		equal(f, "heads", idsOfHints(out.Heads), []task.ID{next.ID})
		equal(f, "turns", turns(f.get(first.ID), f.get(next.ID)), []task.Turn{task.Head, task.Head})
	}},
	{"random batches leave every row with the turn and the boost that inserts and promotions one by one give it", func(f *fixture) {
		for _, seed := range []uint64{1, 2, 28, 12508568794278965919, rand.Uint64()} {
			newTurns(f, seed).run(60)
		}
	}},
}

// turnsModel makes random batches on a store and, by verbs, on a memory store, which inserts a row before its turn is
// known.
type turnsModel struct {
	f    *fixture
	seed uint64
	rand *rand.Rand
	want *memory.Store
	keys []*orderQueue
	rows []task.ID
	now  int // seconds
}

func newTurns(f *fixture, seed uint64) *turnsModel {
	m := &turnsModel{f: f, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), want: memory.New()}
	for range 2 {
		m.keys = append(m.keys, f.queue())
	}
	return m
}

func (m *turnsModel) run(n int) {
	for range n {
		m.now++
		got := new(storage.Batch)
		for range m.rand.IntN(3) {
			got.Insert = append(got.Insert, m.row())
		}
		changed := make(map[task.ID]bool)
		for range m.rand.IntN(3) {
			if c, ok := m.change(changed); ok {
				got.Swap, got.Remove, got.Follow = append(got.Swap, c), append(got.Remove, m.rand.IntN(4) == 0 && !c.To.Live()), append(got.Follow, nil)
				if c.Outcome == task.Completed && m.rand.IntN(2) == 0 {
					got.Follow[len(got.Follow)-1] = []*task.Task{m.row()}
				}
			}
		}
		want := *got
		want.Insert = clones(got.Insert)
		want.Follow = slices.Clone(got.Follow)
		for i := range want.Follow {
			want.Follow[i] = clones(got.Follow[i])
		}
		is, err := m.f.Commit(m.f.ctx(), got).Wait()
		if err != nil {
			m.f.Fatal(err)
		}
		should, err := m.want.Commit(m.f.ctx(), &want).Wait()
		if err != nil {
			m.f.Fatal(err)
		}
		heads := func(hs []task.Hint) []task.ID {
			ids := idsOfHints(hs)
			slices.SortFunc(ids, task.ID.Compare)
			return ids
		}
		if got, want := heads(is.Heads), heads(should.Heads); !slices.Equal(got, want) {
			m.f.Errorf("heads: got %v, want %v", got, want)
		}
		for i := range got.Insert {
			equal(m.f, "turn of a row of the batch", got.Insert[i].Turn, want.Insert[i].Turn)
		}
		m.compare()
		if m.f.Failed() {
			m.f.Fatalf("seed %d, after second %d, by %+v", m.seed, m.now, got)
		}
	}
}

func clones(ts []*task.Task) (out []*task.Task) {
	for _, t := range ts {
		out = append(out, t.Clone())
	}
	return out
}

// row returns a new row of one of the keys.
func (m *turnsModel) row() *task.Task {
	q := m.keys[m.rand.IntN(len(m.keys))]
	state := task.Submitted
	if m.rand.IntN(4) == 0 {
		state = task.Waiting
	}
	t := q.row(state, m.now-m.rand.IntN(3))
	t.Priority, t.Inherits = uint8(m.rand.IntN(9)), m.rand.IntN(2) == 0
	m.rows = append(m.rows, t.ID)
	return t
}

// change returns a change of a row, unless the batch changes it already.
func (m *turnsModel) change(changed map[task.ID]bool) (task.Change, bool) {
	if len(m.rows) == 0 {
		return task.Change{}, false
	}
	id := m.rows[m.rand.IntN(len(m.rows))]
	t, err := m.want.Get(m.f.ctx(), id)
	if err != nil || changed[id] {
		return task.Change{}, false
	}
	c := task.Change{Ref: t.Ref(), At: at(m.now), OrderingKey: t.OrderingKey}
	c.To = task.States()[m.rand.IntN(len(task.States()))]
	switch {
	case t.State == task.Processing && m.rand.IntN(2) == 0:
		c.To, c.Outcome = task.Done, task.Completed
	case c.To == task.Processing:
		c.Owner, c.NextEventAt = task.ID{9}, c.At
	case c.To == task.Waiting:
		c.NextEventAt = at(m.now + 5)
		if m.rand.IntN(2) == 0 {
			c.ReadyAt = c.NextEventAt
		}
	}
	changed[id] = true
	return c, t.State.CanBecome(c.To)
}

// compare compares all rows.
func (m *turnsModel) compare() {
	for _, id := range m.rows {
		want, wantErr := m.want.Get(m.f.ctx(), id)
		got, err := m.f.Get(m.f.ctx(), id)
		if (wantErr == nil) != (err == nil) {
			m.f.Errorf("task %v: %v, want %v", id, err, wantErr)
		}
		if err == nil && (got.Turn != want.Turn || got.Boost != want.Boost || got.Version != want.Version || got.State != want.State) {
			m.f.Errorf("task %v is %v at version %d with turn %d and boost %d, want %v at version %d with turn %d and boost %d",
				id, got.State, got.Version, got.Turn, got.Boost, want.State, want.Version, want.Turn, want.Boost)
		}
	}
	m.f.check()
}
