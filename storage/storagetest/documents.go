package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// documentCases are about documents that are written if and only if a change is made.
var documentCases = []testCase{
	{"documents are written with the changes that are made, and no others", func(f *fixture) {
		f.together()
		made, late, gone := f.row(task.Processing), f.row(task.Processing), f.row(task.Processing)
		f.put(made, late, gone)
		a, b, c := f.documentKey("a"), f.documentKey("b"), f.documentKey("c")
		batch := &storage.Batch{Insert: f.rows(2, task.Submitted, nil), Remove: []bool{false, false, true}, Documents: [][]task.DocumentChange{
			{write(a, 0, "1"), write(b, 0, "2")}, {write(a, 0, "late"), write(c, 0, "late")}, {write(c, 0, "3")},
		}}
		batch.Documents[0][1].Replaces = new(uint64(0))
		for i, t := range []*task.Task{made, late, gone} {
			change := again(1)
			if change.Ref, change.By = t.Ref(), t.Owner; i == 1 {
				change.Version++
			}
			batch.Swap = append(batch.Swap, change)
		}
		batch.Swap[2].To, batch.Swap[2].Count = task.Done, task.Keep
		out := f.do(batch)
		equal(f, "swapped", []bool{out.Swapped[0] != nil, out.Swapped[1] != nil, out.Swapped[2] != nil}, []bool{true, false, true})
		equal(f, "conflicts", []*task.DocumentConflict{out.ConflictOf(0), out.ConflictOf(1), out.ConflictOf(2)}, make([]*task.DocumentConflict, 3))
		for key, want := range map[string]string{a: "1", b: "2", c: "3"} {
			if d := f.document(key); string(d.Data) != want || d.Version == 0 || d.Key != key {
				f.Errorf("the document %s is %+v, want %s", key, d, want)
			}
		}
		equal(f, "the removed row exists", f.exists(gone.ID), false)
	}},
	{"a change with a document of another version is not made, nor is anything of it", func(f *fixture) {
		f.together()
		key, other := f.documentKey("state"), f.documentKey("other")
		f.write(write(key, 0, "1"))
		was := f.document(key).Version
		f.write(write(key, 1, "2"))
		now := f.document(key).Version
		if now <= was {
			f.Errorf("version %d follows version %d", now, was)
		}
		for _, c := range []struct {
			key               string
			replaces, version uint64
		}{{key, was, now}, {key, 0, now}, {key, now + 1, now}, {other, 7, 0}} {
			t, rest := f.row(task.Processing), f.row(task.Processing)
			f.put(t, rest)
			change, done := again(1), again(1)
			change.Ref, change.By, done.Ref, done.By = t.Ref(), t.Owner, rest.Ref(), rest.Owner
			bad := write(c.key, 2, "bad")
			bad.Replaces = &c.replaces
			follow := f.following(t, 1)
			out := f.do(&storage.Batch{
				Swap: []task.Change{change, done}, Follow: [][]*task.Task{follow, f.following(rest, 1)},
				Documents: [][]task.DocumentChange{{write(f.documentKey("third"), 2, "bad"), bad}},
			})
			equal(f, "conflict", out.ConflictOf(0), &task.DocumentConflict{Key: c.key, Version: c.version, Replaces: c.replaces})
			equal(f, "made", []bool{out.Swapped[0] != nil, out.Swapped[1] != nil}, []bool{false, true})
			equal(f, "the row that follows it exists", f.exists(follow[0].ID), false)
			f.same(f.get(t.ID), t)
		}
		equal(f, "the document", string(f.document(key).Data), "2")
		equal(f, "others exist", []bool{f.document(other) != nil, f.document(f.documentKey("third")) != nil}, []bool{false, false})
	}},
	{"changes of one batch write a document one after the other", func(f *fixture) {
		f.together()
		key := f.documentKey("state")
		rows := []*task.Task{f.row(task.Processing), f.row(task.Processing), f.row(task.Processing), f.row(task.Processing)}
		f.put(rows...)
		b := &storage.Batch{}
		for i, t := range rows {
			c := again(1)
			c.Ref, c.By = t.Ref(), t.Owner
			w := write(key, 0, fmt.Sprint(i))
			if i < 2 {
				w.Replaces = new(uint64(0))
			}
			b.Swap, b.Documents = append(b.Swap, c), append(b.Documents, []task.DocumentChange{w})
		}
		b.Documents[3][0].Delete = true
		out := f.do(b)
		equal(f, "made", []bool{out.Swapped[0] != nil, out.Swapped[1] != nil, out.Swapped[2] != nil, out.Swapped[3] != nil}, []bool{true, false, true, true})
		if c := out.ConflictOf(1); c == nil || c.Version == 0 {
			f.Errorf("the conflict is %v", c)
		}
		equal(f, "it exists", f.document(key) != nil, false)
	}},
	{"a document that was deleted or has expired does not exist, and gets no version again", func(f *fixture) {
		f.together()
		for _, key := range []string{f.documentKey("deleted"), f.documentKey("expired")} {
			first := write(key, 0, "1")
			first.Row.NextEventAt = at(10)
			f.write(first)
			was := f.document(key)
			equal(f, "expires", was.ExpiresAt, at(10))
			if key == f.documentKey("deleted") {
				w := write(key, 1, "")
				w.Delete, w.Replaces = true, &was.Version
				f.write(w)
			}
			again := write(key, 10, "2")
			if again.Replaces = &was.Version; f.writes(again) == nil {
				f.Errorf("%s: a write of the version before was made", key)
			}
			again.Replaces = new(uint64(0))
			f.write(again)
			if d := f.document(key); d.Version <= was.Version || string(d.Data) != "2" || !d.ExpiresAt.IsZero() {
				f.Errorf("%s is %+v, after %+v", key, d, was)
			}
			w := write(key, 11, "")
			w.Delete = true
			f.write(w)
			f.write(w) // it may be deleted again
			equal(f, "it exists", f.exists(task.DocumentID(key)), false)
		}
	}},
	{"random ends write documents as a model says", func(f *fixture) {
		f.together()
		for _, seed := range []uint64{1, 2, rand.Uint64()} {
			f.Logf("seed %d", seed)
			m := newModel(f, seed)
			documents := make(map[string]*task.Document)
			for range 20 {
				if m.writeDocuments(documents, 8); f.Failed() {
					f.Fatalf("failed with seed %d", seed)
				}
			}
			for key := range documents {
				w := write(key, 1000, "")
				w.Delete = true
				f.write(w)
			}
		}
	}},
}

// writeDocuments ends attempts of n tasks in one batch, with documents, and compares the outcome with documents.
func (m *model) writeDocuments(documents map[string]*task.Document, n int) {
	f, now := m.f, 1+m.rand.IntN(100)
	var b storage.Batch
	var rows []*task.Task
	for range n {
		t := m.randomRunning()
		f.put(t)
		c := m.randomEnd(t)
		var writes []task.DocumentChange
		for _, name := range []string{"a", "b", "c"}[m.rand.IntN(4):] {
			key := f.documentKey(name)
			w := write(key, now, string(pattern(pick(m, modelSizes))))
			w.Delete = m.rand.IntN(5) == 0
			if d := documents[key]; m.rand.IntN(2) == 0 {
				if w.Replaces = new(uint64(0)); d != nil && m.rand.IntN(5) > 0 {
					*w.Replaces = d.Version
				}
			}
			writes = append(writes, w)
		}
		rows, b.Swap, b.Documents = append(rows, t), append(b.Swap, c), append(b.Documents, writes)
	}
	out := f.do(&b)
	for i, t := range rows {
		made := true
		for _, w := range b.Documents[i] {
			version := uint64(0)
			if d := documents[w.Row.Key]; d != nil {
				version = d.Version
			}
			made = made && (w.Replaces == nil || *w.Replaces == version)
		}
		equal(f, "there is a conflict", out.ConflictOf(i) != nil, !made)
		made = made && b.Swap[i].Apply(t)
		equal(f, "the change is made", out.Swapped[i] != nil, made)
		for _, w := range b.Documents[i] {
			d := documents[w.Row.Key]
			switch {
			case !made:
			case w.Delete:
				delete(documents, w.Row.Key)
			case d == nil:
				documents[w.Row.Key] = &task.Document{Data: w.Row.Payload, Version: uint64(at(now).UnixMicro())}
			default:
				documents[w.Row.Key] = &task.Document{Data: w.Row.Payload, Version: d.Version + 1}
			}
		}
		if f.Failed() {
			f.Fatalf("change %d: conflict %v", i, out.ConflictOf(i))
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		got, want := f.document(f.documentKey(name)), documents[f.documentKey(name)]
		if got == nil || want == nil {
			equal(f, "it exists", got != nil, want != nil)
			continue
		}
		equal(f, "document", []any{got.Version, string(got.Data)}, []any{want.Version, string(want.Data)})
	}
}

// documentKey returns a key of a document in the place of the rows of the test.
func (f *fixture) documentKey(name string) string {
	key := name
	if d, ok := f.Store.(Placer); ok && !f.near.IsZero() {
		for n := 0; d.Place(task.DocumentID(key)) != d.Place(f.near); n++ {
			key = fmt.Sprintf("{%d}/%s", n, name)
		}
	}
	return key
}

// write returns a write of a document at a moment n seconds into the tests.
func write(key string, n int, data string) task.DocumentChange {
	return task.NewDocumentChange(at(n), &task.DocumentWrite{Key: key}, []byte(data))
}

// writes makes writes in a transaction of their own, and returns the conflict.
func (f *fixture) writes(some ...task.DocumentChange) (conflict *task.DocumentConflict) {
	f.Helper()
	for {
		err := f.Update(f.ctx(), func(tx storage.Tx) (err error) {
			conflict, err = storage.WriteDocuments(f.ctx(), tx, some)
			return err
		})
		if errors.Is(err, storage.ErrBusy) {
			continue
		}
		if err != nil {
			f.Fatal(err)
		}
		return conflict
	}
}

// write makes writes that have no conflict.
func (f *fixture) write(some ...task.DocumentChange) {
	f.Helper()
	if conflict := f.writes(some...); conflict != nil {
		f.Fatal(conflict)
	}
}

// document returns a document as it is stored; nil if there is none.
func (f *fixture) document(key string) *task.Document {
	f.Helper()
	t, err := f.Get(f.ctx(), task.DocumentID(key))
	if errors.Is(err, task.ErrNotFound) {
		return nil
	}
	if err != nil {
		f.Fatal(err)
	}
	return task.DocumentOf(t, epoch)
}
