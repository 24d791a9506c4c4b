package storagetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

var modelCases = []testCase{
	{"any sequence of calls has the outcomes that package memory says", func(f *fixture) {
		for _, seed := range []uint64{1, 2, rand.Uint64()} {
			f.Logf("seed %d", seed)
			newModel(f, seed).run(60)
			if f.Failed() {
				f.Fatalf("failed with seed %d", seed)
			}
		}
	}},
}

// model runs random calls on a store and on a memory store, and compares them.
type model struct {
	f    *fixture
	rand *rand.Rand
	errs *rand.Rand // for errors and their kinds
	want *memory.Store
	ids  []task.ID // of all rows that were ever inserted, and some others
	seqs map[task.ID][2]uint64
}

func newModel(f *fixture, seed uint64) *model {
	m := &model{f: f, rand: rand.New(rand.NewPCG(seed, 0)), errs: rand.New(rand.NewPCG(seed, 1)), want: memory.New(), seqs: make(map[task.ID][2]uint64)}
	for range 30 {
		m.ids = append(m.ids, f.ids.Next(epoch))
	}
	return m
}

// run makes n random steps and then removes all rows, for the next run.
func (m *model) run(n int) {
	for i := range n {
		m.step()
		m.compare()
		if m.f.Failed() {
			m.f.Fatalf("after step %d", i)
		}
		if r, ok := m.f.Store.(Reopener); ok && m.rand.IntN(20) == 0 {
			m.f.Store = r.Reopen(m.f.T)
		}
	}
	m.f.check()
	for _, id := range m.ids {
		if t, err := m.want.Get(m.f.ctx(), id); err == nil {
			m.f.remove(t.Ref())
		}
	}
	m.f.check()
}

// step runs one to four verbs, with or without a transaction, which may fail.
func (m *model) step() {
	var steps []func(got, want storage.Tasks)
	for range 1 + m.rand.IntN(4) {
		steps = append(steps, m.verb())
	}
	if m.rand.IntN(2) == 0 {
		for _, s := range steps {
			s(m.f.Store, m.want)
		}
		return
	}
	var fail error
	if m.rand.IntN(3) == 0 {
		fail = errRollback
	}
	before := maps.Clone(m.seqs)
	gotErr := m.f.Update(m.f.ctx(), func(got storage.Tx) error {
		return m.want.Update(m.f.ctx(), func(want storage.Tx) error {
			for _, s := range steps {
				s(got, want)
			}
			return fail
		})
	})
	if gotErr != fail {
		m.f.Fatalf("got %v, want %v", gotErr, fail)
	}
	if fail != nil {
		m.seqs = before
	}
}

// verb draws one call and makes it on both stores.
func (m *model) verb() func(got, want storage.Tasks) {
	switch n := 1 + m.rand.IntN(4); m.rand.IntN(8) {
	case 0, 1:
		ts := make([]*task.Task, n)
		for i := range ts {
			ts[i] = m.randomTask()
		}
		return func(got, want storage.Tasks) { m.insert(got, want, ts) }
	case 2, 3:
		cs := make([]task.Change, n)
		for i := range cs {
			if cs[i] = m.randomChange(); m.rand.IntN(3) == 0 {
				cs[i] = m.randomSignal()
			} else if m.rand.IntN(4) == 0 {
				cs[i] = m.randomChildren()
			}
		}
		return func(got, want storage.Tasks) { m.swap(got, want, cs) }
	case 4:
		ns := make([]task.Note, n)
		for i := range ns {
			ns[i] = m.randomNote()
		}
		return func(got, want storage.Tasks) { m.note(got, want, ns) }
	case 5, 6:
		return m.promote
	default:
		ids := make([]task.ID, n)
		for i := range ids {
			ids[i] = pick(m, m.ids)
		}
		return func(got, want storage.Tasks) { m.remove(got, want, ids) }
	}
}

func pick[T any](m *model, some []T) T { return some[m.rand.IntN(len(some))] }

var (
	modelTypes  = []string{"mail", "payout", "m\x00", ""}
	modelGroups = []string{"", "a", "a\x00\xff", "b"}
	modelSizes  = []int{0, 1, 100, 513, 2000}
)

func (m *model) randomTime() time.Time {
	if m.rand.IntN(3) == 0 {
		return time.Time{}
	}
	return at(m.rand.IntN(20) - 5)
}

func (m *model) randomTask() *task.Task {
	t := &task.Task{
		ID: pick(m, m.ids), Version: uint64(1 + m.rand.IntN(3)), State: pick(m, task.States()),
		Type: pick(m, modelTypes), Group: pick(m, modelGroups), Priority: uint8(m.rand.IntN(3)), Shard: uint16(m.rand.IntN(300)),
		CreatedAt: m.randomTime(), ReadyAt: m.randomTime(), NextEventAt: m.randomTime(), ExpiresAt: m.randomTime(),
		Payload: pattern(pick(m, modelSizes)), Notes: task.NewNotes(task.Progress{}, pattern(pick(m, modelSizes))), History: history(m.rand.IntN(3), pick(m, modelSizes)),
	}
	if m.rand.IntN(4) == 0 {
		if t.Signals = signals(pick(m, modelSizes)); t.State == task.Waiting && m.rand.IntN(2) == 0 {
			t.Signals.Wake = task.Wake{}
			t.Signals.Awaits, t.Signals.Patience = []string{"paid", "näme"}, time.Duration(m.rand.IntN(2))*time.Minute
		}
	}
	if t.State == task.Processing {
		t.Owner, t.Node, t.StartedAt, t.Attempt, t.Crashes = task.ID{3}, "three", at(1), uint32(m.rand.IntN(3)), uint32(m.rand.IntN(3))
		t.History = history(pick(m, []int{0, 1, task.MaxHistory - 1, task.MaxHistory}), pick(m, modelSizes)/20)
	}
	if t.State != task.Done && m.errs.IntN(2) == 0 {
		t.UpdatedAt, t.LastError = at(m.errs.IntN(20)), m.randomError()
	}
	if m.rand.IntN(4) == 0 {
		t.Parent = &task.Parent{ID: pick(m, m.ids), Name: pick(m, modelTypes), Index: uint32(m.rand.IntN(9))}
	}
	if m.rand.IntN(4) == 0 {
		t.Children = children(uint32(8*pick(m, modelSizes)) + 1)
		if t.State == task.Waiting && m.rand.IntN(2) == 0 {
			if waitingForChildren(t); m.rand.IntN(2) == 0 {
				t.Children.Sets[0].Await, t.Children.Sets[0].OrFailed = task.OpenChildren, false
			}
		}
	}
	if m.errs.IntN(2) == 0 {
		t.Search = m.randomSearch()
	}
	if m.rand.IntN(2) == 0 {
		t.Key = fmt.Sprint("key", m.rand.IntN(5))
		if d, ok := m.f.Store.(Placer); ok {
			t.Key += fmt.Sprint(" of ", d.Place(t.ID))
		}
	}
	if m.rand.IntN(2) == 0 {
		t.OrderingKey = pick(m, m.keysOf(t.ID))
		switch {
		case t.State == task.Waiting, t.State == task.Submitted, t.State == task.Error:
			t.Turn = task.Turn(m.rand.IntN(3))
			t.Inherits = m.rand.IntN(3) > 0
		case t.State == task.Processing && m.rand.IntN(2) == 0:
			t.Turn = task.Head
		}
	}
	return t
}

// keysOf returns ordering keys of rows that are in the place of an id.
func (m *model) keysOf(id task.ID) (keys []string) {
	d, ok := m.f.Store.(Placer)
	for n := 0; len(keys) < 3; n++ {
		key := fmt.Sprint("order\x00", n)
		if !ok || d.Place(m.f.ids.NextIn(epoch, task.ShardOf(key))) == d.Place(id) {
			keys = append(keys, key)
		}
	}
	return keys
}

// allKeys returns the ordering keys of all rows.
func (m *model) allKeys() []string {
	keys := make(map[string]bool)
	for _, id := range m.ids {
		for _, key := range m.keysOf(id) {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// promote gives some ordering keys their heads.
func (m *model) promote(got, want storage.Tasks) {
	keys := m.allKeys()
	m.rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:m.rand.IntN(len(keys)+1)]
	a, err := got.Promote(m.f.ctx(), keys...)
	if err != nil {
		m.f.Fatal(err)
	}
	b, err := want.Promote(m.f.ctx(), keys...)
	if err != nil {
		m.f.Fatal(err)
	}
	for i := range b {
		b[i].Seq = m.seqs[b[i].ID][0]
	}
	equal(m.f, "heads", sortedHints(a), sortedHints(b))
}

// randomSearch returns the search values of a row: of many, some in a row.
func (m *model) randomSearch() (values []task.SearchValue) {
	for v := range task.SearchValue(6) {
		if m.errs.IntN(3) == 0 {
			values = append(values, v<<61)
		}
	}
	return values
}

// compareSearch compares a list by search values, of some states and types, in pages.
func (m *model) compareSearch(reference *fixture, filter storage.Filter) {
	q := storage.ListQuery{Filter: filter, Limit: 1 + m.rand.IntN(5), Scan: 1 + m.rand.IntN(9)}
	for i := range 1 + m.rand.IntN(2) {
		q.Search = append(q.Search, task.SearchSet{Name: fmt.Sprint("set ", i), Values: append(m.randomSearch(), task.Unread)})
	}
	if m.rand.IntN(3) == 0 {
		q.Above = pick(m, m.ids)
	}
	all := func(f *fixture) (ids []task.ID) {
		for q, more := q, true; more; more = !q.Before.IsZero() {
			page := f.page(q)
			ids, q.Before = append(ids, idsOf(page.Tasks)...), page.Next
		}
		return ids
	}
	equal(m.f, "search", all(m.f), all(reference))
}

func (m *model) randomChange() task.Change {
	c := task.Change{
		Ref: task.Ref{ID: pick(m, m.ids)}, To: pick(m, task.States()), At: m.randomTime(), NextEventAt: m.randomTime(),
		ReadyAt: m.randomTime(), Owner: task.ID{byte(m.rand.IntN(3))}, Node: []string{"", "a", "b"}[m.rand.IntN(3)], Count: task.Count(m.rand.IntN(3)),
		Outcome: task.Outcome(m.rand.IntN(7)), Result: pattern(pick(m, modelSizes)),
		Error: strings.Repeat("e", pick(m, modelSizes)), // Apply cuts one that is too long
	}
	if m.errs.IntN(2) == 0 {
		c.Error = m.randomError()
	}
	if m.rand.IntN(4) == 0 {
		c.By = task.ID{byte(m.rand.IntN(3))}
	}
	c.Due = m.rand.IntN(4) == 0
	if m.rand.IntN(4) == 0 {
		c.Payload = new(pattern(pick(m, modelSizes)))
	}
	if m.errs.IntN(4) == 0 {
		c.Search = new(m.randomSearch())
	}
	if m.rand.IntN(4) == 0 {
		c.Replace = &task.Replace{Priority: uint8(m.rand.IntN(3)), ExpiresAt: m.randomTime(), Headers: map[string]string{"n": fmt.Sprint(m.rand.IntN(9))}}
	}
	if m.rand.IntN(6) == 0 {
		c.Replace, c.Put = nil, new(task.Put)
		c.To = pick(m, []task.State{task.Waiting, task.Error})
		if m.rand.IntN(2) == 0 {
			c.Put.Priority = new(uint8(m.rand.IntN(3)))
		}
		if m.rand.IntN(2) == 0 {
			c.Put.Headers = &map[string]string{"p": fmt.Sprint(m.rand.IntN(9))}
		}
	}
	if m.rand.IntN(6) == 0 {
		c.Mark = &task.Mark{Was: pick(m, []string{"", "priority was 1"}), By: pick(m, []string{"", "anna"}), Job: pick(m, []string{"", "job"})}
	}
	if c.Mark != nil && m.rand.IntN(3) == 0 {
		c.Mark.Payload = new(pattern(pick(m, modelSizes)))
	}
	if m.rand.IntN(6) == 0 {
		c.Replace, c.Await, c.Count, c.Remember, c.FreesKey = nil, nil, task.Keep, 0, false
		c.Restore = &task.Restore{Attempt: uint32(m.rand.IntN(5)), Crashes: uint32(m.rand.IntN(3)), ExpiresAt: m.randomTime(), Error: pick(m, []*string{nil, new(""), new("e")})}
	}
	if m.rand.IntN(8) == 0 {
		c.To, c.Replace, c.Put, c.Restore, c.Remember = task.Done, nil, nil, nil, time.Duration(m.rand.IntN(100))*time.Second
	}
	if m.rand.IntN(4) == 0 {
		c.Checkpoint = new(pattern(pick(m, modelSizes)))
	}
	if m.rand.IntN(8) == 0 {
		c.To, c.Replace, c.Remember, c.FreesKey = pick(m, []task.State{task.Done, task.Failed, task.Cancelled}), nil, 0, true
		if m.rand.IntN(4) > 0 {
			c.Payload, c.Checkpoint = nil, nil
		}
	}
	if m.rand.IntN(12) == 0 {
		c = task.Change{
			Ref: c.Ref, To: pick(m, []task.State{task.Done, task.Failed, task.Failed, task.Cancelled, task.Error}), At: c.At, NextEventAt: c.NextEventAt, Error: c.Error,
			Erase: &task.Erasure{By: pick(m, []string{"", "anna"}), Job: pick(m, []string{"", "job"})},
		}
	}
	return c
}

// randomSignal returns the delivery of a signal, or a change that begins a wait for one.
func (m *model) randomSignal() task.Change {
	names := []string{"paid", "k", "other"}
	if m.rand.IntN(3) == 0 {
		return task.Change{
			Ref: task.Ref{ID: pick(m, m.ids)}, To: task.Waiting, At: m.randomTime(), NextEventAt: m.randomTime(), Outcome: task.Completed,
			Count: task.Count(m.rand.IntN(3)), Await: &task.Await{Names: names[m.rand.IntN(3):], Patience: time.Duration(m.rand.IntN(3)) * time.Second},
		}
	}
	s := task.Signal{ID: task.ID{byte(m.rand.IntN(40))}, Name: pick(m, names), Data: pattern(pick(m, modelSizes))}
	return task.Change{Ref: task.Ref{ID: pick(m, m.ids)}, At: m.randomTime(), Signal: &task.Delivery{Signal: s, Keep: m.rand.IntN(2) == 0}}
}

// randomChildren returns a change that reports the end of a child, one that adds more children, or one that adds children and begins a
// wait for some.
func (m *model) randomChildren() task.Change {
	c := task.Change{Ref: task.Ref{ID: pick(m, m.ids)}, At: m.randomTime()}
	if m.rand.IntN(6) == 0 {
		add := task.AddedChildren{Name: "page", From: pick(m, []uint32{8*uint32(pick(m, modelSizes)) + 1, 10}), Count: uint32(m.rand.IntN(3))}
		c.More = &task.MoreChildren{AddedChildren: add, Close: m.rand.IntN(4) == 0, Wait: task.ChildrenWait{Count: uint32(m.rand.IntN(9)), OrFailed: m.rand.IntN(2) == 0}}
		return c
	}
	if m.rand.IntN(2) == 0 {
		end := task.ChildEnd{Index: uint32(m.rand.IntN(12)), State: pick(m, task.States())}
		c.Ends = &task.ChildEnds{Name: pick(m, []string{"page", "page", "new"}), Ends: []task.ChildEnd{end, {Index: 1, State: task.Done}}}
		return c
	}
	c.To, c.NextEventAt, c.Outcome, c.Count = task.Waiting, m.randomTime(), task.Completed, task.Count(m.rand.IntN(3))
	if m.rand.IntN(2) == 0 {
		c.Adds = []task.AddedChildren{{Name: "new", Count: uint32(m.rand.IntN(4))}}
	}
	if m.rand.IntN(2) == 0 {
		wait := task.ChildrenWait{Name: pick(m, []string{"page", "new"}), Count: uint32(m.rand.IntN(9)), OrFailed: m.rand.IntN(2) == 0}
		c.Await = &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{wait}, Patience: time.Duration(m.rand.IntN(3)) * time.Second}
	}
	return c
}

func (m *model) randomNote() task.Note {
	n := task.Note{Ref: task.Ref{ID: pick(m, m.ids)}}
	if m.rand.IntN(4) == 0 {
		n.By = task.ID{byte(m.rand.IntN(3))}
	}
	if m.rand.IntN(3) > 0 {
		n.Progress = &task.Progress{Done: m.rand.Uint64(), Message: strings.Repeat("p", pick(m, modelSizes)), At: m.randomTime()}
	}
	if m.rand.IntN(3) > 0 {
		n.Checkpoint = pattern(pick(m, modelSizes))
	}
	return n
}

func (m *model) insert(got, want storage.Tasks, ts []*task.Task) {
	other := make([]*task.Task, len(ts))
	for i, t := range ts {
		other[i] = t.Clone()
	}
	a, err := got.Insert(m.f.ctx(), ts...)
	if err != nil {
		m.f.Fatal(err)
	}
	b, err := want.Insert(m.f.ctx(), other...)
	if err != nil {
		m.f.Fatal(err)
	}
	equal(m.f, "inserted", a, b)
	for i, t := range ts {
		if a[i].Created() {
			m.seqs[t.ID] = [2]uint64{t.Seq, other[i].Seq}
			equal(m.f, "turn", t.Turn, other[i].Turn)
		}
	}
}

// swap makes changes, most of them to the present version of the row.
func (m *model) swap(got, want storage.Tasks, cs []task.Change) {
	for i := range cs {
		if t, err := want.Get(m.f.ctx(), cs[i].ID); err == nil {
			if t.State == task.Processing && m.rand.IntN(3) == 0 {
				cs[i] = m.randomEnd(t)
			}
			if cs[i].Version = t.Version; cs[i].Signal != nil || cs[i].Ends != nil {
				cs[i].Version, cs[i].OrderingKey = 0, t.OrderingKey
			}
		}
	}
	a, err := got.Swap(m.f.ctx(), cs...)
	if err != nil {
		m.f.Fatal(err)
	}
	b, err := want.Swap(m.f.ctx(), cs...)
	if err != nil {
		m.f.Fatal(err)
	}
	for i := range b {
		m.same(a[i], b[i])
	}
}

// note writes notes, most of them to the present version of the row.
func (m *model) note(got, want storage.Tasks, ns []task.Note) {
	for i := range ns {
		if t, err := want.Get(m.f.ctx(), ns[i].ID); err == nil {
			ns[i].Version = t.Version
		}
	}
	a, err := got.Note(m.f.ctx(), ns...)
	if err != nil {
		m.f.Fatal(err)
	}
	b, err := want.Note(m.f.ctx(), ns...)
	if err != nil {
		m.f.Fatal(err)
	}
	equal(m.f, "noted", a, b)
}

func (m *model) remove(got, want storage.Tasks, ids []task.ID) {
	refs := make([]task.Ref, len(ids))
	for i, id := range ids {
		refs[i] = task.Ref{ID: id, Version: 1}
		if t, err := want.Get(m.f.ctx(), id); err == nil && i > 0 {
			refs[i] = t.Ref()
		}
	}
	a, err := got.Delete(m.f.ctx(), refs...)
	if err != nil {
		m.f.Fatal(err)
	}
	b, err := want.Delete(m.f.ctx(), refs...)
	if err != nil {
		m.f.Fatal(err)
	}
	equal(m.f, "deleted", a, b)
}

// same compares rows without their Seq, which each store assigns itself.
func (m *model) same(got, want *task.Task) {
	m.f.Helper()
	if got != nil && want != nil {
		seq := m.seqs[want.ID]
		if got.Seq != seq[0] || want.Seq != seq[1] {
			m.f.Fatalf("task %v has number %d, inserted as %d", got.ID, got.Seq, seq[0])
		}
		want.Seq = got.Seq
	}
	m.f.same(got, want)
}

// compare compares every row and every index of both stores.
func (m *model) compare() {
	for _, id := range m.ids {
		got, gotErr := m.f.Get(m.f.ctx(), id)
		want, wantErr := m.want.Get(m.f.ctx(), id)
		if (gotErr == nil) != (wantErr == nil) {
			m.f.Fatalf("task %v: got %v, want %v", id, gotErr, wantErr)
		}
		m.same(got, want)
	}
	reference := &fixture{T: m.f.T, Store: m.want}
	for _, s := range task.States() {
		q := storage.DueQuery{State: s, Before: at(m.rand.IntN(25) - 5), Limit: 1 + m.rand.IntN(20)}
		for {
			got, want := m.f.due(q), reference.due(q)
			for i := range want {
				want[i].Seq = m.seqs[want[i].ID][0]
			}
			equal(m.f, "due", got, want)
			if len(got) == 0 {
				break
			}
			q.After = got[len(got)-1]
		}
	}
	equal(m.f, "headless", m.f.headless(1+m.rand.IntN(5)), reference.headless(1000))
	queues := m.f.queues(task.Queue{}, 1000)
	equal(m.f, "queues", queues, reference.queues(task.Queue{}, 1000))
	if len(queues) > 0 {
		after, limit := pick(m, queues), m.rand.IntN(5)
		equal(m.f, "queues after one", m.f.queues(after, limit), reference.queues(after, limit))
	}
	for _, l := range queues {
		m.compareReady(reference, l)
	}
	if _, ok := m.f.Store.(storage.Inspector); ok {
		states := task.States()
		m.rand.Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
		filter := storage.Filter{States: states[:m.rand.IntN(len(states))]}
		if m.rand.IntN(2) == 0 {
			filter.Types = []string{pick(m, modelTypes), pick(m, modelTypes)}
		}
		m.compareInspector(filter)
		if countsKinds(m.f.Store) {
			m.compareKinds()
		}
		m.compareSearch(reference, filter)
	}
}

// compareReady pages through one queue of both stores. Cursors differ in the number.
func (m *model) compareReady(reference *fixture, l task.Queue) {
	if _, ok := m.f.Store.(Placer); ok {
		m.compareReadyByRank(reference, l)
		return
	}
	q := storage.ReadyQuery{Queue: l, Limit: 1 + m.rand.IntN(5)}
	p := q
	for {
		got, want := m.f.ready(q), reference.ready(p)
		if len(got) == 0 || len(want) == 0 {
			equal(m.f, "ready at the end", got, want)
			return
		}
		p.After = &slices.Clone(want)[len(want)-1].Rank
		for i := range want {
			want[i].Seq = m.seqs[want[i].ID][0]
		}
		equal(m.f, "ready", got, want)
		q.After = &got[len(got)-1].Rank
	}
}

// compareReadyByRank is compareReady for stores with a Seq that is not in the order of insertion: rows
// with ranks that differ only in Seq are in another order than in the reference.
func (m *model) compareReadyByRank(reference *fixture, l task.Queue) {
	want := reference.ready(storage.ReadyQuery{Queue: l, Limit: 1000})
	for i := range want {
		want[i].Seq = m.seqs[want[i].ID][0]
	}
	slices.SortFunc(want, func(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) })
	q := storage.ReadyQuery{Queue: l, Limit: 1 + m.rand.IntN(5)}
	var got []task.Trigger
	for page := m.f.ready(q); len(page) > 0; page = m.f.ready(q) {
		got = append(got, page...)
		q.After = &page[len(page)-1].Rank
	}
	equal(m.f, "ready", got, want)
}
