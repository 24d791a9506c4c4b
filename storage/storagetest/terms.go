package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var conflictModes = []task.OnConflict{task.KeepExisting, task.RejectNew, task.ReplaceExisting, task.DebounceExisting, task.ThrottleNew}

var termsCases = []testCase{
	{"a request whose key is taken does what task.Resolve says, in a batch and in a transaction", func(f *fixture) {
		f.together()
		for _, mode := range conflictModes {
			for _, s := range task.States() {
				for _, order := range []string{"", f.queue().key} {
					f.resolvesOne(&task.Rules{OnConflict: mode, Window: time.Minute, MaxLateness: time.Hour, QueueTimeout: time.Minute}, s, order)
				}
			}
		}
	}},
	{"of requests that replace one task the last one counts, and it is one change", func(f *fixture) {
		f.together()
		for _, mode := range []task.OnConflict{task.ReplaceExisting, task.DebounceExisting} {
			rules := &task.Rules{OnConflict: mode}
			for _, isNew := range []bool{false, true} { // the first request adds the task
				key := fmt.Sprint(mode, isNew)
				first := f.request(key, 1000, "first")
				var rows []*task.Task
				if isNew {
					rows = append(rows, first)
				} else {
					f.put(first)
				}
				for i := range 20 {
					rows = append(rows, f.request(key, 1000+i, fmt.Sprint(i)), f.request("", 0, "another"))
				}
				out := f.do(&storage.Batch{Insert: rows, Terms: terms(len(rows), rules)})
				for i, in := range out.Inserted {
					last := i == len(rows)-2
					switch {
					case rows[i] == first || rows[i].Key == "":
						equal(f, "created", in, storage.Inserted{})
					case in.What != task.Replaces || in.Existing != first.ID || (in.Replaced != nil) != last:
						f.Fatalf("request %d of %d: %+v", i, len(rows), in)
					case last && (in.Replaced.Was.Ref != first.Ref() || in.Replaced.Row.Version != 2):
						f.Fatalf("the replacement is %+v of %+v", in.Replaced.Row, in.Replaced.Was)
					}
				}
				is := f.get(first.ID)
				equal(f, "version", is.Version, 2)
				equal(f, "payload", string(is.Payload), "19")
			}
		}
	}},
	{"a task that has ended gives up its key once, to the first request of a batch", func(f *fixture) {
		f.together()
		rules := &task.Rules{OnConflict: task.ThrottleNew}
		old := f.over("over")
		row := func(i int) *task.Task {
			return f.request("over", 0, fmt.Sprint(i), func(t *task.Task) { t.CreatedAt, t.UpdatedAt = at(500), at(500) })
		}
		rows := []*task.Task{row(0), row(1), row(2)}
		out := f.do(&storage.Batch{Insert: rows, Terms: terms(3, rules)})
		equal(f, "outcomes", out.Inserted, []storage.Inserted{{What: task.FreesKey}, {Existing: rows[0].ID, What: task.Exists}, {Existing: rows[0].ID, What: task.Exists}})
		f.same(f.get(rows[0].ID), rows[0])
		was := old.Clone()
		was.Key, was.Version = "", old.Version+1
		f.same(f.get(old.ID), was)
	}},
	{"a request without a place adds nothing, frees no key, and replaces", func(f *fixture) {
		f.together()
		old, waits := f.over("over"), f.request("waits", 1000, "old")
		f.put(waits)
		rows := []*task.Task{
			f.request("free", 0, "new"),
			f.request("over", 0, "new"),
			f.request("waits", 1000, "new"), f.request("free", 0, "with a place"), f.request("free", 0, "new"), waits.Clone(),
		}
		on := []storage.Terms{
			{NoPlace: true},
			{Rules: &task.Rules{OnConflict: task.ThrottleNew}, NoPlace: true},
			{Rules: &task.Rules{OnConflict: task.ReplaceExisting}, NoPlace: true},
			{},
			{NoPlace: true},
			{NoPlace: true},
		}
		out := f.do(&storage.Batch{Insert: rows, Terms: on})
		got := out.Inserted[2]
		out.Inserted[2].Replaced = nil
		equal(f, "outcomes", out.Inserted, []storage.Inserted{
			{NoPlace: true},
			{Existing: old.ID, NoPlace: true},
			{Existing: waits.ID, What: task.Replaces},
			{},
			{Existing: rows[3].ID, What: task.Exists},
			{Existing: waits.ID, What: task.Exists},
		})
		f.same(f.get(old.ID), old)
		equal(f, "payload", string(f.get(waits.ID).Payload), "new")
		equal(f, "version", got.Replaced.Row.Version, 2)
		for _, i := range []int{0, 1, 2, 4} {
			if _, err := f.Get(f.ctx(), rows[i].ID); !errors.Is(err, task.ErrNotFound) {
				f.Errorf("row %d: %v", i, err)
			}
		}
	}},
	{"a late request adds nothing, and does not change a task that is debounced", func(f *fixture) {
		f.together()
		rules := &task.Rules{OnConflict: task.DebounceExisting, MaxLateness: time.Minute}
		held := f.request("held", 1000, "old")
		f.put(held)
		late := func(key string) *task.Task {
			return f.request(key, 0, "late", func(t *task.Task) { t.CreatedAt, t.UpdatedAt, t.ReadyAt = at(500), at(500), at(1) })
		}
		rows := []*task.Task{late(""), late("free"), late("held"), f.request("free", 1000, "in time"), late("free"), f.request("held", 1000, "in time")}
		out := f.do(&storage.Batch{Insert: rows, Terms: terms(len(rows), rules)})
		out.Inserted[5].Replaced = nil
		equal(f, "outcomes", out.Inserted, []storage.Inserted{
			{What: task.IsLate},
			{What: task.IsLate},
			{Existing: held.ID, What: task.IsLate},
			{},
			{Existing: rows[3].ID, What: task.IsLate},
			{Existing: held.ID, What: task.Replaces},
		})
		equal(f, "payload", string(f.get(held.ID).Payload), "in time")
		f.same(f.get(rows[3].ID), rows[3])
	}},
	{"a request that is repeated with its id does nothing, whatever its rules say", func(f *fixture) {
		f.together()
		for _, mode := range conflictModes {
			for _, s := range []task.State{task.Waiting, task.Done} {
				old := f.request(fmt.Sprint(mode, s), 0, "old", func(t *task.Task) { t.State, t.CreatedAt = s, at(-9999) })
				f.put(old)
				other := f.request(fmt.Sprint("other", mode, s), 0, "other", func(t *task.Task) { t.State = s })
				f.put(other)
				again := f.request(old.Key, 0, "new", func(t *task.Task) { t.ID = old.ID })
				misnamed := f.request(other.Key, 0, "new", func(t *task.Task) { t.ID = old.ID })
				out := f.do(&storage.Batch{Insert: []*task.Task{again, misnamed}, Terms: terms(2, &task.Rules{OnConflict: mode})})
				same := storage.Inserted{Existing: old.ID, What: task.Exists}
				equal(f, "outcomes", out.Inserted, []storage.Inserted{same, same})
				f.same(f.get(old.ID), old)
				f.same(f.get(other.ID), other)
			}
		}
	}},
	{"a transaction that is rolled back has replaced nothing and freed no key", func(f *fixture) {
		f.together()
		old, waits := f.over("over"), f.request("waits", 1000, "old")
		f.put(waits)
		next := f.request("over", 0, "new")
		err := f.Update(f.ctx(), func(tx storage.Tx) error {
			got, err := storage.Add(f.ctx(), tx, []*task.Task{next, f.request("waits", 1000, "new")}, []storage.Terms{
				{Rules: &task.Rules{OnConflict: task.ThrottleNew}}, {Rules: &task.Rules{OnConflict: task.ReplaceExisting}},
			})
			if err != nil || got[0].What != task.FreesKey || got[1].What != task.Replaces {
				f.Errorf("got %+v, %v", got, err)
			}
			return errRollback
		})
		equal(f, "error", err, error(errRollback))
		f.same(f.get(old.ID), old)
		f.same(f.get(waits.ID), waits)
		f.isTaken(next, old.ID)
	}},
	{"of requests of a key at once each finds the one before, and one adds its task", func(f *fixture) {
		f.together()
		for round := range 10 {
			f.requestsAtOnce(fmt.Sprint("k", round), conflictModes[round%len(conflictModes)])
		}
	}},
	{"any batch of requests does what task.Resolve says of one after the other", func(f *fixture) {
		f.together()
		seed := rand.Uint64()
		f.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		m := &resolveModel{f: f, rand: r, rows: make(map[task.ID]*task.Task)}
		for range 60 {
			m.step()
		}
	}},
}

// terms returns the same rules for n rows.
func terms(n int, rules *task.Rules) []storage.Terms {
	out := make([]storage.Terms, n)
	for i := range out {
		out[i].Rules = rules
	}
	return out
}

// request returns a row that waits for a time, or is ready if that is zero.
func (f *fixture) request(key string, ready int, payload string, edit ...func(*task.Task)) *task.Task {
	t := f.row(task.Submitted)
	t.Key, t.Payload = key, []byte(payload)
	if ready != 0 {
		t.State, t.ReadyAt, t.NextEventAt = task.Waiting, at(ready), at(ready)
	}
	for _, e := range edit {
		e(t)
	}
	return t
}

// over returns a new row of the store with a key that was done long ago.
func (f *fixture) over(key string) *task.Task {
	f.Helper()
	t := f.request(key, 0, "old", func(t *task.Task) {
		t.State, t.CreatedAt, t.UpdatedAt, t.NextEventAt = task.Done, at(-9999), at(-999), at(99999)
	})
	f.put(t)
	return f.get(t.ID)
}

// resolvesOne tests one request of a key that a task in a state has.
func (f *fixture) resolvesOne(rules *task.Rules, s task.State, order string) {
	f.Helper()
	for _, inBatch := range []bool{true, false} {
		key := fmt.Sprint(rules.OnConflict, s, order, inBatch)
		old := f.row(s, func(t *task.Task) {
			t.Key, t.OrderingKey = key, order
			if order != "" && (s == task.Waiting || s == task.Submitted || s == task.Processing) {
				t.Turn = task.Behind
			}
			if s == task.Waiting {
				t.ReadyAt, t.NextEventAt = at(9000), at(9000)
			}
		})
		f.put(old)
		was := f.get(old.ID)
		row := &task.Task{ID: f.id(), Type: old.Type, Key: key, OrderingKey: order, ReadyAt: at(8000), Priority: 1, Headers: map[string]string{"a": "b"}, Payload: []byte("new")}
		rules.Create(at(600), row)
		want, change := task.Resolve(at(600), was, row, rules)
		after := was.Clone()
		if change != nil && !change.Apply(after) {
			f.Fatalf("%v, %v: %+v does not apply", rules.OnConflict, s, change)
		}
		var got []storage.Inserted
		if on := terms(1, rules); inBatch {
			got = f.do(&storage.Batch{Insert: []*task.Task{row}, Terms: on}).Inserted
		} else {
			f.update(func(tx storage.Tx) (err error) {
				got, err = storage.Add(f.ctx(), tx, []*task.Task{row}, on)
				return err
			})
		}
		created := want == task.FreesKey
		if got[0].What != want || got[0].Created() != created || !created && got[0].Existing != old.ID || (got[0].Replaced != nil) != (want == task.Replaces) {
			f.Fatalf("%v, %v: %+v, want %v", rules.OnConflict, s, got[0], want)
		}
		is := f.get(old.ID)
		is.Turn, is.Boost, after.Turn, after.Boost = 0, 0, 0, 0 // Promote decides about them
		f.same(is, after)
		if created {
			f.isTaken(row, row.ID)
		}
	}
}

// requestsAtOnce submits requests of one key in batches beside each other.
func (f *fixture) requestsAtOnce(key string, mode task.OnConflict) {
	f.Helper()
	var mu sync.Mutex
	created, replaced := 0, 0
	rules := &task.Rules{OnConflict: mode, Window: time.Hour}
	var batches [][]*task.Task
	for i := range 8 {
		batches = append(batches, []*task.Task{f.request(key, 1000+i, fmt.Sprint(i)), f.request(key+"other", 1000, ""), f.request("", 0, "")})
	}
	var wg sync.WaitGroup
	for _, rows := range batches {
		wg.Go(func() {
			out, err := f.commit(&storage.Batch{Insert: rows, Terms: terms(len(rows), rules)})
			if err != nil {
				f.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if out.Inserted[0].Created() {
				created++
			}
			if out.Inserted[0].Replaced != nil {
				replaced++
			}
		})
	}
	wg.Wait()
	want := 0
	if mode.Replaces() {
		want = len(batches) - 1
	}
	if created != 1 || replaced != want {
		f.Fatalf("%v: %d requests added a task and %d replaced it, of %d", mode, created, replaced, len(batches))
	}
	found, err := f.Existing(f.ctx(), f.request(key, 0, ""))
	if err != nil || found[0].IsZero() {
		f.Fatalf("found %v, %v", found, err)
	}
	equal(f, "version", f.get(found[0]).Version, uint64(1+want))
}

// resolveModel does requests one after the other by [task.Resolve] alone, and compares the rows with the rows of a store.
type resolveModel struct {
	f    *fixture
	rand *rand.Rand
	rows map[task.ID]*task.Task
	ids  []task.ID // of rows
	now  int
}

// types of the model: rules belong to a type.
var resolveTypes = []string{"keep", "reject", "replace", "debounce", "throttle"}

func (m *resolveModel) step() {
	m.now += m.rand.IntN(100)
	for range m.rand.IntN(4) { // tasks begin, and end
		if len(m.ids) > 0 {
			m.move(m.ids[m.rand.IntN(len(m.ids))])
		}
	}
	var rows []*task.Task
	var on []storage.Terms
	var want []storage.Inserted
	before := make(map[task.ID]uint64) // the versions of rows that were replaced, and of rows that were added
	for range 1 + m.rand.IntN(8) {
		row, rules := m.request()
		term := storage.Terms{Rules: rules, NoPlace: m.rand.IntN(6) == 0}
		rows, on = append(rows, row), append(on, term)
		want = append(want, m.resolve(row.Clone(), term, before))
	}
	got := m.do(rows, on)
	for id, version := range before { // however often it was replaced
		is := m.f.get(id).Version
		if is <= version || is > m.rows[id].Version {
			m.f.Fatalf("task %v was replaced from version %d to %d, and is at %d", id, version, m.rows[id].Version, is)
		}
		m.rows[id].Version = is
	}
	for i := range got {
		got[i].Replaced = nil
		if want[i].What == task.IsLate && got[i].What == task.IsLate {
			got[i].Existing = want[i].Existing
		}
	}
	equal(m.f, "outcomes", got, want)
	for _, id := range m.ids {
		is, row := m.f.get(id), m.rows[id].Clone()
		row.Seq = is.Seq
		m.f.same(is, row)
	}
}

// do does requests in a batch, or in a transaction.
func (m *resolveModel) do(rows []*task.Task, on []storage.Terms) (got []storage.Inserted) {
	if m.rand.IntN(3) > 0 {
		return m.f.do(&storage.Batch{Insert: rows, Terms: on}).Inserted
	}
	m.f.update(func(tx storage.Tx) (err error) {
		got, err = storage.Add(m.f.ctx(), tx, rows, on)
		return err
	})
	return got
}

// request returns a random request, sometimes one that was made before.
func (m *resolveModel) request() (*task.Task, *task.Rules) {
	mode := m.rand.IntN(len(resolveTypes))
	rules := &task.Rules{OnConflict: task.OnConflict(mode), Window: 50 * time.Second, MaxLateness: 30 * time.Second, QueueTimeout: time.Hour}
	t := &task.Task{ID: m.f.id(), Type: resolveTypes[mode], Key: fmt.Sprint("k", m.rand.IntN(3)), Priority: uint8(m.rand.IntN(9)), Payload: fmt.Append(nil, m.rand.IntN(1000))}
	if len(m.ids) > 0 && m.rand.IntN(8) == 0 {
		t.ID = m.ids[m.rand.IntN(len(m.ids))]
	}
	if m.rand.IntN(2) == 0 {
		t.ReadyAt = at(m.now + m.rand.IntN(200) - 80)
	}
	if m.rand.IntN(3) == 0 {
		t.ExpiresAt = at(m.now + 1 + m.rand.IntN(200))
	}
	rules.Create(at(m.now), t)
	return t, rules
}

// resolve does one request in the model.
func (m *resolveModel) resolve(row *task.Task, on storage.Terms, before map[task.ID]uint64) storage.Inserted {
	holder := m.rows[row.ID]
	for _, t := range m.rows {
		if holder == nil && t.Key == row.Key && t.Type == row.Type {
			holder = t
		}
	}
	what, change := task.Resolve(at(m.now), holder, row, on.Rules)
	out := storage.Inserted{What: what}
	if holder != nil {
		out.Existing = holder.ID
	}
	adds := what == task.Adds || what == task.FreesKey
	switch {
	case adds && on.NoPlace:
		return storage.Inserted{Existing: out.Existing, NoPlace: true}
	case change != nil:
		if _, again := before[holder.ID]; !again && what == task.Replaces {
			before[holder.ID] = holder.Version
		}
		if !change.Apply(holder) {
			m.f.Fatalf("%+v does not apply to %+v", change, holder)
		}
	}
	if adds {
		out.Existing = task.ID{}
		m.rows[row.ID], m.ids = row, append(m.ids, row.ID)
	}
	return out
}

// move has a task begin, end, or become an error.
func (m *resolveModel) move(id task.ID) {
	t := m.rows[id]
	c := task.Change{Ref: t.Ref(), At: at(m.now), To: task.Processing, Owner: task.ID{7}}
	switch {
	case t.State == task.Processing:
		c.To, c.Outcome = []task.State{task.Done, task.Error, task.Failed, task.Cancelled}[m.rand.IntN(4)], task.Completed
		if c.To != task.Done {
			c.Outcome = task.Overruled
		}
	case !t.State.Live() || t.State == task.Error:
		return
	}
	want := t.Clone()
	is := c.Apply(want)
	now := m.f.swap(c)
	if is != (now != nil) {
		m.f.Fatalf("%+v of %+v: %+v", c, t, now)
	}
	if is {
		m.rows[id] = want
	}
}
