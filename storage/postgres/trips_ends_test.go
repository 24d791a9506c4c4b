package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// endKind is a way in which an attempt ends.
type endKind struct {
	name    string
	change  func(c *task.Change)
	removes bool
	rows    int // that follow

	// documents are the writes of three documents: the first does not exist, and the others have the version documentVersion. One of them expires.
	documents func(now time.Time, keys []string) []task.DocumentWrite
}

const documentVersion = 7

func overwritesOne(_ time.Time, keys []string) []task.DocumentWrite {
	return []task.DocumentWrite{{Key: keys[0], Data: []byte("new")}}
}

func writesOfEachKind(now time.Time, keys []string) []task.DocumentWrite {
	return []task.DocumentWrite{
		{Key: keys[0], Data: []byte("new"), Replaces: new(uint64(0)), ExpiresAt: now.Add(time.Hour)},
		{Key: keys[1], Data: []byte("next"), Replaces: new(uint64(documentVersion))},
		{Key: keys[2], Delete: true, Replaces: new(uint64(documentVersion))},
	}
}

// childrenOf adds ten children of one name.
func childrenOf(name string) []task.AddedChildren {
	return []task.AddedChildren{{Name: name, Count: 10}}
}

var endKinds = []endKind{
	{name: "waits for a signal", change: func(c *task.Change) { c.Await = &task.Await{Names: []string{"never"}} }},
	{name: "waits for a signal that it has kept", change: func(c *task.Change) { c.Await = &task.Await{Names: []string{"paid"}} }},
	{name: "waits for ten children", rows: 10, change: func(c *task.Change) {
		c.Adds = childrenOf("page")
		c.Await = &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "page"}}}
	}},
	{name: "runs again and adds children", rows: 10, change: func(c *task.Change) {
		c.Adds, c.ReadyAt, c.NextEventAt = childrenOf("page"), c.At.Add(time.Hour), c.At.Add(time.Hour)
	}},
	{name: "is done and adds children", rows: 10, change: func(c *task.Change) { c.To, c.Count, c.Adds = task.Done, task.Keep, childrenOf("page") }},
	{name: "is done, adds children and is removed", rows: 10, removes: true, change: func(c *task.Change) { c.To, c.Count, c.Adds = task.Done, task.Keep, childrenOf("page") }},
	{name: "has failed and reports that", rows: 1, change: func(c *task.Change) { c.To, c.Outcome, c.Count, c.Error = task.Failed, task.Errored, task.Keep, "no" }},
	{name: "has failed, reports that and is removed", rows: 1, removes: true, change: func(c *task.Change) {
		c.To, c.Outcome, c.Count, c.Error = task.Failed, task.Errored, task.Keep, "no"
	}},
	{name: "is cancelled and reports that", rows: 1, change: func(c *task.Change) {
		c.To, c.Outcome, c.Count, c.Error = task.Cancelled, task.Errored, task.Keep, "no"
	}},
	{name: "is an error", change: func(c *task.Change) { c.To, c.Outcome, c.Count, c.Error = task.Error, task.Errored, task.Keep, "no" }},
	{name: "is tried again", change: func(c *task.Change) {
		c.Outcome, c.Count, c.Error, c.NextEventAt = task.Errored, task.Keep, "no", c.At.Add(time.Minute)
	}},
	{name: "snoozes", change: func(c *task.Change) {
		c.Outcome, c.Count, c.NextEventAt = task.Snoozed, task.Refund, c.At.Add(time.Minute)
	}},
	{name: "is handed back", change: func(c *task.Change) {
		c.Outcome, c.Count, c.NextEventAt = task.HandedBack, task.Refund, c.At.Add(time.Minute)
	}},
	{name: "is interrupted", change: func(c *task.Change) { c.To, c.Outcome, c.Count = task.Submitted, task.Interrupted, task.Refund }},
	{name: "is done and writes a document", documents: overwritesOne, change: func(c *task.Change) { c.To, c.Count = task.Done, task.Keep }},
	{name: "is done, writes documents and is removed", documents: writesOfEachKind, removes: true, change: func(c *task.Change) { c.To, c.Count = task.Done, task.Keep }},
	{name: "runs again and writes documents", documents: writesOfEachKind, change: func(c *task.Change) { c.ReadyAt, c.NextEventAt = c.At.Add(time.Hour), c.At.Add(time.Hour) }},
	{name: "waits for ten children and writes documents", rows: 10, documents: writesOfEachKind, change: func(c *task.Change) {
		c.Adds = childrenOf("page")
		c.Await = &task.Await{Names: []string{task.AwaitsChildren}, Children: []task.ChildrenWait{{Name: "page"}}}
	}},
	{name: "has crashed", change: func(c *task.Change) {
		c.Outcome, c.Count, c.Error, c.NextEventAt = task.Crashed, task.Keep, "no", c.At.Add(time.Minute)
	}},
}

// An attempt ends in one round trip, whatever it ends with. What it makes of the row is what Apply makes of it.
func TestEveryEndOfAnAttemptIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := newTripsStore(t)
	n := 0
	for _, key := range []string{"", "ordered "} {
		for _, kind := range endKinds {
			name := func() string {
				if n++; key == "" {
					return ""
				}
				return fmt.Sprint(key, n)
			}
			var before *task.Task
			batch := func() *storage.Batch {
				r := s.running(name())
				kept := task.Signal{ID: s.ids.Next(s.now), Name: "paid", Data: []byte("7")}
				s.commit(&storage.Batch{Swap: []task.Change{{Ref: task.Ref{ID: r.ID}, At: s.now, Signal: &task.Delivery{Signal: kept, Keep: true}}}})
				before = s.get(r.ID)
				c := task.Change{Ref: r.Ref(), To: task.Waiting, By: r.Owner, At: s.now, Outcome: task.Completed, Count: task.Reset, OrderingKey: r.OrderingKey}
				kind.change(&c)
				b := &storage.Batch{Insert: []*task.Task{s.row(name())}, Swap: []task.Change{c}, Remove: []bool{kind.removes}, Follow: [][]*task.Task{nil}}
				if kind.documents != nil {
					b.Documents = [][]task.DocumentChange{s.writes(kind, fmt.Sprint("document ", n))}
				}
				for i := range kind.rows {
					follower := s.row(name())
					follower.Parent = &task.Parent{ID: r.ID, Name: "page", Index: uint32(i)}
					b.Follow[0] = append(b.Follow[0], follower)
				}
				return b
			}
			var last *storage.Batch
			got := least(s.trips, batch, func(b *storage.Batch) {
				out, want := s.commit(b), before.Clone()
				if !b.Swap[0].Apply(want) || out.Swapped[0] == nil {
					t.Fatalf("a task that %s: %v", kind.name, out.Swapped)
				}
				if is := out.Swapped[0]; is.State != want.State || is.Woken().By != want.Woken().By || is.Version != want.Version {
					t.Errorf("a task that %s is %v, at version %d, woken by %v; want %v, %d, %v", kind.name, is.State, is.Version, is.Woken().By, want.State, want.Version, want.Woken().By)
				}
				last = b
				followed := 0
				for _, row := range out.FollowedBy(0) {
					if row.Created() {
						followed++
					}
				}
				if followed != kind.rows {
					t.Errorf("a task that %s is followed by %d rows, want %d", kind.name, followed, kind.rows)
				}
			})
			s.wrote(kind, last.DocumentsOf(0))
			if got != 1 {
				t.Errorf("a batch with a task that %s takes %d round trips, key %q", kind.name, got, key)
			}
		}
	}
}

func (s *tripsStore) get(id task.ID) *task.Task {
	s.t.Helper()
	t, err := s.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// writes returns writes of documents of a kind. Their keys begin with a name.
func (s *tripsStore) writes(kind endKind, name string) (changes []task.DocumentChange) {
	s.t.Helper()
	keys := []string{name + " a", name + " b", name + " c"}
	for i, key := range keys[1:] {
		c := task.NewDocumentChange(s.now, &task.DocumentWrite{Key: key, ExpiresAt: []time.Time{{}, s.now.Add(time.Hour)}[i]}, []byte("old"))
		row := c.Over(nil)
		row.Version = documentVersion
		s.commit(&storage.Batch{Insert: []*task.Task{row}})
	}
	for _, w := range kind.documents(s.now, keys) {
		changes = append(changes, task.NewDocumentChange(s.now, &w, w.Data))
	}
	return changes
}

// wrote compares documents with the changes that an end of a kind has made.
func (s *tripsStore) wrote(kind endKind, changes []task.DocumentChange) {
	s.t.Helper()
	for i := range changes {
		c := &changes[i]
		got, err := s.Get(s.t.Context(), c.Row.ID)
		switch {
		case c.Delete:
			if !errors.Is(err, task.ErrNotFound) {
				s.t.Errorf("a document that a task that %s deletes is %+v, %v", kind.name, got, err)
			}
		case err != nil || !bytes.Equal(got.Payload, c.Row.Payload) || !got.NextEventAt.Equal(c.Row.NextEventAt) || c.Replaces != nil && *c.Replaces > 0 && got.Version != *c.Replaces+1:
			s.t.Errorf("a document that a task that %s writes is %+v, %v", kind.name, got, err)
		}
	}
}
