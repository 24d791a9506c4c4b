package storagetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// orderCases are about tasks that share an ordering key. Other cases compare the verbs in random sequences with
// package memory, see modelCases.
var orderCases = []testCase{
	{"of the rows of a key that are added together the one with the first seat is the head", func(f *fixture) {
		q := f.queue()
		late, first, second := q.row(task.Submitted, 3), q.row(task.Submitted, 1), q.row(task.Submitted, 1)
		alone := f.row(task.Submitted)
		out := f.do(&storage.Batch{Insert: []*task.Task{late, first, alone, second}})
		equal(f, "heads", idsOfHints(out.Heads), []task.ID{first.ID})
		equal(f, "turns", turns(late, first, second, alone), []task.Turn{task.Behind, task.Head, task.Behind, task.Unordered})
		for _, t := range []*task.Task{late, first, second, alone} {
			f.same(f.get(t.ID), t)
		}
		equal(f, "ready", f.readyIDs(), []task.ID{alone.ID, first.ID})
		q.grab(first)
		q.runs(second, late)
	}},
	{"a row behind the head is not grabbed, and a head is kept through all that is not its end", func(f *fixture) {
		q := f.queue()
		head, next := q.row(task.Submitted, 1), q.row(task.Submitted, 2)
		f.do(&storage.Batch{Insert: []*task.Task{head, next}})
		equal(f, "the grab of the second", f.swap(grabOf(next)) == nil, true)
		q.grab(head)
		for _, c := range []task.Change{
			{To: task.Waiting, NextEventAt: at(60), Outcome: task.Errored, Error: "busy"},
			{To: task.Processing, Owner: task.ID{9}},
			{To: task.Submitted, Outcome: task.HandedBack, Count: task.Refund},
			{To: task.Processing, Owner: task.ID{9}},
			{To: task.Submitted, Outcome: task.Crashed},
			{To: task.Processing, Owner: task.ID{9}},
			{To: task.Error, Outcome: task.Errored},
		} {
			out := q.change(head, c)
			equal(f, "the head is ready", slices.Equal(idsOfHints(out.Heads), []task.ID{head.ID}), c.To == task.Submitted)
			equal(f, "turn", head.Turn, task.Head)
			equal(f, "the grab of the second", f.swap(grabOf(next)) == nil, true)
		}
		equal(f, "heads after a person decided", idsOfHints(q.change(head, task.Change{To: task.Failed}).Heads), []task.ID{next.ID})
		q.runs(f.get(next.ID))
	}},
	{"a head that leaves its seat is followed by the next", func(f *fixture) {
		for name, c := range map[string]task.Change{
			"done": {To: task.Done, Outcome: task.Completed}, "failed": {To: task.Failed}, "cancelled": {To: task.Cancelled},
			"an error that leaves":      {To: task.Error, Leaves: true},
			"runs again":                {To: task.Waiting, Outcome: task.Completed, ReadyAt: at(90), NextEventAt: at(90), Count: task.Reset},
			"a retry that takes a seat": {To: task.Waiting, Outcome: task.Errored, ReadyAt: at(90), NextEventAt: at(90)},
		} {
			q := f.queue()
			head, next := q.row(task.Submitted, 1), q.row(task.Submitted, 2)
			f.do(&storage.Batch{Insert: []*task.Task{head, next}})
			q.grab(head)
			if out := q.change(head, c); !slices.Equal(idsOfHints(out.Heads), []task.ID{next.ID}) || f.get(next.ID).Turn != task.Head {
				f.Fatalf("%s: heads are %v, and the next row has turn %d", name, out.Heads, f.get(next.ID).Turn)
			}
			q.runs(f.get(next.ID))
		}
	}},
	{"the next head is grabbed with the end of the one before, if the store does so, it is of the queue and it may run", func(f *fixture) {
		for name, c := range map[string]struct {
			change func(*task.Task) // of the next row
			grab   func(*storage.HeadGrab)
			first  task.State // the next state of the first row
			takes  bool
		}{
			"like it":              {takes: true},
			"its time is not over": {change: func(t *task.Task) { t.NextEventAt = at(31) }, takes: true},
			"its time is over":     {change: func(t *task.Task) { t.NextEventAt = at(30) }},
			"it waits":             {change: func(t *task.Task) { t.State, t.NextEventAt = task.Waiting, at(1) }},
			"another priority":     {change: func(t *task.Task) { t.Priority++ }},
			"another group":        {change: func(t *task.Task) { t.Group = "a" }},
			"another type":         {change: func(t *task.Task) { t.Type = "sms" }},
			"no end":               {first: task.Error},
			"another version":      {first: task.Cancelled},
		} {
			q := f.queue()
			head, next, last := q.row(task.Submitted, 1), q.row(task.Submitted, 2), q.row(task.Submitted, 3)
			if c.change != nil {
				c.change(next)
			}
			f.do(&storage.Batch{Insert: []*task.Task{head, next, last}})
			q.grab(head)
			end := task.Change{Ref: head.Ref(), To: task.Done, At: at(30), Outcome: task.Completed, OrderingKey: q.key}
			switch c.first {
			case task.Error:
				end.To = c.first
			case task.Cancelled:
				end.Version++
			}
			out := f.do(&storage.Batch{Swap: []task.Change{end}, Heads: []storage.HeadGrab{{Queue: head.Queue(), Priority: head.Priority, Grab: grabOfHead(30)}}})
			got := f.get(next.ID)
			if _, isShared := f.Store.(storage.Shared); isShared && out.Grabbed == nil {
				equal(f, name+": ready", len(idsOfHints(out.Heads)) == 1, c.takes || c.change != nil && got.State == task.Submitted)
				continue
			}
			if !c.takes {
				equal(f, name+": grabbed", len(out.Grabbed), 0)
				equal(f, name+": state", got.State, next.State)
				continue
			}
			f.same(out.Grabbed[0], got)
			equal(f, name+": heads that are not grabbed", len(out.Heads), 0)
			equal(f, name+": state and owner", fmt.Sprint(got.State, got.Owner, got.Turn), fmt.Sprint(task.Processing, task.ID{9}, task.Head))
			equal(f, name+": ready", slices.Contains(f.readyIDs(), next.ID), false)
			q.change(got, task.Change{To: task.Done, Outcome: task.Completed})
			q.runs(last)
		}
	}},
	{"rows that a batch removes, or that follow its changes, count", func(f *fixture) {
		q := f.queue()
		head, next := q.row(task.Submitted, 1), q.row(task.Submitted, 5)
		f.do(&storage.Batch{Insert: []*task.Task{head, next}})
		q.grab(head)
		c := task.Change{Ref: head.Ref(), To: task.Done, At: at(9), Outcome: task.Completed, OrderingKey: q.key}
		earlier := q.row(task.Submitted, 2)
		out := f.do(&storage.Batch{Swap: []task.Change{c}, Remove: []bool{true}, Follow: [][]*task.Task{{earlier}}})
		equal(f, "heads", idsOfHints(out.Heads), []task.ID{earlier.ID})
		equal(f, "turn of the row that follows", earlier.Turn, task.Head)
		q.runs(f.get(earlier.ID), f.get(next.ID))
	}},
	{"a row with an earlier seat overtakes a head that has not begun, and no other", func(f *fixture) {
		q := f.queue()
		head, early, earlier := q.row(task.Submitted, 5), q.row(task.Submitted, 3), q.row(task.Submitted, 1)
		f.do(&storage.Batch{Insert: []*task.Task{head}})
		out := f.do(&storage.Batch{Insert: []*task.Task{early}})
		equal(f, "heads", idsOfHints(out.Heads), []task.ID{early.ID})
		equal(f, "turn of the head before", f.get(head.ID).Turn, task.Behind)
		equal(f, "ready", f.readyIDs(), []task.ID{early.ID})
		q.grab(early)
		equal(f, "heads", len(f.do(&storage.Batch{Insert: []*task.Task{earlier}}).Heads), 0)
		q.runs(earlier, f.get(head.ID))
	}},
	{"a row that waits for its time holds back those behind it, until it is moved or runs", func(f *fixture) {
		q := f.queue()
		waits, later := q.row(task.Waiting, 1), q.row(task.Submitted, 2)
		waits.NextEventAt = at(1)
		equal(f, "heads", len(f.do(&storage.Batch{Insert: []*task.Task{waits, later}}).Heads), 0)
		equal(f, "ready", len(f.readyIDs()), 0)
		equal(f, "headless", len(f.headless(10)), 0)
		due := f.due(storage.DueQuery{State: task.Waiting, Before: at(9), Limit: 5})
		equal(f, "due", due, []storage.Due{{Trigger: waits.Trigger(), At: at(1)}})
		out := q.change(waits, task.Change{To: task.Submitted})
		equal(f, "heads", idsOfHints(out.Heads), []task.ID{waits.ID})
		equal(f, "turn of the row that a change returns", out.Swapped[0].Turn, task.Head)
		q.grab(waits)
		q.runs(later)
	}},
	{"an error that has not left its seat becomes the head when its turn comes", func(f *fixture) {
		q := f.queue()
		head, expired, last := q.row(task.Submitted, 1), q.row(task.Submitted, 2), q.row(task.Submitted, 3)
		f.do(&storage.Batch{Insert: []*task.Task{head, expired, last}})
		q.change(expired, task.Change{To: task.Error, Error: "too late"})
		q.grab(head)
		out := q.change(head, task.Change{To: task.Done, Outcome: task.Completed})
		equal(f, "heads that are ready", len(out.Heads)+len(f.readyIDs()), 0)
		equal(f, "turn of the error", f.get(expired.ID).Turn, task.Head)
		equal(f, "heads", idsOfHints(q.change(expired, task.Change{To: task.Failed}).Heads), []task.ID{last.ID})
	}},
	{"a ready head that takes another seat goes behind those before that seat, also behind an error", func(f *fixture) {
		q := f.queue()
		head, expired, next := q.row(task.Submitted, 1), q.row(task.Submitted, 2), q.row(task.Submitted, 3)
		f.do(&storage.Batch{Insert: []*task.Task{head, expired, next}})
		q.change(expired, task.Change{To: task.Error, Error: "too late"})
		moves := func(second int) task.Change {
			return task.Change{To: task.Submitted, ReadyAt: at(second), Replace: &task.Replace{Priority: head.Priority}}
		}
		out := q.change(head, moves(9))
		equal(f, "heads that are ready", len(out.Heads)+len(f.readyIDs()), 0)
		equal(f, "turns", turns(f.get(head.ID), f.get(expired.ID), f.get(next.ID)), []task.Turn{task.Behind, task.Head, task.Behind})
		equal(f, "headless", len(f.headless(10)), 0)
		equal(f, "heads", idsOfHints(q.change(expired, task.Change{To: task.Failed}).Heads), []task.ID{next.ID})
		*head = *f.get(head.ID)
		q.grab(next)
		q.change(next, task.Change{To: task.Done, Outcome: task.Completed})
		*head = *f.get(head.ID)
		equal(f, "heads of one that stays the first", idsOfHints(q.change(head, moves(10)).Heads), []task.ID{head.ID})
		q.runs(head)
	}},
	{"an error with an earlier seat overtakes a head that is resumed and has not begun", func(f *fixture) {
		q := f.queue()
		head, early := q.row(task.Submitted, 5), q.row(task.Submitted, 1)
		f.do(&storage.Batch{Insert: []*task.Task{head}})
		q.change(head, task.Change{To: task.Error, Error: "too late"})
		f.do(&storage.Batch{Insert: []*task.Task{early}})
		q.change(early, task.Change{To: task.Error, Error: "too late"})
		*head = *f.get(head.ID)
		out := q.change(head, task.Change{To: task.Submitted, Count: task.Reset})
		equal(f, "heads that are ready", len(out.Heads)+len(f.readyIDs()), 0)
		equal(f, "turns", turns(f.get(head.ID), f.get(early.ID)), []task.Turn{task.Behind, task.Head})
		equal(f, "heads", idsOfHints(q.change(f.get(early.ID), task.Change{To: task.Failed}).Heads), []task.ID{head.ID})
		q.runs(f.get(head.ID))
	}},
	{"a row that ended takes its seat again when it is resumed", func(f *fixture) {
		q := f.queue()
		head, next := q.row(task.Submitted, 1), q.row(task.Submitted, 2)
		f.do(&storage.Batch{Insert: []*task.Task{head, next}})
		q.change(head, task.Change{To: task.Cancelled})
		next.Turn = task.Head
		equal(f, "heads", idsOfHints(q.change(head, task.Change{To: task.Submitted, Count: task.Reset}).Heads), []task.ID{head.ID})
		equal(f, "turn of the other", f.get(next.ID).Turn, task.Behind)
	}},
	{"rows keep the turn with which they are inserted, but a key has one head", func(f *fixture) {
		q := f.queue()
		first, head, second := q.row(task.Submitted, 1), q.row(task.Waiting, 2), q.row(task.Submitted, 3)
		head.Turn, head.NextEventAt, head.StartedAt, head.Attempt = task.Head, at(70), at(2), 3
		second.Turn = task.Head
		f.put(first, head, second)
		equal(f, "turns", turns(f.get(first.ID), f.get(head.ID), f.get(second.ID)), []task.Turn{task.Behind, task.Head, task.Behind})
		equal(f, "turn that is written to the row", second.Turn, task.Behind)
		equal(f, "headless", len(f.headless(10)), 0)
		heads, err := f.Promote(f.ctx(), q.key, "another key")
		if err != nil || len(heads) > 0 {
			f.Fatalf("heads %v, %v", heads, err)
		}
	}},
	{"keys without a head are found, page by page", func(f *fixture) {
		var want []string
		for i := range 7 {
			q := f.queue()
			q.put(q.row(task.Submitted, 1), q.row(task.Submitted, 2))
			if i%2 == 0 {
				if _, err := f.Promote(f.ctx(), q.key); err != nil {
					f.Fatal(err)
				}
				continue
			}
			want = append(want, q.key)
		}
		slices.Sort(want)
		for limit := 1; limit < 9; limit++ {
			equal(f, "headless", f.headless(limit), want)
		}
		equal(f, "a page without room", len(f.headlessPage("", 0)), 0)
		for range 2 { // they are heads before the second call, too
			heads, err := f.Promote(f.ctx(), want...)
			if err != nil || len(heads) != len(want) {
				f.Fatalf("heads %v, %v", heads, err)
			}
			equal(f, "headless", len(f.headless(3)), 0)
		}
	}},
	{"what a transaction promotes is undone with it", func(f *fixture) {
		q := f.queue()
		q.put(q.row(task.Submitted, 1), q.row(task.Submitted, 2))
		err := f.Update(f.ctx(), func(tx storage.Tx) error {
			heads, err := tx.Promote(f.ctx(), q.key)
			if err != nil || len(heads) != 1 {
				return fmt.Errorf("heads %v, %v", heads, err)
			}
			return errRollback
		})
		equal(f, "error", err, errRollback)
		equal(f, "headless", f.headless(5), []string{q.key})
		equal(f, "ready", len(f.readyIDs()), 0)
	}},
	{"a thousand rows behind a head are not in its queue, and are counted", func(f *fixture) {
		q := f.queue()
		rows := make([]*task.Task, 1000)
		for i := range rows {
			rows[i] = q.row(task.Submitted, i)
		}
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		f.do(&storage.Batch{Insert: rows})
		slices.SortFunc(rows, func(a, b *task.Task) int { return a.Seat().Compare(b.Seat()) })
		equal(f, "ready", f.readyIDs(), []task.ID{rows[0].ID})
		if in, ok := f.Store.(storage.Inspector); ok {
			submitted := storage.Filter{States: []task.State{task.Submitted}, Types: []string{"mail"}}
			equal(f, "counted", f.count(submitted), map[storage.StateType]int64{{State: task.Submitted, Type: "mail"}: 1000})
			got, err := in.List(f.ctx(), storage.ListQuery{Filter: submitted, Limit: 2000, Scan: 5000})
			page := got.Tasks
			if err != nil || len(page) != 1000 {
				f.Fatalf("listed %d rows, %v", len(page), err)
			}
		}
		if s, ok := f.Store.(storage.Shared); ok {
			page, _, err := s.Submitted(f.ctx(), storage.SubmittedQuery{Scan: 5000})
			if err != nil || len(page) != 1 {
				f.Fatalf("submitted: %d rows, %v", len(page), err)
			}
			equal(f, "unclaimed", len(f.unclaimed(storage.UnclaimedQuery{Limit: 9}).Heads), 1)
		}
		f.reopenIfPossible()
		q.grab(rows[0])
		q.runs(rows[1:50]...)
	}},
	{"whatever transactions do at the same time, a key has one head, and not for long none", func(f *fixture) {
		const keys, rounds = 3, 25
		queues := make([]*orderQueue, keys)
		for i := range queues {
			queues[i] = f.queue()
		}
		var wg sync.WaitGroup
		for n := range 4 {
			mine := make([][]*task.Task, rounds)
			for i := range mine {
				for _, q := range queues {
					mine[i] = append(mine[i], q.row(task.Submitted, 10*i+n))
				}
			}
			wg.Go(func() { f.addAndEnd(mine) })
		}
		wg.Wait()
		for f.endHeads() > 0 { // until all rows have run
		}
		equal(f, "headless", len(f.headless(10)), 0)
		equal(f, "ready", len(f.readyIDs()), 0)
		for _, q := range queues {
			equal(f, "ended", len(q.ended()), 4*rounds)
		}
	}},
}

// orderQueue is an ordering key in one place, see together.
type orderQueue struct {
	*fixture
	key  string
	rows []*task.Task // all that were made
	mu   sync.Mutex   // guards rows
}

// queue returns a new ordering key. All later rows of the test are in its place.
func (f *fixture) queue() *orderQueue {
	if f.near.IsZero() {
		f.together()
	}
	for {
		f.keys++
		key := fmt.Sprintf("key %04d", f.keys)
		d, ok := f.Store.(Placer)
		if !ok || d.Place(f.ids.NextIn(epoch, task.ShardOf(key))) == d.Place(f.near) {
			return &orderQueue{fixture: f, key: key}
		}
	}
}

// row returns a row of the key with the seat of a time, behind others.
func (q *orderQueue) row(s task.State, second int) *task.Task {
	t := q.fixture.row(s, func(t *task.Task) { t.OrderingKey, t.ReadyAt, t.Turn = q.key, at(second), task.Behind })
	q.mu.Lock()
	q.rows = append(q.rows, t)
	q.mu.Unlock()
	return t
}

// ended returns the rows that are done.
func (q *orderQueue) ended() (ids []task.ID) {
	for _, t := range q.rows {
		if q.get(t.ID).State == task.Done {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// change makes a change of t in a batch of its own, and t the row that it becomes.
func (q *orderQueue) change(t *task.Task, c task.Change) storage.Outcome {
	q.Helper()
	c.Ref, c.At, c.OrderingKey = t.Ref(), at(30), q.key
	out := q.do(&storage.Batch{Swap: []task.Change{c}})
	if out.Swapped[0] == nil {
		q.Fatalf("the change to %v of %v was not made", c.To, t.ID)
	}
	*t = *q.get(t.ID)
	return out
}

// grab grabs t, which is a head.
func (q *orderQueue) grab(t *task.Task) {
	q.Helper()
	q.change(t, grabOf(t))
}

// runs ends the row that runs, if one does, and runs the given rows one after the other.
func (q *orderQueue) runs(rows ...*task.Task) {
	q.Helper()
	for _, t := range q.rows {
		if now, err := q.Get(q.ctx(), t.ID); err == nil && now.State == task.Processing {
			q.change(now, task.Change{To: task.Done, Outcome: task.Completed})
		}
	}
	for _, t := range rows {
		now := q.get(t.ID)
		q.grab(now)
		q.change(now, task.Change{To: task.Done, Outcome: task.Completed})
	}
}

func grabOf(t *task.Task) task.Change {
	return task.Change{Ref: t.Ref(), To: task.Processing, At: at(30), NextEventAt: at(30), Owner: task.ID{9}, OrderingKey: t.OrderingKey}
}

// grabOfHead returns a grab without a Ref.
func grabOfHead(second int) task.Change {
	return task.Change{To: task.Processing, At: at(second), NextEventAt: at(second), Owner: task.ID{9}}
}

// addAndEnd adds rows, a few at a time, and runs the heads that it finds.
func (f *fixture) addAndEnd(rows [][]*task.Task) {
	for _, some := range rows {
		if _, err := f.commit(&storage.Batch{Insert: some}); err != nil {
			f.Error(err)
			return
		}
		f.endHeads()
	}
}

// endHeads grabs the ready rows and ends the grabbed ones. It returns the number of rows that were
// ready.
func (f *fixture) endHeads() int {
	ready, err := f.Store.Ready(f.ctx(), storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: 100})
	if err != nil {
		f.Error(err)
		return 0
	}
	heads := 0
	for _, tr := range ready {
		out, err := f.commit(&storage.Batch{Swap: []task.Change{{Ref: tr.Ref, To: task.Processing, At: at(30), NextEventAt: at(30), Owner: task.ID{9}}}})
		if err != nil {
			f.Error(err)
			return 0
		}
		t := out.Swapped[0]
		if t == nil {
			continue
		}
		end := task.Change{Ref: t.Ref(), To: task.Done, At: at(31), Outcome: task.Completed, OrderingKey: t.OrderingKey}
		if out, err = f.commit(&storage.Batch{Swap: []task.Change{end}}); err != nil || out.Swapped[0] == nil {
			f.Errorf("the end of %v: %v", t.ID, err)
			return 0
		}
		heads += len(out.Heads)
	}
	if len(ready) == 0 { // a store may have left a key without a head
		for _, key := range f.headlessPage("", 100) {
			if _, err := f.Promote(f.ctx(), key); err != nil {
				f.Error(err)
			}
			heads++
		}
	}
	return len(ready) + heads
}

// headless returns all keys without a head, by pages.
func (f *fixture) headless(limit int) (all []string) {
	f.Helper()
	for after := ""; ; {
		page, err := f.Headless(f.ctx(), after, limit)
		if err != nil || len(page.Keys) > limit {
			f.Fatalf("a page of %d keys, %v", len(page.Keys), err)
		}
		if all = append(all, page.Keys...); page.Next == "" {
			return all
		}
		after = page.Next
	}
}

func (f *fixture) headlessPage(after string, limit int) []string {
	page, err := f.Headless(f.ctx(), after, limit)
	if err != nil {
		f.Error(err)
	}
	return page.Keys
}

// readyIDs returns the rows of type mail that are ready, in the order of their seats.
func (f *fixture) readyIDs() (ids []task.ID) {
	for _, tr := range f.ready(storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: 2000}) {
		ids = append(ids, tr.ID)
	}
	return ids
}

// put inserts rows without giving their key a head.
func (q *orderQueue) put(ts ...*task.Task) { q.fixture.put(ts...) }

// reopenIfPossible opens a durable store again.
func (f *fixture) reopenIfPossible() {
	if _, ok := f.Store.(Reopener); ok {
		f.reopen()
	}
}

func turns(ts ...*task.Task) []task.Turn {
	out := make([]task.Turn, len(ts))
	for i, t := range ts {
		out[i] = t.Turn
	}
	return out
}

func idsOfHints(hs []task.Hint) []task.ID {
	ids := make([]task.ID, len(hs))
	for i, h := range hs {
		ids[i] = h.ID
	}
	return ids
}

// sortedHints returns hints in an order that does not depend on the store.
func sortedHints(hs []task.Hint) []task.Hint {
	return slices.SortedFunc(slices.Values(hs), func(a, b task.Hint) int { return cmp.Or(a.ID.Compare(b.ID), cmp.Compare(a.State, b.State)) })
}
