package sharded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/reserved"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

var errFault = errors.New("a fault")

// faults is a store. Transactions of one of its databases fail on demand.
type faults struct {
	*sharded.Store
	mu     sync.Mutex
	before func(database int) error // guarded by mu: nothing is done
	after  func(database int) error // guarded by mu: all is done, and the answer is lost
}

func (f *faults) set(before, after func(database int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faults) UpdateIn(ctx context.Context, database int, fn func(storage.Tx) error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(database); err != nil {
			return err
		}
	}
	err := f.Store.UpdateIn(ctx, database, fn)
	if err == nil && after != nil {
		return after(database)
	}
	return err
}

// relays is an engine on two databases. A task of the type feed adds the numbers from 0 on, by a relay, as tasks of the type
// item, some of an ordering key and some of a key.
type relays struct {
	*testing.T
	*engine.Engine
	store  *faults
	a, b   placement.Database
	parent task.ID
	items  policy.Type
	part   int // how many numbers are added at a time

	mu      sync.Mutex
	goal    int                                        // guarded by mu: how many numbers are added
	between func(context.Context, *engine.Relay) error // guarded by mu: called when numbers have left and are not delivered
	ran     map[string]int                             // guarded by mu: how often the task of a number has run
	order   map[string][]int                           // guarded by mu: the numbers of the ordering keys, as they have run
	hold    chan struct{}                              // guarded by mu: items wait for it; nil for none
}

// openHalves opens a store over two databases, each of which gets a half of the shards. Its calls may be made to fail. At the end of the test it is
// closed, after stop.
func openHalves(t *testing.T, a, b placement.Database, stop func()) *faults {
	t.Helper()
	if _, err := placement.Divide(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	s, err := sharded.Open(t.Context(), []sharded.Database{{Name: "a", Store: a.Store}, {Name: "b", Store: b.Store}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &faults{Store: s}
}

func startRelays(t *testing.T, items policy.Type) *relays {
	r := &relays{T: t, a: database(t, "a"), b: database(t, "b"), items: items, part: 50, ran: make(map[string]int), order: make(map[string][]int)}
	r.store = openHalves(t, r.a, r.b, r.stop)
	r.start()
	return r
}

func (r *relays) start() {
	r.Helper()
	feed := policy.DefaultType()
	feed.Retry = policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}}
	var err error
	r.Engine, err = engine.Open(r.Context(), engine.Config{
		Store: r.store, Log: slog.New(slog.DiscardHandler),
		Policies: policy.Set{Slots: 16, Types: map[string]policy.Type{"feed": feed, "item": r.items}},
		Handlers: map[string]task.Handler{"feed": task.HandlerFunc(r.feed), "item": task.HandlerFunc(r.item)},
	})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *relays) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		r.Error(err)
	}
}

// add has the numbers up to n added, and between called.
func (r *relays) add(n int, between func(context.Context, *engine.Relay) error) {
	r.Helper()
	r.mu.Lock()
	r.goal, r.between = n, between
	r.mu.Unlock()
	if !r.parent.IsZero() {
		t, err := r.Get(r.Context(), r.parent)
		if err != nil {
			r.Fatal(err)
		}
		if _, err := r.Edit(r.Context(), t.Ref(), engine.Edit{At: new(r.Now())}); err != nil {
			r.Fatal(err)
		}
		return
	}
	got, err := r.Submit(r.Context(), engine.Request{Type: "feed"})
	if err != nil {
		r.Fatal(err)
	}
	r.parent = got[0].ID
}

// feed adds numbers in parts. The checkpoint is the next number.
func (r *relays) feed(ctx context.Context, t *task.Task) ([]byte, error) {
	relay, err := r.OpenRelay(ctx, reserved.Owner{}, r.store)
	if err != nil {
		return nil, err
	}
	if err := r.deliver(ctx, relay); err != nil {
		return nil, err
	}
	next, _ := strconv.Atoi(string(t.Checkpoint()))
	for {
		r.mu.Lock()
		goal, between := r.goal, r.between
		r.mu.Unlock()
		if next >= goal && !relay.IsEmpty() { // so that another database may be away when the next attempt begins
			if err := relay.Update(ctx, func(tx storage.Tx) error { return engine.CheckpointTx(ctx, tx, fmt.Append(nil, next)) }); err != nil {
				return nil, err
			}
		}
		if next >= goal {
			return nil, task.Again(r.Now().Add(24*time.Hour), task.WithCheckpoint(strconv.AppendInt(nil, int64(next), 10)))
		}
		var reqs []task.Request
		for i := next; i < min(goal, next+r.part); i++ {
			req := task.Request{Type: "item", Payload: fmt.Append(nil, i)}
			switch i % 3 {
			case 0:
				req.OrderingKey = fmt.Sprint("customer ", i%7)
			case 1:
				req.Key = fmt.Sprint("number ", i)
			}
			reqs = append(reqs, req)
		}
		prepared, err := r.Prepare(ctx, reqs...)
		if err != nil {
			return nil, err
		}
		placed, err := relay.Place(ctx, prepared)
		if err != nil {
			return nil, err
		}
		err = relay.Update(ctx, func(tx storage.Tx) error {
			if _, err := relay.SubmitTx(ctx, tx, placed); err != nil {
				return err
			}
			return engine.CheckpointTx(ctx, tx, fmt.Append(nil, next+len(reqs)))
		})
		if errors.Is(err, engine.ErrBacklog) {
			if err := r.pause(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		next += len(reqs)
		if between != nil {
			if err := between(ctx, relay); err != nil {
				return nil, err
			}
		}
		if err := r.deliver(ctx, relay); err != nil {
			return nil, err
		}
	}
}

func (r *relays) deliver(ctx context.Context, relay *engine.Relay) error {
	for {
		err := relay.Deliver(ctx)
		if !errors.Is(err, engine.ErrBacklog) {
			return err
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits before another look whether a backlog has room.
func (r *relays) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

func (r *relays) item(ctx context.Context, t *task.Task) ([]byte, error) {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran[string(t.Payload)]++
	if t.OrderingKey != "" {
		n, err := strconv.Atoi(string(t.Payload))
		if err != nil {
			return nil, err
		}
		r.order[t.OrderingKey] = append(r.order[t.OrderingKey], n)
	}
	return nil, nil
}

func (r *relays) await(what string, is func() bool) {
	r.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			parent, err := r.Get(r.Context(), r.parent)
			r.Fatalf("%s: not within five minutes; the tasks of %d numbers have run; %v, %v", what, r.count(), parent, err)
		}
	}
}

func (r *relays) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ran)
}

// check waits until the numbers up to n have run and the parent rests, and looks whether each has run once, in its order.
func (r *relays) check(n int) {
	r.Helper()
	r.await(fmt.Sprint(n, " numbers"), func() bool {
		parent, err := r.Get(r.Context(), r.parent)
		return err == nil && parent.State == task.Waiting && string(parent.Checkpoint()) == strconv.Itoa(n) && parent.NextEventAt.Sub(r.Now()) > time.Hour && r.count() >= n
	})
	r.await("no live task", func() bool {
		live, err := r.store.Count(r.Context(), storage.Filter{Types: []string{"item"}})
		return err == nil && live[storage.StateType{State: task.Submitted, Type: "item"}]+live[storage.StateType{State: task.Processing, Type: "item"}]+live[storage.StateType{State: task.Waiting, Type: "item"}] == 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range n {
		if times := r.ran[strconv.Itoa(i)]; times != 1 {
			r.Errorf("the task of %d has run %d times", i, times)
		}
	}
	if len(r.ran) != n {
		r.Errorf("%d numbers of %d", len(r.ran), n)
	}
	for key, numbers := range r.order {
		if !slices.IsSorted(numbers) {
			r.Errorf("%s: %v", key, numbers)
		}
	}
}

// forgotten is the policy of tasks that are deleted when they are done, so that no store knows their ids.
func forgotten() policy.Type {
	p := policy.DefaultType()
	p.Retention.Done = 0
	return p
}

// While a database is away, the other one goes on, and has at most one row that waits for it.
func TestADatabaseThatIsAwayGetsItsTasksLater(t *testing.T) {
	r := startRelays(t, forgotten())
	r.add(200, nil)
	r.check(200)
	there := 1 - r.store.DatabaseOf(r.parent.Shard())
	r.store.set(func(database int) error {
		if database == there {
			return storage.ErrUnavailable
		}
		return nil
	}, nil)
	r.add(1000, nil)
	r.await("the tasks of the other database", func() bool { return r.count() > 200 })
	r.await("failed attempts", func() bool {
		parent, err := r.Get(t.Context(), r.parent)
		return err == nil && parent.Attempt > 5
	})
	parent, err := r.Get(t.Context(), r.parent)
	if err != nil || string(parent.Checkpoint()) != "250" || r.count() >= 250 {
		t.Errorf("%d numbers have run, and the parent goes on: %v, %v", r.count(), parent, err)
	}
	r.store.set(nil, nil)
	r.check(1000)
}

// Rows wait in the relay while a backlog in the other database is full.
func TestARelayWaitsForRoomInABacklog(t *testing.T) {
	items := forgotten()
	items.MaxBacklog = policy.Backlog{Max: 10, WhenFull: policy.PauseSource}
	r := startRelays(t, items)
	r.part, r.hold = 8, make(chan struct{})
	r.add(300, nil)
	r.await("a full backlog", func() bool {
		live, err := r.store.Count(t.Context(), storage.Filter{Types: []string{"item"}})
		if err != nil || live[storage.StateType{State: task.Submitted, Type: "item"}] > 10 {
			t.Fatalf("%v, %v", live, err)
		}
		return live[storage.StateType{State: task.Submitted, Type: "item"}] > 2 // no part of eight fits
	})
	close(r.hold)
	r.check(300)
}

// cursors are the cursors in the database beside that of the parent.
func (r *relays) cursors() (all []*task.Task) {
	r.Helper()
	page, err := r.store.List(r.Context(), storage.ListQuery{Filter: storage.Filter{Types: []string{"taskengine.relay"}}, Limit: 1000, Scan: 100_000})
	rows := page.Tasks
	if err != nil {
		r.Fatal(err)
	}
	for _, t := range rows {
		if r.store.DatabaseOf(t.ID.Shard()) != r.store.DatabaseOf(r.parent.Shard()) {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		r.Fatal("there are no cursors")
	}
	return all
}

// restore puts cursors at other versions, as a database that was restored has them.
func (r *relays) restore(to func(version uint64) uint64) {
	r.Helper()
	for _, t := range r.cursors() {
		err := r.store.Store.UpdateIn(r.Context(), r.store.DatabaseOf(t.ID.Shard()), func(tx storage.Tx) error {
			if _, err := tx.Delete(r.Context(), t.Ref()); err != nil {
				return err
			}
			if t.Version = to(t.Version); t.Version == 0 {
				return nil
			}
			_, err := tx.Insert(r.Context(), t)
			return err
		})
		if err != nil {
			r.Fatal(err)
		}
	}
}

// A cursor is not where the parent believes it to be: its database was restored, or that of the parent was.
func TestARelayLosesNoTaskWhenADatabaseIsRestored(t *testing.T) {
	for name, to := range map[string]func(uint64) uint64{
		"that of the tasks": func(v uint64) uint64 { return v / 2 }, "that of the parent": func(v uint64) uint64 { return v + 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			r := startRelays(t, forgotten())
			r.add(1000, nil)
			r.check(1000)
			r.restore(to)
			r.add(2000, nil)
			r.check(2000)
		})
	}
	t.Run("that of the tasks while some wait for it", func(t *testing.T) {
		r := startRelays(t, forgotten())
		r.add(1000, nil)
		r.check(1000)
		var away sync.Once
		r.add(2000, func(context.Context, *engine.Relay) error {
			away.Do(func() { r.restore(func(v uint64) uint64 { return v / 2 }) })
			return nil
		})
		r.check(2000)
	})
}

// Shards, and with them cursors and the parent, are moved between the databases all the time.
func TestARelayLosesAndDoublesNothingWhileShardsAreMoved(t *testing.T) {
	r := startRelays(t, forgotten())
	from, to := r.a, r.b
	var moves int
	r.add(8000, nil)
	for moves < 2 || r.count() < 8000 && moves < 40 {
		err := placement.Move(t.Context(), from, to, shards(0, 60+moves%4), nil)
		if err != nil {
			t.Error(err)
		}
		from, to = to, from
		moves++
	}
	r.check(8000)
}
