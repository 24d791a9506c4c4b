package storagetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Dumper is a store that can be searched for bytes. It is optional.
type Dumper interface {
	// Dump returns all keys and values that the store has, in any form.
	Dump() ([]byte, error)
}

// secret is in all contents of the tasks that the cases of erasures erase.
const secret = "anna.secret@example.org"

var eraseCases = []testCase{
	{"an erased row has no content and a receipt", func(f *fixture) {
		for _, size := range []int{1, 3000} {
			for _, order := range []string{"", secret} {
				for _, from := range append([]task.State{task.Error}, ended...) {
					t := f.secret(size, order, from)
					erase(f, t)
					receipt := t.Erased()
					if receipt == nil || receipt.By != "bert" || receipt.Job != "job-1" || !receipt.EndedAt.Equal(at(60)) || t.Key != "" || t.OrderingKey != "" {
						f.Errorf("got %+v", t)
					}
					f.hasNo(t.ID)
					f.check()
				}
			}
		}
	}},
	{"an erased row frees its keys, and never runs again", func(f *fixture) {
		for _, order := range []string{"", secret} {
			for _, from := range append([]task.State{task.Error}, ended...) {
				t := f.secret(5, order, from)
				key, shard := t.Key, t.Shard
				erase(f, t)
				f.step(t, task.Change{To: task.Submitted, At: at(70), Count: task.Reset})
				f.step(t, task.Change{To: t.State, At: at(70), Erase: &task.Erasure{By: "carl"}})
				next := f.row(task.Submitted, func(n *task.Task) {
					n.Type, n.Key, n.OrderingKey, n.Shard = t.Type, key, order, shard
					n.ID = f.ids.NextIn(epoch, shard)
					if order != "" {
						n.Turn = task.Behind
					}
				})
				f.put(next)
				f.remove(next.Ref(), t.Ref())
			}
		}
	}},
	{"the next task of its ordering key becomes the head", func(f *fixture) {
		first := f.secret(5, secret, task.Error)
		second := f.row(task.Submitted, func(t *task.Task) {
			t.OrderingKey, t.Shard, t.Turn = secret, first.Shard, task.Behind
			t.ID = f.ids.NextIn(epoch, first.Shard)
		})
		f.put(second)
		erase(f, first)
		heads, err := f.Promote(f.ctx(), secret)
		if err != nil || len(heads) != 1 || heads[0].ID != second.ID {
			f.Errorf("the heads are %+v, %v", heads, err)
		}
	}},
	{"a task that has not ended is not erased", func(f *fixture) {
		for _, from := range []task.State{task.Waiting, task.Submitted, task.Processing} {
			t := f.row(from, func(t *task.Task) { t.Payload = pattern(10) })
			f.put(t)
			for _, to := range task.States() {
				f.step(t, task.Change{To: to, At: at(60), Erase: &task.Erasure{By: "bert"}})
			}
			if len(t.Payload) == 0 {
				f.Error("the payload is erased")
			}
		}
	}},
}

// secret returns a row that has ended in a state, all contents of which have the secret.
func (f *fixture) secret(size int, order string, state task.State) *task.Task {
	f.Helper()
	content := func() []byte { return append([]byte(secret), pattern(size)...) }
	t := f.row(task.Submitted, func(t *task.Task) {
		t.Key, t.OrderingKey, t.Group, t.Payload, t.Headers = secret, order, secret, content(), map[string]string{secret: secret}
		t.Shard, _ = task.BoundShard(t.Type, t.Key, order)
		t.ID = f.ids.NextIn(epoch, t.Shard)
		t.Signals = &task.Signals{Kept: []task.Signal{{ID: task.ID{8}, Name: secret, At: at(0), Data: content()}}}
		if order != "" {
			t.Turn = task.Behind
		}
	})
	f.put(t)
	f.isIn(t)
	if order != "" {
		f.promote(order)
		t.Turn = task.Head
	}
	f.step(t, task.Change{To: task.Processing, At: at(1), Owner: task.ID{1}, Node: "n1"})
	f.note(t, task.Note{Ref: t.Ref(), Checkpoint: content(), Progress: &task.Progress{Done: 1, Message: secret, At: at(1)}})
	f.step(t, task.Change{To: task.Error, At: at(2), Outcome: task.Errored, Error: secret + " was refused"})
	f.step(t, task.Change{To: task.Error, At: at(3), Put: new(task.Put), Mark: &task.Mark{Was: "payload was " + secret}, Payload: new(content())})
	if state == task.Error {
		return t
	}
	if state == task.Done {
		f.step(t, task.Change{To: task.Submitted, At: at(4), ReadyAt: at(4)})
		if order != "" {
			f.promote(order)
			t.Turn = task.Head
		}
		f.step(t, task.Change{To: task.Processing, At: at(5), Owner: task.ID{1}, Node: "n1"})
	}
	f.step(t, task.Change{To: state, At: at(6), NextEventAt: at(80), Result: content(), Outcome: task.Completed, Error: secret})
	return t
}

// isIn checks that a search of the store finds the secret.
func (f *fixture) isIn(t *task.Task) {
	f.Helper()
	if all, ok := f.dump(); ok && !bytes.Contains(all, []byte(secret)) || !strings.Contains(readable(f.get(t.ID)), secret) {
		f.Fatal("the search does not find the secret")
	}
}

// dump returns what the store has.
func (f *fixture) dump() ([]byte, bool) {
	f.Helper()
	d, ok := f.Store.(Dumper)
	if !ok {
		return nil, false
	}
	all, err := d.Dump()
	if err != nil {
		f.Fatal(err)
	}
	return all, true
}

// readable returns all values of a row as text.
func readable(t *task.Task) string {
	text := fmt.Sprintf("%+v %s %s %s", *t, t.Payload, t.Result, t.Checkpoint())
	if t.Notes != nil {
		text += fmt.Sprintf("%+v", *t.Notes)
	}
	if t.Signals != nil {
		text += fmt.Sprintf("%+v", *t.Signals)
	}
	return text
}

// erase erases the content of a row.
func erase(f *fixture, t *task.Task) {
	f.Helper()
	to := t.State
	if to == task.Error {
		to = task.Failed
	}
	f.step(t, task.Change{To: to, At: at(60), NextEventAt: at(90), Erase: &task.Erasure{By: "bert", Job: "job-1"}})
}

// hasNo checks that no list and no key has the secret, and that the row has not.
func (f *fixture) hasNo(id task.ID) {
	f.Helper()
	if all, ok := f.dump(); ok && bytes.Contains(all, []byte(secret)) {
		f.Errorf("the store has the secret")
	}
	t := f.get(id)
	if text := readable(t); strings.Contains(text, secret) {
		f.Errorf("the row has the secret: %s", text)
	}
	if s, ok := f.Store.(storage.Inspector); ok {
		page, err := s.List(f.ctx(), storage.ListQuery{Limit: 100})
		if err != nil {
			f.Fatal(err)
		}
		for _, t := range page.Tasks {
			if text := readable(t); strings.Contains(text, secret) {
				f.Errorf("a list has the secret: %s", text)
			}
		}
	}
}
