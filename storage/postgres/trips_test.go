package postgres_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/postgrestest"
	"github.com/taskengine/taskengine/task"
)

// trips counts the round trips of programs to a server: each ends with a message Sync or Query.
type trips struct {
	n   atomic.Int64
	url string // of the server by way of the counter
}

// countTrips returns a counter for the database of a URL.
func countTrips(t *testing.T, database string) *trips {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, to := new(trips), u.Host
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); serving.Wait() }) // after the store is closed
	serving.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				_ = near.Close()
				return
			}
			serving.Go(func() { defer near.Close(); _, _ = io.Copy(near, far) })
			serving.Go(func() { defer far.Close(); _ = c.pass(far, near) })
		}
	})
	u.Host = l.Addr().String()
	c.url = u.String()
	return c
}

// pass forwards the messages of a program.
func (c *trips) pass(to io.Writer, from io.Reader) error {
	head := make([]byte, 5)
	for start := 1; ; start = 0 { // the first message has no type
		if _, err := io.ReadFull(from, head[start:]); err != nil {
			return err
		}
		if start == 0 && (head[0] == 'S' || head[0] == 'Q') {
			c.n.Add(1)
		}
		if _, err := to.Write(head[start:]); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, int64(binary.BigEndian.Uint32(head[1:]))-4); err != nil {
			return err
		}
	}
}

// of returns how many round trips fn takes, at the least of several calls: others prepare statements, on each connection of
// the store, or run beside the work that the store does by itself.
func (c *trips) of(fn func()) int64 {
	return least(c, func() struct{} { return struct{}{} }, func(struct{}) { fn() })
}

// least is of for calls of fn with something that is made before.
func least[T any](c *trips, make func() T, fn func(T)) int64 {
	fewest := int64(1 << 62)
	for n := 0; n < 40 && fewest > 1; n++ {
		made := make()
		before := c.n.Load()
		fn(made)
		fewest = min(fewest, c.n.Load()-before)
	}
	return fewest
}

// tripsStore is a store that is reached by way of a counter.
type tripsStore struct {
	*postgres.Store
	*trips
	t   *testing.T
	ids *task.IDs
	now time.Time
}

func newTripsStore(t *testing.T) *tripsStore {
	s := &tripsStore{trips: countTrips(t, server.Database(t)), t: t, ids: task.NewIDs([32]byte{1}), now: time.Now().UTC().Truncate(time.Second)}
	s.Store = postgrestest.Open(t, s.url)
	return s
}

// row returns a row that is ready.
func (s *tripsStore) row(key string) *task.Task {
	r := &task.Task{ID: s.ids.Next(s.now), Type: "mail", OrderingKey: key, Payload: []byte("hello")}
	r.Create(task.Submitted, s.now, time.Time{})
	return r
}

func (s *tripsStore) commit(b *storage.Batch) storage.Outcome {
	s.t.Helper()
	out, err := s.Commit(s.t.Context(), b).Wait()
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// running adds a row and grabs it.
func (s *tripsStore) running(key string) *task.Task {
	s.t.Helper()
	r := s.row(key)
	s.commit(&storage.Batch{Insert: []*task.Task{r}})
	grab := task.Change{Ref: r.Ref(), To: task.Processing, At: s.now, NextEventAt: s.now, Owner: task.ID{9}, Node: "n"}
	return s.commit(&storage.Batch{Swap: []task.Change{grab}}).Swapped[0]
}

// reruns returns the change that has a task run again.
func (s *tripsStore) reruns(t *task.Task) task.Change {
	later := s.now.Add(time.Hour)
	return task.Change{
		Ref: t.Ref(), To: task.Waiting, By: t.Owner, At: s.now, Outcome: task.Completed, Count: task.Reset,
		ReadyAt: later, NextEventAt: later, Checkpoint: new([]byte("c")), OrderingKey: t.OrderingKey,
	}
}

func TestABatchWithRowsThatFollowIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := newTripsStore(t)
	for _, key := range []string{"", "ordered "} {
		n := 0
		name := func() string {
			if n++; key == "" {
				return ""
			}
			return fmt.Sprint(key, n)
		}
		batch := func() (b *storage.Batch) {
			parent, done, next := s.running(name()), s.running(name()), s.row(name())
			s.commit(&storage.Batch{Insert: []*task.Task{next}})
			end := task.Change{Ref: done.Ref(), To: task.Done, By: done.Owner, At: s.now, Outcome: task.Completed, OrderingKey: done.OrderingKey}
			grab := task.Change{Ref: next.Ref(), To: task.Processing, At: s.now, NextEventAt: s.now, Owner: task.ID{9}}
			b = &storage.Batch{Insert: []*task.Task{s.row(name()), s.row(name())}, Swap: []task.Change{end, s.reruns(parent), grab}}
			child, keyed := s.row(name()), s.row(name())
			child.ID, keyed.Key = parent.ID.Child(s.now, "fire"), "key of "+keyed.ID.String()
			b.Follow = [][]*task.Task{nil, {child, keyed}}
			return b
		}
		got := least(s.trips, batch, func(b *storage.Batch) {
			out := s.commit(b)
			if len(out.Followed) < 2 || len(out.Followed[1]) != 2 || !out.Followed[1][0].Created() || !out.Followed[1][1].Created() {
				t.Errorf("followed: %+v", out.Followed)
			}
		})
		if got != 1 {
			t.Errorf("a batch with rows that follow takes %d round trips, keys %q", got, key)
		}
	}
}

// A child that is done is followed by the row that reports its end, and a task that sends signals by the rows that carry them. The
// row of one of them is kept, and that of the other deleted. A change that is not made is followed by nothing.
func TestABatchWithRowsThatFollowEndsIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	s := newTripsStore(t)
	for _, key := range []string{"", "ordered "} {
		n := 0
		name := func() string {
			if n++; key == "" {
				return ""
			}
			return fmt.Sprint(key, n)
		}
		batch := func() *storage.Batch {
			b := &storage.Batch{Insert: []*task.Task{s.row(name())}, Remove: []bool{true, false, true, false, false}}
			for range 4 {
				r := s.running(name())
				b.Swap = append(b.Swap, task.Change{Ref: r.Ref(), To: task.Done, By: r.Owner, At: s.now, Outcome: task.Completed, OrderingKey: r.OrderingKey})
				b.Follow = append(b.Follow, []*task.Task{s.row(fmt.Sprint("carriers ", key, n))})
			}
			b.Swap[2].Version++
			b.Swap[3].Version++
			parent := s.running(name())
			b.Swap, b.Follow = append(b.Swap, s.reruns(parent)), append(b.Follow, []*task.Task{s.row(name())})
			return b
		}
		var last *storage.Batch
		var out storage.Outcome
		got := least(s.trips, batch, func(b *storage.Batch) { last, out = b, s.commit(b) })
		if got != 1 {
			t.Errorf("a batch with rows that follow ends takes %d round trips, keys %q", got, key)
		}
		for i, want := range []bool{true, true, false, false, true} {
			made := out.Swapped[i] != nil
			_, err := s.Get(t.Context(), last.Follow[i][0].ID)
			if followed := len(out.FollowedBy(i)) == 1 && out.Followed[i][0].Created(); made != want || followed != want || (err == nil) != want {
				t.Errorf("key %q, change %d is made: %v, followed: %v, %v, want %v", key, i, made, followed, err, want)
			}
		}
		if _, err := s.Get(t.Context(), last.Swap[0].ID); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("a row that was to be removed: %v", err)
		}
		if kept, err := s.Get(t.Context(), last.Swap[1].ID); err != nil || kept.State != task.Done {
			t.Errorf("a row that was to be kept: %v, %v", kept, err)
		}
	}
}

// A row that is alone with its ordering key, or the first of those in its batch, is written once.
func TestARowEntersTheOrderOfItsKeyInOneWrite(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	s, c := postgrestest.Open(t, url), pgtest.Connect(t, url)
	pgtest.Exec(t, c, `
create table updates (id uuid);
create function note_update() returns trigger language plpgsql as 'begin insert into public.updates values (new.id); return new; end';
create trigger note_update after update on taskengine.task for each row execute function note_update()`)
	ids, now := task.NewIDs([32]byte{1}), time.Now().UTC().Truncate(time.Second)
	row := func(key string, ready int) *task.Task {
		r := &task.Task{ID: ids.Next(now), Type: "mail", OrderingKey: key, ReadyAt: now.Add(time.Duration(ready) * time.Second)}
		r.Create(task.Submitted, now, time.Time{})
		return r
	}
	commit := func(b *storage.Batch) storage.Outcome {
		t.Helper()
		out, err := s.Commit(t.Context(), b).Wait()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b, c1, c2 := row("a", 0), row("b", 0), row("c", 2), row("c", 1)
	out := commit(&storage.Batch{Insert: []*task.Task{a, b, c1, c2}})
	if len(out.Heads) != 3 || a.Turn != task.Head || b.Turn != task.Head || c1.Turn != task.Behind || c2.Turn != task.Head {
		t.Errorf("heads %v, turns %v %v %v %v", out.Heads, a.Turn, b.Turn, c1.Turn, c2.Turn)
	}
	a2 := row("a", 1)
	if commit(&storage.Batch{Insert: []*task.Task{a2}}); a2.Turn != task.Behind {
		t.Errorf("the second task of a key has the turn %v", a2.Turn)
	}
	if n := one[int](t, c, "select count(*) from updates"); n != 0 {
		t.Errorf("%d rows were written a second time", n)
	}
	grab := task.Change{Ref: b.Ref(), To: task.Processing, At: now, NextEventAt: now, Owner: task.ID{9}}
	is := commit(&storage.Batch{Swap: []task.Change{grab}}).Swapped[0]
	end := task.Change{Ref: is.Ref(), To: task.Done, By: is.Owner, At: now, Outcome: task.Completed, OrderingKey: "b"}
	b2 := row("b", 1)
	if commit(&storage.Batch{Insert: []*task.Task{b2}, Swap: []task.Change{end}}); b2.Turn != task.Head {
		t.Errorf("a task that is added with the end of the one before has the turn %v", b2.Turn)
	}
	if n := one[int](t, c, "select count(*) from updates where id = '"+b2.ID.String()+"'"); n != 0 {
		t.Error("its row was written a second time")
	}
}

// Types with requests that find their keys taken do so often: the batches after such a one read the tasks that have keys at once.
func TestABatchWithTermsIsOneRoundTripUnlessKeysWereTakenAMomentAgo(t *testing.T) {
	t.Parallel()
	s := newTripsStore(t)
	add := func(key string) {
		t.Helper()
		r := &task.Task{ID: s.ids.Next(s.now), Type: "mail", Key: key, ReadyAt: s.now.Add(time.Hour)}
		rules := &task.Rules{OnConflict: task.ReplaceExisting}
		rules.Create(s.now, r)
		s.commit(&storage.Batch{Insert: []*task.Task{r}, Terms: []storage.Terms{{Rules: rules}}})
	}
	n := 0
	free := func() { n++; add(fmt.Sprint("key ", n)) }
	if got := s.of(free); got != 1 {
		t.Errorf("a batch with a free key takes %d round trips", got)
	}
	taken := s.of(func() { add("key 1") })
	if taken <= 1 {
		t.Errorf("a batch with a taken key takes %d round trips", taken)
	}
	before := s.n.Load()
	if free(); s.n.Load()-before <= 1 {
		t.Error("a batch after one with a taken key is tried in one round trip")
	}
	for range 100 {
		free()
	}
	if got := s.of(free); got != 1 {
		t.Errorf("a batch with a free key takes %d round trips, a hundred batches after one with a taken key", got)
	}
}
